package browse

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/seckill/internal/seckilltest"
)

// A client that is ten minutes off computes the server's time from the four
// timestamps, also at an instance that is off by as much in the other direction.
func TestTheOffsetProtocol(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.svc.deps.Clock = w.OffBy(-10 * time.Minute)
	for name, wrong := range seckilltest.WrongClocks {
		client := func() time.Time { return time.Now().Add(wrong) }
		best, offset := time.Hour, time.Duration(0)
		for range 5 {
			t0 := client()
			r := w.ok(fmt.Sprintf("/api/v1/time?client_send=%d", t0.UnixMilli()))
			t3 := client()
			if r.body["client_send"] != float64(t0.UnixMilli()) || r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s with %v", name, r.raw, r.header)
			}
			t1, t2 := time.UnixMilli(int64(r.body["server_receive"].(float64))), time.UnixMilli(int64(r.body["server_send"].(float64)))
			if t2.Before(t1) {
				t.Errorf("%s: sent at %s, before it was received at %s", name, t2, t1)
			}
			if trip := t3.Sub(t0) - t2.Sub(t1); trip < best {
				best, offset = trip, (t1.Sub(t0)+t2.Sub(t3))/2
			}
		}
		// The timestamps are whole milliseconds; the rest is half of the best trip and the instance's own
		// error.
		if off := client().Add(offset).Sub(w.RedisTime()).Abs(); off > best/2+50*time.Millisecond {
			t.Errorf("%s: the client's estimate is %s off", name, off)
		}
	}
	if r := w.get("/api/v1/time?client_send=noon"); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a non-numeric timestamp: %d %s", r.status, r.raw)
	}
}
