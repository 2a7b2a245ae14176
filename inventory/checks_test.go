package inventory

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/watch/proof"
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
	if !ran {
		b.t.Fatalf("there is no check %s", id)
	}
	return all
}

func (b *bundle) mustBeClean() {
	b.t.Helper()
	for _, c := range b.Checks() {
		if found := b.violations(c.ID); len(found) > 0 {
			b.t.Errorf("%s %s: %v", c.ID, c.Name, found)
		}
	}
	rows, err := b.Books(b.t.Context())
	require.NoError(b.t, err)
	for _, r := range rows {
		if r.Difference != 0 {
			b.t.Errorf("books differ: %+v", r)
		}
	}
}

// sale is an item in the middle of its sale: paid, unpaid, in flight, and a
// release pending.
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
	b.mustCommit(b.pay(s.paid.No))
	return s
}

func TestBooksClassifyWorkInFlight(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	closing := s.close(s.closed.No)
	books := func() string {
		rows, err := s.Books(t.Context())
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows, error %v", len(rows), err)
		}
		r := rows[0]
		return fmt.Sprintf("total %d available %d held %d sold %d | remaining %d committed %d in flight %d pending %d | %d",
			r.Total, r.Available, r.Held, r.Sold, r.RedisRemaining, r.RedisCommitted, r.InFlight, r.ReleasePending, r.Difference)
	}
	mustBe(t, "moving", books(), "total 20 available 17 held 2 sold 1 | remaining 10 committed 1 in flight 3 pending 4 | 0")
	s.mustRelease(closing)
	s.write(s.item, s.epoch, s.inFlight)
	mustBe(t, "settled", books(), "total 20 available 14 held 5 sold 1 | remaining 14 committed 1 in flight 0 pending 0 | 0")
	s.mustBeClean()
	mustBe(t, "from memory", books(), "total 20 available 14 held 5 sold 1 | remaining 14 committed 1 in flight 0 pending 0 | 0")
	s.pay(s.unpaid.No)
	s.mustCommit(s.orders.set(s.unpaid.No, orderevent.StatusPaid))
	mustBe(t, "paid", books(), "total 20 available 14 held 3 sold 3 | remaining 14 committed 3 in flight 0 pending 0 | 0")
	s.rdb.FlushDB(t.Context())
	mustBe(t, "without Redis", books(), "total 20 available 14 held 3 sold 3 | remaining 0 committed 0 in flight 0 pending 0 | 0")
	mustBe(t, "violations without Redis", fmt.Sprint(s.violations("I1"), s.violations("I2"), s.violations("I8")),
		"[] [{item 1 It is on sale and does not sell. It has no state in Redis.}] []")
}

func TestWorkInFlightIsNoViolation(t *testing.T) {
	t.Parallel()
	s := midSale(t)
	mustBe(t, "violations with a grant in flight", len(s.violations("I1"))+len(s.violations("I2"))+len(s.violations("I8")), 0)
	// A release that reaches Redis while the check waits.
	closing := s.close(s.closed.No)
	arrived := false
	s.deps.Books = booksThen{s.orders, func() {
		if !arrived {
			arrived = true
			s.mustRelease(closing)
		}
	}}
	mustBe(t, "violations with a release in flight", len(s.violations("I8")), 0)
	mustBe(t, "the check saw it once", arrived, true)
}

// booksThen runs a function after it was read.
type booksThen struct {
	Books
	then func()
}

func (b booksThen) Statuses(ctx context.Context, nos []ids.ID) (map[ids.ID]string, error) {
	defer b.then()
	return b.Books.Statuses(ctx, nos)
}

