package rush

import (
	"context"

	"stampede/inventory"
	"stampede/platform/base/ids"
	"stampede/seckill/seckillevent"
)

// faultyStream is the real bus except for the methods that a test overrides.
type faultyStream struct {
	grants
	healthy func() error
	publish func(send func() error) error
}

func (s *faultyStream) Healthy(ctx context.Context) error {
	if s.healthy != nil {
		return s.healthy()
	}
	return s.grants.Healthy(ctx)
}

func (s *faultyStream) Publish(ctx context.Context, b *seckillevent.Batch, data []byte) error {
	send := func() error { return s.grants.Publish(ctx, b, data) }
	if s.publish != nil {
		return s.publish(send)
	}
	return send()
}

// faultyStock is the real stock except for the methods that a test overrides.
type faultyStock struct {
	stock
	reserve func(n int, decide func() error) error
	onHold  func()
}

func (s *faultyStock) Hold(ctx context.Context, item inventory.Item, user int64) (no ids.ID, quantity int32, seq, persisted int64, ok bool, err error) {
	if s.onHold != nil {
		s.onHold()
	}
	return s.stock.Hold(ctx, item, user)
}

func (s *faultyStock) Reserve(ctx context.Context, item inventory.Item, epoch int64, as []inventory.Attempt, into *inventory.Decision) error {
	decide := func() error { return s.stock.Reserve(ctx, item, epoch, as, into) }
	if s.reserve != nil {
		return s.reserve(len(as), decide)
	}
	return decide()
}
