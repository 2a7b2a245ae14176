// Package readiness is the preflight of a sale: what an operator should know of the plan
// and of the servers before it opens. It changes nothing; what would make the sale fail
// is a stop, and publication refuses the plan's own.
package readiness

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/clock"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
	"stampede/platform/watch/preflight"
	"stampede/seckill/internal/operator"
	"stampede/seckill/internal/wire"
	"stampede/seckill/plan"
)

// Deps are what a preflight looks at; all are required unless they say otherwise.
type Deps struct {
	DB    *pgxpool.Pool
	Clock clock.Clock
	// Servers are the checks beside the plan's.
	Servers []preflight.Check
	// Images fetches items' images. Nil fetches from the Internet, and from no private
	// address.
	Images *outbound.Client
}

// Service runs preflights. Safe for concurrent use.
type Service struct {
	cfg  plan.Config
	deps Deps
}

// New returns the service; it reads nothing yet.
func New(cfg plan.Config, deps Deps) *Service {
	if deps.Images == nil {
		deps.Images = outbound.New(outbound.Config{Peer: "images", Timeout: imageTimeout, Attempts: 1, MaxBytes: 1, Public: true, MaxConns: imagesAtOnce})
	}
	return &Service{cfg: cfg, deps: deps}
}

// askPreflight is the request of a preflight.
type askPreflight struct {
	operator.ByID
	Shoppers int `query:"shoppers" minimum:"1" maximum:"100000000" doc:"How many are expected at the opening" example:"50000"`
}

// Routes registers the preflight.
func (s *Service) Routes(api httpx.API) {
	op := operator.Read(operator.Base+"/activities/{id}/preflight", "preflight-activity", "Whether the plan and the servers are ready for the activity")
	op.Description = "Changes nothing and takes 3 s at most. A stop would make the sale fail. Publication refuses those of the codes plan and provider, and answers with the other lines above ok."
	httpx.Register(api, op, func(ctx context.Context, in *askPreflight) (*operator.Body[plan.PreflightView], error) {
		return operator.Answer(in.ID, func(id int64) (plan.PreflightView, error) {
			a, err := plan.Read(ctx, s.deps.DB, id)
			if err != nil {
				return plan.PreflightView{}, err
			}
			return s.Preflight(ctx, a, s.deps.Clock.Now(), in.Shoppers), nil
		})
	})
}

// planned is an activity's plan at a moment.
type planned struct {
	*plan.Activity
	s  *Service
	at time.Time
}

// Preflight runs the plan's checks and the servers'.
func (s *Service) Preflight(ctx context.Context, a *plan.Activity, at time.Time, shoppers int) plan.PreflightView {
	p := &planned{a, s, at}
	need := preflight.Need{Units: p.units(), Shoppers: shoppers}
	lines := preflight.Run(ctx, need, append(p.checks(), s.deps.Servers...))
	return plan.PreflightView{
		ActivityID: wire.ID(a.ID), At: wire.Time(at), Level: lines[0].Level, Units: need.Units, Shoppers: shoppers, Lines: lines,
	}
}
