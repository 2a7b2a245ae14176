package bench

import (
	"context"
	"time"
)

// Stage is one part of the way and what it is measured against.
type Stage struct {
	Name     string // one word, for --stages
	Unit     string // what an operation is, plural: "answers"
	Ours     string // what ours does, in a few words
	Baseline string // what the baseline does, in a few words

	// Target is the least ratio of ours to the baseline that is aimed at; 0 is none.
	Target float64
	// AtLeast is the least operations per second that are aimed at; 0 is none.
	AtLeast float64
	// Figures says which of a side's figures are reported, and their bounds.
	Figures []Figure
	// Remark stands below the table: what the ratio means, what more would take.
	Remark string

	// Probe is how many operations the warming-up takes, a fraction of a second's
	// work. Least and Most bound a round, Most where operations are dear to prepare
	// or to keep; 0 is no bound.
	Probe, Least, Most int

	// Open gets both sides ready. close ends what it started; it may be nil.
	Open func(ctx context.Context, rig *Rig) (baseline, ours Side, closeSides func(context.Context) error, err error)
}

// Stages are what there is to measure, in the order of the report.
func Stages() []Stage { return []Stage{Refusal(), Paths(), Whole(), Push()} }

// Side is one of the two that are compared.
type Side struct {
	// Prepare makes what the next n operations need; it is not measured. May be
	// nil.
	Prepare func(ctx context.Context, n int) error
	// Work carries out n operations.
	Work func(ctx context.Context, n int) (Sample, error)
	// Check looks afterwards whether the n operations had their effect; it is not
	// measured. May be nil.
	Check func(ctx context.Context, n int) error
}

// Sample is what one round found besides its time.
type Sample struct {
	// Took replaces the time that Work took, where not all of it counts.
	Took time.Duration
	// Figures are further findings by their name.
	Figures map[string]float64
}

// Figure is a finding about ours that is reported beside the ratio.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	AtMost float64 `json:"at_most,omitempty"` // 0 is no bound
}
