package proof

import (
	"context"
	"fmt"
	"time"

	"stampede/platform/base/app"
)

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
