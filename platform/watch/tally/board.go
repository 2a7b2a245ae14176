// Package tally keeps what a sale's funnel is made of: per subject (an item) and
// second, how often each step ended in which way, over all instances.
//
// # Counting
//
// A module counts on its instance's Board: Count for what happens in batches or
// rarely, a Source for what is counted many thousand times a second and whose
// counters are therefore its own. Names belong to the modules: a stage ("answers")
// and a code ("sold-out"). Mark keeps the first and the last moment at which
// something happened, to the millisecond.
//
// # Storing
//
// One goroutine per instance folds the counts once a second into one statement:
// a row per subject and second for the curves, and the subject's totals. A row's
// key is the instance, its second and the subject, so that a statement whose
// outcome is unknown is repeated without counting twice. While Postgres does not
// answer, counts gather in memory and belong to the second in which it is back.
//
// What a process counted in its last second is lost if it is killed, and stored if
// it is stopped. The funnel is a measurement; the orders and the ledger are the
// books, and verify does not rely on this package.
//
// # Gauges
//
// What is measured and not counted, such as open sockets, is a Gauge: each instance
// stores its latest value, and the sum over those that still report is the shop's.
//
// # Bounds
//
// Seconds are kept for 90 days, totals and moments as long as the database: one
// row per item. Reading sums the totals of the requested subjects, so that it costs
// the same after a minute and after a day.
package tally

import (
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/clock"
	"stampede/platform/base/ids"
)

// Counts are numbers by stage and code.
type Counts map[string]map[string]int64

// Add adds n to a code of a stage.
func (c Counts) Add(stage, code string, n int64) {
	if n == 0 {
		return
	}
	of := c[stage]
	if of == nil {
		of = make(map[string]int64)
		c[stage] = of
	}
	of[code] += n
}

// merge adds all of other.
func (c Counts) merge(other Counts) {
	for stage, codes := range other {
		for code, n := range codes {
			c.Add(stage, code, n)
		}
	}
}

// Sum is the total of a stage's codes.
func (c Counts) Sum(stage string) int64 {
	sum := int64(0)
	for _, n := range c[stage] {
		sum += n
	}
	return sum
}

// bySubject are the counts of each subject.
type bySubject map[int64]Counts

// add adds n to a code of a subject's stage.
func (c bySubject) add(subject int64, stage, code string, n int64) {
	if n == 0 {
		return
	}
	if c[subject] == nil {
		c[subject] = Counts{}
	}
	c[subject].Add(stage, code, n)
}

// Source hands over what a module's own counters have counted since its last call.
// Only one goroutine calls it.
type Source func(add func(subject int64, stage, code string, n int64))

// Moment is the time span in which something happened.
type Moment struct{ First, Last time.Time }

// mark identifies a moment.
type mark struct {
	subject int64
	name    string
}

// Board collects the counts of one instance. Safe for concurrent use; a nil Board
// counts nothing, for processes that serve nothing.
type Board struct {
	pool  *pgxpool.Pool
	clock clock.Clock
	log   *slog.Logger

	mu      sync.Mutex
	counts  bySubject       // since the last fold
	moments map[mark]Moment // since the last fold
	sources []Source
	gauges  map[string]func() int64

	// The rest belongs to the goroutine that folds.
	pending  *fold
	instance ids.ID    // part of its rows' key, with the second: no two folds share both
	last     time.Time // the second of the last fold

	// What follows belongs to the goroutine that reports.
	reporter ids.ID // under which the gauges are stored
	reported map[string]int64
	since    time.Time // when they were stored
}

// New returns a Board that stores in pool. Nothing is stored before its worker runs.
func New(pool *pgxpool.Pool, now clock.Clock, log *slog.Logger) *Board {
	return &Board{pool: pool, clock: now, log: log, instance: ids.New(), reporter: ids.New(), gauges: map[string]func() int64{}, counts: bySubject{}, moments: map[mark]Moment{}}
}

// From adds a source.
func (b *Board) From(s Source) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sources = append(b.sources, s)
}

// Count counts n times a code of a stage. It takes a lock: a batch is one call.
// Subject 0 is none and is not counted.
func (b *Board) Count(subject int64, stage, code string, n int64) {
	if b == nil || subject == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts.add(subject, stage, code, n)
}

// Mark notes that something happened at a moment.
func (b *Board) Mark(subject int64, name string, at time.Time) {
	if b == nil || subject == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := mark{subject, name}
	m, known := b.moments[key]
	if !known || at.Before(m.First) {
		m.First = at
	}
	if at.After(m.Last) {
		m.Last = at
	}
	b.moments[key] = m
}

// bounds are the upper bounds by which durations are counted, in milliseconds; the
// last step has the longer ones. Three steps a decade keep a percentile within its
// double.
var bounds = [...]int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000}

// Steps is the number of steps that durations are counted by.
const Steps = len(bounds) + 1

// Step is the step of a duration, from 0 to Steps - 1.
func Step(took time.Duration) int {
	step := 0
	for step < len(bounds) && took > time.Duration(bounds[step])*time.Millisecond {
		step++
	}
	return step
}

// StepCode is the code under which a step is counted: its upper bound, "20ms", or
// "longer".
func StepCode(step int) string {
	if step >= len(bounds) {
		return "longer"
	}
	return strconv.FormatInt(bounds[step], 10) + "ms"
}

// Percentile returns the upper bound of the step that contains the p-th part (0 to
// 1) of the durations counted in codes; false if there are none, and the largest
// bound for longer ones.
func Percentile(codes map[string]int64, p float64) (time.Duration, bool) {
	total := int64(0)
	for step := range Steps {
		total += codes[StepCode(step)]
	}
	rank, seen := int64(math.Ceil(p*float64(total))), int64(0)
	for step := range Steps {
		if seen += codes[StepCode(step)]; seen >= rank && seen > 0 {
			return time.Duration(bounds[min(step, len(bounds)-1)]) * time.Millisecond, true
		}
	}
	return 0, false
}
