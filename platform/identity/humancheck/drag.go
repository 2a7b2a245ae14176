package humancheck

import (
	"math"
	"strings"
	"time"
)

// drag is how a slide's tile moved: its left edge, and when.
type drag []move

type move struct {
	at time.Duration // since the first move
	x  int           // pixels
}

// A drag as the header carries it: "<ms>,<x>;<ms>,<x>;…".
const (
	// maxMoves bounds a drag; the page sends 100, evenly thinned.
	maxMoves = 128
	// leastMoves and leastDrag are less than what people need. A browser reports a
	// move for each frame, and five presses of arrow keys are one each.
	leastMoves, leastDrag = 5, 200 * time.Millisecond
	// leastBend is how many pixels a drag is off the straight line from its first
	// move to its last at some moment: people start and stop, and a key that is held
	// repeats after a pause.
	leastBend = 2
)

// parseDrag parses a drag; false if it is none, or its times decrease.
func parseDrag(text string) (drag, bool) {
	var d drag
	for part := range strings.SplitSeq(text, ";") {
		ms, x, _ := strings.Cut(part, ",")
		at, ok := parseNumber(ms)
		edge, ok2 := parseNumber(x)
		next := move{at: time.Duration(at) * time.Millisecond, x: int(edge)} //nolint:gosec // bounded below
		if !ok || !ok2 || at > uint64(challengeLifetime/time.Millisecond) || edge > math.MaxInt16 ||
			len(d) == maxMoves || len(d) > 0 && next.at < d[len(d)-1].at {
			return nil, false
		}
		d = append(d, next)
	}
	return d, true
}

// byHand reports whether a person may have dragged the tile to x within a time.
func (d drag) byHand(x uint64, within time.Duration) bool {
	if len(d) < leastMoves {
		return false
	}
	first, last := d[0], d[len(d)-1]
	took := last.at - first.at
	if took < leastDrag || took > within || uint64(last.x) != x { //nolint:gosec // not negative
		return false
	}
	for _, m := range d {
		line := float64(first.x) + float64(last.x-first.x)*float64(m.at-first.at)/float64(took)
		if math.Abs(float64(m.x)-line) >= leastBend {
			return true
		}
	}
	return false
}
