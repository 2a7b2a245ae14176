package tally

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/store/pg"
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
func Busiest(ctx context.Context, db pg.DB, stage string, since time.Duration) (int64, error) {
	most, err := tallydb.New(db).Busiest(ctx, tallydb.BusiestParams{Stage: stage, Within: since})
	if err != nil {
		return 0, fmt.Errorf("tally: read the busiest second: %w", err)
	}
	return most, nil
}

// Point is a step of a curve: what was counted from At on for one step.
type Point struct {
	At     time.Time
	Counts Counts
}

// seconds are read one after the other, of which sqlc would keep all in memory.
const seconds = `SELECT at, counts FROM platform.tally WHERE subject = ANY($1::bigint[]) AND at >= $2 AND at < $3`

// Curve returns the subjects' counts together in steps between from and until,
// without steps in which nothing happened. step is whole seconds, at least one. It adds
// up here, in half the time that Postgres takes to sum every code of every stage, and
// costs little memory however many seconds and subjects there are.
func Curve(ctx context.Context, db pg.DB, from, until time.Time, step time.Duration, subjects ...int64) ([]Point, error) {
	steps := make(map[time.Time]Counts)
	var at time.Time
	var raw []byte
	rows, _ := db.Query(ctx, seconds, subjects, from, until) // ForEachRow returns its error
	_, err := pgx.ForEachRow(rows, []any{&at, &raw}, func() error {
		counts, err := unpack(raw)
		at := at.UTC().Truncate(step)
		if steps[at] == nil {
			steps[at] = Counts{}
		}
		steps[at].merge(counts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tally: read seconds: %w", err)
	}
	curve := make([]Point, 0, len(steps))
	for at, counts := range steps {
		curve = append(curve, Point{At: at, Counts: counts})
	}
	slices.SortFunc(curve, func(a, b Point) int { return a.At.Compare(b.At) })
	return curve, nil
}

func unpack(raw []byte) (Counts, error) {
	c := Counts{}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("tally: decode counts: %w", err)
	}
	return c, nil
}
