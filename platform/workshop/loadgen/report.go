package loadgen

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"stampede/platform/watch/proof"
)

// Report is the result of a run.
type Report struct {
	ItemID    int64              `json:"item_id,string"`
	Title     string             `json:"title"`
	Shoppers  int                `json:"shoppers"`
	Sockets   int                `json:"sockets"`
	Seconds   float64            `json:"seconds"`    // from the first attempt to the last answer
	PerSecond float64            `json:"per_second"` // attempts answered, over that time
	Answers   map[string]int64   `json:"answers"`
	Latency   map[string]Latency `json:"latency_ms"`
	// AllVisible is the seconds from the first attempt until every winner had an order.
	AllVisible float64 `json:"all_winners_had_orders_after_seconds"`
	// MaxConcurrent is the minimum --max-concurrent of the server for as many
	// paths per second as this run got: by Little's law, that many requests are
	// in flight if each takes as long as the slowest in a hundred. 0 if no
	// paths were fetched in advance.
	MaxConcurrent int              `json:"suggested_max_concurrent,omitempty"`
	Door          *DoorReport      `json:"door,omitempty"` // nil if the item required nothing
	Outcomes      map[string]int64 `json:"outcomes"`       // winners by last known status
	Troubles      map[string]int64 `json:"troubles,omitempty"`
	Violations    []Violation      `json:"violations"`
	NotKnown      *NotKnown        `json:"not_known,omitempty"` // nil if every winner's outcome is known or reported as a broken promise

	Entries []proof.ClientRecord `json:"-"`
}

// NotKnown are the numbers answered 202 by a server that went away before it
// reported their outcome.
type NotKnown struct {
	Count int      `json:"count"`
	First []string `json:"first"` // the first few numbers
}

// shownNumbers is how many of many numbers a report lists: enough to look one up.
const shownNumbers = 3

func (n *NotKnown) add(no string) *NotKnown {
	if n == nil {
		n = &NotKnown{}
	}
	if n.Count++; n.Count <= shownNumbers {
		n.First = append(n.First, no)
	}
	return n
}

// Latency is a distribution in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// histogram covers 1 µs to 5 min with three significant figures.
func histogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(5*time.Minute/time.Microsecond), 3)
}

// record adds a duration to a histogram, clamped to its range.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), int64(5*time.Minute/time.Microsecond))) // clamped into the range, so it cannot fail
}

func summarize(h *hdrhistogram.Histogram) Latency {
	ms := func(v int64) float64 { return float64(v) / 1000 }
	return Latency{h.TotalCount(), ms(h.ValueAtQuantile(50)), ms(h.ValueAtQuantile(90)), ms(h.ValueAtQuantile(99)), ms(h.Max())}
}

// report summarizes the crowd after every winner has settled or the wait has
// timed out. A shopper counts as a winner after a 202, and also without any
// answer: the order's status decides whether that attempt won. If the run was
// interrupted or its server went away, it is unknown whether an order exists.
func (r *run) report(began time.Duration, v Volley, end ending) *Report {
	rep := &Report{
		ItemID: r.cfg.ItemID, Title: r.item.Title, Shoppers: len(r.shoppers), Sockets: r.sockets.open,
		Seconds: v.Elapsed.Seconds(), PerSecond: v.PerSecond(), Outcomes: map[string]int64{},
		Entries: r.Entries(r.cfg.FirstUser),
	}
	visible, push := histogram(), histogram()
	for i := range r.shoppers {
		s := &r.shoppers[i]
		if !slices.Contains(leftToStatus, s.answer) {
			continue
		}
		status, seen, pushed := "", time.Duration(0), time.Duration(0)
		unheard := end == deserted
		if s.trail != nil {
			unheard = unheard || end == waitedOut && s.trail.silent
			status, seen, pushed = s.trail.state()
		}
		lost := s.answer == answerQueued && seen == 0
		switch {
		case lost && status != gone && unheard:
			rep.NotKnown = rep.NotKnown.add(s.no.String())
		case lost && end != cutShort:
			r.tally.violate(s.no.String(), "was answered 202 and had no outcome when the run gave up waiting")
		}
		rep.Outcomes[outcome(s.answer == answerQueued, status, unheard, end == cutShort)]++
		if seen != 0 {
			rep.AllVisible = max(rep.AllVisible, (seen - began).Seconds())
			if s.trail.eager || seen == pushed { // the others polled when the server told them to
				record(visible, seen-s.sent)
			}
		}
		if pushed != 0 {
			record(push, pushed-s.sent)
		} else if i < r.sockets.open && seen != 0 {
			r.tally.trouble("no push reached an open socket")
		}
	}
	rep.Latency = map[string]Latency{
		"refusal": v.Refusal, "grant": v.Grant, "order visible": summarize(visible), "push": summarize(push),
	}
	rep.Door = r.door.report()
	if !r.door.worksForPaths() { // otherwise it measures this machine's work
		rep.Latency["path"] = r.fetched.Took
		rep.MaxConcurrent = underWay(r.fetched.PerSecond, r.fetched.Took)
	}
	rep.Answers = r.tally.counts()
	r.tally.mu.Lock()
	defer r.tally.mu.Unlock()
	rep.Troubles = maps.Clone(r.tally.troubles)
	rep.Violations = append([]Violation{}, r.tally.violations...)
	return rep
}

// outcome names a winner's last known status. Nothing is known about winners
// without a 202 whose order an interrupted run did not query.
func outcome(queued bool, status string, unheard, cut bool) string {
	switch {
	case status != "" && status != gone:
		return status
	case status == "" && (unheard || cut && !queued):
		return "not known"
	case queued:
		return "still queued"
	}
	return "never arrived"
}

// leastConcurrent is what a route needs on the smallest machine, whatever was
// measured: a run of a few shoppers never has more in flight.
const leastConcurrent = 32

// underWay is Little's law: how many requests are in flight at a given rate if
// each takes l's 99th percentile.
func underWay(perSecond float64, l Latency) int {
	if l.Count == 0 {
		return 0
	}
	return max(leastConcurrent, int(math.Ceil(perSecond*l.P99/1000)))
}

// NoPath reports whether no shopper got a path, and the most frequent code with
// which they were refused.
func (rep *Report) NoPath() (code string, all bool) {
	for answer := range byCount(rep.Answers) {
		refused, noPath := strings.CutPrefix(answer, pathRefused)
		if !noPath {
			return "", false
		}
		code = cmp.Or(code, refused)
	}
	return code, code != ""
}
