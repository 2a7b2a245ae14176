package inventory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/inventory/decide"
	"stampede/inventory/inventoryevent"
	"stampede/inventory/load"
	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/bus"
	"stampede/platform/store/lease"
	"stampede/platform/watch/alarm"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/redistest"
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
	b.sell(item, epoch, paid, unpaid, closed)
	b.mustBring(b.pay(paid.No))
	b.mustBring(b.close(closed.No))
	want := b.state(item)
	users := readUsers(b, item, epoch)

	b.rdb.FlushDB(t.Context())
	b.load(item)
	got := b.state(item)
	require.Equal(t, "epoch rose", got.Epoch > want.Epoch, true)
	require.Equal(t, "figures", fmt.Sprint(got.Remaining, got.Committed, got.Total), fmt.Sprint(want.Remaining, want.Committed, want.Total))
	require.Equal(t, "holders after against before", readUsers(b, item, got.Epoch), users)
	d := b.reserve(item, got.Epoch, paid, unpaid, closed, one(2))
	for i, want := range []decide.Verdict{Repeated, Repeated, Finished, AlreadyBought} {
		require.Equal(t, "verdict", d.Results[i].Verdict, want)
	}
	require.Equal(t, "broadcasts", b.bus.count(inventoryevent.SubjectLoaded), 2)
	b.mustBeClean()
}

func readUsers(b *bundle, item Item, epoch int64) map[string]string {
	b.t.Helper()
	users := b.rdb.HGetAll(b.t.Context(), item.UsersKey(epoch)).Val()
	delete(users, stock.WeightField)
	return users
}

// errCrash ends a Load at a step.
var errCrash = errors.New("crash")

func crash() error { return errCrash }

// at makes the instance's Loads call do at a step.
func (b *bundle) at(step string, do func() error) {
	b.store.Failpoint = func(reached string) error {
		if reached == step {
			return do()
		}
		return nil
	}
}

// afterExpiry returns what the other instance's Load does after this one's lease has expired.
func (b *bundle) afterExpiry(other *Service, item Item) error {
	b.t.Helper()
	b.sql(`UPDATE platform.leases SET expires_at = '-infinity'`)
	return other.Load(b.t.Context(), item.ID)
}

func TestLoadEndedAtAnyStepStartsOver(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"fenced", "drained", "counted", "written"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, epoch := b.loaded(onSale(1, 3))
			kept := one(1)
			b.sell(item, epoch, kept)
			for range 2 {
				b.at(step, crash)
				require.ErrorIs(t, b.Load(t.Context(), item.ID), errCrash)
				require.Equal(t, "gate after the crash", b.reserve(item, epoch, one(2)).Gate, Fenced)
			}
			b.store.Failpoint = nil
			b.load(item)
			st := b.state(item)
			require.Equal(t, "remaining", st.Remaining, 2)
			require.Equal(t, "holder", only(t, b.reserve(item, st.Epoch, kept)).Verdict, Repeated)
			for _, k := range b.rdb.Keys(t.Context(), "*").Val() {
				if k != item.StateKey() && !strings.HasPrefix(k, strings.TrimSuffix(item.UsersKey(st.Epoch), "users")) {
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
	b.at("written", func() error {
		b.change(item, Change{AddStock: new(int32(4)), Paused: new(true)}) // writes to the state that is about to be replaced
		return nil
	})
	b.load(item)
	st := b.state(item)
	require.Equal(t, "change", fmt.Sprint(st.Total, st.Remaining, st.Paused), "7 7 true")
}

func TestLoadWaitsOnlyForGrantsInFlight(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.store.PublishDeadline = time.Minute
	item := b.create(onSale(1, 3))
	b.load(item) // never loaded before: does not wait
	b.load(item) // nothing was granted: does not wait
	epoch := b.state(item).Epoch
	b.reserve(item, epoch, one(1))
	require.Equal(t, "waits after a grant", b.waits(b.Service, item), true)
	b.rdb.FlushDB(t.Context())
	require.Equal(t, "waits with the state lost", b.waits(b.Service, item), true)
}

// With a real bus: a Load waits until the writer has acknowledged the item's messages, and for no other item's.
func TestLoadDrainsTheBus(t *testing.T) {
	t.Parallel()
	b := setup(t)
	broker := bustest.Open(t)
	queue := bustest.GrantsOf[StaleHold](broker)
	b.store.Grants = queue
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
	case <-time.After(5 * b.store.PublishDeadline):
	}
	pgtest.Work(t, func(ctx context.Context) error {
		return queue.Consume(ctx, func(_ context.Context, batch []bus.Msg) {
			for _, m := range batch {
				if m.Subject == seckillevent.GrantsSubject(1) {
					if err := m.Ack(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	})
	require.NoError(t, <-loaded)
}

func TestBooksThatDifferRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	b.sql(`UPDATE inventory.stock SET available = 2`)
	b.load(item)
	require.Equal(t, "remaining follows the row", b.state(item).Remaining, 2)
	list, err := alarm.List(t.Context(), b.db, alarm.Filter{Open: true, Limit: 10})
	if err != nil || len(list) != 1 || list[0].Code != "books-differ" || list[0].Subject != "item 1" {
		t.Errorf("alarms %v, error %v", list, err)
	}
}

// writingGrants writes what is published at once, as a fast order writer does.
type writingGrants struct {
	*quietBus
	b         *bundle
	item      Item
	published []StaleHold
	fail      error
}

func (g *writingGrants) Republish(_ context.Context, _ int64, holds []StaleHold) error {
	if g.fail != nil {
		return g.fail
	}
	g.published = append(g.published, holds...)
	for _, h := range holds {
		g.b.write(g.item, h.Epoch, Attempt{User: h.User, No: h.No, Quantity: h.Quantity}) //nolint:contextcheck // the bundle has the test's context
	}
	return nil
}

// Open holds are read in chunks; those that have an order are not published.
func TestLoadSettlesEveryOpenHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3*MaxBatch))
	var first Attempt
	for n := range 2 * MaxBatch {
		a := one(int64(n) + 1)
		if n == 0 {
			first = a
		}
		b.reserve(item, epoch, a)
	}
	b.write(item, epoch-1, first) // its row is not known here
	g := &writingGrants{quietBus: b.bus, b: b, item: item, fail: errors.New("no stream")}
	b.store.Grants = g
	require.ErrorIs(t, b.Load(t.Context(), item.ID), g.fail)
	b.mustNotBeOpen(item)
	g.fail = nil
	b.otherRun(item)
	b.load(item)
	require.Equal(t, "published", len(g.published), 2*MaxBatch-1)
	require.Equal(t, "remaining", b.state(item).Remaining, MaxBatch)
	require.Equal(t, "epoch", g.published[0].Epoch, epoch)
	b.mustBeClean()
}

func TestOneLoadAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 3))
	other := b.instance()
	b.at("fenced", func() error {
		require.ErrorIs(t, other.Load(t.Context(), item.ID), ErrBusy)
		return nil
	})
	b.load(item)
	require.NoError(t, other.Load(t.Context(), item.ID))
	require.ErrorIs(t, b.Load(t.Context(), 404), ErrNoStock)
}

