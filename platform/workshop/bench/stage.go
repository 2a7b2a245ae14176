package bench

import (
	"context"
	"time"
)

// Stage is one part of a request's way and its baseline.
type Stage struct {
	Name     string // one word, for --stages
	Unit     string // what an operation is, plural: "answers"
	Ours     string // what ours does, in a few words
	Baseline string // what the baseline does, in a few words

	// Target is the minimum ratio of ours to the baseline; 0 means none.
	Target float64
	// AtLeast is the minimum number of operations per second; 0 means none.
	AtLeast float64
	// Figures says which of a side's figures are reported, and their bounds.
	Figures []Figure
	// Remark is printed below the table: what the ratio means, and what a
	// better one would take.
	Remark string

	// Probe is how many operations the warm-up runs, a fraction of a second's
	// work. Least and Most bound a round's operations; Most is for operations
	// that are expensive to prepare or to keep. 0 means no bound.
	Probe, Least, Most int

	// Open prepares both sides. close ends what Open started; it may be nil.
	Open func(ctx context.Context, rig *Rig) (baseline, ours Side, closeSides func(context.Context) error, err error)
}

// Stages lists all stages in the order of the report.
func Stages() []Stage {
	return []Stage{Refusal(), Paths(), Whole(), Beside(), Saturated(), Push()}
}

// Side is one of the two compared sides.
type Side struct {
	// Prepare creates whatever the next n operations need; it is not measured.
	// May be nil.
	Prepare func(ctx context.Context, n int) error
	// Work carries out n operations.
	Work func(ctx context.Context, n int) (Sample, error)
	// Check verifies afterwards that the n operations had their effect; it is
	// not measured. May be nil.
	Check func(ctx context.Context, n int) error
}

// Sample is a round's result besides its time.
type Sample struct {
	// Took replaces the duration of Work if not all of it counts.
	Took time.Duration
	// Figures are further results by name.
	Figures map[string]float64
}

// Figure is a result of our side that is reported beside the ratio.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	AtMost float64 `json:"at_most,omitempty"` // 0 is no bound
}
