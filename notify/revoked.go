package notify

import (
	"context"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/base/app"
)

// sweepEvery is how soon the sockets of an ended login are closed. Together with
// the half second after which a revocation is known at the latest it stays
// within a second. A sweep over 30,000 sockets takes some milliseconds, and
// without a revocation there is none.
const sweepEvery = 250 * time.Millisecond

// closeRevoked closes the sockets of ended logins, until ctx ends.
func (s *Service) closeRevoked(ctx context.Context) error {
	var swept uint64
	return app.Loop{Every: sweepEvery, Do: func(ctx context.Context) error {
		// Read before the sweep: a revocation that arrives meanwhile causes the next sweep.
		version := s.deps.Tokens.Revocations().Version()
		if version == swept {
			return nil
		}
		for i := range s.hub.shards {
			s.hub.each(i, func(sock *socket) { s.ended(ctx, sock) })
		}
		swept = version
		return nil
	}}.Run(ctx)
}

// ended closes a socket whose login was ended with 1008 and reports whether it
// did. If the revocations cannot be checked, the socket stays: once the
// instance is connected again, the missed revocations cause another sweep.
func (s *Service) ended(ctx context.Context, sock *socket) bool {
	revoked, err := s.deps.Tokens.Revocations().Revoked(ctx, sock.who)
	if err != nil || !revoked {
		return false
	}
	go sock.closeWith(websocket.StatusPolicyViolation, "this login has been ended")
	return true
}
