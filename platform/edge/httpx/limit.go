package httpx

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// Limit bounds how often one subject may call a route. What is not valid does not
// count: a request is weighed against what is known of its subject before its body
// is read, and taken when its input has been checked.
type Limit struct {
	ratelimit.Rule
	Of Subject
}

// Subject is whom a Limit counts.
type Subject uint8

// The subjects.
const (
	// OfUser counts the token's user; nobody where there is none.
	OfUser Subject = iota
	// OfAddress counts the client's address, an IPv6 one as its /64.
	OfAddress
)

// asks are the limits of a route for the request in ctx.
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

// weigh refuses from memory who is over a limit already: a flood is told so
// before its bodies are read.
//
//nolint:contextcheck // huma.Context carries the request's context, which the linter cannot see
func weigh(limiter *ratelimit.Limiter, op Op) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if err := limiter.Look(asks(ctx.Context(), op.Limits)...).Err(); err != nil {
			op.refused(ctx.Context())
			refuseEarly(ctx, err)
			return
		}
		next(ctx)
	}
}

// take counts a request whose input is valid. What is left is told with the
// answer, whatever that becomes.
func take(ctx context.Context, limiter *ratelimit.Limiter, op Op) error {
	d, err := limiter.Take(ctx, asks(ctx, op.Limits)...)
	if err != nil {
		return err
	}
	if err := d.Err(); err != nil {
		op.refused(ctx)
		return err // carries the fields itself
	}
	if h := fromContext(ctx).header; h != nil {
		d.Header(h)
	}
	return nil
}

// refused tells whoever asked to hear of it.
func (op Op) refused(ctx context.Context) {
	if op.OverLimit != nil {
		op.OverLimit(ctx)
	}
}
