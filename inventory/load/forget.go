package load

import (
	"context"
	"fmt"
	"slices"

	"stampede/inventory/lua"
	"stampede/inventory/stock"
)

// Forget removes an item's keys from Redis after Delete. Ended items are removed by Settle. An item that is still in
// Postgres answers Fenced afterwards.
func (s *Service) Forget(ctx context.Context, item stock.Item) error {
	// Every shard that an item may have: the rows that said how many there are do not exist any more, and one that
	// was left would grant units that no row has.
	all := item.Counters(stock.MostShards)
	if item.PerActivity {
		all = all[:1]
	}
	stateOf := s.States(ctx, all)
	for i, shard := range all {
		st, ok, err := stateOf(i)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.Redis.Unlink(ctx, append(shard.EpochKeys(st.Epoch), shard.StateKey())...).Err(); err != nil {
			return fmt.Errorf("inventory: forget item %d: %w", item.ID, err)
		}
		s.Epochs.Delete(shard)
	}
	s.ForgetShards(item.ID)
	if !item.PerActivity {
		return nil
	}
	if err := s.removeBuyers(ctx, item); err != nil {
		return err
	}
	return s.FreeBuyers(ctx, item, 0)
}

// ForgetDeleted is Forget for an item of which no stock row has the name, and reports whether it is one: it was deleted,
// or its keys have other names since. What has the name is a Load's to write.
func (s *Service) ForgetDeleted(ctx context.Context, item stock.Item) (deleted bool, err error) {
	rows, err := stock.OfItem(ctx, s.DB, item.ID)
	if err != nil || slices.ContainsFunc(stock.Items(rows), func(named stock.Item) bool { return named.Counter(0) == item.Counter(0) }) {
		return false, err
	}
	return true, s.Forget(ctx, item)
}

// removeBuyers removes the item's entries among the activity's buyers, each unless it changes before.
func (s *Service) removeBuyers(ctx context.Context, item stock.Item) error {
	var users, entries []any
	err := s.Scan(ctx, item.BuyersKey(), func(field, value string) (bool, error) {
		_, _, ours, err := stock.ParseBuyer(value, item.ID)
		if ours {
			users, entries = append(users, field), append(entries, value)
		}
		return true, err
	})
	if err != nil {
		return err
	}
	for len(users) > 0 {
		n := min(len(users), lua.Chunk)
		args := append(append([]any{n}, users[:n]...), entries[:n]...)
		users, entries = users[n:], entries[n:]
		if _, err := lua.Unbuy.Call(ctx, s.Redis, 1, []string{item.BuyersKey()}, args...); err != nil {
			return err
		}
	}
	return nil
}
