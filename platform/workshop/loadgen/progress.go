package loadgen

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Snapshot is the progress of a run.
type Snapshot struct {
	Phase   string           `json:"phase"`
	Done    int64            `json:"done"`
	Total   int64            `json:"total"` // 0 if the phase only waits
	Waits   time.Duration    `json:"-"`     // until the end of such a phase; 0 if it has none
	Answers map[string]int64 `json:"answers"`
}

func (r *run) snapshot() Snapshot {
	phase, _ := r.phase.Load().(string)
	done := r.done.Load()
	if phase == "settle" {
		done = r.settled.Load() // followers work long before their phase begins
	}
	s := Snapshot{Phase: phase, Done: done, Total: r.total.Load(), Answers: r.tally.counts()}
	if end := r.waits.Load(); end != nil {
		s.Waits = max(time.Until(*end), 0)
	}
	return s
}

// How often the bar is redrawn on a terminal, or a line is written elsewhere.
const (
	redrawEvery = 100 * time.Millisecond
	lineEvery   = 2 * time.Second
	// countdownLines is about how many more lines a countdown prints from any
	// moment on: a wait of a day must not log every second.
	countdownLines = 10
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
				case now.Sub(lastLine) >= max(lineEvery, s.Waits/countdownLines):
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

// line formats the bar with its figures, or the countdown of a phase that only waits.
func (s Snapshot) line() string {
	switch {
	case s.Total == 0 && s.Waits > 0:
		left := (s.Waits + time.Second - 1).Truncate(time.Second)
		return fmt.Sprintf("%s, %s to go, until %s", s.Phase, left, clockTime(time.Now().Add(left)))
	case s.Total == 0:
		return s.Phase + " …"
	}
	filled := int(min(s.Done, s.Total) * barWidth / s.Total)
	line := fmt.Sprintf("%-13s %s%s %d/%d", s.Phase, strings.Repeat("█", filled), strings.Repeat("░", barWidth-filled), s.Done, s.Total)
	if won := s.Answers[answerQueued]; won > 0 {
		line += fmt.Sprintf("  in line %d", won)
	}
	return line
}
