package inventory

import (
	"context"
	"fmt"

	"stampede/inventory/internal/inventorydb"
)

// Status is the state of an item in Redis, compared with its books.
type Status uint8

const (
	// Unseen means unknown: Postgres or the item's Redis did not answer.
	Unseen Status = iota
	// Good requires no action.
	Good
	// Behind lacks an operator's change. The item decides; Apply writes the
	// change.
	Behind
	// NotThere has no state in Redis. It and the statuses below are Unready.
	NotThere
	// Restarted was loaded before a restart or failover of Redis.
	Restarted
	// Loading is fenced by a Load that is under way or stopped half way.
	Loading
	// Outdated is from before the item's last Load: a server that had lost the
	// primary role for a moment became primary again, with its old run id and old
	// data. Such an item keeps deciding, and the order writer refuses every grant of
	// it.
	Outdated
)

// Unready reports whether the item needs a Load.
func (st Status) Unready() bool { return st >= NotThere }

// Health returns each item's status, in the order of items. It costs one query and
// one round trip to each Redis server. The error is about items left Unseen; the
// statuses of the others are valid.
func (s *Service) Health(ctx context.Context, items []Item) ([]Status, error) {
	seen := make([]Status, len(items))
	itemIDs, calls := make([]int64, len(items)), make([]scriptCall, len(items))
	for i, item := range items {
		itemIDs[i], calls[i] = item.ID, scriptCall{keys: []string{item.stateKey()}}
	}
	// Postgres first: a Load fences its item, then raises the epoch, and opens the
	// item under it. So an item that is now open under an older epoch was not left
	// by a Load.
	rows, err := inventorydb.New(s.deps.DB).Progress(ctx, itemIDs)
	if err != nil {
		return seen, fmt.Errorf("inventory: read the books of %d items: %w", len(items), err)
	}
	books := make(map[Key]inventorydb.ProgressRow, len(rows))
	for _, row := range rows {
		books[Key{ItemID: row.ItemID, Shard: row.Shard}] = row
	}
	var first error
	missing := 0
	answers := stateScript.tryAll(ctx, s.deps.Redis, calls)
	for i, item := range items {
		raw, err := answers[i].Slice()
		var st State
		ok := false
		if err == nil {
			st, ok, err = readState(raw)
		}
		have := books[Key{ItemID: item.ID, Shard: item.Shard}]
		switch {
		case err != nil:
			missing++
			if first == nil {
				first = err
			}
		case !ok:
			seen[i] = NotThere
		default:
			seen[i] = st.status(have)
		}
	}
	if first != nil {
		return seen, fmt.Errorf("inventory: health check of %d of %d items failed, for one: %w", missing, len(items), first)
	}
	return seen, nil
}

// status compares a state with its books.
func (st State) status(books inventorydb.ProgressRow) Status {
	switch {
	case !st.SameRedis:
		return Restarted
	case st.Fenced:
		return Loading
	case st.Epoch < books.Epoch:
		return Outdated
	case st.Rev < books.Rev:
		return Behind
	default:
		return Good
	}
}

// Ready reports whether the item needs no Load. It does not say whether the
// item is open or paused.
func (s *Service) Ready(ctx context.Context, item Item) (bool, error) {
	seen, err := s.Health(ctx, []Item{item})
	return seen[0] == Good || seen[0] == Behind, err
}