// An item that is deleted while it is loaded leaves nothing in Redis.
func TestLoadOfADeletedItemLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, perActivity := range []bool{false, true} {
		b := setup(t)
		n := onSale(1, 3)
		n.PerActivity = perActivity
		item := b.create(n)
		b.at("written", func() error {
			b.inTx(func(tx pgx.Tx) error { return b.Delete(t.Context(), tx, []int64{item.ID}) })
			return b.Forget(t.Context(), item)
		})
		require.ErrorIs(t, b.Load(t.Context(), item.ID), ErrNoStock)
		require.Equal(t, "keys left", fmt.Sprint(b.rdb.Keys(t.Context(), "*").Val()), "[]")
	}
}

// A Load whose lease expired while it slept changes nothing that its successor wrote, wherever it wakes up.
func TestSleepingLoadIsOvertaken(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"planned", "fenced", "drained", "counted", "written"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			item, _ := b.loaded(onSale(1, 3))
			other := b.instance()
			var after State
			b.at(step, func() error {
				defer func() { after = b.state(item) }()
				return b.afterExpiry(other, item)
			})
			require.ErrorIs(t, b.Load(t.Context(), item.ID), ErrBusy)
			require.Equal(t, "state", b.state(item), after)
			require.Equal(t, "ready", after.Ready(), true)
			require.Equal(t, "verdict", only(t, b.reserve(item, after.Epoch, one(1))).Verdict, Granted)
		})
	}
}

// A sleeping Load does not open an item that its successor has fenced.
func TestSleepingLoadLeavesASuccessorsFence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	other := setupOn(t, b.db, b.rdb)
	other.at("drained", crash)
	b.at("written", func() error {
		require.ErrorIs(t, b.afterExpiry(other.Service, item), errCrash)
		return nil
	})
	require.ErrorIs(t, b.Load(t.Context(), item.ID), ErrBusy)
	require.Equal(t, "epoch", b.state(item).Epoch, epoch)
	require.Equal(t, "gate", b.reserve(item, epoch, one(1)).Gate, Fenced)
	b.store.Failpoint = nil
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
			// Another instance took the item over; the renewal detects it.
			if _, err := b.db.Exec(t.Context(), `UPDATE platform.leases SET token = token + 1`); err != nil {
				t.Error(err)
			}
			close(stolen)
		}
		return false
	}
	require.ErrorIs(t, b.Load(t.Context(), item.ID), lease.ErrLost)
}

