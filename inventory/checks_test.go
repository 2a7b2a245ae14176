package inventory

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"stampede/inventory/stock"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/watch/alarm"
	"stampede/platform/watch/proof"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func (b *bundle) violations(id string) (all []proof.Violation) {
	b.t.Helper()
	ran := false
	for _, c := range b.Checks() {
		if c.ID == id {
			found, err := c.Run(b.t.Context())
			require.NoError(b.t, err)
			all, ran = append(all, found...), true
		}
	}
	require.Equal(b.t, "there is a check "+id, ran, true)
	return all
}

func (b *bundle) mustBeClean() {
	b.t.Helper()
	for _, c := range b.Checks() {
		require.Equal(b.t, c.ID+" "+c.Name, fmt.Sprint(b.violations(c.ID)), "[]")
	}
	rows, err := b.Books(b.t.Context())
	require.NoError(b.t, err)
	for _, r := range rows {
		require.Equal(b.t, "difference of item "+strconv.FormatInt(r.ItemID, 10), r.Difference, 0)
	}
}

// sale is an item in the middle of its sale: paid, unpaid, in flight, and a release pending.
type sale struct {
	*bundle
	item                           Item
	epoch                          int64
	paid, unpaid, inFlight, closed Attempt
}

func midSale(t *testing.T) *sale {
	t.Helper()
	b := setup(t)
	n := onSale(1, 20)
	n.UserLimit, n.PerActivity = 4, true
	s := &sale{
		bundle: b, paid: one(1), unpaid: Attempt{User: 2, No: ids.NewFor(2), Quantity: 2},
		inFlight: Attempt{User: 3, No: ids.NewFor(3), Quantity: 3}, closed: Attempt{User: 4, No: ids.NewFor(4), Quantity: 4},
	}
	s.item, s.epoch = b.loaded(n)
	b.reserve(s.item, s.epoch, s.paid, s.unpaid, s.inFlight, s.closed)
	b.write(s.item, s.epoch, s.paid, s.unpaid, s.closed)
	b.mustBring(b.pay(s.paid.No))
	return s
}

func TestBooksClassifyWorkInFlight(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	closing := s.close(s.closed.No)
	books := func() string {
		rows, err := s.Books(t.Context())
		require.Equal(t, "rows", fmt.Sprint(len(rows), err), "1 <nil>")
		r := rows[0]
		return fmt.Sprintf("total %d available %d held %d sold %d | remaining %d committed %d in flight %d pending %d | %d",
			r.Total, r.Available, r.Held, r.Sold, r.RedisRemaining, r.RedisCommitted, r.InFlight, r.ReleasePending, r.Difference)
	}
	require.Equal(t, "moving", books(), "total 20 available 17 held 2 sold 1 | remaining 10 committed 1 in flight 3 pending 4 | 0")
	s.mustBring(closing)
	s.write(s.item, s.epoch, s.inFlight)
	require.Equal(t, "settled", books(), "total 20 available 14 held 5 sold 1 | remaining 14 committed 1 in flight 0 pending 0 | 0")
	s.mustBeClean()
	require.Equal(t, "from memory", books(), "total 20 available 14 held 5 sold 1 | remaining 14 committed 1 in flight 0 pending 0 | 0")
	s.pay(s.unpaid.No)
	s.mustBring(s.orders.set(s.unpaid.No, orderevent.StatusPaid))
	require.Equal(t, "paid", books(), "total 20 available 14 held 3 sold 3 | remaining 14 committed 3 in flight 0 pending 0 | 0")
	s.rdb.FlushDB(t.Context())
	require.Equal(t, "without Redis", books(), "total 20 available 14 held 3 sold 3 | remaining 0 committed 0 in flight 0 pending 0 | 0")
	require.Equal(t, "violations without Redis", fmt.Sprint(s.violations("I1"), s.violations("I2"), s.violations("I8")),
		"[] [{item 1 It is on sale and does not sell. It has no state in Redis.}] []")
}

func TestWorkInFlightIsNoViolation(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	require.Equal(t, "violations with a grant in flight", len(s.violations("I1"))+len(s.violations("I2"))+len(s.violations("I8")), 0)
	// A release that reaches Redis while the check waits.
	closing := s.close(s.closed.No)
	arrived := false
	s.store.Books = booksThen{s.orders, sync.OnceFunc(func() {
		arrived = true
		s.mustBring(closing)
	})}
	require.Equal(t, "violations with a release in flight", len(s.violations("I8")), 0)
	require.Equal(t, "the check saw it once", arrived, true)
}

