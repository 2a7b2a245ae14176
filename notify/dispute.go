package notify

import (
	"context"
	"encoding/json"
	"fmt"

	"stampede/order/disputeevent"
	"stampede/platform/store/bus"
)

// disputeMessage is what a client receives when the shop answers or closes its dispute,
// or another device of the same shopper wrote.
type disputeMessage struct {
	Type    string               `json:"type"` // "dispute"
	Dispute disputeevent.Changed `json:"dispute"`
}

// pushDispute sends a dispute's state to its shopper's sockets on this instance.
func (s *Service) pushDispute(_ context.Context, m bus.Msg) error {
	var d disputeevent.Changed
	if err := json.Unmarshal(m.Data, &d); err != nil {
		return fmt.Errorf("notify: decode %s: %w", m.Subject, err)
	}
	if !s.hub.connected(d.UserID) {
		return nil
	}
	raw, err := json.Marshal(disputeMessage{Type: "dispute", Dispute: d})
	if err != nil {
		return fmt.Errorf("notify: encode dispute %s: %w", d.DisputeNo, err)
	}
	s.hub.push(d.UserID, outgoing{raw: raw})
	return nil
}
