package notify

import (
	"context"
	"time"

	"github.com/coder/websocket"

	"stampede/platform/base/app"
)

// missed requests that the clients who are connected now ask for their orders
// again: events of the last moments may not have reached this instance.
func (s *Service) missed() { app.Kick(s.gap) }

// reconnectEvery spreads the clients that connect again: 1,000 a second, a
// handshake and a poll each.
const reconnectEvery = time.Millisecond

// closeBehind closes, after each gap, the sockets that were open, with 1013:
// their clients ask for their orders and connect again. It pauses after each
// shard for as long as its clients need. A gap during a sweep causes another
// one. It runs until ctx ends.
func (s *Service) closeBehind(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.gap:
		}
		if n := s.hub.count.Load(); n > 0 {
			s.deps.Log.WarnContext(ctx, "events may be missing, asking clients to connect again", "sockets", n)
		}
		// Who connects during the sweep asks for the orders then.
		var behind [shardCount][]*socket
		for i := range s.hub.shards {
			s.hub.each(i, func(sock *socket) { behind[i] = append(behind[i], sock) })
		}
		for i := range behind {
			for _, sock := range behind[i] {
				go sock.closeWith(websocket.StatusTryAgainLater, "pushes may be missing; poll and reconnect")
			}
			if app.Sleep(ctx, time.Duration(len(behind[i]))*reconnectEvery) != nil {
				break
			}
		}
	}
}