// booksThen runs a function after it was read.
type booksThen struct {
	stock.Books
	then func()
}

func (b booksThen) Statuses(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error) {
	defer b.then()
	return b.Books.Statuses(ctx, nos)
}

func TestChecksSeePlantedViolations(t *testing.T) {
	t.Parallel()
	hset := func(s *sale, k string, pairs ...any) {
		s.t.Helper()
		require.NoError(s.t, s.rdb.HSet(s.t.Context(), k, pairs...).Err())
	}
	for _, c := range []struct {
		name, check, detail string
		plant               func(s *sale)
	}{
		{"more live orders than units", "I1", "24 units are in live orders, the total is 20", func(s *sale) {
			s.orders.put(s.item, Attempt{User: 9, No: ids.NewFor(9), Quantity: 17}, s.epoch, orderevent.StatusPending)
		}},
		{"a stock row that does not add up", "I1", "= 19, the total is 20", func(s *sale) {
			s.sql(`UPDATE inventory.stock SET available = available - 1`)
		}},
		{"a negative stock row", "I1", "-3 units are available", func(s *sale) {
			s.sql(`ALTER TABLE inventory.stock DROP CONSTRAINT never_oversold`)
			s.sql(`UPDATE inventory.stock SET available = -3`)
		}},
		{"orders without a stock row", "I1", "no stock row", func(s *sale) { s.sql(`DELETE FROM inventory.stock`) }},
		{"Redis granted too much", "I1", "counts -5 remaining", func(s *sale) { hset(s, s.item.StateKey(), "remaining", -5) }},
		{"Redis does not add up", "I1", "Redis counts 9 remaining and 10 held", func(s *sale) { hset(s, s.item.StateKey(), "remaining", 9) }},
		{"Redis remaining overwritten", "I2", "the difference is 2", func(s *sale) { hset(s, s.item.StateKey(), "remaining", 8) }},
		{"a unit that never came back", "I2", "the difference is 2", func(s *sale) {
			s.mustBring(s.close(s.unpaid.No))
			s.rdb.HIncrBy(s.t.Context(), s.item.StateKey(), "remaining", -2)
		}},
		{"a live order that Redis forgot", "I2", "a live order of 2 units that Redis does not hold", func(s *sale) {
			s.rdb.HDel(s.t.Context(), s.item.UsersKey(s.epoch), "2")
		}},
		{"another quantity", "I2", "the order has 2 units, Redis holds 3", func(s *sale) {
			hset(s, s.item.UsersKey(s.epoch), "2", stock.Mark{No: s.unpaid.No, Quantity: 3}.String())
		}},
		{"a payment missing in Redis", "I2", "the order is paid, Redis counts it as unpaid", func(s *sale) { s.pay(s.unpaid.No) }},
		{"committed miscounted", "I2", "Redis counts 7 units as paid for, its marks say 1", func(s *sale) { hset(s, s.item.StateKey(), "committed", 7) }},
		{"a mark without an order", "I8", "no such order and none on its way", func(s *sale) {
			hset(s, s.item.UsersKey(s.epoch), "9", ids.NewFor(9).String())
		}},
		{"a missing release", "I8", "still holds 4 units in Redis, the order is closed", func(s *sale) { s.close(s.closed.No) }},
		{"a hold without a mark", "I8", "who holds no units under it", func(s *sale) {
			hset(s, s.item.HoldsKey(s.epoch), ids.NewFor(9).String(), "9:1:5:1700000000000")
		}},
		{"a hold whose order is written", "I8", "Redis waits for the order of user 2, which is written", func(s *sale) {
			hset(s, s.item.HoldsKey(s.epoch), s.unpaid.No.String(), "2:2:5:1700000000000")
		}},
		{"a holder who may buy another item", "I2", "user 2 holds units, and does not count as a buyer", func(s *sale) {
			s.rdb.HDel(s.t.Context(), s.item.BuyersKey(), "2")
		}},
		{"an item that stays fenced", "I2", "It is on sale and does not sell. Its Load has not finished.", func(s *sale) {
			hset(s, s.item.StateKey(), "fenced", s.epoch+1)
		}},
		{"a grant that outlives the sale", "I2", "Redis still waits for the orders of 1 grants", func(s *sale) { s.end(s.item) }},
		{"keys of a settled item", "I2", "It is settled, and Redis has 2 of its keys again", func(s *sale) {
			s.sql(`INSERT INTO inventory.settled (item_id, epoch) SELECT item_id, epoch FROM inventory.stock`)
			s.rdb.Del(s.t.Context(), s.item.HoldsKey(s.epoch), s.item.TombstonesKey(s.epoch))
		}},
		{"a buyer who holds nothing", "I8", "counts as a buyer", func(s *sale) {
			hset(s, s.item.BuyersKey(), "9", ids.NewFor(9).String()+":1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := midSale(t)
			require.Equal(t, "before", fmt.Sprint(s.violations(c.check)), "[]")
			c.plant(s)
			for _, v := range s.violations(c.check) {
				if strings.Contains(v.Detail, c.detail) {
					return
				}
			}
			t.Errorf("%s saw %v, want %q", c.check, s.violations(c.check), c.detail)
		})
	}
}

func TestStockMovements(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item := b.create(onSale(1, 5))
	k := Key{ItemID: item.ID}
	move := func(how func(context.Context, pgx.Tx, []Movement) error, units ...int32) error {
		var all []Movement
		for _, u := range units {
			all = append(all, Movement{Key: k, Quantity: u})
		}
		return pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error { return how(t.Context(), tx, all) })
	}
	available := func() int32 {
		var st stock.Row
		b.inTx(func(tx pgx.Tx) error {
			locked, err := b.Lock(t.Context(), tx, []Key{k, {ItemID: 404}})
			st = locked[k]
			require.Equal(t, "rows locked", len(locked), 1)
			return err
		})
		return st.Available
	}
	require.NoError(t, move(b.Deduct, 2, 2))
	require.Equal(t, "after deducting twice in one call", available(), 1)
	require.Equal(t, "taking more than there is is refused", pg.ViolatesCheck(move(b.Deduct, 1, 1), "never_oversold"), true)
	require.Equal(t, "after the refusal", available(), 1)
	require.NoError(t, move(b.Return, 4))
	require.Equal(t, "giving back more than was taken is refused", pg.ViolatesCheck(move(b.Return, 1), "never_over_total"), true)
	k = Key{ItemID: 404}
	require.ErrorIs(t, move(b.Deduct, 1), ErrNoStock)
}

