package books

import (
	"context"
	"fmt"
	"math"

	"stampede/inventory/internal/inventorydb"
	"stampede/inventory/stock"
)

// Status is the state of an item in Redis, compared with its books.
type Status uint8

const (
	// Unseen means unknown: Postgres or the item's Redis did not answer.
	Unseen Status = iota
	// Good requires no action.
	Good
	// Behind lacks an operator's change. The item decides; Apply writes the change.
	Behind
	// NotThere has no state in Redis. It and the statuses below are Unready.
	NotThere
	// Restarted was loaded before a restart or failover of Redis.
	Restarted
	// Loading is fenced by a Load that is under way or stopped half way.
	Loading
	// Outdated is from before the item's last Load: a server that had lost the primary role for a moment became
	// primary again, with its old run id and old data. Such an item keeps deciding, and the order writer refuses
	// every grant of it.
	Outdated
	// Ahead has what Postgres lost in a failover: a Load, a change, or units that are not available there. It may
	// grant what the order writer cannot take, and changes under a revision that it has already are without effect.
	Ahead
)

// Unready reports whether the item needs a Load.
func (st Status) Unready() bool { return st >= NotThere }

// whyUnready is one sentence for each status that is Unready.
var whyUnready = map[Status]string{
	NotThere:  "It has no state in Redis.",
	Restarted: "Redis was restarted or failed over since it was loaded.",
	Loading:   "Its Load has not finished.",
	Outdated:  "Redis has lost the last Load and is back at its state before it; every attempt is refused.",
	Ahead:     "Postgres has lost changes that Redis has, so the item is loaded again.",
}

// Why tells an operator why the item needs a Load; "" for a status that needs none.
func (st Status) Why() string { return whyUnready[st] }

// Health returns each item's status, in the order of items: that of the shard that is in the worst state. It costs one
// query and one round trip to each Redis server, and a second query if a state seems to be ahead of Postgres. The error
// is about items left Unseen; the statuses of the others are valid.
func (s *Service) Health(ctx context.Context, items []stock.Item) ([]Status, error) {
	seen := make([]Status, len(items))
	itemIDs := make([]int64, len(items))
	for i, item := range items {
		itemIDs[i] = item.ID
	}
	// Postgres first: a Load fences its item, then raises the epoch, and opens the item under it. So an item that is
	// now open under an older epoch was not left by a Load.
	books, err := s.stockByKey(ctx, itemIDs)
	if err != nil {
		return seen, err
	}
	var shards []stock.Item
	for _, item := range items {
		shards = append(shards, item)
		for n := item.Counter(item.Shard + 1); ; n = n.Counter(n.Shard + 1) {
			if _, ok := books[n.Key()]; !ok {
				break
			}
			shards = append(shards, n)
		}
	}
	all, err := s.healthOf(ctx, shards, books)
	for i, item := range items {
		seen[i] = Good
		for len(shards) > 0 && shards[0].ID == item.ID {
			seen[i] = worse(seen[i], all[0])
			shards, all = shards[1:], all[1:]
		}
	}
	return seen, err
}

// worse is the status that asks for more: a Load, or a state that is not known.
func worse(a, b Status) Status {
	if most := max(a, b); most.Unready() || a != Unseen && b != Unseen {
		return most
	}
	return Unseen
}

// healthOf is Health for single shards and the stock rows that were read before.
func (s *Service) healthOf(ctx context.Context, items []stock.Item, books map[stock.Key]stock.Row) ([]Status, error) {
	seen := make([]Status, len(items))
	ahead := map[int]stock.State{} // by index in items
	var first error
	missing := 0
	stateOf := s.States(ctx, items)
	for i, item := range items {
		st, ok, err := stateOf(i)
		have := books[item.Key()]
		switch {
		case err != nil:
			missing++
			if first == nil {
				first = err
			}
		case !ok:
			seen[i] = NotThere
		default:
			if seen[i] = statusOf(st, have); seen[i] == Ahead {
				ahead[i] = st
			}
		}
	}
	if len(ahead) > 0 {
		if err := s.confirmAhead(ctx, items, seen, books, ahead); err != nil {
			return seen, err
		}
	}
	if first != nil {
		return seen, fmt.Errorf("inventory: health check of %d of %d items failed, for one: %w", missing, len(items), first)
	}
	return seen, nil
}

// stockByKey reads the stock rows of items.
func (s *Service) stockByKey(ctx context.Context, itemIDs []int64) (map[stock.Key]stock.Row, error) {
	rows, err := stock.Rows(inventorydb.New(s.DB).StockOfItems(ctx, itemIDs))
	if err != nil {
		return nil, err
	}
	books := make(map[stock.Key]stock.Row, len(rows))
	for _, st := range rows {
		books[st.Key()] = st
	}
	return books, nil
}

// confirmAhead reads the books of states that seem to be ahead again: what happened between the two reads came to
// Redis from Postgres, which has it by now. Units are compared only if no unit of the row moved in between.
func (s *Service) confirmAhead(ctx context.Context, items []stock.Item, seen []Status, before map[stock.Key]stock.Row, ahead map[int]stock.State) error {
	itemIDs := make([]int64, 0, len(ahead))
	for i := range ahead {
		itemIDs = append(itemIDs, items[i].ID)
		seen[i] = Unseen
	}
	books, err := s.stockByKey(ctx, itemIDs)
	if err != nil {
		return err
	}
	for i, st := range ahead {
		key := items[i].Key()
		now := books[key]
		if now.Version != before[key].Version {
			now.Available = math.MaxInt32
		}
		seen[i] = statusOf(st, now)
	}
	return nil
}

// statusOf compares a state with its books, which were read before it.
func statusOf(st stock.State, books stock.Row) Status {
	switch {
	case !st.SameRedis:
		return Restarted
	case st.Fenced:
		return Loading
	case st.Epoch < books.Epoch:
		return Outdated
	case st.Epoch > books.Epoch, st.Rev > books.Rev, st.Remaining > int64(books.Available):
		return Ahead
	case st.Rev < books.Rev:
		return Behind
	case !has(st, books):
		return Ahead // the revision was given to another change since
	default:
		return Good
	}
}

// has reports whether the state has the changes of the row, for equal revisions. Units that are missing in it are on
// their way to the backup or to another shard, or are brought back by a comparison.
func has(st stock.State, books stock.Row) bool {
	return st.Total <= int64(books.Offered()) && st.OpensAt.UnixMilli() == books.OpensAt.UnixMilli() &&
		st.ClosesAt.UnixMilli() == books.ClosesAt.UnixMilli() && st.Limit == int64(books.UserLimit) &&
		st.Paused == books.Paused && st.Rebuy == books.Rebuy
}

// Ready reports whether the item needs no Load. It does not say whether the item is open or paused.
func (s *Service) Ready(ctx context.Context, item stock.Item) (bool, error) {
	seen, err := s.Health(ctx, []stock.Item{item})
	return seen[0] == Good || seen[0] == Behind, err
}
