// Package proof runs the checks that prove a sale's books. Each module exports its
// checks; main lists them; `stampede verify`, the live page and the sampling worker
// run the same list.
package proof

import (
	"context"
	"fmt"
	"slices"
	"time"

	"stampede/platform/base/app"
	"stampede/platform/base/ids"
)

// Violation is one violated invariant, with enough detail to find it again.
type Violation struct {
	Subject string `json:"subject" example:"item 12"` // "item 12", "order 0190…"
	Detail  string `json:"detail"`                    // one sentence with the numbers
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

// Lasting calls look and, while it finds anything, calls it again after each of so
// many pauses. It returns those findings whose key every call found, as the last
// call described them: what is only in flight is gone by then.
func Lasting[T any](
	ctx context.Context, pause time.Duration, pauses int, key func(T) string, look func(context.Context) ([]T, error),
) ([]T, error) {
	found, err := look(ctx)
	for range pauses {
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if err := app.Sleep(ctx, pause); err != nil {
			return nil, err
		}
		seen := make(map[string]bool, len(found))
		for _, v := range found {
			seen[key(v)] = true
		}
		found, err = look(ctx)
		found = slices.DeleteFunc(found, func(v T) bool { return !seen[key(v)] })
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// BySubject is a key for checks that describe a subject once, in words that may
// change from call to call.
func BySubject(v Violation) string { return v.Subject }

// Pause waits for Recheck, so that work in flight has arrived. It returns ctx's
// error if ctx ends first.
func Pause(ctx context.Context) error {
	return app.Sleep(ctx, Recheck)
}

// ClientRecord is one line of a client's log: what the server answered a shopper.
type ClientRecord struct {
	OrderNo ids.ID `json:"order_no"` // the attempt's, or the one that the answer named instead
	UserID  int64  `json:"user_id,string"`
	Answer  string `json:"answer"`           // to the attempt: "queued" or a refusal's code
	Status  string `json:"status,omitempty"` // the last status received by poll or push
	Pushed  string `json:"pushed,omitempty"` // the last one received by push
}

// Flow finds a queue that stands still. read returns how many messages wait in it
// and how many were ever handled. During a sale both change many times a second:
// a queue that is no shorter after a pause, and of which nothing was handled
// meanwhile, is not processed.
func Flow(ctx context.Context, queue string, pause time.Duration, read func(context.Context) (waiting, handled uint64, err error)) ([]Violation, error) {
	before, handled, err := read(ctx)
	if err != nil || before == 0 {
		return nil, err
	}
	if err := app.Sleep(ctx, pause); err != nil {
		return nil, err
	}
	left, later, err := read(ctx)
	if err != nil || left < before || later > handled {
		return nil, err
	}
	return []Violation{{Subject: queue, Detail: fmt.Sprintf("%d messages wait and none was handled within %s.", left, pause)}}, nil
}
