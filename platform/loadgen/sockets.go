package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/errgroup"
)

// sockets holds the WebSockets of the shoppers that listen.
type sockets struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	open   int
}

// socketDialers is how many sockets are opened at once: a flood of handshakes
// is not what is measured.
const socketDialers = 64

// reservedDescriptors are kept for connections, files and the runtime.
const reservedDescriptors = 512

// openSockets connects the first shoppers, as many as asked for and as the
// descriptors of this process allow. They listen until close.
func openSockets(ctx context.Context, r *run) (*sockets, error) {
	want := r.cfg.Sockets
	if want < 0 || want > len(r.shoppers) {
		want = len(r.shoppers)
	}
	want = min(want, max(0, descriptorLimit()-r.cfg.Connections-reservedDescriptors))
	listenCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	so := &sockets{cancel: cancel, open: want}
	r.begin("open sockets", want)
	dial, dialCtx := errgroup.WithContext(ctx)
	dial.SetLimit(socketDialers)
	for i := range want {
		dial.Go(func() error {
			conn, err := r.dial(dialCtx, i)
			if err != nil {
				return err
			}
			r.done.Add(1)
			t := newTrail(i)
			r.shoppers[i].trail = t
			so.group.Go(func() { r.listen(listenCtx, conn, t) })
			return nil
		})
	}
	if err := dial.Wait(); err != nil {
		so.close()
		return nil, fmt.Errorf("could not open a WebSocket at %s: %w", r.cfg.BaseURL, err)
	}
	return so, nil
}

// dial opens the i-th shopper's socket the way a page does: a browser cannot set a
// header on a WebSocket, so the token travels as a subprotocol.
func (r *run) dial(ctx context.Context, i int) (*websocket.Conn, error) {
	token, err := r.token(int64(i))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(r.cfg.BaseURL, "http")+"/api/v1/ws", &websocket.DialOptions{
		Subprotocols: []string{"stampede.v1", "bearer." + token},
	})
	return conn, err
}

// listen notes every push about the shopper's own attempt.
func (r *run) listen(ctx context.Context, conn *websocket.Conn, t *trail) {
	defer func() { _ = conn.CloseNow() }()
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return
		}
		at := time.Since(r.base)
		var m struct {
			Type  string    `json:"type"`
			Order orderView `json:"order"`
		}
		// The number was fetched before the attempt that this is about was sent.
		if json.Unmarshal(raw, &m) == nil && m.Type == "order" && m.Order.OrderNo == r.shoppers[t.shopper].no {
			t.heard(m.Order.Status, true, at)
		}
	}
}

// close hangs up on the server, whose own way of ending sockets is not measured.
func (so *sockets) close() {
	if so == nil {
		return // the play ended before they were opened
	}
	so.cancel()
	so.group.Wait()
}
