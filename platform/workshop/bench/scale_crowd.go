package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"stampede/platform/workshop/loadgen"
)

const (
	// pathsPerSecond is the rate that even a small, busy machine issues paths
	// at; it determines how far ahead of the opening they are fetched.
	pathsPerSecond = 10_000
	// loadsPerSecond is the same for the first Loads of the items.
	loadsPerSecond = 50
	// openingMargin allows for publishing and for Redis's clock.
	openingMargin = 2 * time.Second
	// mostLead keeps the first path valid until the last is fetched; the server
	// issues none earlier than two minutes ahead.
	mostLead = 110 * time.Second
)

// gather plans the sales, creates a crowd for each and fetches its paths before
// they open, as far as time allows.
func (x sale) gather(ctx context.Context, s *Server, users int64) ([]*loadgen.Crowd, error) {
	seconds := float64(x.shoppers*x.times)/pathsPerSecond + float64(x.items*x.times)/loadsPerSecond
	opens := time.Now().Add(min(openingMargin+time.Duration(seconds*float64(time.Second)), mostLead))
	var crowds []*loadgen.Crowd
	for i := range x.times {
		items, err := s.plan(ctx, x.units()/x.items, x.items, opens)
		if err != nil {
			return crowds, err
		}
		crowds = append(crowds, s.newCrowd(items, x.shoppers, users+int64(i*x.shoppers), x.conns))
	}
	for _, c := range crowds {
		if err := allIssued(ctx, c.FetchPaths(ctx)); err != nil {
			return crowds, err
		}
	}
	return crowds, awaitOpening(ctx, opens)
}

// disband closes the crowds' connections.
func disband(crowds []*loadgen.Crowd) {
	for _, c := range crowds {
		c.Close()
	}
}

// writtenSeries counts the orders that the server has committed.
const writtenSeries = `stampede_order_grants_written_total{result="created"}`

// written reads that counter.
func (s *Server) written(ctx context.Context) (int64, error) {
	metrics, err := get(ctx, s.OpsURL+"/metrics", "")
	if err != nil {
		return 0, fmt.Errorf("bench: read metrics: %w", err)
	}
	for line := range strings.Lines(string(metrics)) {
		if value, ok := strings.CutPrefix(line, writtenSeries+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(n), err
		}
	}
	return 0, fmt.Errorf("bench: the server has no metric %s", writtenSeries)
}

const (
	// writtenEvery is how often the counter is read: each read costs the server
	// a millisecond.
	writtenEvery = 50 * time.Millisecond
	// writtenPatience is how long grants may take to become orders before the
	// sale is given up.
	writtenPatience = 2 * time.Minute
)

// awaitWritten waits until the counter has reached n and returns the time at
// which it did.
func (s *Server) awaitWritten(ctx context.Context, n int64) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, writtenPatience)
	defer cancel()
	for {
		have, err := s.written(ctx)
		switch {
		case err != nil:
			return time.Time{}, err
		case have >= n:
			return time.Now(), nil
		}
		if err := pause(ctx, writtenEvery); err != nil {
			return time.Time{}, fmt.Errorf("bench: %d of %d orders were written: %w", have, n, err)
		}
	}
}
