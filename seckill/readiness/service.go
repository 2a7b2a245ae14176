// Package readiness is the preflight of a sale: what an operator should know of the plan
// and of the servers before it opens. It changes nothing; what would make the sale fail
// is a stop, and publication refuses the plan's own.
package readiness

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"stampede/platform/base/clock"
	"stampede/platform/edge/outbound"
	"stampede/platform/watch/preflight"
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
