package bench

import (
	"context"
	"time"

	"stampede/platform/workshop/loadgen"
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

	// Open prepares both sides. What it starts ends with the rig or by
	// [Rig.afterStage].
	Open func(ctx context.Context, rig *Rig) (baseline, ours Side, err error)
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
	// Done replaces n if Work carried out another number of operations.
	Done int
	// Figures are further results by name.
	Figures map[string]float64
}

// Figure is a result of our side that is reported beside the ratio.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	AtMost float64 `json:"at_most,omitempty"` // 0 is no bound
}

// The names of the figures, with those that percentiles gives first.
const (
	figureMedian = "median"
	figureP99    = "p99"
	figureHot    = "told too-hot" // the attempts of a round that were answered so

	// What winners and the other sale do to each other. The first three are compared
	// with the same alone, in the same round.
	figureSlower   = "p99 above that of the sale alone by"
	figureLate     = "payments on time below those without the sale by"
	figureOnTime   = "payments on time"
	figurePayTook  = "payment, median"
	figurePayAlone = "payment without the sale, median"
	figurePayCPU   = "processor time of a payment, the bank's excluded"

	figureSockets        = "sockets"
	figureMemory         = "memory per socket"
	figureBaselineMemory = "memory per socket of the baseline"
)

const (
	// fewConns keeps two cores busy with requests that are answered from memory;
	// more would only wait for each other.
	fewConns = 64
	// manyConns is how many connections a reverse proxy opens to the server,
	// and the load for which the bound on the slowest grants is promised.
	manyConns = 256
	// usualSockets is how many shoppers listen in a round, if this process and the
	// server may open that many files.
	usualSockets = 10_000
)

// Stages lists all stages in the order of the report.
func Stages() []Stage {
	times := []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms"}}
	return []Stage{{
		// The answer that most requests of a sale get.
		Name: "refusal", Unit: "answers", Target: 0.85, Probe: 5000,
		Ours:     "rushes of a sold-out item",
		Baseline: "a bare net/http handler with the same answer",
		Remark: "Ours adds the route and the path's base64 and HMAC-SHA256 to what net/http does on both sides, which is nearly all of it. " +
			"0.9 requires finding the route without the router; much more would require a custom HTTP server.",
		Figures: times, Open: openRefusal,
	}, {
		Name: "paths", Unit: "paths", AtLeast: 20_000, Probe: 2000, Most: 200_000,
		Ours:     "rush paths issued, each with an access token",
		Baseline: "a bare net/http handler with the same answer",
		Figures:  times, Open: openPaths,
	}, {
		Name: "whole", Unit: "orders", Target: 0.45, AtLeast: 40_000, Probe: 4000, Most: 150_000,
		Ours:     "attempts granted, published and written, all of it synced to disk",
		Baseline: "a bare net/http handler with the same 202",
		Remark: "From the first request of a round until the last order can be read. All processes share the cores with the clients; " +
			"the list above shows each one's share.",
		Figures: []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms", AtMost: 25}, {Name: figureHot, Unit: "attempts"}},
		Open:    openWhole,
	}, {
		Name: "beside", Unit: "orders", Target: 0.75, Probe: 1000, Most: 150_000,
		Ours:     "a sale at a third of what the machine takes, while winners of another item pay, 10,000 a minute",
		Baseline: "the same sale alone",
		Remark: "The ratio compares how many attempts a second become orders; times count from when an attempt or a payment was due. A payment is on time " +
			"if its order is paid within a second. The bank is a process of its own, but on this machine.",
		Figures: []Figure{
			times[0], times[1],
			{Name: figureSlower, Unit: "%", AtMost: 25},
			{Name: figureOnTime, Unit: "%"},
			{Name: figureLate, Unit: "%", AtMost: 25},
			{Name: figurePayTook, Unit: "ms"},
			{Name: figurePayAlone, Unit: "ms"},
			{Name: figurePayCPU, Unit: "ms"},
		},
		Open: func(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
			return openPaying(ctx, rig, saleShare)
		},
	}, {
		// The sale sends its next attempts as soon as the earlier ones are answered.
		Name: "saturated", Unit: "orders", Probe: 4000, Most: 150_000,
		Ours:     "a sale that takes the whole machine, while winners of another item pay, 10,000 a minute",
		Baseline: "the same sale alone",
		Remark:   "What a payment costs is missing from the sale: the ratio falls with every payment, and has no target.",
		Figures:  []Figure{times[0], times[1], {Name: figureOnTime, Unit: "%"}, {Name: figureLate, Unit: "%"}},
		Open: func(ctx context.Context, rig *Rig) (baseline, ours Side, err error) {
			return openPaying(ctx, rig, flatOut)
		},
	}, {
		Name: "push", Unit: "pushes", Probe: 200, Least: usualSockets, Most: min(usualSockets, loadgen.MostSockets(manyConns)),
		Ours:     "new orders pushed to the shoppers who rushed for them",
		Baseline: "a bare handler with the same 202 that writes the same message to a socket",
		Remark:   "From the first attempt to the last message; median and p99 are from each shopper's attempt to the message.",
		Figures: []Figure{
			times[0], times[1],
			{Name: figureSockets, Unit: "open"},
			{Name: figureMemory, Unit: "KiB of the server"},
			{Name: figureBaselineMemory, Unit: "KiB"},
		},
		Open: openPush,
	}}
}
