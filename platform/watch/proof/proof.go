// Package proof runs the checks that show a sale's books to be right. Each
// module exports its checks; main lists them; `stampede verify`, the live page
// and the sampling worker run the same list.
package proof

import (
	"context"
	"time"

	"stampede/platform/base/app"
)

// Violation is one broken promise, with enough to find it again.
type Violation struct {
	Subject string `json:"subject"` // "item 12", "order 0190…"
	Detail  string `json:"detail"`  // one sentence with the figures
}

// Check proves one invariant over everything stored.
type Check struct {
	ID   string // "I1" … "I9"
	Name string // "never oversold"
	// Run returns the violations it finds. It reads only. Work in flight is not
	// a violation: a check that may see some reads again once after Recheck and
	// reports only what stayed. An error means the check could not be made,
	// which is not a pass.
	Run func(ctx context.Context) ([]Violation, error)
}

// Recheck is how long a check waits before it calls what it saw a violation:
// longer than any release or event takes on its way when nothing is broken.
const Recheck = 2 * time.Second

// Pause waits for Recheck, so that what was on its way has arrived. The error is
// that of a ctx which ends first.
func Pause(ctx context.Context) error {
	return app.Sleep(ctx, Recheck)
}
