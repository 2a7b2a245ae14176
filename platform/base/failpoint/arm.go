package failpoint

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Variable is the environment variable that arms points.
const Variable = "STAMPEDE_FAILPOINTS"

const (
	// mostHits is more than any test needs; a larger number is a typo.
	mostHits = 1_000_000
	// longestPause keeps a forgotten pause from looking like a deadlock: it
	// ends within a time that a developer will wait.
	longestPause = time.Minute
)

// Arm arms the points that spec names, the value of Variable; an empty one arms
// nothing. Each is announced on notify, which is also written to when a point
// is reached, from several goroutines. A mistake in spec arms nothing and is
// returned as one error. main calls it once, before anything is started.
func Arm(spec string, notify io.Writer) error {
	if spec == "" {
		return nil
	}
	armings := make(map[*point]*arming)
	for entry := range strings.SplitSeq(spec, ",") {
		p, a, err := parse(strings.TrimSpace(entry))
		if err != nil {
			return fmt.Errorf("%s: %w", Variable, err)
		}
		if armings[p] != nil {
			return fmt.Errorf("%s: %s is listed twice", Variable, p.name)
		}
		a.notify = notify
		armings[p] = a
	}
	for _, name := range Names() {
		p := table[name]
		if a := armings[p]; a != nil {
			_, _ = fmt.Fprintf(notify, "stampede: WARNING: %s is set, which is for tests only: %s at hit %d of %s (%s)\n",
				Variable, a, a.nth, p.name, p.about)
			p.armed.Store(a)
		}
	}
	return nil
}

// parse reads one "name=action@n".
func parse(entry string) (*point, *arming, error) {
	name, what, ok := strings.Cut(entry, "=")
	if !ok {
		return nil, nil, fmt.Errorf("%q is not of the form NAME=kill@3", entry)
	}
	p := table[name]
	if p == nil {
		return nil, nil, fmt.Errorf("there is no fail point %q; the points are %s", name, strings.Join(Names(), ", "))
	}
	what, count, counted := strings.Cut(what, "@")
	a := &arming{nth: 1}
	if counted {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 1 || n > mostHits {
			return nil, nil, fmt.Errorf("%q: the number after @ is the hit to act on, 1 to %d", entry, mostHits)
		}
		a.nth = n
	}
	length, paused := strings.CutPrefix(what, "pause:")
	switch {
	case what == "kill":
		a.action = kill
	case what == "error" && !p.fails:
		return nil, nil, fmt.Errorf("%q: %s cannot return an error; use kill or pause:DURATION", entry, name)
	case what == "error":
		a.action = fail
	case paused:
		d, err := time.ParseDuration(length)
		if err != nil || d <= 0 || d > longestPause {
			return nil, nil, fmt.Errorf("%q: a pause is a duration such as 500ms, at most %s", entry, longestPause)
		}
		a.action, a.pause = pause, d
	default:
		return nil, nil, fmt.Errorf("%q: the actions are kill, error and pause:DURATION", entry)
	}
	return p, a, nil
}
