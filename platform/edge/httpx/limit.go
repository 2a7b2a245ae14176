package httpx

import (
	"context"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// Limit bounds how often one subject may call a route. Invalid requests do not
// count: the limit is checked for the subject before the body is read, and used up
// when the input has been validated.
type Limit struct {
	ratelimit.Rule
	Of Subject
}

// Subject is what a Limit counts by.
type Subject uint8

// The subjects.
const (
	// OfUser counts the token's user; without a token it does not count.
	OfUser Subject = iota
	// OfAddress counts the client's address, an IPv6 one as its /64.
	OfAddress
)

// asks returns the limits of a route for the request in ctx.
func asks(ctx context.Context, limits []Limit) []ratelimit.Ask {
	all := make([]ratelimit.Ask, 0, len(limits))
	for _, l := range limits {
		switch l.Of {
		case OfUser:
			if who := auth.From(ctx); who.UserID != 0 {
				all = append(all, ratelimit.Ask{Rule: l.Rule, Key: ratelimit.UserKey(who.UserID)})
			}
		case OfAddress:
			all = append(all, ratelimit.Ask{Rule: l.Rule, Key: ratelimit.AddrKey(ClientAddr(ctx))})
		}
	}
	return all
}

// weigh returns the refusal of a subject that is over a limit, by memory alone: a
// flood is refused before its bodies are read.
func weigh(limiter *ratelimit.Limiter, op Op) func(context.Context) error {
	return func(ctx context.Context) error {
		return limiter.Look(asks(ctx, op.Limits)...).Err()
	}
}

// take counts a request with valid input. The answer carries the remaining quota,
// whatever its outcome.
func take(ctx context.Context, limiter *ratelimit.Limiter, op Op) error {
	d, err := limiter.Take(ctx, asks(ctx, op.Limits)...)
	if err != nil {
		return err
	}
	if err := d.Err(); err != nil {
		return err // its answer carries the fields
	}
	if h := fromContext(ctx).header; h != nil {
		d.Header(h)
	}
	return nil
}
