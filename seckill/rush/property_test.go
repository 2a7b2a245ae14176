package rush

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"stampede/order/orderevent"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/seckill/catalogue"
)

// Whatever shoppers and releases do concurrently, on two instances of which one often
// cannot store grants: never more units are held than exist, no user holds twice, no
// unit is lost, and the units left at the end can be bought.
func TestNeverOversoldUnderRandomRushAndRelease(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a, b := y.instance(nil), y.instance(nil)
	var looks atomic.Int32
	b.rush.lanes.bus = &faultyStream{grantStream: b.Bus, healthy: func() error {
		if looks.Add(1)%4 == 0 {
			return bus.ErrUnhealthy
		}
		return nil
	}}
	a.work()
	b.work()
	rapid.Check(t, func(r *rapid.T) {
		total := rapid.Int32Range(1, 12).Draw(r, "units")
		it := y.Item(total, func(it *catalogue.Item) { it.UserLimit = 2 })
		a.listing.Show(it)
		b.listing.Show(it)
		type step struct {
			quantity       int32
			onB, twice     bool
			release, again bool
		}
		plans := rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
			return step{
				quantity: rapid.Int32Range(1, 2).Draw(r, "quantity"), onB: rapid.Bool().Draw(r, "on b"), twice: rapid.Bool().Draw(r, "twice"),
				release: rapid.Bool().Draw(r, "release"), again: rapid.Bool().Draw(r, "again"),
			}
		}), 1, 4), 1, 20).Draw(r, "shoppers")

		var mu sync.Mutex
		var problems []string
		held, most := int32(0), int32(0)
		fail := func(what string) { mu.Lock(); problems = append(problems, what); mu.Unlock() }
		move := func(n int32) { mu.Lock(); held += n; most = max(most, held); mu.Unlock() }

		var wg sync.WaitGroup
		for u, plan := range plans {
			wg.Go(func() {
				user := int64(u) + 1
				holding := ""
				for _, s := range plan {
					i, j := a, b
					if s.onB {
						i, j = b, a
					}
					p := i.issue(user, it, s.quantity)
					got := i.settled(p.Path)
					if holding != "" {
						got = resend(i, p.Path, got)
					}
					switch {
					case got.Status == http.StatusAccepted && holding != "":
						fail("granted twice")
					case got.Code == "already-bought" && got.OrderNo != holding:
						fail("already bought under a number that is not held")
					case holding != "" && got.Code != "already-bought" && got.Code != "too-hot":
						fail("a holder was answered " + got.Code)
					}
					if got.Status != http.StatusAccepted {
						continue
					}
					holding = p.OrderNo
					move(s.quantity)
					if s.twice {
						if again := resend(j, p.Path, j.settled(p.Path)); again.Status != http.StatusAccepted || again.OrderNo != p.OrderNo {
							fail("the same path was answered " + again.Code)
						}
					}
					if s.release {
						move(-s.quantity)
						release(y, it, user, p.OrderNo, s.quantity)
						holding = ""
						if s.again {
							// The number is finished. A second grant would take a unit that is missing at the end.
							i.send(p.Path)
						}
					}
				}
			})
		}
		wg.Wait()
		if most > total {
			r.Fatalf("%d held of %d", most, total)
		}
		for _, p := range problems {
			r.Fatal(p)
		}
		st := a.state(it)
		if st.Remaining != int64(total-held) {
			r.Fatalf("%d left, %d of %d held", st.Remaining, held, total)
		}
		if st.Remaining > 0 {
			p := b.issue(1000, it, 1)
			pgtest.Eventually(t, 30*time.Second, func() bool { return b.send(p.Path).Status == http.StatusAccepted }, "the remaining units can be bought")
		}
	})
}

// settled sends a path until the instance can tell: an attempt that was not taken, or
// whose outcome is not known, may be sent again and is then answered as if only once.
func (i *instance) settled(path string) answer {
	got := i.send(path)
	for until := time.Now().Add(30 * time.Second); (got.Code == "unavailable" || got.Code == "unknown" || got.Code == "rate-limited") && time.Now().Before(until); {
		got = i.send(path)
	}
	return got
}

// resend retries while an instance that has not yet learned of a return answers
// that all units are gone: for at most the life of its flag, which the design
// allows.
func resend(i *instance, path string, got answer) answer {
	for until := time.Now().Add(3 * i.rush.cfg.FlagLife); (got.Code == "all-held" || got.Code == "sold-out") && time.Now().Before(until); {
		got = i.settled(path)
	}
	return got
}

// release gives a number's units back as the end of its order does.
func release(y *bundle, it *catalogue.Item, user int64, no string, quantity int32) {
	data, err := json.Marshal(orderevent.Changed{Orders: []orderevent.Order{{
		No: parse(y.T, no), UserID: user, ItemID: it.ID, ActivityID: it.ActivityID, Quantity: quantity, Status: orderevent.StatusClosed,
	}}})
	if err == nil {
		err = y.Deliver(orderevent.SubjectClosed, data)
	}
	if err != nil {
		y.T.Error(err)
	}
}
