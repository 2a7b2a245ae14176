// Package proof runs the checks that prove a sale's books. Each module exports its
// checks; main lists them; `stampede verify`, the live page and the sampling worker
// run the same list.
package proof

import (
	"context"
	"time"

	"stampede/platform/base/app"
)

// Violation is one violated invariant, with enough detail to find it again.
type Violation struct {
	Subject string `json:"subject"` // "item 12", "order 0190…"
	Detail  string `json:"detail"`  // one sentence with the numbers
}

// Check proves one invariant over all stored data.
type Check struct {
	ID   string // "I1" … "I9"
	Name string // "never oversold"
	// Run returns the violations that it finds. It only reads. Work in flight is not
	// a violation: a check that may see some reads again after Recheck and reports
	// only what has not changed. An error means that the check could not run, which
	// is not a pass.
	Run func(ctx context.Context) ([]Violation, error)
}

// Recheck is how long a check waits before it reports a violation: longer than any
// release or event is in transit in normal operation.
const Recheck = 2 * time.Second

// Pause waits for Recheck, so that work in flight has arrived. It returns ctx's
// error if ctx ends first.
func Pause(ctx context.Context) error {
	return app.Sleep(ctx, Recheck)
}
