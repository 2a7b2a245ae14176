package order

import (
	"context"
	"fmt"
	"sync"

	"stampede/seckill/seckillevent"
)

// planned remembers what was on sale as which item. That is final once the item has
// orders, and thousands of them are paid in the same minute. Safe for concurrent use;
// the zero value is ready.
type planned struct {
	mu    sync.Mutex
	known map[int64]seckillevent.Sale
}

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
	sale, ok := s.planned.known[item]
	s.planned.mu.Unlock()
	if ok {
		return sale, nil
	}
	sale, ok, err := s.peers.Sales.SaleOf(ctx, item)
	if err != nil {
		return sale, fmt.Errorf("order: read the sale of item %d: %w", item, err)
	}
	if ok {
		s.planned.mu.Lock()
		if s.planned.known == nil || len(s.planned.known) >= maxPlanned {
			s.planned.known = make(map[int64]seckillevent.Sale)
		}
		s.planned.known[item] = sale
		s.planned.mu.Unlock()
	}
	return sale, nil
}
