package rush

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/platform/base/ids"
)

// gate blocks the decisions of an instance until the test lets them through.
type gate struct {
	asked chan int      // attempts of each decision that waits
	pass  chan struct{} // one for each; closed for all
	open  func()        // lets all decisions through from now on
	total atomic.Int64
}

func (i *instance) gate() *gate {
	g := &gate{asked: make(chan int, 1000), pass: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.pass) })
	i.T.Cleanup(g.open) // before the lanes are drained
	inner := i.rush.lanes.stock
	i.rush.lanes.stock = &faultyStock{stock: inner, reserve: func(n int, decide func() error) error {
		g.total.Add(int64(n))
		g.asked <- n
		<-g.pass
		return decide()
	}}
	return g
}

// waiter is an attempt that is put into a lane without a handler.
func waiter(ctx context.Context, user int64) *attempt {
	return &attempt{ctx: ctx, user: user, no: ids.NewFor(user), quantity: 1, done: make(chan struct{}, 1)}
}

func mustEnter(t *testing.T, l *lane, a *attempt) *attempt {
	t.Helper()
	if o, in := l.enter(a, time.Now()); !in {
		t.Fatalf("refused as %v", o)
	}
	return a
}

func (a *attempt) wait(t *testing.T) verdict {
	t.Helper()
	select {
	case <-a.done:
		return a.verdict
	case <-time.After(30 * time.Second):
		t.Fatal("an attempt was never answered")
		return verdict{}
	}
}

// busy enters an attempt and returns when its decision is blocked, and with it
// the lane.
func busy(t *testing.T, l *lane, g *gate, user int64) []*attempt {
	t.Helper()
	a := mustEnter(t, l, waiter(t.Context(), user))
	<-g.asked
	return []*attempt{a}
}
