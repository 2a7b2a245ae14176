package rush

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/inventory"
	"stampede/platform/base/fault"
	"stampede/seckill/catalogue"
	"stampede/seckill/internal/seckilltest"
)

// An instance whose machine is ten minutes off admits no attempt before the
// opening and refuses none after it, both by Redis's clock.
func TestNoAttemptIsEarlyAtAnInstanceTenMinutesOff(t *testing.T) {
	t.Parallel()
	for name, wrong := range seckilltest.WrongClocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			it := y.Item(1000)
			i := y.instance([]*catalogue.Item{it})
			i.rush.clock = y.OffBy(wrong)
			defer y.Write()()
			// Set only now, so that only the first attempt has to be in time.
			opens := y.RedisTime().Add(1500 * time.Millisecond).Truncate(time.Millisecond)
			y.change(it, inventory.Change{OpensAt: &opens})
			later := *it
			later.OpensAt = opens
			i.listing.Show(&later)

			early, through := 0, 0
			for user := int64(1); through < 3; user++ {
				p := i.issue(user, it, 1)
				if want := opens.UTC().Format(timeFormat); p.UsableFrom != want {
					t.Fatalf("usable from %s, want %s", p.UsableFrom, want)
				}
				before := y.RedisTime()
				a := i.send(p.Path)
				after := y.RedisTime()
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
				t.Error("no attempt was sent before the opening")
			}
		})
	}
}

// Paths are issued from two minutes before the opening and live for two
// minutes, by Redis's clock, whatever the machine's clock shows.
func TestPathsAtAnInstanceTenMinutesOff(t *testing.T) {
	t.Parallel()
	y := setup(t)
	now := y.RedisTime()
	soon := y.Item(10, func(it *catalogue.Item) { it.OpensAt = now.Add(110 * time.Second) })
	later := y.Item(10, func(it *catalogue.Item) { it.OpensAt = now.Add(130 * time.Second) })
	open := y.Item(10)
	over := y.Item(10, func(it *catalogue.Item) { it.ClosesAt = now.Add(-2 * time.Second) })
	for name, wrong := range seckilltest.WrongClocks {
		i := y.instance([]*catalogue.Item{soon, later, open, over})
		i.rush.clock = y.OffBy(wrong)
		if _, err := i.tryIssue(1, soon.ID, 1); err != nil {
			t.Errorf("%s: within the lead: %v", name, err)
		}
		_, err := i.tryIssue(1, later.ID, 1)
		said, from := fault.From(err), later.OpensAt.Add(-i.rush.cfg.PathLead).UTC().Format(timeFormat)
		if err == nil || said.Code != "not-started" || !strings.Contains(said.Detail[0], " from "+from+" on") || said.RetryAfter <= 0 {
			t.Errorf("%s: ahead of the lead, from %s: %v, after %s", name, from, err, said.RetryAfter)
		}
		if _, err := i.tryIssue(1, over.ID, 1); !errors.Is(err, ErrSaleEnded) {
			t.Errorf("%s: after the end: %v", name, err)
		}
		began := y.RedisTime()
		p := i.issue(1, open, 1)
		expires, err := time.Parse(timeFormat, p.ExpiresAt)
		issued := expires.Add(-PathLifetime)
		if err != nil || issued.Before(began.Add(-time.Second)) || issued.After(y.RedisTime().Add(time.Second)) {
			t.Errorf("%s: a path issued at %s lives until %s, %v", name, began, p.ExpiresAt, err)
		}
	}
}

// A number that was issued on a machine whose clock is wrong is found by every
// instance, although the catalogue's window is short.
func TestNumberFromAMachineTenMinutesOffIsInLine(t *testing.T) {
	t.Parallel()
	for name, wrong := range seckilltest.WrongClocks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			it := y.Item(10)
			// The test cannot set Redis's clock, which decides the sale. It moves what
			// the instances know of it instead, and with it the window that they show.
			issuer, other := y.instance(nil), y.instance(nil)
			for _, i := range []*instance{issuer, other} {
				i.clock.Advance(-wrong)
				shown := *it
				shown.OpensAt, shown.ClosesAt = i.clock.Now().Add(-time.Minute), i.clock.Now().Add(time.Minute)
				i.listing.Show(&shown)
			}
			p, a := issuer.buy(1, it)
			a.want(t, "", http.StatusAccepted, "")
			no := parse(t, p.OrderNo)
			if off := no.Time().Sub(issuer.clock.Now()).Abs(); off > 10*time.Second {
				t.Errorf("the number's time is %s off", off)
			}
			other.inLine("at the other instance", 1, no, it, 1)
		})
	}
}
