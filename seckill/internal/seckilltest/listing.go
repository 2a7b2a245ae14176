package seckilltest

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
)

// Listing is what is published, which the test sets, with its catalogue.
type Listing struct {
	*catalogue.Catalogue
	t testing.TB

	mu    sync.Mutex
	items []*catalogue.Item
	shown int // how often the items were replaced
	err   error
	reads int
}

// NewListing returns a catalogue that shows the items.
func NewListing(t testing.TB, items ...*catalogue.Item) *Listing {
	t.Helper()
	s := &Listing{t: t}
	var err error
	if s.Catalogue, err = catalogue.New(s, slog.New(slog.DiscardHandler), prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	s.Show(items...)
	return s
}

// Show replaces what is published and refreshes the catalogue.
func (s *Listing) Show(items ...*catalogue.Item) {
	s.t.Helper()
	s.Plan(items...)
	require.NoError(s.t, s.Refresh(s.t.Context()))
}

// Plan replaces what is published without refreshing the catalogue.
func (s *Listing) Plan(items ...*catalogue.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items, s.shown = items, s.shown+1
}

// Fail makes reading the plan fail with err, or succeed again if err is nil.
func (s *Listing) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Reads is how often the whole plan was read.
func (s *Listing) Reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// Fingerprint differs between sets of items.
func (s *Listing) Fingerprint(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.Itoa(s.shown), s.err
}

// Published are the items.
func (s *Listing) Published(ctx context.Context) (catalogue.Published, error) {
	fingerprint, err := s.Fingerprint(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	p := catalogue.Published{Fingerprint: fingerprint, Items: append([]*catalogue.Item(nil), s.items...), Sessions: map[int64]int64{}}
	for _, item := range s.items {
		p.Sessions[item.SessionID] = item.ActivityID
	}
	return p, err
}