func TestChecksSeePlantedViolations(t *testing.T) {
	t.Parallel()
	exec := func(s *sale, sql string, args ...any) {
		s.t.Helper()
		if _, err := s.db.Exec(s.t.Context(), sql, args...); err != nil {
			s.t.Fatal(err)
		}
	}
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
			exec(s, `UPDATE inventory.stock SET available = available - 1`)
		}},
		{"a negative stock row", "I1", "-3 units are available", func(s *sale) {
			exec(s, `ALTER TABLE inventory.stock DROP CONSTRAINT never_oversold`)
			exec(s, `UPDATE inventory.stock SET available = -3`)
		}},
		{"orders without a stock row", "I1", "no stock row", func(s *sale) { exec(s, `DELETE FROM inventory.stock`) }},
		{"Redis granted too much", "I1", "counts -5 remaining", func(s *sale) { hset(s, s.item.stateKey(), "remaining", -5) }},
		{"Redis does not add up", "I1", "Redis counts 9 remaining and 10 held", func(s *sale) { hset(s, s.item.stateKey(), "remaining", 9) }},
		{"Redis remaining overwritten", "I2", "the difference is 2", func(s *sale) { hset(s, s.item.stateKey(), "remaining", 8) }},
		{"a unit that never came back", "I2", "the difference is 2", func(s *sale) {
			s.mustRelease(s.close(s.unpaid.No))
			s.rdb.HIncrBy(s.t.Context(), s.item.stateKey(), "remaining", -2)
		}},
		{"a live order that Redis forgot", "I2", "a live order of 2 units that Redis does not hold", func(s *sale) {
			s.rdb.HDel(s.t.Context(), s.item.usersKey(s.epoch), "2")
		}},
		{"another quantity", "I2", "the order has 2 units, Redis holds 3", func(s *sale) {
			hset(s, s.item.usersKey(s.epoch), "2", mark{no: s.unpaid.No, quantity: 3}.String())
		}},
		{"a payment missing in Redis", "I2", "the order is paid, Redis counts it as unpaid", func(s *sale) { s.pay(s.unpaid.No) }},
		{"committed miscounted", "I2", "Redis counts 7 units as paid for, its marks say 1", func(s *sale) { hset(s, s.item.stateKey(), "committed", 7) }},
		{"a mark without an order", "I8", "no such order and none on its way", func(s *sale) {
			hset(s, s.item.usersKey(s.epoch), "9", ids.NewFor(9).String())
		}},
		{"a missing release", "I8", "still holds 4 units in Redis, the order is closed", func(s *sale) { s.close(s.closed.No) }},
		{"a hold without a mark", "I8", "who holds no units under it", func(s *sale) {
			hset(s, s.item.holdsKey(s.epoch), ids.NewFor(9).String(), "9:1:5:1700000000000")
		}},
		{"a hold whose order is written", "I8", "Redis waits for the order of user 2, which is written", func(s *sale) {
			hset(s, s.item.holdsKey(s.epoch), s.unpaid.No.String(), "2:2:5:1700000000000")
		}},
		{"a holder who may buy another item", "I2", "user 2 holds units, and does not count as a buyer", func(s *sale) {
			s.rdb.HDel(s.t.Context(), s.item.buyersKey(), "2")
		}},
		{"an item that stays fenced", "I2", "It is on sale and does not sell. Its Load has not finished.", func(s *sale) {
			hset(s, s.item.stateKey(), "fenced", s.epoch+1)
		}},
		{"a grant that outlives the sale", "I2", "Redis still waits for the orders of 1 grants", func(s *sale) { s.end(s.item) }},
		{"keys of a settled item", "I2", "It is settled, and Redis has 2 of its keys again", func(s *sale) {
			exec(s, `INSERT INTO inventory.settled (item_id, epoch) SELECT item_id, epoch FROM inventory.stock`)
			s.rdb.Del(s.t.Context(), s.item.holdsKey(s.epoch), s.item.tombstonesKey(s.epoch))
		}},
		{"a buyer who holds nothing", "I8", "counts as a buyer", func(s *sale) {
			hset(s, s.item.buyersKey(), "9", ids.NewFor(9).String()+":1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := midSale(t)
			if found := s.violations(c.check); len(found) > 0 {
				t.Fatalf("before: %v", found)
			}
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
			all = append(all, Movement{k, u})
		}
		return pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error { return how(t.Context(), tx, all) })
	}
	available := func() int32 {
		var st Stock
		b.inTx(func(tx pgx.Tx) error {
			locked, err := b.Lock(t.Context(), tx, []Key{k, {ItemID: 404}})
			st = locked[k]
			mustBe(t, "rows locked", len(locked), 1)
			return err
		})
		return st.Available
	}
	mustFail(t, move(b.Deduct, 2, 2), nil)
	mustBe(t, "after deducting twice in one call", available(), 1)
	if err := move(b.Deduct, 1, 1); !pg.ViolatesCheck(err, "never_oversold") {
		t.Errorf("taking more than there is: %v", err)
	}
	mustBe(t, "after the refusal", available(), 1)
	mustFail(t, move(b.Return, 4), nil)
	if err := move(b.Return, 1); !pg.ViolatesCheck(err, "never_over_total") {
		t.Errorf("giving back more than was taken: %v", err)
	}
	k = Key{ItemID: 404}
	mustFail(t, move(b.Deduct, 1), ErrNoStock)
}

func TestChangesOfStock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	item, epoch := b.loaded(onSale(1, 1))
	change := func(c Change) error {
		return pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error { return b.Change(t.Context(), tx, item.ID, c) })
	}
	b.reserve(item, epoch, one(1))
	mustFail(t, change(Change{AddStock: new(int32(3))}), nil)
	require.NoError(t, b.Apply(t.Context(), item.ID))
	require.NoError(t, b.Apply(t.Context(), item.ID))
	st := b.state(item)
	mustBe(t, "added once, what is held stays held", fmt.Sprint(st.Total, st.Remaining, st.Rel), "4 3 1")
	for name, c := range map[string]Change{
		"no units": {AddStock: new(int32(0))}, "too many": {AddStock: new(int32(MaxUnits))}, "no limit": {UserLimit: new(int32(0))},
		"closes before it opens": {ClosesAt: new(st.OpensAt)},
	} {
		if err := change(c); err == nil || !strings.Contains(err.Error(), "invalid") {
			t.Errorf("%s: %v", name, err)
		}
	}
	item.ID = 404
	mustFail(t, change(Change{}), ErrNoStock)
}
