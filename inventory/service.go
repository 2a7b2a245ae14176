package inventory

import (
	"context"
	"time"

	"stampede/inventory/books"
	"stampede/inventory/compare"
	"stampede/inventory/decide"
	"stampede/inventory/keep"
	"stampede/inventory/ledger"
	"stampede/inventory/load"
	"stampede/inventory/stock"
	"stampede/platform/base/app"
)

// The rooms under their names in Service, which has the methods of each.
type (
	rows     = ledger.Service
	decider  = decide.Service
	loader   = load.Service
	keeper   = keep.Service
	balances = books.Service
	comparer = compare.Service
)

// Service is the stock of every item. It is safe for concurrent use.
type Service struct {
	store *stock.Store
	*rows
	*decider
	*loader
	*keeper
	*balances
	*comparer
}

// New returns the service. It starts nothing.
func New(cfg Config, deps Deps) *Service {
	s := &Service{store: stock.NewStore(cfg, deps)}
	s.rows, s.decider = ledger.New(s.store), decide.New(s.store)
	s.loader, s.keeper, s.balances = load.New(s.store, s.rows, s.decider), keep.New(s.store, s.rows), books.New(s.store, s.rows)
	s.comparer = compare.New(s.store, s.rows, s.decider, s.keeper, s.loader, s.balances)
	return s
}

// forgetEvery is how often the guesses of epochs, the plans and the comparisons' results are dropped, so that those of
// long ended items do not accumulate: each that is needed again costs one call, transaction or walk.
const forgetEvery = time.Hour

// State reads an item's state in Redis, over all its shards; ok is false when one has none.
func (s *Service) State(ctx context.Context, item Item) (st State, ok bool, err error) {
	return s.store.StateOfAll(ctx, item)
}

// Shards returns how many shards an item has, by its last Load.
func (s *Service) Shards(ctx context.Context, item Item) (int16, error) {
	shards, _, err := s.store.Shards(ctx, item)
	return shards, err
}

// Workers are the module's loops: they apply the ends of orders to Redis, and free the memory of ended items, in
// Redis and in this process.
func (s *Service) Workers() []app.Worker {
	forget := app.Loop{Every: forgetEvery, Do: func(context.Context) error {
		s.store.ForgetGuesses()
		s.ForgetPlans()
		s.Compared.Clear()
		return nil
	}}
	return []app.Worker{
		{Name: "inventory-keeper", Run: s.Run},
		{Name: "inventory-compare", Run: s.RunComparing},
		{Name: "inventory-settle", Run: s.RunSettling},
		{Name: "inventory-forget", Run: forget.Run},
	}
}
