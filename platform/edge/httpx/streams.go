package httpx

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// The bounds of the streams that are open at the same time on an instance. A shop has
// some ten operators, each with some pages open, at one address or at several; all
// streams together are far below the 768 connections of a process that may open 1,024
// files.
const (
	mostStreams = 128
	// mostPublicStreams leaves routes that need no token half of them.
	mostPublicStreams    = mostStreams / 2
	mostStreamsOfAddress = 32
	mostStreamsOfUser    = 8
	// endedWithin is how soon a stream ends after its instance has learned that the
	// token was revoked, which takes half a second at most.
	endedWithin = 250 * time.Millisecond
)

var (
	errTooManyStreams = errOverloaded.Saying(
		fault.T("Too many live pages are open. Close some, and try again in a moment.", "打开的实时页面过多，请关闭一些后重试。"))
	errDisplaced = errors.New("the user opened another stream")
)

// displacedEvent is the last event of a stream that ends for a newer one of the same
// user: its page must not connect again by itself, which would end the next one.
const displacedEvent = "event: displaced\ndata: {}\n\n"

// BeginEvents sets the headers of an answer of server-sent events.
func BeginEvents(set func(name, value string)) {
	set("Content-Type", "text/event-stream")
	set("Cache-Control", NoStore)
	set("X-Accel-Buffering", "no") // nginx would hold events back until a buffer is full
}

// streams are the streams that are open. Safe for concurrent use.
type streams struct {
	mu   sync.Mutex
	open []*stream // the oldest first
}

// stream is what the bounds count: a user's, 0 without a token, a network's unless it is
// shared, and those of routes that take clients without a token.
type stream struct {
	user    int64
	network netip.Prefix
	public  bool
	end     func()
}

// enter takes a place for a stream. At a bound it ends the user's oldest stream that
// counts there: a page whose client has vanished would hold its place until a write
// fails, some 20 s later. Other users' streams stay, also at the same address, which may
// be that of many. It reports false if the bound is still reached.
func (s *streams) enter(one *stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fits(one, nil) {
		s.open = append(s.open, one)
		return true
	}
	for i, old := range s.open {
		if old.user == one.user && one.user != 0 && s.fits(one, old) {
			old.end()
			s.open = append(slices.Delete(s.open, i, i+1), one)
			return true
		}
	}
	return false
}

// fits reports whether no bound is reached without another stream; s.mu must be held.
func (s *streams) fits(one, without *stream) bool {
	var all, public, ofUser, ofNetwork int
	for _, o := range s.open {
		if o == without {
			continue
		}
		all++
		if o.public {
			public++
		}
		if o.user == one.user {
			ofUser++
		}
		if o.network == one.network {
			ofNetwork++
		}
	}
	return all < mostStreams && (!one.public || public < mostPublicStreams) &&
		(one.user == 0 || ofUser < mostStreamsOfUser) && (!one.network.IsValid() || ofNetwork < mostStreamsOfAddress)
}

// leave gives the place back, unless a newer stream has it.
func (s *streams) leave(one *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(o *stream) bool { return o == one })
}

// stream serves a request whose answer is a stream: within the bounds, on a connection
// that gives way to every other one, and until its token ends.
func (g *gate) stream(w http.ResponseWriter, r *http.Request, next http.Handler, public, shared bool) {
	who := auth.From(r.Context())
	ctx, end := context.WithCancelCause(r.Context())
	defer end(nil)
	one := &stream{user: who.UserID, public: public, end: func() { end(errDisplaced) }}
	if client := ClientAddr(ctx); client.IsValid() && !shared {
		one.network = ratelimit.Network(client)
	}
	if !g.streams.enter(one) {
		WriteProblem(w, r, errTooManyStreams.After(comeBack()))
		return
	}
	defer g.streams.leave(one)
	defer idle(ctx, true)()
	if who.UserID != 0 {
		go g.endWithToken(ctx, who, func() { end(nil) })
	}
	next.ServeHTTP(w, r.WithContext(ctx))
	if errors.Is(context.Cause(ctx), errDisplaced) && w.Header().Get("Content-Type") == "text/event-stream" {
		_, _ = io.WriteString(w, displacedEvent) // its client may have vanished
	}
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
