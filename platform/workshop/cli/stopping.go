package cli

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// serveToTheEnd serves, and announces the beginning and the end of the stop of
// a server that was ready.
func serveToTheEnd(ctx context.Context, io Streams, format string, serve Server, start Stack, show func(Parts) error) error {
	said := announce(io.Err, format)
	var ready atomic.Bool
	var began time.Time
	told := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		defer close(told)
		if began = time.Now(); ready.Load() {
			said.say(ctx, "Stopping: requests in flight finish, then sockets, lanes, consumers and stores.", "stopping")
		}
	})
	err := serve(ctx, io, start, func(parts Parts) error {
		if err := show(parts); err != nil {
			return err
		}
		ready.Store(true)
		return nil
	})
	if forget() {
		return err // it ended on its own, and err says why
	}
	<-told
	if err == nil && ready.Load() {
		took := time.Since(began)
		said.say(ctx, fmt.Sprintf("Stopped in %.1f s.", took.Seconds()), "stopped", "took_seconds", took.Seconds())
	}
	return err
}
