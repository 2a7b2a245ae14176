package humancheck

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
)

// Deps are the Service's dependencies; all are required.
type Deps struct {
	Redis   redis.UniversalClient
	Clock   clock.Clock // the shop's: a ticket is issued on one instance and checked on another
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// SigningKeys are the process's: the current one first, then those being retired.
	SigningKeys [][]byte
}

// Service issues challenges and checks solutions. Safe for concurrent use.
type Service struct {
	cfg      Config
	deps     Deps
	keys     keys
	album    *album
	verifier *provider // nil when there is none
	metrics  *metrics
}

// New returns a service. Its workers draw slide pictures in advance.
func New(cfg Config, deps Deps) *Service {
	s := &Service{
		cfg: cfg, deps: deps, keys: newKeys(deps.SigningKeys),
		album: newAlbum(cfg.Pictures, deps.Metrics), metrics: newMetrics(deps.Metrics),
	}
	if cfg.hasVerifier() {
		s.verifier = newProvider(cfg, deps.Clock, deps.Metrics)
	}
	return s
}

// Workers are the service's loops.
func (s *Service) Workers() []app.Worker {
	return []app.Worker{{Name: "human-check-pictures", Run: s.album.run}}
}

// Prepare starts drawing slide pictures in advance. It never blocks; further calls
// cost nothing.
func (s *Service) Prepare() { s.album.want() }

// Offers reports whether checks of a kind can be made with these settings.
func (s *Service) Offers(kind Kind) bool {
	return kind.Valid() && (kind != Verifier || s.verifier != nil)
}

// Public is the kind that login, registration and SMS codes require.
func (s *Service) Public() Kind { return s.cfg.AuthHumanCheck }

// Stronger is the kind for suspicious clients: the verifier if there is one, else
// the slide.
func (s *Service) Stronger() Kind {
	if s.verifier != nil {
		return Verifier
	}
	return Slide
}