// soldTo creates an item and grants units of it to so many users; all their orders are written.
func (b *bundle) soldTo(n NewStock, holders int32) Item {
	b.t.Helper()
	item, epoch := b.loaded(n)
	for from := int32(0); from < holders; from += MaxBatch {
		attempts := make([]Attempt, min(MaxBatch, holders-from))
		nos := make([]ids.ID, len(attempts))
		for i := range attempts {
			attempts[i] = one(int64(from) + int64(i) + 1)
			nos[i] = attempts[i].No
			b.orders.put(item, attempts[i], epoch, orderevent.StatusPending)
		}
		b.reserve(item, epoch, attempts...)
		require.NoError(b.t, b.Persisted(b.t.Context(), Written{Item: item, Epoch: epoch, Nos: nos}))
	}
	b.inTx(func(tx pgx.Tx) error {
		return b.Deduct(b.t.Context(), tx, []Movement{{Key: Key{ItemID: item.ID}, Quantity: holders}})
	})
	return item
}

// memory is how much Redis uses.
func (b *bundle) memory(rdb *redis.Client) int64 {
	b.t.Helper()
	used, err := strconv.ParseInt(rdb.InfoMap(b.t.Context(), "memory").Item("Memory", "used_memory"), 10, 64)
	require.NoError(b.t, err)
	return used
}

// A Load of an item whose data is intact fits into a Redis that has a fifth of the item's size left, and so does one
// that has much to repair.
func TestLoadNeedsNoSecondCopyInRedis(t *testing.T) {
	t.Parallel()
	const holders = 20_000
	b := setup(t)
	rdb := redistest.Start(t).Client
	b.store.Redis = rdb
	empty := b.memory(rdb)
	item := b.soldTo(onSale(1, holders+10), holders)
	full := b.memory(rdb)
	limit := full + (full-empty)/5
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", strconv.FormatInt(limit, 10)).Err())
	b.otherRun(item)
	b.load(item)
	require.Equal(t, "remaining", b.state(item).Remaining, 10)

	// A third of the holders is unknown to Postgres, and as many are unknown here.
	users := item.UsersKey(b.state(item).Epoch)
	_, err := rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for user := range int64(holders / 3) {
			p.HDel(t.Context(), users, strconv.FormatInt(user+1, 10))
			p.HSet(t.Context(), users, user+1e6, ids.NewFor(user).String())
		}
		return nil
	})
	require.NoError(t, err)
	b.load(item)
	b.mustBeClean()
	require.Equal(t, "users", rdb.HLen(t.Context(), item.UsersKey(b.state(item).Epoch)).Val(), holders+1)
}

// The error says why the Load ended, and the item can be loaded again, although nothing can write its hold, as when the
// grant is buried as a dead letter.
func TestStalledLoadSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 3))
	b.reserve(item, epoch, one(1))
	b.store.Stall = 100 * time.Millisecond
	b.bus.done = func(uint64) bool { return false }
	require.ErrorIs(t, b.Load(t.Context(), item.ID), load.ErrStalled)
	b.store.Stall, b.bus.done = time.Minute, nil
	b.load(item)
	require.Equal(t, "remaining", b.state(item).Remaining, 3)
}

// slowly delays each command of a client.
type slowly struct {
	sendsTwice
	by time.Duration
}

func (h *slowly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		<-time.After(h.by)
		return next(ctx, cmd)
	}
}

// A Load of many chunks, each of which is progress, takes longer than it may stall.
func TestEachChunkOfALoadIsProgress(t *testing.T) {
	t.Parallel()
	const holders = 5 * stock.ScanCount
	b := setup(t)
	item := b.soldTo(onSale(1, holders+10), holders)
	users := item.UsersKey(b.state(item).Epoch)
	for user := range holders / 2 { // as many to remove
		b.rdb.HSet(t.Context(), users, 1_000_000+user, "x")
	}
	b.store.Stall = 2 * time.Second
	slow := &slowly{by: b.store.Stall / 8}
	b.rdb.AddHook(slow)
	began := time.Now()
	b.load(item)
	require.Equal(t, "took as long as it may stall", time.Since(began) >= b.store.Stall, true)
	slow.by = 0
	b.mustBeClean()
}

// An order that is closed after the epoch was raised is either a hold that its event releases, or no hold.
func TestOrderClosedBeforeItsItemIsRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, _ := b.loaded(onSale(1, 3))
	no := b.written(item, 1)
	var closed orderevent.Order
	b.at("counted", func() error {
		closed = b.close(no)
		return nil
	})
	b.load(item)
	require.Equal(t, "remaining", b.state(item).Remaining, 3)
	b.mustBring(closed)
	require.Equal(t, "remaining after the event", b.state(item).Remaining, 3)
	b.mustBeClean()
}
