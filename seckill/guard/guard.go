// Package guard puts the checks before the rush paths in their order and wires
// what makes them: the blacklist and the rules about offenders, reservations, the
// human check, and the claim by which a shopper takes part in one exclusive
// activity at a time.
package guard

import (
	"context"
	"slices"
	"time"

	"stampede/platform/app"
	"stampede/platform/bus"
	"stampede/platform/config"
	"stampede/platform/entrance"
	"stampede/platform/httpx"
	"stampede/seckill"
	"stampede/seckill/challenge"
	"stampede/seckill/reservation"
	"stampede/seckill/risk"
)

// Guard is the checks and what stands behind them.
type Guard struct {
	risk         *risk.Service
	reservations *reservation.Service
	challenges   *challenge.Service
	limit        httpx.Limit   // of reserving
	keep         time.Duration // of reservations, after their session
}

// New builds the checks and sets them before the sale's paths. deps are the
// sale's own. It reads nothing; see Load.
func New(set *config.Server, sale *seckill.Service, e *entrance.Entrance, orders risk.Orders, deps seckill.Deps) (*Guard, error) {
	g := &Guard{
		challenges: &challenge.Service{Catalogue: sale.Catalogue, Human: e.Human, Clock: deps.Clock, PathLead: sale.Rush.PathLead()},
		limit:      set.Reservations(), keep: set.KeepRecords,
	}
	rules := risk.DefaultConfig()
	rules.MaxOffenders, rules.KeepDecisions, rules.ClaimKeep = set.RiskMaxOffenders, set.RiskKeepDecisions, set.ClaimKeep
	var err error
	g.risk, err = risk.New(rules, risk.Deps{
		DB: deps.DB, Redis: deps.Redis, Bus: deps.Bus, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
		Items: sale.Catalogue, Orders: orders, Blacklist: e.Blacklist, SigningKey: deps.SigningKey,
	})
	if err != nil {
		return nil, err
	}
	g.reservations, err = reservation.New(reservation.Deps{
		DB: deps.DB, Redis: deps.Redis, Items: sale.Catalogue, Human: e.Human, Clock: deps.Clock, Log: deps.Log, Metrics: deps.Metrics,
	})
	if err != nil {
		return nil, err
	}
	// What reads memory goes first; the claim goes last, because it takes something
	// that comes back later than the others refuse.
	sale.Rush.Guard(g.risk.Watch(g.risk.Door, g.reservations.Check, challenge.Door(e.Human, e.Limits, g.reservations), g.risk.Participate)...)
	sale.Rush.OnOverLimit(g.risk.Refused)
	return g, nil
}

// Load reads what keeps people out. Call it before serving.
func (g *Guard) Load(ctx context.Context) error { return g.risk.Refresh(ctx) }

// Routes registers the checks' routes.
func (g *Guard) Routes(rt *httpx.Router) {
	g.risk.Routes(rt)
	g.reservations.Routes(rt.API, g.limit)
	g.challenges.Routes(rt)
}

// Subscriptions are what the checks listen to on EVENTS.
func (g *Guard) Subscriptions() []bus.Subscription { return g.risk.Subscriptions() }

// Workers are the checks' loops.
func (g *Guard) Workers() []app.Worker {
	return slices.Concat(g.risk.Workers(), []app.Worker{g.challenges.Worker(), g.reservations.Worker(g.keep)})
}
