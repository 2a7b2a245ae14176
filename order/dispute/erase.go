package dispute

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/dispute/internal/disputedb"
	"stampede/platform/store/pg"
)

// Forget marks the disputes of a user who deletes the account, in the transaction that
// does: Erase removes what was written as soon as they are closed.
func Forget(ctx context.Context, tx pgx.Tx, user int64) error {
	if err := disputedb.New(tx).Forget(ctx, user); err != nil {
		return fmt.Errorf("dispute: forget: %w", err)
	}
	return nil
}

// eraseLimit is how many disputes one statement erases.
const eraseLimit = 500

// Erase removes what was written in disputes that were closed longer ago than keep, or
// closed at all and whose shopper has deleted the account: both sides' texts may name
// people. That there was a dispute, and how it ended, stays.
func Erase(ctx context.Context, db pg.DB, keep time.Duration) error {
	for {
		n, err := disputedb.New(db).Erase(ctx, disputedb.EraseParams{Keep: keep, AtMost: eraseLimit})
		if err != nil {
			return fmt.Errorf("dispute: erase: %w", err)
		}
		if n < eraseLimit {
			return nil
		}
	}
}
