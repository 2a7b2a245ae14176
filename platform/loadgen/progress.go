package loadgen

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Snapshot is how far a run is.
type Snapshot struct {
	Phase   string           `json:"phase"`
	Done    int64            `json:"done"`
	Total   int64            `json:"total"` // 0 where the phase only waits
	Answers map[string]int64 `json:"answers"`
}

func (r *run) snapshot() Snapshot {
	phase, _ := r.phase.Load().(string)
	done := r.done.Load()
	if phase == "settle" {
		done = r.settled.Load() // followers are at work long before their phase begins
	}
	return Snapshot{Phase: phase, Done: done, Total: r.total.Load(), Answers: r.tally.counts()}
}

// How often a bar is redrawn on a terminal, and a line written elsewhere.
const (
	redrawEvery = 100 * time.Millisecond
	lineEvery   = 2 * time.Second
)

// showProgress draws until the returned function is called; it may be called
// twice.
func (r *run) showProgress() (stop func()) {
	if r.cfg.Progress == nil && r.cfg.Observe == nil {
		return func() {}
	}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(redrawEvery)
		defer tick.Stop()
		var lastLine time.Time
		for {
			select {
			case <-done:
				if r.cfg.Terminal && r.cfg.Progress != nil {
					_, _ = fmt.Fprint(r.cfg.Progress, "\r\x1b[K")
				}
				return
			case now := <-tick.C:
				s := r.snapshot()
				if r.cfg.Observe != nil {
					r.cfg.Observe(s)
				}
				switch {
				case r.cfg.Progress == nil:
				case r.cfg.Terminal:
					_, _ = fmt.Fprint(r.cfg.Progress, "\r\x1b[K"+s.line())
				case now.Sub(lastLine) >= lineEvery:
					lastLine = now
					_, _ = fmt.Fprintln(r.cfg.Progress, s.line())
				}
			}
		}
	}()
	var once sync.Once
	return func() { once.Do(func() { close(done); <-finished }) }
}

// barWidth is the bar's length in characters; with words and figures the line
// stays within 80.
const barWidth = 30

// line is the bar with its figures, or the phase alone where nothing is counted.
func (s Snapshot) line() string {
	if s.Total == 0 {
		return s.Phase + " …"
	}
	filled := int(min(s.Done, s.Total) * barWidth / s.Total)
	line := fmt.Sprintf("%-13s %s%s %d/%d", s.Phase, strings.Repeat("█", filled), strings.Repeat("░", barWidth-filled), s.Done, s.Total)
	if won := s.Answers[answerQueued]; won > 0 {
		line += fmt.Sprintf("  in line %d", won)
	}
	return line
}
