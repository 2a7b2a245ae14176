package ledger

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/lua"
	"stampede/inventory/stock"
	"stampede/platform/base/failpoint"
	"stampede/platform/store/pg"
)

// Whole is an item over all its shards.
type Whole struct {
	Epoch     int64
	Remaining int64 // units that some shard can grant; 0 means that none could at one moment
	Committed int64
	Total     int64
	States    []stock.State // by shard
}

// Borrow brings units of an item's other shards to this one, whose users found too few, and returns the whole item:
// if Remaining is 0 there was a moment at which no shard had a unit and none was on its way between two. It is
// called for a shard that has fewer units than wanted.
//
// Units move as an operator's do: off the lender in Redis, then from row to row in Postgres, then to the borrower in
// Redis with the new revision. So each shard always agrees with its own row, a crash at any point leaves what
// Withdrawn or an older revision shows, and every unit of an order returns to the shard of its user. Postgres is asked
// when units move, and once after: not for an item that stays empty.
//
// ErrFenced says that a shard does not decide now, so that it is not known whether units are left.
func (s *Service) Borrow(ctx context.Context, item stock.Item, shards int16, wanted int64) (Whole, error) {
	w, settled, err := s.whole(ctx, item, shards)
	if err != nil {
		return Whole{}, err
	}
	if has := w.States[item.Shard].Remaining; has >= wanted || settled && w.Remaining == max(0, has) {
		return w, nil
	}
	lock, _ := s.borrowing.LoadOrStore(item.ID, make(chan struct{}, 1))
	turn := lock.(chan struct{}) //nolint:errcheck // the map holds nothing else
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return Whole{}, fmt.Errorf("inventory: borrow units of item %d: %w", item.ID, ctx.Err())
	}
	moved := false
	err = pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		var err error
		w, moved, err = s.lend(ctx, tx, item, shards, wanted)
		return err
	})
	if err == nil && moved {
		if err = s.Reached("moved", afterMove); err == nil {
			err = s.Apply(ctx, item.ID)
		}
	}
	if err != nil {
		return Whole{}, fmt.Errorf("inventory: borrow units of item %d: %w", item.ID, err)
	}
	return w, nil
}

// ForgetPlans drops what is remembered of items that borrowed. A borrower that is at work keeps its turn; the rows'
// locks order it and another one.
func (s *Service) ForgetPlans() {
	s.plans.Clear()
	s.borrowing.Clear()
}

// lend moves units to a shard inside a transaction that has locked all rows of the item, so that no other move is
// under way, and reports whether it moved any.
func (s *Service) lend(ctx context.Context, tx pgx.Tx, item stock.Item, shards int16, wanted int64) (w Whole, moved bool, err error) {
	rows, err := stock.LockItem(ctx, tx, item.ID)
	if err != nil {
		return Whole{}, false, err
	}
	if len(rows) != int(shards) {
		return Whole{}, false, stock.ErrFenced // a Load has changed their number
	}
	// A move that was committed may not have reached Redis yet, and one that was not may have left it.
	if err := s.applyRows(ctx, rows); err != nil {
		return Whole{}, false, err
	}
	for _, st := range rows {
		if _, err := lua.Withdraw.Call(ctx, s.Redis, 2, []string{st.Item().StateKey()}, st.Rev, st.Planned(), 0); err != nil {
			return Whole{}, false, err
		}
	}
	w, _, err = s.whole(ctx, item, shards)
	if err != nil {
		return Whole{}, false, err
	}
	s.plans.Store(item.ID, planOf(rows))
	has := w.States[item.Shard].Remaining
	if has >= wanted || w.Remaining == has {
		return w, false, nil
	}
	// At least an equal share of what is left, so that a slow sale does not move each unit alone.
	need := max(wanted, w.Remaining/int64(shards)) - has
	lenders := slices.Clone(rows)
	slices.SortStableFunc(lenders, func(a, b stock.Row) int {
		return int(w.States[b.Shard].Remaining - w.States[a.Shard].Remaining)
	})
	q := inventorydb.New(tx)
	move := func(st stock.Row, units int32) error {
		return q.MoveUnits(ctx, inventorydb.MoveUnitsParams{Units: units, Whither: gone, ItemID: st.ItemID, Shard: st.Shard})
	}
	var lent int32
	for _, st := range lenders {
		most := min(need-int64(lent), w.States[st.Shard].Remaining)
		if st.Shard == item.Shard || most <= 0 {
			continue
		}
		taken, err := s.withdraw(ctx, tx, st, int32(most)) //nolint:gosec // at most MaxUnits
		if err != nil {
			return Whole{}, false, err
		}
		if taken = min(taken, st.Available); taken <= 0 {
			continue
		}
		if err := move(st, taken); err != nil {
			return Whole{}, false, fmt.Errorf("lend units: %w", err)
		}
		lent += taken
	}
	if lent == 0 {
		return w, false, nil // granted meanwhile
	}
	if err := s.Reached("lent", afterLend); err != nil {
		return Whole{}, false, err
	}
	if err := move(rows[item.Shard], -lent); err != nil {
		return Whole{}, false, fmt.Errorf("receive units: %w", err)
	}
	return w, true, nil
}

