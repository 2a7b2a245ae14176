package rush

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"stampede/platform/edge/ratelimit"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

func repeats(t testing.TB, perSecond int) *ratelimit.Repeats {
	t.Helper()
	r, err := ratelimit.NewRepeats(perSecond)
	require.NoError(t, err)
	return r
}

// A path that is sent repeatedly gets its one answer until its user is over the
// limit; then it is refused before Redis, only for that user, and only briefly.
func TestAHammeredPathIsRefusedFromMemory(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(10)
	i := y.instance([]*catalogue.Item{it})
	i.rush.repeats = repeats(t, 10)
	p := i.issue(1, it, 1)
	for n := range 10 {
		if a := i.send(p.Path); a.Status != http.StatusAccepted || a.OrderNo != p.OrderNo {
			t.Fatalf("rush %d: %+v", n, a)
		}
	}
	// The ten may have taken long enough to allow one more; not a hundred more.
	refused := answer{Status: http.StatusAccepted}
	for n := 0; n < 100 && refused.Status == http.StatusAccepted; n++ {
		refused = i.send(p.Path)
	}
	if refused.Code != "rate-limited" || refused.Status != http.StatusTooManyRequests || refused.RetryAfter != "1" {
		t.Errorf("%+v, want rate-limited", refused)
	}
	if got := i.answers(it.ID)["rate-limited"]; got != 1 {
		t.Errorf("the funnel counts %d refusals, want 1", got)
	}
	if _, a := i.buy(2, it); a.Status != http.StatusAccepted {
		t.Errorf("another user: %+v", a)
	}
	i.clock.Advance(time.Second)
	if a := i.send(p.Path); a.Status != http.StatusAccepted || a.OrderNo != p.OrderNo {
		t.Errorf("a second later: %+v", a)
	}
}

// While the flag is up users are not counted: refusing costs less than
// counting.
func TestTheFlagAnswersBeforeTheLimit(t *testing.T) {
	t.Parallel()
	i, req := soldOutShop(t)
	i.rush.repeats = repeats(t, 1)
	for range 10 {
		w := httptest.NewRecorder()
		i.rt.ServeHTTP(w, req)
		if w.Code != http.StatusConflict {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}

// TestAdmissionRate sends attempts under the rates of an item as operators change them:
// each change is a new item in the catalogue.
func TestAdmissionRate(t *testing.T) {
	t.Parallel()
	y := setup(t)
	it := y.Item(1000)
	i := y.instance([]*catalogue.Item{it})
	i.work()
	held, got := i.buy(1, it)
	got.want(t, "", http.StatusAccepted, "")
	user := int64(1)
	for _, c := range []struct {
		rate          *int32
		least, atMost int // refused of ten at once
	}{{new(int32(1)), 5, 9}, {new(int32(0)), 10, 10}, {new(int32(1_000_000)), 0, 0}, {nil, 0, 0}} {
		it.Admission = c.rate
		refused := 0
		for range 10 {
			user++
			if _, got := i.buy(user, it); got.Code == "too-hot" {
				refused++
			}
		}
		if refused < c.least || refused > c.atMost {
			t.Errorf("at %v a second %d of 10 were refused, want %d to %d", c.rate, refused, c.least, c.atMost)
		}
		if got := i.send(held.Path); got.Status != http.StatusAccepted {
			t.Errorf("at %v a second a holder was not admitted: %+v", c.rate, got)
		}
	}
}
