package humancheck

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"stampede/platform/edge/httpx"
)

// Challenge is what a client must solve. Its members depend on its kind.
type Challenge struct {
	Kind      Kind   `json:"kind" enum:"none,pow,slide,verifier" doc:"What to solve; none requires nothing. It is also pow when the required verifier is down and the shop accepts a proof of work instead"`
	Challenge string `json:"challenge,omitempty" doc:"The first part of the solution of pow and slide" example:"AQEB…"`
	ExpiresAt string `json:"expires_at,omitempty" format:"date-time" doc:"When the challenge expires, by server time"`

	Difficulty int             `json:"difficulty,omitempty" minimum:"8" maximum:"26" doc:"pow: find a whole number n, 0 to 2^53-1 in decimal digits without leading zeros, so that SHA-256 of \"<challenge>.<n>\" begins with that many zero bits; send \"Human-Check: pow:<challenge>.<n>\"" example:"18"`
	Slide      *SlidePicture   `json:"slide,omitempty" doc:"slide: let the shopper drag the tile to its gap; send \"Human-Check: slide:<challenge>.<x>.<drag>\" with the tile's left edge in pixels of the background and how the shopper moved it there: 5 to 128 pairs \"<milliseconds since the first move>,<left edge>\", separated by semicolons, the last one with x. One that took under 200 ms or was exactly linear fails"`
	Verifier   *VerifierWidget `json:"verifier,omitempty" doc:"verifier: run the provider's widget; send \"Human-Check: verifier:<token>\"; provider says what the token is"`
}

// SlidePicture is a slide captcha. The two images take at most 64 KiB of JSON, about
// 20 KiB on average.
type SlidePicture struct {
	Background string `json:"background" doc:"JPEG with the gap, as a data: URI" example:"data:image/jpeg;base64,/9j/4AAQ"`
	Tile       string `json:"tile" doc:"PNG with transparency, as a data: URI" example:"data:image/png;base64,iVBORw0K"`
	Width      int    `json:"width" doc:"Width of the background in pixels" example:"300"`
	Height     int    `json:"height" example:"220"`
	TileX      int    `json:"tile_x" doc:"Where the tile's left edge starts" example:"12"`
	TileY      int    `json:"tile_y" doc:"Where its upper edge is; it moves only horizontally" example:"84"`
	TileWidth  int    `json:"tile_width" example:"64"`
	TileHeight int    `json:"tile_height" example:"64"`
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
	case Slide: // needs a picture
	}
	return Challenge{}, fmt.Errorf("humancheck: no check of kind %q is issued here", kind)
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
	case s.cfg.VerifierDown == StandIn:
		return s.work(formStandIn, sub), nil
	default:
		s.metrics.result(Verifier, "unavailable")
		return Challenge{}, ErrUnavailable.After(retryVerifier)
	}
	t := s.ticket(formVerifier)
	s.metrics.issued(Verifier)
	return Challenge{
		Kind: Verifier, ExpiresAt: httpx.Moment(t.expires()),
		Verifier: s.widgetOf(sub.Purpose, s.keys.sign(t, sub)),
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
