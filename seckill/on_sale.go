package seckill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/seckill/internal/seckilldb"
)

// WhenOnSale returns the first opening and the last closing of the sessions that
// match the item, the session and the activity, where each may be nil for any;
// known is false when none matches. The order search uses it to bound the order
// numbers.
func (s *Service) WhenOnSale(ctx context.Context, item, session, activity *int64) (opens, closes time.Time, known bool, err error) {
	span, err := seckilldb.New(s.deps.DB).WhenOnSale(ctx, seckilldb.WhenOnSaleParams{ItemID: item, SessionID: session, ActivityID: activity})
	if errors.Is(err, pgx.ErrNoRows) {
		return opens, closes, false, nil
	}
	if err != nil {
		return opens, closes, false, fmt.Errorf("seckill: read when something was on sale: %w", err)
	}
	return span.OpensAt, span.ClosesAt, true, nil
}
