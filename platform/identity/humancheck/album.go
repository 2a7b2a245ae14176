package humancheck

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// album is a bounded stock of slide pictures, each of which is handed out once. One
// goroutine draws; callers wait for it when the stock is empty.
type album struct {
	ready  chan picture
	wanted chan struct{} // closed by the first request for a picture
	once   sync.Once
	misses prometheus.Counter

	// patience is how long a caller waits: maxPictureWait except in tests.
	patience time.Duration
}

func newAlbum(size int, reg prometheus.Registerer) *album {
	auto := promauto.With(reg)
	a := &album{
		ready: make(chan picture, size), wanted: make(chan struct{}), patience: maxPictureWait,
		misses: auto.NewCounter(prometheus.CounterOpts{
			Name: "stampede_human_pictures_missed_total", Help: "Requests for a slide picture that found the stock empty, so that the shopper had to wait.",
		}),
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stampede_human_pictures", Help: "Slide pictures in stock.",
	}, func() float64 { return float64(len(a.ready)) })
	return a
}

// want starts the worker. A shop that never shows a slide never draws one.
func (a *album) want() { a.once.Do(func() { close(a.wanted) }) }

// maxPictureWait is how long a shopper waits for a picture. When requests outrun the
// drawing, failing is better than waiting longer.
const maxPictureWait = 2 * time.Second

// take returns a picture that is handed out to no other caller.
func (a *album) take(ctx context.Context) (picture, error) {
	a.want()
	select {
	case p := <-a.ready:
		return p, nil
	default:
	}
	a.misses.Inc()
	ctx, cancel := context.WithTimeout(ctx, a.patience)
	defer cancel()
	select {
	case p := <-a.ready:
		return p, nil
	case <-ctx.Done():
		return picture{}, fmt.Errorf("humancheck: wait for a slide picture: %w", ctx.Err())
	}
}

// idleShare is how many parts of the time the worker rests for each part that it
// draws while pictures are in stock: an expected crowd needs the processor more than
// the stock does.
const idleShare = 3

// run keeps the stock full until ctx ends.
func (a *album) run(ctx context.Context) error {
	select {
	case <-a.wanted:
	case <-ctx.Done():
		return nil
	}
	artist, err := newArtist()
	if err != nil {
		return err
	}
	for {
		began := time.Now()
		p, err := artist.draw()
		if err != nil {
			return err
		}
		took := time.Since(began)
		select {
		case a.ready <- p:
		case <-ctx.Done():
			return nil
		}
		if len(a.ready) == 0 {
			continue // a caller was waiting for it, and others may be too
		}
		rest := time.NewTimer(idleShare * took)
		select {
		case <-rest.C:
		case <-ctx.Done():
			rest.Stop()
			return nil
		}
	}
}