// Fail points of a move between two shards, at which a test ends the process.
var (
	afterLend = failpoint.NewErr("borrow-lent",
		"A shard has lent units in Redis, and Postgres has not moved them yet.")
	afterMove = failpoint.NewErr("borrow-moved",
		"Postgres has moved units from a shard to another, and Redis does not have the change yet.")
)

// plan is what the rows of an item have for sale together, at their revisions. These only rise, so that their sum is
// the same only if each is.
type plan struct{ revs, units int64 }

func planOf(rows []stock.Row) plan {
	var p plan
	for _, st := range rows {
		p.revs, p.units = p.revs+st.Rev, p.units+int64(st.Planned())
	}
	return p
}

// whole reads an item's shards twice. If they have no unit in both readings and none came back in between, there was a
// moment at which none had: units only become more with a return. Those on their way between two shards are missing in
// the sum of the plans, which settled knows from the last time that Postgres was asked.
func (s *Service) whole(ctx context.Context, item stock.Item, shards int16) (w Whole, settled bool, err error) {
	all := item.Counters(shards)
	// The first reading needs two figures only, and no proof of whose they are: the second has the same epoch.
	before := make([]*redis.SliceCmd, shards)
	if _, err := s.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, one := range all {
			before[i] = p.HMGet(ctx, one.StateKey(), "epoch", "remaining", "rel")
		}
		return nil
	}); err != nil {
		return Whole{}, false, fmt.Errorf("inventory: read shards of item %d: %w", item.ID, err)
	}
	w.States = make([]stock.State, shards)
	var now plan
	empty := true
	stateOf := s.States(ctx, all)
	for i := range all {
		st, ok, err := stateOf(i)
		if err != nil {
			return Whole{}, false, err
		}
		if !ok || !st.Ready() || i > 0 && st.Epoch != w.Epoch || st.Shards != shards {
			return Whole{}, false, fmt.Errorf("inventory: shard %d of item %d: %w", i, item.ID, stock.ErrFenced)
		}
		w.States[i], w.Epoch = st, st.Epoch
		w.Remaining += max(0, st.Remaining)
		w.Committed += st.Committed
		w.Total += st.Total
		now.revs, now.units = now.revs+st.Rev, now.units+st.Total-st.Retaken
		var was struct {
			Epoch     int64 `redis:"epoch"`
			Remaining int64 `redis:"remaining"`
			Rel       int64 `redis:"rel"`
		}
		if err := before[i].Scan(&was); err != nil {
			return Whole{}, false, fmt.Errorf("inventory: state of shard %d of item %d: %w", i, item.ID, err)
		}
		empty = empty && was.Epoch == st.Epoch && was.Remaining <= 0 && was.Rel == st.Rel
	}
	if !empty && w.Remaining == 0 {
		w.Remaining = 1 // a unit that came back and was granted again was free in between
	}
	known, _ := s.plans.Load(item.ID)
	return w, known == now, nil
}
