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

	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
)

// sockets are the WebSockets of the listening shoppers.
type sockets struct {
	cancel context.CancelFunc // nil before they are opened
	group  sync.WaitGroup
	open   int
}

// socketDialers is how many sockets are opened concurrently: a flood of
// handshakes is not what is measured.
const socketDialers = 64

// reservedDescriptors is how many descriptors are reserved for connections,
// files and the runtime.
const reservedDescriptors = 512

// MostSockets returns how many sockets this process's descriptors allow beside
// that many connections.
func MostSockets(connections int) int {
	return max(0, httpx.OpenFiles()-connections-reservedDescriptors)
}

// Listen opens a WebSocket for each of the first n shoppers. They listen until
// Close.
func (c *Crowd) Listen(ctx context.Context, n int) error {
	var listenCtx context.Context
	listenCtx, c.sockets.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.sockets.open = n
	dial, dialCtx := errgroup.WithContext(ctx)
	dial.SetLimit(socketDialers)
	for i := range n {
		dial.Go(func() error {
			conn, err := c.dial(dialCtx, i)
			if err != nil {
				return err
			}
			c.done.Add(1)
			t := newTrail(i)
			c.shoppers[i].trail = t
			c.sockets.group.Go(func() { c.listen(listenCtx, conn, t) })
			return nil
		})
	}
	if err := dial.Wait(); err != nil {
		return fmt.Errorf("could not open a WebSocket at %s: %w", c.client.base, err)
	}
	return nil
}

// dial opens the i-th shopper's socket the way a page does: a browser cannot set a
// header on a WebSocket, so the token is sent as a subprotocol.
func (c *Crowd) dial(ctx context.Context, i int) (*websocket.Conn, error) {
	token, err := c.token(int64(i))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.client.base, "http")+"/api/v1/ws", &websocket.DialOptions{
		Subprotocols: []string{"stampede.v1", "bearer." + token},
	})
	return conn, err
}

// listen records every push about the shopper's own attempt.
func (c *Crowd) listen(ctx context.Context, conn *websocket.Conn, t *trail) {
	defer func() { _ = conn.CloseNow() }()
	for {
		_, raw, err := conn.Read(ctx)
		if err != nil {
			return
		}
		at := time.Since(c.base)
		var m struct {
			Type  string `json:"type"`
			Order struct {
				OrderNo ids.ID `json:"order_no"`
				Status  string `json:"status"`
			} `json:"order"`
		}
		// The number was fetched before its attempt was sent.
		if json.Unmarshal(raw, &m) == nil && m.Type == "order" && m.Order.OrderNo == c.shoppers[t.shopper].no {
			t.heard(m.Order.Status, true, at)
		}
	}
}

// close drops the connections; how the server closes sockets is not measured.
func (so *sockets) close() {
	if so.cancel != nil {
		so.cancel()
	}
	so.group.Wait()
}