func TestChangesOfStock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 1))
	change := func(c Change) error {
		return pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, c) })
	}
	b.reserve(item, epoch, one(1))
	require.NoError(t, change(Change{AddStock: new(int32(3))}))
	b.apply(item)
	b.apply(item)
	st := b.state(item)
	require.Equal(t, "added once, what is held stays held", fmt.Sprint(st.Total, st.Remaining, st.Rel), "4 3 1")
	for name, c := range map[string]Change{
		"no units": {AddStock: new(int32(0))}, "too many": {AddStock: new(int32(MaxUnits))}, "no limit": {UserLimit: new(int32(0))},
		"closes before it opens": {ClosesAt: new(st.OpensAt)},
	} {
		require.Contains(t, name, fmt.Sprint(change(c)), "invalid")
	}
	item.ID = 404
	require.ErrorIs(t, change(Change{}), ErrNoStock)
}

// One item's books equal its row in the list, and read nothing of other items.
func TestBookIsARowOfBooks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 5))
	inFlight, written := one(1), one(2)
	b.reserve(item, epoch, inFlight, written)
	b.write(item, epoch, written)
	other, _ := b.loaded(onSale(2, 3))
	rows, err := b.Books(t.Context())
	require.Equal(t, "rows", fmt.Sprint(len(rows), err), "2 <nil>")
	require.NoError(t, b.rdb.Set(t.Context(), other.StateKey(), "not a hash", 0).Err())
	for range 2 { // the second time at rest
		row, ok, err := b.Book(t.Context(), item.ID)
		require.Equal(t, "its book", fmt.Sprint(ok, err, row.Held, row.InFlight), "true <nil> 1 1")
		require.Equal(t, "its row", row, rows[0])
	}
	books, err := b.BooksOf(t.Context(), other.ID, item.ID)
	if _, ok := books[other.ID]; err == nil || ok || books[item.ID].Row != rows[0] || books[item.ID].State.Queued() != 1 {
		t.Errorf("beside an item that cannot be read: %+v, %v", books, err)
	}
	_, ok, err := b.Book(t.Context(), 99)
	require.Equal(t, "an item without stock", fmt.Sprint(ok, err), "false <nil>")
}

