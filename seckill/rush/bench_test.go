package rush

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
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

// BenchmarkRefusalByFlag measures the most frequent request of a sale, with the
// router and without.
func BenchmarkRefusalByFlag(b *testing.B) {
	i, req := soldOutShop(b)
	for name, h := range map[string]http.Handler{"handler": i.rush, "router": i.rt} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			w := &sink{header: http.Header{}}
			for b.Loop() {
				h.ServeHTTP(w, req)
			}
		})
	}
}

// BenchmarkRush measures a granted attempt from the handler to the durable
// message, with many shoppers waiting concurrently.
func BenchmarkRush(b *testing.B) {
	y := setup(b)
	it := y.Item(10_000_000)
	i := y.instance([]*catalogue.Item{it}, func(c *Config) { c.MaxWriterLag = 10_000_000 })
	paths := make([]string, b.N)
	for k := range paths {
		paths[k] = i.issue(int64(k)+1, it, 1).RushURL
	}
	var next, granted atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(256)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		w := &sink{header: http.Header{}}
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		for pb.Next() {
			req.URL.Path = paths[next.Add(1)-1]
			i.rush.ServeHTTP(w, req)
			if w.status == http.StatusAccepted {
				granted.Add(1)
			}
		}
	})
	if granted.Load() != int64(b.N) {
		b.Fatalf("%d of %d granted", granted.Load(), b.N)
	}
}

// BenchmarkIssue measures issuing a path over HTTP, with its access token.
func BenchmarkIssue(b *testing.B) {
	y := setup(b)
	it := y.Item(1000)
	i := y.instance([]*catalogue.Item{it})
	token, err := auth.NewTokens(seckilltest.Key, time.Now).Mint(auth.Principal{UserID: 7, Role: auth.Shopper}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req := httptest.NewRequest(http.MethodPost, "/api/v1/items/1/rush-path", nil)
			req.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			i.rt.ServeHTTP(w, req)
			if w.Code != http.StatusOK {
				b.Errorf("%d %s", w.Code, w.Body)
				return
			}
		}
	})
}
