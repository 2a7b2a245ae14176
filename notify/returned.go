package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"stampede/inventory/inventoryevent"
	"stampede/platform/base/app"
)

const (
	// returnedEvery is how often sockets hear of returned units: 30,000 sockets cost
	// a sixth of a core then, and shoppers who hear of it need not poll.
	returnedEvery = 2 * time.Second
	// mostReturned bounds the items of one message.
	mostReturned = 100
)

// returned are the items with units that returned since the last message. Safe
// for concurrent use; the zero value is ready.
type returned struct {
	mu    sync.Mutex
	items map[int64]bool
}

// add notes an item; further ones than a message takes wait for their next unit.
func (r *returned) add(item int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.items == nil {
		r.items = map[int64]bool{}
	}
	if len(r.items) < mostReturned {
		r.items[item] = true
	}
}

// take returns the items as they are written in a message, and forgets them.
func (r *returned) take() (items []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.items {
		items = append(items, fmt.Sprint(id))
	}
	clear(r.items)
	return items
}

// announceReturned tells every socket which items have units again, until ctx
// ends: shoppers who were too late learn it no later than programs that poll.
func (s *Service) announceReturned(ctx context.Context) error {
	stop, err := s.deps.Broadcasts.OnBroadcast(inventoryevent.SubjectReturned, func(data []byte) {
		var e inventoryevent.Returned
		if err := json.Unmarshal(data, &e); err != nil {
			s.deps.Log.WarnContext(ctx, "decoding broadcast failed", "subject", inventoryevent.SubjectReturned, "error", err)
			return
		}
		s.returned.add(e.ItemID)
	})
	if err != nil {
		return fmt.Errorf("notify: listen to %s: %w", inventoryevent.SubjectReturned, err)
	}
	defer stop()
	return app.Loop{Every: s.returnedEvery, Log: s.deps.Log, Failed: "returned units not announced", Do: func(context.Context) error {
		items := s.returned.take()
		if len(items) == 0 || s.hub.count.Load() == 0 {
			return nil
		}
		raw, err := json.Marshal(returnedMessage{Type: "returned", Items: items})
		if err != nil {
			return err
		}
		for i := range s.hub.shards {
			s.hub.each(i, func(sock *socket) { sock.enqueue(outgoing{raw: raw}) })
		}
		return nil
	}}.Run(ctx)
}

// returnedMessage is what a client receives about returned units.
type returnedMessage struct {
	Type  string   `json:"type"` // "returned"
	Items []string `json:"items"`
}
