package inventory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"stampede/inventory/inventoryevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

func TestLoadAfterLossRestoresTheBooks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := onSale(1, 10)
	n.UserLimit = 3
	item, epoch := b.loaded(n)
	paid, unpaid, closed := Attempt{User: 1, No: ids.NewFor(1), Quantity: 3}, Attempt{User: 2, No: ids.NewFor(2), Quantity: 2}, one(3)
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
	mustBe(t, "broadcasts", b.bus.count(inventoryevent.SubjectLoaded), 2)
	b.mustBeClean()
}

func readUsers(b *bundle, item Item, epoch int64) map[string]string {
	b.t.Helper()
	users := b.rdb.HGetAll(b.t.Context(), item.usersKey(epoch)).Val()
	delete(users, weightField)
	return users
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

func TestChangeDuringLoadIsNotLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	b.failpoint = func(step string) error {
		if step != "written" {
			return nil
		}
		b.inTx(func(tx pgx.Tx) error {
			return b.Change(t.Context(), tx, item.ID, Change{AddStock: new(int32(4)), Paused: new(true)})
		})
		return b.Apply(t.Context(), item.ID) // writes to the state that is about to be replaced
	}
	b.load(item)
	st := b.state(item)
	mustBe(t, "change", fmt.Sprint(st.Total, st.Remaining, st.Paused), "7 7 true")
}

func TestLoadWaitsOnlyForGrantsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.cfg.PublishDeadline = time.Minute
	item := b.create(onSale(1, 3))
	b.load(item) // never loaded before: does not wait
	b.load(item) // nothing was granted: does not wait
	epoch := b.state(item).Epoch
	b.reserve(item, epoch, one(1))
	if !b.waits(b.Service, item) {
		t.Error("did not wait after a grant")
	}
	b.rdb.FlushDB(t.Context())
	if !b.waits(b.Service, item) {
		t.Error("did not wait with the state lost")
	}
}

// With a real bus: a Load waits until the writer has acknowledged the item's
// messages, and for no other item's.
func TestLoadDrainsTheBus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	broker := bustest.Open(t)
	queue := bustest.GrantsOf[StaleHold](broker)
	b.deps.Grants = queue
	item, epoch := b.loaded(onSale(1, 3))
	b.reserve(item, epoch, one(1))
	for _, id := range []int64{1, 2} {
		require.NoError(t, broker.Publish(t.Context(), seckillevent.GrantsSubject(id), ids.New(), []byte("x")))
	}
	loaded := make(chan error, 1)
	go func() { loaded <- b.Load(t.Context(), item.ID) }()
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.state(item).Fenced }, "the Load fences")
	select {
	case err := <-loaded:
		t.Fatalf("the Load did not wait for the writer: %v", err)
	case <-time.After(5 * b.cfg.PublishDeadline):
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	consumed := make(chan error, 1)
	go func() {
		consumed <- queue.Consume(ctx, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				if m.Subject == seckillevent.GrantsSubject(1) {
					if err := m.Ack(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}()
	require.NoError(t, <-loaded)
	stop()
	require.NoError(t, <-consumed)
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
	if err != nil || len(list) != 1 || list[0].Code != alarmBooksDiffer.Code || list[0].Subject != "item 1" {
		t.Errorf("alarms %v, error %v", list, err)
	}
}
