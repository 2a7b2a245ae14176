package order

import (
	"context"
	"fmt"
	"sync"
	"time"

	"stampede/order/coupon"
	"stampede/order/search"
	"stampede/seckill/seckillevent"
)

// Sales is the plan: what was on sale, when, and by which rules.
type Sales interface {
	search.Plan
	coupon.Reservations
	// SaleOf returns what was on sale as an item; known is false if there is no such
	// item.
	SaleOf(ctx context.Context, item int64) (sale seckillevent.Sale, known bool, err error)
	// RefundRule returns for how long after paying a shopper of the activity may
	// refund an order, 0 for never, and whether the units are then written off.
	RefundRule(ctx context.Context, activity int64) (within time.Duration, writeOff bool, err error)
}

// planned remembers what was on sale as which item, because thousands of its orders are
// paid in the same minute. Safe for concurrent use; the zero value is ready.
type planned struct {
	mu    sync.Mutex
	known map[int64]readSale
}

type readSale struct {
	seckillevent.Sale
	at time.Time
}

// plannedFor is how long a sale is remembered: once an item has orders, operators
// only correct its texts and extend its end.
const plannedFor = time.Minute

// maxPlanned bounds the memory, at some 500 bytes each; what is forgotten is read
// again.
const maxPlanned = 4096

// saleOf returns what was on sale as an item that has orders. An item that the plan
// does not know, or a process without the plan, has an empty sale: nothing is to be
// settled.
func (s *Service) saleOf(ctx context.Context, item int64) (seckillevent.Sale, error) {
	if s.peers.Sales == nil {
		return seckillevent.Sale{}, nil
	}
	s.planned.mu.Lock()
	known, ok := s.planned.known[item]
	s.planned.mu.Unlock()
	if ok && time.Since(known.at) < plannedFor {
		return known.Sale, nil
	}
	sale, ok, err := s.peers.Sales.SaleOf(ctx, item)
	if err != nil {
		return sale, fmt.Errorf("order: read the sale of item %d: %w", item, err)
	}
	if ok {
		s.planned.mu.Lock()
		if s.planned.known == nil || len(s.planned.known) >= maxPlanned {
			s.planned.known = make(map[int64]readSale)
		}
		s.planned.known[item] = readSale{Sale: sale, at: time.Now()}
		s.planned.mu.Unlock()
	}
	return sale, nil
}
