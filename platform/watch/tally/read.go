package tally

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

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
func Busiest(ctx context.Context, db *pgxpool.Pool, stage string, since time.Duration) (int64, error) {
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

const (
	// maxRows bounds what one curve reads, in some seconds: ten items for a day of seconds on
	// one instance. Only seconds in which something was counted have a row.
	maxRows = 1_000_000
	// pageRows is how many of them are in memory at a time, some megabytes.
	pageRows = 20_000
)

// Curve returns the subjects' counts together in steps between from and until,
// without steps in which nothing happened. step is whole seconds, at least one.
// Of a subject with more than its share of the bound it has the first part.
func Curve(ctx context.Context, db pg.DB, from, until time.Time, step time.Duration, subjects ...int64) ([]Point, error) {
	steps := make(map[time.Time]Counts)
	for _, subject := range subjects {
		most := max(maxRows/len(subjects), 1)
		p := tallydb.SecondsParams{Subject: subject, AfterAt: from, UntilAt: until, AtMost: int32(min(pageRows, most))} //nolint:gosec // at most pageRows
		err := eachSecond(ctx, db, p, most, func(at time.Time, counts Counts) {
			at = at.UTC().Truncate(step)
			if steps[at] == nil {
				steps[at] = Counts{}
			}
			steps[at].merge(counts)
		})
		if err != nil {
			return nil, err
		}
	}
	curve := make([]Point, 0, len(steps))
	for at, counts := range steps {
		curve = append(curve, Point{At: at, Counts: counts})
	}
	slices.SortFunc(curve, func(a, b Point) int { return a.At.Compare(b.At) })
	return curve, nil
}

// eachSecond reads a subject's rows in pages of p.AtMost, as many pages as most has
// begun.
func eachSecond(ctx context.Context, db pg.DB, p tallydb.SecondsParams, most int, each func(at time.Time, counts Counts)) error {
	for read := 0; read < most; read += int(p.AtMost) {
		rows, err := tallydb.New(db).Seconds(ctx, p)
		if err != nil {
			return fmt.Errorf("tally: read seconds: %w", err)
		}
		for _, row := range rows {
			counts, err := unpack(row.Counts)
			if err != nil {
				return err
			}
			each(row.At, counts)
		}
		if len(rows) < int(p.AtMost) {
			break
		}
		last := rows[len(rows)-1]
		p.AfterAt, p.AfterInstance = last.At, last.Instance
	}
	return nil
}

func unpack(raw []byte) (Counts, error) {
	c := Counts{}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("tally: decode counts: %w", err)
	}
	return c, nil
}
