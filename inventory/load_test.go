package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"stampede/inventory/inventoryevent"
	"stampede/order/orderevent"
	"stampede/platform/alarm"
	"stampede/platform/bus"
	"stampede/platform/bus/bustest"
	"stampede/platform/ids"
	"stampede/platform/pg"
	"stampede/platform/pgtest"
	"stampede/seckill/seckillevent"
)

func TestLoadAfterLossRestoresTheBooks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 10)
	n.UserLimit = 3
	item, epoch := b.loaded(n)
	paid, unpaid, closed := Attempt{1, ids.NewFor(1), 3}, Attempt{2, ids.NewFor(2), 2}, one(3)
	b.reserve(item, epoch, paid, unpaid, closed)
	b.write(item, epoch, paid, unpaid, closed)
	b.mustCommit(b.pay(paid.No))
	b.mustRelease(b.close(closed.No))
	want := b.state(item)
	users := readUsers(b, item, epoch)

	b.rdb.FlushDB(t.Context())
	b.load(item)
	got := b.state(item)
	mustBe(t, "epoch rose", got.Epoch > want.Epoch, true)
	mustBe(t, "figures", fmt.Sprint(got.Remaining, got.Committed, got.Total), fmt.Sprint(want.Remaining, want.Committed, want.Total))
	if diff := cmp.Diff(users, readUsers(b, item, got.Epoch)); diff != "" {
		t.Errorf("holders (-before +after):\n%s", diff)
	}
	d := b.reserve(item, got.Epoch, paid, unpaid, closed, one(2))
	for i, want := range []Verdict{Repeated, Repeated, Finished, AlreadyBought} {
		mustBe(t, "verdict", d.Results[i].Verdict, want)
	}
	mustBe(t, "told every instance", b.bus.count(inventoryevent.SubjectLoaded), 2)
	b.mustBeClean()
}

func TestLoadEndedAtAnyStepStartsOver(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	for _, step := range []string{"fenced", "drained", "counted", "written"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, epoch := b.loaded(onSale(1, 3))
			kept := one(1)
			b.reserve(item, epoch, kept)
			b.write(item, epoch, kept)
			for range 2 {
				b.failpoint = func(at string) error {
					if at == step {
						return crash
					}
					return nil
				}
				mustFail(t, b.Load(t.Context(), item.ID), crash)
				mustBe(t, "gate after the crash", b.reserve(item, epoch, one(2)).Gate, Fenced)
			}
			b.failpoint = nil
			b.load(item)
			st := b.state(item)
			mustBe(t, "remaining", st.Remaining, 2)
			mustBe(t, "holder", only(t, b.reserve(item, st.Epoch, kept)).Verdict, Repeated)
			for _, k := range b.rdb.Keys(t.Context(), "*").Val() {
				if k != item.stateKey() && !strings.HasPrefix(k, item.epochKey(st.Epoch, "")) {
					t.Errorf("key %s was left behind", k)
				}
			}
			b.mustBeClean()
		})
	}
}

func TestOneLoadAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 3))
	other := b.instance()
	b.failpoint = func(step string) error {
		if step == "fenced" {
			mustFail(t, other.Load(t.Context(), item.ID), ErrBusy)
		}
		return nil
	}
	b.load(item)
	if err := other.Load(t.Context(), item.ID); err != nil {
		t.Errorf("the lease was kept: %v", err)
	}
	mustFail(t, b.Load(t.Context(), 404), ErrNoStock)
}

// A Load that slept through its lease changes nothing that its successor wrote,
// wherever it wakes up.
func TestSleepingLoadIsOvertaken(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"planned", "fenced", "drained", "counted", "written"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, _ := b.loaded(onSale(1, 3))
			other := b.instance()
			var after State
			b.failpoint = func(at string) error {
				if at != step {
					return nil
				}
				if _, err := b.db.Exec(t.Context(), `UPDATE platform.leases SET expires_at = '-infinity'`); err != nil {
					return err
				}
				if err := other.Load(t.Context(), item.ID); err != nil {
					return err
				}
				after = b.state(item)
				return nil
			}
			mustFail(t, b.Load(t.Context(), item.ID), ErrBusy)
			mustBe(t, "state", b.state(item), after)
			mustBe(t, "ready", after.Ready(), true)
			mustBe(t, "verdict", only(t, b.reserve(item, after.Epoch, one(1))).Verdict, Granted)
		})
	}
}

