package outbound

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync/atomic"
)

// ErrUnclear is wrapped by the error of a call that its peer may have carried out all the same, and would carry out again.
var ErrUnclear = errors.New("the peer may have carried it out")

// Watch returns a context for one call, and a function that reports whether its request has left.
func Watch(ctx context.Context) (watched context.Context, left func() bool) {
	var wrote atomic.Bool
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}), wrote.Load
}
