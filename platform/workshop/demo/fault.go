package demo

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/watch/proof"
)

// outage is a failure of Redis, in progress or the last one.
type outage struct {
	began      time.Time
	Running    bool    `json:"running"`
	Seconds    float64 `json:"seconds"`          // that it has lasted, while it runs
	Away       float64 `json:"away,omitempty"`   // seconds without Redis
	Healed     float64 `json:"healed,omitempty"` // seconds until everything worked again
	Checks     int     `json:"checks,omitempty"` // of the books, after that
	Violations int     `json:"violations"`       // that they found
	Error      string  `json:"error,omitempty"`
}

const (
	// lookEvery is how exactly an outage is measured.
	lookEvery = 50 * time.Millisecond
	// healthyFor is how long everything must work before an outage counts as over: the
	// items' own check runs once a second.
	healthyFor = 3 * time.Second
	// healsWithin bounds an outage; the promise is ten seconds.
	healsWithin = time.Minute
)

var errKilled = errBusy.Saying(
	fault.T("Redis was killed a moment ago; wait until everything works again.", "Redis 刚被结束，请等待全部恢复。"))

// killRedis ends Redis while the page looks on. Only one outage runs at a time: a second
// one would be part of the first.
func (s *Service) killRedis(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	busy := s.outage != nil && s.outage.Running
	if !busy {
		s.outage = &outage{Running: true, began: time.Now()}
	}
	o := s.outage
	s.mu.Unlock()
	if busy {
		httpx.WriteProblem(w, r, errKilled)
		return
	}
	s.wait.Go(func() { s.endure(s.ctx, o) })
	answer(w, map[string]any{})
}

// endure kills Redis, measures how long it and the sale are away, and proves the books.
func (s *Service) endure(ctx context.Context, o *outage) {
	ctx, cancel := context.WithTimeout(ctx, healsWithin)
	defer cancel()
	err := s.deps.KillRedis(ctx)
	var away, healed time.Duration
	for well := time.Now(); err == nil && time.Since(well) < healthyFor; {
		_, components := s.deps.Readiness(ctx)
		if components["redis"] == nil && away == 0 { // the check waits while Redis starts
			away = time.Since(o.began)
			healed = away // the check may have failed at no other moment
		}
		for _, wrong := range components {
			if wrong != nil {
				well, healed = time.Now(), time.Since(o.began)
			}
		}
		s.mu.Lock()
		o.Away, o.Healed = away.Seconds(), healed.Seconds()
		s.mu.Unlock()
		err = app.Sleep(ctx, lookEvery)
	}
	var outcomes []proof.Outcome
	if err == nil {
		outcomes = s.deps.Prove(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Running, o.Checks = false, len(outcomes)
	for _, x := range outcomes {
		o.Violations += len(x.Violations)
		o.Error = cmp.Or(o.Error, x.Error)
	}
	if err != nil {
		o.Error = fmt.Sprintf("not well again after %s: %v", time.Since(o.began).Round(time.Second), err)
	}
}
