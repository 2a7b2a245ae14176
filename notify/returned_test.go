package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/coder/websocket"

	"stampede/inventory/inventoryevent"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// broadcasts calls its listener with the payloads that a test sends.
type broadcasts chan []byte

func (b broadcasts) OnBroadcast(subject string, fn func([]byte)) (stop func(), err error) {
	if subject != inventoryevent.SubjectReturned {
		return func() {}, nil
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case data := <-b:
				fn(data)
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }, nil
}

func TestReturnedUnitsAreAnnouncedToEverySocket(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	news := make(broadcasts)
	b.service.deps.Broadcasts, b.service.returnedEvery = news, 10*time.Millisecond
	first, second := b.connect(t, 1), b.connect(t, 2)
	pgtest.Work(t, b.service.announceReturned)
	raw, err := json.Marshal(inventoryevent.Returned{ItemID: 42, Epoch: 1, Rel: 1})
	require.NoError(t, err)
	news <- []byte(`{`) // is ignored
	news <- raw
	within, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	for _, conn := range []*websocket.Conn{first, second} {
		_, message, err := conn.Read(within)
		require.Equal(t, "message", fmt.Sprint(string(message), err), `{"type":"returned","items":["42"]}<nil>`)
	}
}

// What does not fit in a message takes no memory.
func TestReturnedItemsAreBounded(t *testing.T) {
	t.Parallel()
	var r returned
	for id := range int64(3 * mostReturned) {
		r.add(id)
	}
	require.Equal(t, "items in a message", len(r.take()), mostReturned)
	require.Equal(t, "items again", len(r.take()), 0)
}
