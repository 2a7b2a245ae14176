package loadgen

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"stampede/platform/base/app"
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
func (r *run) showProgress(ctx context.Context) (stop func()) {
	out := r.cfg.Progress
	if out == nil {
		out = io.Discard
	}
	const wipe = "\r\x1b[K"
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var drawing sync.WaitGroup
	drawing.Go(func() {
		for lastLine := (time.Time{}); app.Sleep(ctx, redrawEvery) == nil; {
			s := r.snapshot()
			if r.cfg.Observe != nil {
				r.cfg.Observe(s)
			}
			if r.cfg.Terminal {
				_, _ = fmt.Fprint(out, wipe+s.line())
			} else if time.Since(lastLine) >= max(lineEvery, s.Waits/countdownLines) {
				lastLine = time.Now()
				_, _ = fmt.Fprintln(out, s.line())
			}
		}
		if r.cfg.Terminal {
			_, _ = fmt.Fprint(out, wipe)
		}
	})
	return func() { cancel(); drawing.Wait() }
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
