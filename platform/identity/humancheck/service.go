package humancheck

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"stampede/platform/base/app"
	"stampede/platform/base/clock"
	"stampede/platform/edge/httpx"
)

// Deps are the Service's dependencies; all but Provider are required.
type Deps struct {
	Redis   redis.UniversalClient
	Clock   clock.Clock // the shop's: a ticket is issued on one instance and checked on another
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// SigningKeys are the process's: the current one first, then those being retired.
	SigningKeys [][]byte
	// Provider is the verifier; nil uses Config.SiteVerify, if that is set.
	Provider Provider
}

// Service issues challenges and checks solutions. Safe for concurrent use.
type Service struct {
	cfg      Config
	deps     Deps
	keys     keys
	album    *album
	verifier Provider // nil when there is none
	metrics  *metrics
}

// New returns a service. Its workers draw slide pictures in advance.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Redis == nil || deps.Clock == nil || deps.Log == nil || deps.Metrics == nil {
		return nil, errors.New("humancheck: every dependency is required")
	}
	ring, err := newKeys(deps.SigningKeys)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: deps, keys: ring, verifier: deps.Provider,
		album: newAlbum(cfg.Pictures, deps.Metrics), metrics: newMetrics(deps.Metrics),
	}
	if s.verifier == nil && cfg.SiteVerify.on() {
		site := cfg.SiteVerify
		site.Metrics = deps.Metrics
		s.verifier = NewSiteVerify(site)
	}
	return s, nil
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
func (s *Service) Public() Kind { return s.cfg.Public }

// Stronger is the kind for suspicious clients: the verifier if there is one, else
// the slide.
func (s *Service) Stronger() Kind {
	if s.verifier != nil {
		return Verifier
	}
	return Slide
}

// Challenge issues a challenge of a kind for a subject. It is of kind Pow when the
// verifier is down and a proof of work replaces it. Faults: human-check-unavailable.
func (s *Service) Challenge(ctx context.Context, kind Kind, sub Subject) (Challenge, error) {
	if purposes[sub.Purpose] == 0 {
		return Challenge{}, fmt.Errorf("humancheck: unknown purpose %q", sub.Purpose)
	}
	if kind == Slide {
		return s.slide(ctx, sub)
	}
	return s.light(kind, sub)
}

// light issues a challenge that needs neither a picture nor an entry in Redis.
func (s *Service) light(kind Kind, sub Subject) (Challenge, error) {
	switch kind {
	case None, "":
		return Challenge{Kind: None}, nil
	case Pow:
		return s.work(formPow, sub), nil
	case Verifier:
		return s.widget(sub)
	case Slide:
		return Challenge{}, errors.New("humancheck: a slide needs a picture and cannot be issued here")
	default:
		return Challenge{}, fmt.Errorf("humancheck: unknown kind of check %q", kind)
	}
}

// work issues a proof of work.
func (s *Service) work(f form, sub Subject) Challenge {
	t, bits := s.ticket(f), s.difficulty(f, sub)
	t.difficulty = byte(bits) //nolint:gosec // at most MaxDifficulty
	s.metrics.issued(Pow)
	return Challenge{Kind: Pow, Challenge: s.keys.sign(t, sub), ExpiresAt: httpx.Moment(t.expires()), Difficulty: bits}
}

// difficulty is how many zero bits a proof of work of the subject needs now. What
// replaces a verifier is never easier than usual.
func (s *Service) difficulty(f form, sub Subject) int {
	least := Easy
	if f == formStandIn {
		least = 0
	}
	level := min(max(sub.Level, least), Hardest)
	return min(max(s.cfg.Difficulty+level, MinDifficulty), MaxDifficulty)
}

// slide takes a picture and stores its answer where every instance finds it.
func (s *Service) slide(ctx context.Context, sub Subject) (Challenge, error) {
	p, err := s.album.take(ctx)
	if err != nil {
		s.metrics.result(Slide, "unavailable")
		return Challenge{}, ErrUnavailable.After(retryPicture).Because(err)
	}
	t := s.ticket(formSlide)
	if err := s.keep(ctx, &t, p.answer); err != nil {
		s.metrics.result(Slide, "unavailable")
		return Challenge{}, ErrUnavailable.After(retryStore).Because(err)
	}
	s.metrics.issued(Slide)
	return Challenge{Kind: Slide, Challenge: s.keys.sign(t, sub), ExpiresAt: httpx.Moment(t.expires()), Slide: &p.shown}, nil
}

// widget builds what a page passes to the verifier's script, or its replacement.
func (s *Service) widget(sub Subject) (Challenge, error) {
	switch {
	case s.verifier == nil:
		s.metrics.result(Verifier, "unavailable")
		return Challenge{}, ErrUnavailable.Because(errNoVerifier)
	case s.verifier.Available():
	case s.cfg.Down == StandIn:
		return s.work(formStandIn, sub), nil
	default:
		s.metrics.result(Verifier, "unavailable")
		return Challenge{}, ErrUnavailable.After(retryVerifier)
	}
	t := s.ticket(formVerifier)
	s.metrics.issued(Verifier)
	return Challenge{
		Kind: Verifier, ExpiresAt: httpx.Moment(t.expires()),
		Verifier: &VerifierWidget{SiteKey: s.verifier.SiteKey(), Action: sub.Purpose, Data: s.keys.sign(t, sub)},
	}, nil
}

// ticket makes a ticket with a new id that is valid from now on.
func (s *Service) ticket(f form) ticket {
	t := ticket{form: f, issued: s.deps.Clock.Now().UnixMilli(), lifetime: uint16(challengeLifetime / time.Second)}
	_, _ = rand.Read(t.id[:]) // it never fails, see crypto/rand
	return t
}

// When a client may retry.
const (
	// retryPicture is about how long it takes to draw a few dozen pictures.
	retryPicture = time.Second
	// retryStore gives Redis, or its failover, time to recover.
	retryStore = 2 * time.Second
	// retryVerifier is about the breaker's delay.
	retryVerifier = 5 * time.Second
)
