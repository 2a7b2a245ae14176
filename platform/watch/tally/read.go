package tally

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/watch/tally/internal/tallydb"
)

// Totals returns everything that was ever counted about each subject, on all
// instances, up to a second ago. Subjects of which nothing was counted are missing.
func Totals(ctx context.Context, db *pgxpool.Pool, subjects ...int64) (map[int64]Counts, error) {
	rows, err := tallydb.New(db).Totals(ctx, subjects)
	if err != nil {
		return nil, fmt.Errorf("tally: read totals: %w", err)
	}
	all := make(map[int64]Counts, len(rows))
	for _, row := range rows {
		if all[row.Subject], err = unpack(row.Counts); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Sum adds counts up, such as those of the items of a session.
func Sum(all map[int64]Counts) Counts {
	sum := Counts{}
	for _, c := range all {
		sum.merge(c)
	}
	return sum
}

// Moments returns the marks of the subjects by name, over all of them.
func Moments(ctx context.Context, db *pgxpool.Pool, subjects ...int64) (map[string]Moment, error) {
	rows, err := tallydb.New(db).Moments(ctx, subjects)
	if err != nil {
		return nil, fmt.Errorf("tally: read moments: %w", err)
	}
	all := make(map[string]Moment, len(rows))
	for _, row := range rows {
		all[row.Name] = Moment{row.FirstAt, row.LastAt}
	}
	return all, nil
}

// Busiest is the most that a stage counted in one second since so long ago, over all
// subjects and instances; 0 if it counted nothing.
func Busiest(ctx context.Context, db *pgxpool.Pool, stage string, since time.Duration) (int64, error) {
	most, err := tallydb.New(db).Busiest(ctx, tallydb.BusiestParams{Stage: stage, Within: since})
	if err != nil {
		return 0, fmt.Errorf("tally: read the busiest second: %w", err)
	}
	return most, nil
}

func unpack(raw []byte) (Counts, error) {
	c := Counts{}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("tally: decode counts: %w", err)
	}
	return c, nil
}
