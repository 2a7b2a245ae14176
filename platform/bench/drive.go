package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/platform/loadgen/wire"
)

// clientTimeout bounds one request: longer than the server's own publish
// deadline, after which it answers.
const clientTimeout = 15 * time.Second

// clients are connections that ask in a closed loop: each sends its next request
// when it has read the answer to the last.
type clients struct {
	conns []*wire.Conn
}

func dial(addr string, n int) (*clients, error) {
	c := &clients{conns: make([]*wire.Conn, n)}
	for i := range c.conns {
		conn, err := wire.Dial(addr, clientTimeout)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connection %d of %d: %w", i+1, n, err)
		}
		c.conns[i] = conn
	}
	return c, nil
}

func (c *clients) close() {
	for _, conn := range c.conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

// errAgain asks for the same request once more, a little later.
var errAgain = errors.New("once more")

// againAfter is the pause before that: about a batch's time.
const againAfter = 10 * time.Millisecond

// play is what clients ask.
type play struct {
	// request appends the bytes of request i to b.
	request func(b []byte, i int) []byte
	// answer judges the answer to request i; errAgain repeats it, any other error
	// ends the run. conn is the number of the connection.
	answer func(i, conn int, resp *wire.Response) error
}

// drive sends n requests over all connections and returns how long each took
// that was answered for good.
func (c *clients) drive(ctx context.Context, n int, p play) (*hdrhistogram.Histogram, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// An interrupted run must not wait for answers that may never come.
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	var next atomic.Int64
	var group sync.WaitGroup
	latencies := make([]*hdrhistogram.Histogram, len(c.conns))
	for k, conn := range c.conns {
		latencies[k] = newLatencies()
		group.Go(func() {
			var req []byte
			var resp wire.Response
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				req = p.request(req[:0], i)
				if err := ask(ctx, conn, req, &resp, latencies[k], func() error { return p.answer(i, k, &resp) }); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	all := newLatencies()
	for _, h := range latencies {
		all.Merge(h)
	}
	return all, nil
}

// ask sends a request until its answer is good.
func ask(ctx context.Context, conn *wire.Conn, req []byte, resp *wire.Response, took *hdrhistogram.Histogram, judge func() error) error {
	for {
		began := time.Now()
		if err := conn.Do(req, resp); err != nil {
			return err
		}
		since := time.Since(began)
		switch err := judge(); {
		case err == nil:
			_ = took.RecordValue(min(since.Microseconds(), clientTimeout.Microseconds())) // within its range
			return nil
		case !errors.Is(err, errAgain):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(againAfter):
		}
	}
}

// newLatencies counts microseconds up to the longest that a request may take,
// with two significant digits.
func newLatencies() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, 2*clientTimeout.Microseconds(), 2)
}

// percentiles are the figures of a distribution, in milliseconds.
func percentiles(h *hdrhistogram.Histogram) map[string]float64 {
	return map[string]float64{
		figureMedian: float64(h.ValueAtQuantile(50)) / 1000,
		figureP99:    float64(h.ValueAtQuantile(99)) / 1000,
	}
}

// The names of the figures that percentiles gives.
const (
	figureMedian = "median"
	figureP99    = "p99"
)

// unexpected is the error for an answer of the wrong status.
func unexpected(resp *wire.Response, want int) error {
	const shown = 300 // of a problem document, all of it
	return fmt.Errorf("the server answered %d in place of %d: %s", resp.Status, want, resp.Body[:min(len(resp.Body), shown)])
}

// wants judges by the status alone.
func wants(status int) func(i, conn int, resp *wire.Response) error {
	return func(_, _ int, resp *wire.Response) error {
		if resp.Status != status {
			return unexpected(resp, status)
		}
		return nil
	}
}

// post appends a POST without a body and without a token.
func post(b []byte, addr, target string) []byte {
	return wire.AppendRequest(b, http.MethodPost, addr, target, "", nil)
}
