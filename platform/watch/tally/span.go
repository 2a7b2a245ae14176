package tally

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/watch/tally/internal/tallydb"
)

// Span is a time span of subjects. Until is not part of it.
type Span struct {
	From, Until time.Time
	Subjects    []int64
}

// StageCurve returns what a stage counted in steps, over all subjects and instances, without
// steps in which nothing happened. Unlike Curve it adds up in Postgres, which sends no row of
// the other stages. step divides a day.
func StageCurve(ctx context.Context, db *pgxpool.Pool, stage string, step time.Duration, of Span) ([]Point, error) {
	rows, err := tallydb.New(db).StageCurve(ctx, tallydb.StageCurveParams{Step: step, Stage: stage, Subjects: of.Subjects, FromAt: of.From, UntilAt: of.Until})
	if err != nil {
		return nil, fmt.Errorf("tally: read steps: %w", err)
	}
	var steps []Point
	for _, row := range rows {
		if len(steps) == 0 || !steps[len(steps)-1].At.Equal(row.At) {
			steps = append(steps, Point{At: row.At.UTC(), Counts: Counts{}})
		}
		steps[len(steps)-1].Counts.Add(stage, row.Code, row.N)
	}
	return steps, nil
}

// BusiestSecond is the second of a span in which a stage counted most, and how much;
// false if it counted nothing.
func BusiestSecond(ctx context.Context, db *pgxpool.Pool, stage string, of Span) (at time.Time, n int64, ok bool, err error) {
	row, err := tallydb.New(db).BusiestSecond(ctx, tallydb.BusiestSecondParams{Stage: stage, Subjects: of.Subjects, FromAt: of.From, UntilAt: of.Until})
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, 0, false, nil
	}
	if err != nil {
		return time.Time{}, 0, false, fmt.Errorf("tally: read the busiest second: %w", err)
	}
	return row.At.UTC(), row.N, true, nil
}

// Since adds up what was counted about the subjects from a second on, over all
// instances.
func Since(ctx context.Context, db *pgxpool.Pool, from time.Time, subjects ...int64) (Counts, error) {
	rows, err := tallydb.New(db).Since(ctx, tallydb.SinceParams{Subjects: subjects, FromAt: from})
	if err != nil {
		return nil, fmt.Errorf("tally: read the last counts: %w", err)
	}
	sum := Counts{}
	for _, row := range rows {
		sum.Add(row.Stage, row.Code, row.N)
	}
	return sum, nil
}
