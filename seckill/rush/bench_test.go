package rush

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"stampede/seckill/catalogue"
)

// sink is a ResponseWriter that discards everything, so that only our code is
// measured.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// soldOutShop is an instance whose flag is up, and a path of a user who holds
// nothing.
func soldOutShop(t testing.TB) (*instance, *http.Request) {
	t.Helper()
	y := setup(t)
	it := y.Item(1)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.FlagLife = time.Minute })
	i.buy(1, it)
	i.buy(2, it)
	mustBeUp(t, i, it, outAllHeld)
	req := httptest.NewRequest(http.MethodPost, i.issue(3, it, 1).RushURL, nil)
	req.Header.Set("Accept-Language", "zh-CN,zh;q=0.9,en;q=0.8")
	return i, req
}

func TestRefusalAllocatesNothing(t *testing.T) {
	i, req := soldOutShop(t)
	forged := httptest.NewRequest(http.MethodPost, rushPrefix+strings.Repeat("A", pathTextBytes), nil)
	w := &sink{header: http.Header{}}
	n := testing.AllocsPerRun(1000, func() {
		i.rush.ServeHTTP(w, req)
		if w.status != http.StatusConflict {
			t.Fatal(w.status)
		}
		i.rush.ServeHTTP(w, forged)
		if w.status != http.StatusForbidden {
			t.Fatal(w.status)
		}
	})
	if n >= 1 && !raceEnabled {
		t.Fatalf("%v allocations", n)
	}
}
