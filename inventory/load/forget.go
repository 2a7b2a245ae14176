package load

import (
	"context"
	"fmt"

	"stampede/inventory/lua"
	"stampede/inventory/stock"
)

// Forget removes an item's keys from Redis after Delete. Ended items are removed by Settle. An item that is still in
// Postgres answers Fenced afterwards.
func (s *Service) Forget(ctx context.Context, item stock.Item) error {
	st, ok, err := s.State(ctx, item)
	if err != nil {
		return err
	}
	keys := []string{item.StateKey()}
	if ok {
		keys = append(keys, item.EpochKeys(st.Epoch)...)
	}
	if err := s.Redis.Unlink(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("inventory: forget item %d: %w", item.ID, err)
	}
	s.Epochs.Delete(item)
	if item.PerActivity {
		return s.removeBuyers(ctx, item)
	}
	return nil
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
