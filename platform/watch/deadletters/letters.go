package deadletters

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/ids"
	"stampede/platform/watch/deadletters/internal/deadlettersdb"
)

// Letter is a message that a consumer gave up on.
type Letter = deadlettersdb.PlatformDeadLetter

// Filter narrows a list; the zero value matches every letter.
type Filter struct {
	Consumer string
	Before   ids.ID // only older ones; the zero ID is no bound
	Limit    int    // rows; 0 means all
}

// List returns the dead letters that match the filter, newest first.
func List(ctx context.Context, db *pgxpool.Pool, f Filter) ([]Letter, error) {
	list, err := deadlettersdb.New(db).DeadLetters(ctx, deadlettersdb.DeadLettersParams{
		Consumer: f.Consumer, FromNewest: f.Before.IsZero(), Before: f.Before, AtMost: int32(f.Limit), //nolint:gosec // a page
	})
	if err != nil {
		return nil, fmt.Errorf("deadletters: read dead letters: %w", err)
	}
	return list, nil
}

// Get returns one dead letter, or ErrNotFound.
func Get(ctx context.Context, db *pgxpool.Pool, id ids.ID) (Letter, error) {
	d, err := deadlettersdb.New(db).DeadLetter(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Letter{}, ErrNotFound
	}
	if err != nil {
		return Letter{}, fmt.Errorf("deadletters: read dead letter: %w", err)
	}
	return d, nil
}