// What a successor has fenced, a sleeping Load does not open.
func TestSleepingLoadLeavesASuccessorsFence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	crash := errors.New("crash")
	other := b.instance()
	other.failpoint = func(at string) error {
		if at == "drained" {
			return crash
		}
		return nil
	}
	b.failpoint = func(at string) error {
		if at == "written" {
			if _, err := b.db.Exec(t.Context(), `UPDATE platform.leases SET expires_at = '-infinity'`); err != nil {
				return err
			}
			mustFail(t, other.Load(t.Context(), item.ID), crash)
		}
		return nil
	}
	mustFail(t, b.Load(t.Context(), item.ID), ErrBusy)
	mustBe(t, "epoch", b.state(item).Epoch, epoch)
	mustBe(t, "gate", b.reserve(item, epoch, one(1)).Gate, Fenced)
	b.failpoint = nil
	b.load(item)
	b.mustBeClean()
}

func TestLostLeaseEndsALoad(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	stolen := make(chan struct{})
	b.bus.done = func(uint64) bool {
		select {
		case <-stolen:
		default:
			// Somebody else took the item over; the renewal finds out.
			if _, err := b.db.Exec(t.Context(), `UPDATE platform.leases SET token = token + 1`); err != nil {
				t.Error(err)
			}
			close(stolen)
		}
		return false
	}
	mustFail(t, b.Load(t.Context(), item.ID), errLeaseLost)
}

func TestChangeDuringLoadIsNotLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	b.failpoint = func(step string) error {
		if step != "counted" {
			return nil
		}
		b.inTx(func(tx pgx.Tx) error {
			return b.Change(t.Context(), tx, item.ID, Change{AddStock: new(int32(4)), Paused: new(true)})
		})
		return b.Apply(t.Context(), item.ID) // reaches the state that is about to be replaced
	}
	b.load(item)
	st := b.state(item)
	mustBe(t, "change", fmt.Sprint(st.Total, st.Remaining, st.Paused), "7 7 true")
}

func TestLoadWaitsOnlyForWhatMayBeOnItsWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cfg.PublishDeadline = time.Minute
	item := b.create(onSale(1, 3))
	b.load(item) // never loaded before: does not wait
	b.load(item) // nothing was granted: does not wait
	epoch := b.state(item).Epoch
	b.reserve(item, epoch, one(1))
	waits := func(what string) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := b.Load(ctx, item.ID)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	waits("after a grant")
	b.rdb.FlushDB(t.Context())
	waits("with the state lost")
}

