package order

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// OpenUnpaid returns how many orders wait for payment of each user who has at
// least so many, of at most so many users, those with the most first. It reads
// the rows that wait for payment once, by their own index, and takes a place
// among the readings: the question must not hold the connections that the
// writer needs.
func (s *Service) OpenUnpaid(ctx context.Context, atLeast, most int) (map[int64]int64, error) {
	ctx, done, err := s.enterReading(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	rows, err := s.deps.DB.Query(ctx, `
		SELECT user_id, count(*) FROM orders.orders WHERE status = 'pending_payment'
		GROUP BY user_id HAVING count(*) >= $1 ORDER BY 2 DESC, 1 LIMIT $2`, atLeast, most)
	if err != nil {
		return nil, fmt.Errorf("order: count open orders: %w", err)
	}
	open := make(map[int64]int64)
	var user, n int64
	if _, err := pgx.ForEachRow(rows, []any{&user, &n}, func() error {
		open[user] = n
		return nil
	}); err != nil {
		return nil, fmt.Errorf("order: count open orders: %w", err)
	}
	return open, nil
}