// An item that cannot be read does not discard what was read before it.
func TestBooksContinueAfterError(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.loaded(onSale(1, 5))
	second, _ := b.loaded(onSale(2, 3))
	require.NoError(t, b.rdb.Set(t.Context(), second.StateKey(), "not a hash", 0).Err())
	s, seen := b.reader()
	_, err := s.Books(t.Context())
	require.Equal(t, "the item that cannot be read is an error", err != nil, true)
	require.NoError(t, b.rdb.Del(t.Context(), second.StateKey()).Err())
	seen.steps = 0
	rows, err := s.Books(t.Context())
	require.Equal(t, "rows, error and steps to read them again", fmt.Sprint(len(rows), err, seen.steps), "2 <nil> 0")
}

func (b *bundle) sampled() []proof.Outcome {
	b.t.Helper()
	return proof.Run(b.t.Context(), b.Samples())
}

// The samples pass in the middle of a sale, and find faults on either side; in a running server those raise an alarm.
func TestSamplesFindBrokenBooks(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	s.close(s.closed.No) // its release is pending
	require.Equal(t, "a sale in order", proof.AllOK(s.sampled()), true)
	// One unit too many in Redis.
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.StateKey(), "remaining", 1).Err())
	if got := s.sampled(); len(got[1].Violations) != 1 || got[1].Violations[0].Subject != "item 1" || !strings.Contains(got[1].Violations[0].Detail, "difference is -1") {
		t.Errorf("a unit too many in Redis: %+v", got)
	}
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.StateKey(), "remaining", -1).Err())
	// One unit less in the row than the orders leave.
	pgtest.Exec(t, s.db, `UPDATE inventory.stock SET available = available - 1, version = version + 1`)
	if got := s.sampled(); len(got[0].Violations) != 1 || !strings.Contains(got[0].Violations[0].Detail, "the total is 20") {
		t.Errorf("a unit too few in the row: %+v", got)
	}
	pgtest.Work(t, alarm.NewWatch(s.db, slog.New(slog.DiscardHandler), alarm.Sampled(100*time.Millisecond, s.Samples())).Run)
	pgtest.Eventually(t, 30*time.Second, func() bool {
		l, err := alarm.List(t.Context(), s.db, alarm.Filter{Code: alarm.BooksBroken.Code})
		return err == nil && len(l) > 0 && strings.HasSuffix(l[len(l)-1].Subject, " item 1")
	}, "the alarm")
}

// Every second only sums are compared. Work under way is not a difference, and one that lasts is confirmed by the
// item's books.
func TestBooksProbeFindsDifferenceThatLasts(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	probe := s.BooksProbe()
	glance := func(want string) {
		t.Helper()
		found, err := probe.Look(t.Context())
		require.NoError(t, err)
		require.Equal(t, "found", fmt.Sprint(found), want)
	}
	glance("[]") // a grant is in flight
	s.store.DiffersFor = 0
	closing := s.close(s.closed.No)
	glance("[]") // a release is pending
	s.mustBring(closing)
	s.write(s.item, s.epoch, s.inFlight)
	glance("[]")
	s.store.DiffersFor = time.Hour
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.StateKey(), "remaining", 1).Err())
	glance("[]")
	figures := strings.NewReader(`
		# HELP stampede_inventory_books_difference_units Units by which the counts of items on sale differed in the last comparison. Releases on their way to Redis count for a moment.
		# TYPE stampede_inventory_books_difference_units gauge
		stampede_inventory_books_difference_units 1
	`)
	require.NoError(t, testutil.GatherAndCompare(s.metrics, figures, "stampede_inventory_books_difference_units"))
	s.store.DiffersFor = 0
	glance("[{sums of item 1 nothing stuck: available 14, but Redis has remaining 15 + in flight 0 + release pending 0: the difference is -1.}]")
	require.NoError(t, s.rdb.HIncrBy(t.Context(), s.item.StateKey(), "remaining", -1).Err())
	glance("[]")
}
