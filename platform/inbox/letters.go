package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/ids"
)

// DeadLetter is a message that a consumer gave up on.
type DeadLetter struct {
	ID        ids.ID
	Consumer  string
	Subject   string
	MessageID string
	Payload   []byte
	Error     string
	Attempts  int
	CreatedAt time.Time
}

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Filter narrows a list; its zero value takes everything.
type Filter struct {
	Consumer string
	Before   ids.ID // only older ones; the zero ID is no bound
	Limit    int    // rows; 0 means all
}

// List returns the dead letters that pass the filter, newest first.
func List(ctx context.Context, db Querier, f Filter) ([]DeadLetter, error) {
	return read(ctx, db, `WHERE ($1 = '' OR consumer = $1) AND ($2 OR id < $3) ORDER BY id DESC LIMIT NULLIF($4, 0)`,
		f.Consumer, f.Before.IsZero(), f.Before, f.Limit)
}

// Get returns one dead letter, or ErrNotFound.
func Get(ctx context.Context, db Querier, id ids.ID) (DeadLetter, error) {
	list, err := read(ctx, db, `WHERE id = $1`, id)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return DeadLetter{}, err
	}
	return list[0], nil
}

func read(ctx context.Context, db Querier, where string, args ...any) ([]DeadLetter, error) {
	rows, err := db.Query(ctx, `
		SELECT id, consumer, subject, message_id, payload, error, attempts, created_at FROM platform.dead_letters `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("inbox: read dead letters: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DeadLetter])
	if err != nil {
		return nil, fmt.Errorf("inbox: read dead letters: %w", err)
	}
	return list, nil
}
