package qrlogin

import (
	"context"
	"fmt"
	"sync"

	"stampede/platform/base/ids"
)

// subject carries the ids of changed QR logins to every instance.
const subject = "broadcast.auth.qr"

// polls are the waiting requests on this instance. Safe for concurrent use.
type polls struct {
	most   int
	closed chan struct{} // closed when the process ends

	mu    sync.Mutex
	count int
	byID  map[ids.ID]*waiters
	over  bool
}

// waiters of one QR login share a channel, which the next change closes.
type waiters struct {
	change chan struct{}
	count  int
}

func newPolls(most int) *polls {
	return &polls{most: most, closed: make(chan struct{}), byID: map[ids.ID]*waiters{}}
}

// join returns a channel that the next change of id closes; nil when too many polls
// wait already. The caller must call leave.
func (p *polls) join(id ids.ID) (change <-chan struct{}, leave func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= p.most || p.over {
		return nil, func() {}
	}
	w := p.byID[id]
	if w == nil {
		w = &waiters{change: make(chan struct{})}
		p.byID[id] = w
	}
	w.count++
	p.count++
	return w.change, func() { p.leave(id, w) }
}

func (p *polls) leave(id ids.ID, w *waiters) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count--
	w.count--
	if w.count == 0 && p.byID[id] == w { // after a change others may have a new one
		delete(p.byID, id)
	}
}

// wake wakes id's polls.
func (p *polls) wake(id ids.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.byID[id]; w != nil {
		close(w.change)
		delete(p.byID, id)
	}
}

// close ends all waiting permanently. A second call does nothing.
func (p *polls) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.over = true
		close(p.closed)
	}
}

func (p *polls) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// changed counts a step and wakes the waiting polls on every instance.
func (s *Service) changed(ctx context.Context, id ids.ID, step string) {
	s.steps.WithLabelValues(step).Inc()
	s.polls.wake(id)
	if err := s.deps.Bus.Broadcast(subject, []byte(id.String())); err != nil {
		s.deps.Log.DebugContext(ctx, "broadcast of a QR login change failed, other instances find it by polling", "error", err)
	}
}

// listen handles broadcasts until ctx ends.
func (s *Service) listen(ctx context.Context) error {
	stop, err := s.deps.Bus.OnBroadcast(subject, func(data []byte) {
		if id, err := ids.Parse(string(data)); err == nil {
			s.polls.wake(id)
		}
	})
	if err != nil {
		return fmt.Errorf("qrlogin: %w", err)
	}
	defer stop()
	<-ctx.Done()
	return nil
}
