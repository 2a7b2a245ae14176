package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/store/outbox/internal/outboxdb"
)

// Oldest returns the subject and the age of the oldest unsent event, or "" and
// 0 if all are sent.
func Oldest(ctx context.Context, pool *pgxpool.Pool) (subject string, age time.Duration, err error) {
	oldest, err := outboxdb.New(pool).OldestUnsent(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("outbox: read the oldest row: %w", err)
	}
	return oldest.Subject, time.Duration(oldest.Age * float64(time.Second)), nil
}
