package bus

import "sync"

// signal wakes all waiters each time it is fired. The zero value is ready.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next fire closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
