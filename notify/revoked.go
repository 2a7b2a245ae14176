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

// closeEnded closes the sockets of ended logins and of expired tokens, until ctx ends.
// Expiry is looked for in one shard at a time, so in all of them every 16 s.
func (s *Service) closeEnded(ctx context.Context) error {
	var swept uint64
	next := 0
	return app.Loop{Every: sweepEvery, Do: func(ctx context.Context) error {
		s.hub.each(next, s.closeExpired)
		next = (next + 1) % shardCount
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

// closeExpired closes a socket whose token has expired, with 1008: its client
// reconnects with a new token, which a thief of the old one does not have.
func (s *Service) closeExpired(sock *socket) {
	if s.deps.Tokens.Expired(sock.who) {
		go sock.closeWith(websocket.StatusPolicyViolation, "the token has expired, reconnect with a new one")
	}
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