// With a real bus: a Load waits until the writer has acknowledged the item's
// messages, and for no other item's.
func TestLoadDrainsTheBus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	queue := bustest.Open(t)
	b.deps.Bus = queue
	item, epoch := b.loaded(onSale(1, 3))
	b.reserve(item, epoch, one(1))
	for _, id := range []int64{1, 2} {
		if err := queue.Publish(t.Context(), seckillevent.GrantsSubject(id), ids.New(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	loaded := make(chan error, 1)
	go func() { loaded <- b.Load(t.Context(), item.ID) }()
	pgtest.Eventually(t, 5*time.Second, func() bool { return b.state(item).Fenced }, "the Load fences")
	select {
	case err := <-loaded:
		t.Fatalf("the Load did not wait for the writer: %v", err)
	case <-time.After(5 * b.cfg.PublishDeadline):
	}
	last, err := queue.GrantsLast(t.Context())
	if err != nil || last < 2 {
		t.Fatalf("last %d, error %v", last, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	consumed := make(chan error, 1)
	go func() {
		consumed <- queue.ConsumeGrants(ctx, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				if m.Subject == seckillevent.GrantsSubject(1) {
					if err := m.Ack(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}()
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-consumed; err != nil {
		t.Fatal(err)
	}
}

func TestBooksThatDifferRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	if _, err := b.db.Exec(t.Context(), `UPDATE inventory.stock SET available = 2`); err != nil {
		t.Fatal(err)
	}
	b.load(item)
	mustBe(t, "remaining follows the row", b.state(item).Remaining, 2)
	list, err := alarm.List(t.Context(), b.db, alarm.Filter{Open: true, Limit: 10})
	if err != nil || len(list) != 1 || list[0].Code != alarm.BooksDiffer || list[0].Subject != "item 1" {
		t.Errorf("alarms %v, error %v", list, err)
	}
}

// Shoppers rush while the item is loaded again and again and Redis loses
// everything in between. The writer keeps design's rules: older epochs and
// repeated holders are refused. Nothing is oversold, and in the end all agrees.
func TestConcurrentLoadsNeverOversell(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const total, shoppers, rounds = 300, 6, 6
	item, _ := b.loaded(onSale(1, total))
	type grant struct {
		Attempt
		epoch int64
	}
	grants := make(chan grant, 1000)
	var published, written atomic.Uint64
	b.bus.last = published.Load
	b.bus.done = func(upTo uint64) bool { return written.Load() >= upTo }

	writer := func() {
		for g := range grants {
			var ended *orderevent.Order
			err := pg.InTx(t.Context(), b.db, func(tx pgx.Tx) error {
				ended = nil
				k := Key{item.ID, 0}
				stock, err := b.Lock(t.Context(), tx, []Key{k})
				if err != nil {
					return err
				}
				if g.epoch < stock[k].Epoch {
					o := b.orders.put(item, g.Attempt, g.epoch, orderevent.StatusRefused)
					ended = &o
					return nil
				}
				if err := b.Deduct(t.Context(), tx, []Movement{{k, g.Quantity}}); err != nil {
					return err
				}
				b.orders.put(item, g.Attempt, g.epoch, orderevent.StatusPending)
				return nil
			})
			if err != nil {
				t.Errorf("write: %v", err) // CHECK never_oversold would show here
			}
			if ended == nil {
				err = b.Persisted(t.Context(), item, g.epoch, []ids.ID{g.No})
			} else if err = b.release(t.Context(), item, []orderevent.Order{*ended}); errors.Is(err, ErrFenced) {
				err = nil // unknown in the next epoch anyway
			}
			if err != nil {
				t.Errorf("after write: %v", err)
			}
			written.Add(1)
		}
	}
	done := make(chan struct{})
	var rushing, writing sync.WaitGroup
	writing.Go(writer) // one, so that "written" counts in the order of the stream
	for s := range shoppers {
		rushing.Go(func() {
			epoch, user := int64(0), int64(s)
			var d Decision
			for {
				select {
				case <-done:
					return
				default:
				}
				user += shoppers
				batch := []Attempt{one(user), one(user + 100_000), one(user)}
				if err := b.Reserve(t.Context(), item, epoch, batch, &d); err != nil {
					t.Error(err)
				}
				if d.Gate == Fenced {
					epoch = d.Epoch
				}
				for i, r := range d.Results {
					if r.Verdict == Granted {
						grants <- grant{batch[i], epoch}
						published.Add(1)
					}
				}
			}
		})
	}
	for round := range rounds {
		// Let shoppers take some units, not all, before the next Load.
		pgtest.Eventually(t, 5*time.Second, func() bool { return published.Load() >= uint64(total*round/rounds) }, "shoppers get units")
		if round%2 == 1 {
			b.rdb.FlushDB(t.Context())
		}
		b.load(item)
	}
	pgtest.Eventually(t, 5*time.Second, func() bool { return b.state(item).Remaining == 0 }, "the item sells out")
	close(done)
	rushing.Wait()
	close(grants)
	writing.Wait()

	units, _ := b.orders.LiveUnits(t.Context())
	mustBe(t, "live units", units[item.ID].Held, total)
	b.mustBeClean()
}
