package tally

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/watch/tally/internal/tallydb"
)

const (
	// foldEvery is the resolution of the curves.
	foldEvery = time.Second
	// keepCurves is how long the curves are kept: a quarter, so that a season's sales
	// can be compared.
	keepCurves = 90 * 24 * time.Hour
	// tidyEvery and tidyAtMost bound the deleting of old seconds: the locks are short, and
	// a day's rows of a busy shop go in a few rounds.
	tidyEvery  = 10 * time.Minute
	tidyAtMost = 50_000
	// lastFold bounds the fold of a stopping process.
	lastFold = 5 * time.Second
)

// fold is what one statement stores. It is kept unchanged until it is stored.
type fold struct {
	at       time.Time
	subjects []int64
	counts   []string // JSON
	marks    []mark
	moments  []Moment
}

// Workers are the loops that store the counts and delete old seconds.
func (b *Board) Workers() []app.Worker {
	return []app.Worker{{Name: "tally", Run: b.run}, {Name: "tally-gauges", Run: b.runGauges}, {Name: "tally-housekeeping", Run: app.Loop{
		Every: tidyEvery, Do: b.tidy, Log: b.log, Failed: "deleting old counts failed, retrying",
	}.Run}}
}

// run folds once a second, and once more when ctx ends: the modules that count have
// stopped by then.
func (b *Board) run(ctx context.Context) error {
	err := app.Loop{Every: foldEvery, Do: b.Fold, Log: b.log, Failed: "storing the funnel's counts failed, they gather in memory"}.Run(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFold)
	defer cancel()
	for range 2 { // the one that the end of ctx interrupted, and what came after it
		if ferr := b.Fold(last); ferr != nil {
			b.log.WarnContext(last, "the last counts of the funnel are lost", "error", ferr)
			break
		}
	}
	return err
}

// Fold stores what has been counted since the last one. If it fails, the same rows
// are stored by the next call. Only one goroutine may call it.
func (b *Board) Fold(ctx context.Context) error {
	if b.pending == nil {
		b.pending = b.collect()
	}
	f := b.pending
	if f == nil {
		return nil
	}
	err := pg.InTx(ctx, b.pool, func(tx pgx.Tx) error {
		q := tallydb.New(tx)
		if err := q.StoreCounts(ctx, tallydb.StoreCountsParams{At: f.at, Instance: b.instance, Subjects: f.subjects, Counts: f.counts}); err != nil || len(f.marks) == 0 {
			return err
		}
		into := tallydb.StoreMomentsParams{}
		for i, m := range f.marks {
			into.Subjects, into.Names = append(into.Subjects, m.subject), append(into.Names, m.name)
			into.Firsts, into.Lasts = append(into.Firsts, f.moments[i].First), append(into.Lasts, f.moments[i].Last)
		}
		return q.StoreMoments(ctx, into)
	})
	if err != nil {
		return fmt.Errorf("tally: store counts: %w", err)
	}
	b.pending = nil
	return nil
}

// collect takes what has been counted, nil for nothing. Rows are in the order of
// subjects, which is the order in which every instance locks the totals.
func (b *Board) collect() *fold {
	b.mu.Lock()
	counts, moments, sources := b.counts, b.moments, b.sources
	b.counts, b.moments = bySubject{}, map[mark]Moment{}
	b.mu.Unlock()
	for _, source := range sources {
		source(counts.add)
	}
	if len(counts) == 0 && len(moments) == 0 {
		return nil
	}
	// A second fold in one second would count as a repetition of the first, so that after a
	// clock has stood still or was set back the rows are those of another instance.
	if at := b.clock.Now().Truncate(time.Second); at.After(b.last) {
		b.last = at
	} else {
		b.last, b.instance = at, ids.New()
	}
	f := &fold{at: b.last}
	for _, subject := range slices.Sorted(maps.Keys(counts)) {
		packed, _ := json.Marshal(counts[subject]) // maps of numbers always encode
		f.subjects, f.counts = append(f.subjects, subject), append(f.counts, string(packed))
	}
	for m, at := range moments {
		f.marks, f.moments = append(f.marks, m), append(f.moments, at)
	}
	return f
}

// tidy deletes seconds that are too old.
func (b *Board) tidy(ctx context.Context) error {
	if err := tallydb.New(b.pool).DeleteSeconds(ctx, tallydb.DeleteSecondsParams{Keep: keepCurves, AtMost: tidyAtMost}); err != nil {
		return fmt.Errorf("tally: delete old seconds: %w", err)
	}
	return nil
}
