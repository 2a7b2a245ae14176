package httpx

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// The bounds of the streams that are open at the same time on an instance. A shop has
// some ten operators, each with some pages open, at one address or at several; all
// streams together are far below the 768 connections of a process that may open 1,024
// files.
const (
	mostStreams = 128
	// mostPublicStreams leaves clients without a token half of them.
	mostPublicStreams    = mostStreams / 2
	mostStreamsOfAddress = 32
	mostStreamsOfUser    = 8
	// endedWithin is how soon a stream ends after its instance has learned that the
	// token was revoked, which takes half a second at most.
	endedWithin = 250 * time.Millisecond
)

var errTooManyStreams = errOverloaded.Saying("Too many live pages are open. Close some, and try again in a moment.")

// streams are the streams that are open. Safe for concurrent use.
type streams struct {
	mu   sync.Mutex
	open map[streamsOf]int
}

// streamsOf is what a bound counts: all streams, those without a token, a user's, or a
// network's.
type streamsOf struct {
	public  bool
	user    int64
	network netip.Prefix
}

// enter takes a place for a stream unless a bound is reached; leave gives it back. The
// zero client has no bound of its own.
func (s *streams) enter(user int64, client netip.Addr) (leave func(), ok bool) {
	bounds := map[streamsOf]int{{}: mostStreams}
	if user == 0 {
		bounds[streamsOf{public: true}] = mostPublicStreams
	} else {
		bounds[streamsOf{user: user}] = mostStreamsOfUser
	}
	if client.IsValid() {
		bounds[streamsOf{network: ratelimit.Network(client)}] = mostStreamsOfAddress
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, most := range bounds {
		if s.open[of] >= most {
			return nil, false
		}
	}
	if s.open == nil {
		s.open = map[streamsOf]int{}
	}
	for of := range bounds {
		s.open[of]++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for of := range bounds {
			if s.open[of]--; s.open[of] == 0 {
				delete(s.open, of)
			}
		}
	}, true
}

// stream serves a request whose answer is a stream: within the bounds, on a connection
// that gives way to every other one, and until its token ends.
func (g *gate) stream(w http.ResponseWriter, r *http.Request, next http.Handler, shared bool) {
	who, client := auth.From(r.Context()), ClientAddr(r.Context())
	if shared {
		client = netip.Addr{}
	}
	leave, ok := g.streams.enter(who.UserID, client)
	if !ok {
		WriteProblem(w, r, errTooManyStreams.After(comeBack()))
		return
	}
	defer leave()
	defer giveWay(r.Context())()
	ctx, end := context.WithCancel(r.Context())
	defer end()
	if who.UserID != 0 {
		go g.endWithToken(ctx, who, end)
	}
	next.ServeHTTP(w, r.WithContext(ctx))
}

// endWithToken calls end when the token has expired or was revoked, also by a change of
// the user's role. While revocations cannot be checked the stream goes on.
func (g *gate) endWithToken(ctx context.Context, who auth.Principal, end func()) {
	tick := time.NewTicker(endedWithin)
	defer tick.Stop()
	revocations, checked, known := g.tokens.Revocations(), uint64(0), false
	for {
		if version := revocations.Version(); !known || version != checked {
			revoked, err := revocations.Revoked(ctx, who)
			checked, known = version, err == nil
			if revoked {
				end()
				return
			}
		}
		if g.tokens.Expired(who) {
			end()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
