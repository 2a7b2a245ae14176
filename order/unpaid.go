package order

import (
	"context"
	"fmt"

	"stampede/order/internal/orderdb"
)

// OpenUnpaid returns the number of unpaid orders per user, for users with at
// least atLeast of them: at most most users, those with the most orders first.
// It reads the unpaid rows once, by their own index, and takes a slot for list
// queries: it must not hold the connections that the writer needs.
func (s *Service) OpenUnpaid(ctx context.Context, atLeast, most int) (map[int64]int64, error) {
	ctx, done, err := s.EnterReading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := orderdb.New(s.deps.DB).OpenUnpaid(ctx, orderdb.OpenUnpaidParams{AtLeast: int64(atLeast), AtMost: int32(most)}) //nolint:gosec // a setting
	if err != nil {
		return nil, fmt.Errorf("order: count open orders: %w", err)
	}
	open := make(map[int64]int64, len(rows))
	for _, r := range rows {
		open[r.UserID] = r.Orders
	}
	return open, nil
}
