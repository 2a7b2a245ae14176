package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"stampede/platform/auth"
	"stampede/platform/loadgen"
)

const (
	// pathsPerSecond is what even a small, busy machine issues; it decides how far
	// ahead of the opening the paths are fetched.
	pathsPerSecond = 10_000
	// loadsPerSecond is the same for the first Loads of the items.
	loadsPerSecond = 50
	// openingMargin is for publishing and for Redis's clock.
	openingMargin = 2 * time.Second
	// mostLead keeps the first path fresh until the last is there; the server gives
	// none out earlier than two minutes ahead.
	mostLead = 110 * time.Second
)

// gather plans the sales, gathers a crowd for each and has its paths fetched
// before they open, so far as there is time.
func (x sale) gather(ctx context.Context, s *Server, users int64) ([]*loadgen.Crowd, error) {
	token, err := s.rig.tokens.Mint(auth.Principal{UserID: 1, Role: auth.Operator}, time.Hour)
	if err != nil {
		return nil, err
	}
	seconds := float64(x.shoppers*x.times)/pathsPerSecond + float64(x.items*x.times)/loadsPerSecond
	opens := time.Now().Add(min(openingMargin+time.Duration(seconds*float64(time.Second)), mostLead))
	var crowds []*loadgen.Crowd
	for i := range x.times {
		planned, err := loadgen.PlanSale(ctx, s.URL, token, loadgen.Sale{
			Name: "Scale", Title: "Benchmark phone", Stock: x.units() / x.items, Items: x.items,
			OpensAt: opens, Open: 6 * time.Hour, PayAfter: 6 * time.Hour,
		})
		if err != nil {
			return crowds, err
		}
		var items []int64
		for _, id := range planned.ItemIDs {
			item, err := strconv.ParseInt(id, 10, 64)
			if err != nil {
				return crowds, fmt.Errorf("bench: the planned item: %w", err)
			}
			items = append(items, item)
		}
		crowds = append(crowds, loadgen.NewCrowd(loadgen.CrowdConfig{
			BaseURL: s.URL, Items: items, Shoppers: x.shoppers, FirstUser: users + int64(i*x.shoppers), Connections: x.conns, Token: s.rig.Token,
		}))
	}
	for _, c := range crowds {
		if issued, refused := c.FetchPaths(ctx); issued < x.shoppers {
			return crowds, errors.Join(ctx.Err(), fmt.Errorf("%d of %d shoppers got a path: %v", issued, x.shoppers, refused))
		}
	}
	// Redis's clock decides; it is this machine's, to the millisecond.
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(opens) + 50*time.Millisecond):
	}
	return crowds, ctx.Err()
}

// disband ends the crowds' connections.
func disband(crowds []*loadgen.Crowd) {
	for _, c := range crowds {
		c.Close()
	}
}

// writtenSeries counts the orders that the server has committed.
const writtenSeries = `stampede_order_grants_written_total{result="created"}`

// written reads that counter.
func (s *Server) written(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.OpsURL+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("bench: read metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), writtenSeries+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			return int64(n), err
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("bench: the server has no metric %s", writtenSeries))
}

const (
	// writtenEvery is how often the counter is read: a look costs the server a
	// millisecond.
	writtenEvery = 50 * time.Millisecond
	// writtenPatience is when a sale is given up whose grants do not become orders.
	writtenPatience = 2 * time.Minute
)

// awaitWritten waits until the counter has reached n and returns when it had.
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
		select {
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("bench: %d of %d orders were written: %w", have, n, ctx.Err())
		case <-time.After(writtenEvery):
		}
	}
}
