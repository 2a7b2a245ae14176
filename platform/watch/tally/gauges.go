package tally

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/app"
	"stampede/platform/watch/tally/internal/tallydb"
)

const (
	// reportEvery is how often an unchanged gauge is stored again, to say that its instance
	// is there.
	reportEvery = 5 * time.Second
	// reportedWithin is the age up to which a gauge counts: an instance that was killed is
	// missing after three reports.
	reportedWithin = 3 * reportEvery
	// keepGauges is how long the rows of an instance stay that was killed.
	keepGauges = time.Hour
)

// Gauge adds something that is not counted but measured, such as open sockets. Its sum
// over all instances is what Gauges returns. read is called about once a second.
func (b *Board) Gauge(name string, read func() int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gauges[name] = read
}

// runGauges reports until ctx ends, and then takes the instance's gauges away.
func (b *Board) runGauges(ctx context.Context) error {
	err := app.Loop{Every: foldEvery, Do: b.report, Log: b.log, Failed: "storing the instance's gauges failed, retrying"}.Run(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFold)
	defer cancel()
	if ferr := tallydb.New(b.pool).DeleteGauges(last, tallydb.DeleteGaugesParams{Instance: b.reporter, Keep: keepGauges}); ferr != nil {
		b.log.WarnContext(last, "the instance's gauges stay until they are too old to count", "error", ferr)
	}
	return err
}

// report stores the gauges if one has changed or the last report is old.
func (b *Board) report(ctx context.Context) error {
	b.mu.Lock()
	gauges := maps.Clone(b.gauges)
	b.mu.Unlock()
	values := make(map[string]int64, len(gauges))
	for name, read := range gauges {
		values[name] = read()
	}
	if len(values) == 0 || maps.Equal(values, b.reported) && time.Since(b.since) < reportEvery {
		return nil
	}
	into := tallydb.StoreGaugesParams{Instance: b.reporter, Names: slices.Sorted(maps.Keys(values))}
	for _, name := range into.Names {
		into.Numbers = append(into.Numbers, values[name])
	}
	if err := tallydb.New(b.pool).StoreGauges(ctx, into); err != nil {
		return fmt.Errorf("tally: store gauges: %w", err)
	}
	b.reported, b.since = values, time.Now()
	return nil
}

// Measured is a gauge over all instances.
type Measured struct {
	Sum       int64
	Instances int64 // that have reported it
}

// Gauges returns the gauges of all instances by name.
func Gauges(ctx context.Context, db *pgxpool.Pool) (map[string]Measured, error) {
	rows, err := tallydb.New(db).Gauges(ctx, reportedWithin)
	if err != nil {
		return nil, fmt.Errorf("tally: read gauges: %w", err)
	}
	all := make(map[string]Measured, len(rows))
	for _, row := range rows {
		all[row.Name] = Measured{row.Value, row.Instances}
	}
	return all, nil
}
