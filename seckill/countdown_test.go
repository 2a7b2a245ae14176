package seckill

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"stampede/platform/clock"
)

// wrongClocks are machines whose clock on the wall is far off.
var wrongClocks = map[string]time.Duration{"ahead": 10 * time.Minute, "behind": -10 * time.Minute, "right": 0}

// offBy is the clock of an instance whose machine is wrong, after it has asked
// Redis.
func (y *yard) offBy(wrong time.Duration) *clock.Server {
	y.t.Helper()
	c := clock.NewServer(y.rdb)
	c.Local = func() time.Time { return time.Now().Add(wrong) }
	if err := c.Sample(y.t.Context()); err != nil {
		y.t.Fatal(err)
	}
	return c
}

func (y *yard) redisTime() time.Time {
	y.t.Helper()
	now, err := y.rdb.Time(y.t.Context()).Result()
	if err != nil {
		y.t.Fatal(err)
	}
	return now
}

// An instance whose machine is ten minutes off lets nobody through before the
// opening and refuses nobody after it, both by Redis's clock.
func TestNobodyIsEarlyAtAnInstanceTenMinutesOff(t *testing.T) {
	t.Parallel()
	for name, wrong := range wrongClocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			opens := y.redisTime().Add(1500 * time.Millisecond).Truncate(time.Millisecond)
			it := y.item(1000, func(it *Item) { it.OpensAt = opens })
			i := y.instance([]*Item{it})
			i.rush.clock = y.offBy(wrong)
			defer y.write()()

			early, through := 0, 0
			for user := int64(1); through < 3; user++ {
				p := i.issue(user, it, 1)
				if want := opens.UTC().Format(timeFormat); p.UsableFrom != want {
					t.Fatalf("usable from %s, want %s", p.UsableFrom, want)
				}
				before := y.redisTime()
				a := i.send(p.Path)
				after := y.redisTime()
				switch {
				case a.Status == http.StatusTooEarly && before.Before(opens):
					early++
				case a.Status == http.StatusAccepted && !after.Before(opens):
					through++
				default:
					t.Fatalf("%s before the opening (%s after the answer): %d %s", opens.Sub(before), opens.Sub(after), a.Status, a.Code)
				}
			}
			if early == 0 {
				t.Error("nobody tried before the opening")
			}
		})
	}
}

// Paths are given out from two minutes before the opening and live for two, by
// Redis's clock, whatever the machine believes.
func TestPathsAtAnInstanceTenMinutesOff(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	now := y.redisTime()
	soon := y.item(10, func(it *Item) { it.OpensAt = now.Add(110 * time.Second) })
	later := y.item(10, func(it *Item) { it.OpensAt = now.Add(130 * time.Second) })
	open := y.item(10)
	over := y.item(10, func(it *Item) { it.ClosesAt = now.Add(-2 * time.Second) })
	for name, wrong := range wrongClocks {
		i := y.instance([]*Item{soon, later, open, over})
		i.rush.clock = y.offBy(wrong)
		if _, err := i.tryIssue(1, soon.ID, 1); err != nil {
			t.Errorf("%s: within the lead: %v", name, err)
		}
		if _, err := i.tryIssue(1, later.ID, 1); !errors.Is(err, errTooEarly) {
			t.Errorf("%s: ahead of the lead: %v", name, err)
		}
		if _, err := i.tryIssue(1, over.ID, 1); !errors.Is(err, errSaleEnded) {
			t.Errorf("%s: after the end: %v", name, err)
		}
		p := i.issue(1, open, 1)
		expires, err := time.Parse(timeFormat, p.ExpiresAt)
		if lives := expires.Sub(y.redisTime()); err != nil || (lives-i.rush.cfg.PathLifetime).Abs() > time.Second {
			t.Errorf("%s: a path lives for %s, %v", name, lives, err)
		}
	}
}

// A client that is ten minutes off finds the server's time with the four stamps,
// also at an instance that is off by as much the other way.
func TestTheOffsetProtocol(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	d := y.desk(func(_ *Config, deps *Deps) { deps.Clock = y.offBy(-10 * time.Minute) })
	for name, wrong := range wrongClocks {
		client := func() time.Time { return time.Now().Add(wrong) }
		best, offset := time.Hour, time.Duration(0)
		for range 5 {
			t0 := client()
			r := d.do(http.StatusOK, http.MethodGet, fmt.Sprintf("/api/v1/time?client_send=%d", t0.UnixMilli()), nil)
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
		// The stamps are whole milliseconds; the rest is half of the best trip and what the instance is off by itself.
		if off := client().Add(offset).Sub(y.redisTime()).Abs(); off > best/2+50*time.Millisecond {
			t.Errorf("%s: the client believes in a time that is %s off", name, off)
		}
	}
	if r := d.as("", http.MethodGet, "/api/v1/time?client_send=noon", nil); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a stamp that is no number: %d %s", r.status, r.raw)
	}
}
