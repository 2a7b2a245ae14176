package bench

import (
	"context"
	"fmt"
)

// Stage is one part of a request's way and its baseline.
type Stage struct {
	Name     string `json:"name"`     // one word, for --stages
	Unit     string `json:"unit"`     // what an operation is, plural: "answers"
	Ours     string `json:"ours"`     // what ours does, in a few words
	Baseline string `json:"baseline"` // what the baseline does, in a few words

	// Target is the minimum ratio of ours to the baseline; 0 means none.
	Target float64 `json:"target_ratio,omitempty"`
	// AtLeast is the minimum number of operations per second; 0 means none.
	AtLeast float64 `json:"target_per_second,omitempty"`
	// Figures says which of a side's figures are reported, and their bounds.
	Figures []Figure `json:"-"`
	// Remark is printed below the table: what the ratio means, and what a
	// better one would take.
	Remark string `json:"remark,omitempty"`

	// Probe is how many operations the warm-up runs, a fraction of a second's
	// work. Most bounds a round's operations where they are expensive to prepare
	// or to keep; 0 means no bound.
	Probe int `json:"-"`
	Most  int `json:"-"`
	// Single is set where the stage restarts the server, and so cannot have several instances.
	Single bool `json:"-"`

	// Open prepares both sides. What it starts ends with the rig.
	Open func(ctx context.Context, rig *Rig) (baseline, ours Side, err error) `json:"-"`
}

// Side is one of the two compared sides.
type Side struct {
	// Prepare creates whatever the next n operations need; it is not measured.
	// May be nil.
	Prepare func(ctx context.Context, n int) error
	// Work carries out n operations, and returns further results by name.
	Work func(ctx context.Context, n int) (figures map[string]float64, err error)
	// Check verifies afterwards that the n operations had their effect; it is
	// not measured. May be nil.
	Check func(ctx context.Context, n int) error
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

	figureReminders = "sent meanwhile"
)

const (
	// fewConns keeps two cores busy with requests that are answered from memory;
	// more would only wait for each other.
	fewConns = 64
	// manyConns is how many connections a reverse proxy opens to the server,
	// and the load for which the bound on the slowest grants is promised.
	manyConns = 256
)

// Stages lists all stages in the order of the report.
func Stages() []Stage {
	times := []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms"}}
	return []Stage{{
		// The answer that most requests of a sale get.
		Name: "refusal", Unit: "answers", Target: 1.2, Probe: 5000,
		Ours:     "rushes of a sold-out item",
		Baseline: "a bare net/http handler with the same answer",
		Remark: "The path's base64 and HMAC-SHA256 cost less than what net/http does for a request, which a plain rush does not pass. " +
			"Nearly all that is left are the system calls of reading and writing.",
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
		// The spread of the whole way between two rounds is about a tenth.
		Name: "webhook", Unit: "orders", Target: 0.9, Probe: 4000, Most: 150_000,
		Ours:     "the whole way, with a webhook whose receiver hangs",
		Baseline: "the same without a webhook",
		Remark:   "The receiver accepts connections and answers none: as many deliveries as a webhook may have hang while the attempts are made.",
		Figures:  times, Open: openWebhook,
	}, {
		Name: "reminders", Unit: "orders", Target: 0.9, Probe: 4000, Most: 150_000, Single: true,
		Ours:     "the whole way, while reminders of another sale go out",
		Baseline: "the same without reminders",
		Remark: fmt.Sprintf("Up to %d reminders a round are made, and sent at %d a second, the default, to a gateway that answers at once.",
			remindersARound, remindersPerSecond),
		Figures: []Figure{{Name: figureMedian, Unit: "ms"}, {Name: figureP99, Unit: "ms"}, {Name: figureReminders, Unit: "reminders"}}, Open: openReminders,
	}}
}
