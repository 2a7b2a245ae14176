package humancheck

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"stampede/platform/base/fault"
	"stampede/platform/edge/ratelimit"
)

var errNoVerifier = errors.New("humancheck: a verifier check is required, but no provider is set")

// Check returns nil when the solution solves a valid challenge of the kind made for
// the subject, and uses it up. Faults: human-check-required, human-check-failed,
// human-check-unavailable. Kind None requires nothing.
func (s *Service) Check(ctx context.Context, kind Kind, sub Subject, text string) error {
	switch {
	case kind == None || kind == "":
		return nil
	case !kind.Valid() || purposes[sub.Purpose] == 0:
		return fmt.Errorf("humancheck: check of kind %q for %q", kind, sub.Purpose)
	case text == "":
		return s.ask(ErrRequired, "required", kind, sub)
	}
	sol, err := parse(text, s.bound())
	if err != nil {
		return s.ask(ErrFailed, err.Error(), kind, sub)
	}
	switch {
	case sol.kind == Pow && (kind == Pow || kind == Verifier):
		return s.checkWork(ctx, kind, sub, sol)
	case sol.kind == Slide && kind == Slide:
		return s.checkSlide(ctx, sub, sol)
	case sol.kind == Verifier && kind == Verifier:
		return s.checkToken(ctx, sub, sol)
	}
	return s.ask(ErrRequired, "required", kind, sub) // the solution is of another kind
}

// checkWork checks a proof of work, including one that replaces the verifier.
func (s *Service) checkWork(ctx context.Context, kind Kind, sub Subject, sol solution) error {
	want := formPow
	if kind == Verifier {
		want = formStandIn
	}
	t, err := s.read(sol.ticket, want, sub)
	if asked := int(t.difficulty); err == nil && (zeroBits([]byte(sol.whole)) < asked || asked < s.difficulty(want, sub)-1) {
		err = errWeak
	}
	if err == nil {
		err = s.use(ctx, &t)
	}
	return s.outcome(err, kind, Pow, sub)
}

// checkSlide compares the tile's position with the answer, and the drag with what
// people do. It deletes the answer as it reads it, so there is one attempt. Each
// recent failure of the subject narrows the tolerance by a pixel.
func (s *Service) checkSlide(ctx context.Context, sub Subject, sol solution) error {
	t, err := s.read(sol.ticket, formSlide, sub)
	if err == nil {
		var answer, failures int
		answer, failures, err = s.answer(ctx, &t, sub)
		off := int64(sol.number) - int64(answer)
		switch {
		case err != nil:
		case !sol.drag.byHand(sol.number, s.deps.Clock.Now().Sub(time.UnixMilli(t.issued))):
			err = errDrag
		case max(off, -off) > int64(s.tolerance(failures)):
			err = errWrong
		}
		if errors.Is(err, errDrag) || errors.Is(err, errWrong) {
			err = cmp.Or(s.countFailure(ctx, sub), err)
		}
	}
	return s.outcome(err, Slide, Slide, sub)
}

// tolerance is how far off the tile may be after so many recent failures.
func (s *Service) tolerance(failures int) int {
	return max(s.cfg.Tolerance-failures, min(s.cfg.Tolerance, leastTolerance))
}

// read opens a ticket and refuses one of another form or an expired one.
func (s *Service) read(text string, want form, sub Subject) (ticket, error) {
	t, err := s.keys.open(text, sub)
	switch {
	case err != nil:
		return t, err
	case t.form != want:
		return t, errForeign
	case s.deps.Clock.Now().After(t.expires()):
		return t, errLate
	}
	return t, nil
}

// checkToken verifies a token with the verifier. It uses up the token and its ticket too:
// a provider that is queried twice about one token may accept it twice. Where the ticket
// comes with the token, one that was made up never reaches the provider.
func (s *Service) checkToken(ctx context.Context, sub Subject, sol solution) error {
	if s.verifier == nil {
		return s.unavailable(Verifier, errNoVerifier)
	}
	var t ticket
	var err error
	if s.bound() {
		t, err = s.read(sol.ticket, formVerifier, sub)
	}
	var q question
	if err == nil {
		q, err = s.verifier.api.ask(sol.token, sub.Address)
	}
	if err != nil {
		return s.outcome(err, Verifier, Verifier, sub)
	}
	v, err := s.verifier.verify(ctx, q)
	switch {
	case ctx.Err() != nil:
		return s.unavailable(Verifier, ctx.Err()) // the client left; the provider may be fine
	case errors.Is(err, errBusy):
		return s.unavailable(Verifier, err) // load must not weaken the check
	case err != nil:
		s.deps.Log.WarnContext(ctx, "human check verifier failed", "error", err, "rule", string(s.cfg.VerifierDown))
		if s.cfg.VerifierDown == StandIn {
			s.metrics.result(Verifier, "stood-in")
			return about(ErrRequired, Verifier, Pow, sub).With("challenge", s.work(formStandIn, sub))
		}
		return s.unavailable(Verifier, err)
	case v.hint != "":
		s.deps.Log.WarnContext(ctx, "human check token refused", "hint", v.hint)
	}
	err = s.judge(v, sub)
	if err == nil && !s.bound() {
		t, err = s.read(v.ticket, formVerifier, sub)
	}
	if err == nil && q.once != "" {
		err = s.useOnce(ctx, q.once)
	}
	if err == nil {
		err = s.use(ctx, &t)
	}
	return s.outcome(err, Verifier, Verifier, sub)
}

// bound reports whether the ticket comes with the token: providers other than siteverify's
// return nothing of the shop's.
func (s *Service) bound() bool { return s.cfg.VerifierKind.bound() }

// judge checks the verdict, apart from the ticket that came back with it.
func (s *Service) judge(v verdict, sub Subject) error {
	now := s.deps.Clock.Now()
	switch {
	case v.no != nil:
		return v.no
	case v.page != nil && (!slices.Contains(s.cfg.Hosts, strings.ToLower(v.page.host)) || v.page.action != sub.Purpose):
		return errForeign // a token of another site, or from another of our forms
	case v.at.IsZero():
		return nil
	case v.at.Before(now.Add(-challengeLifetime)):
		return errLate
	case v.at.After(now.Add(maxClockGap)):
		return errForged
	}
	return nil
}

// outcome maps the result of a check to the caller's answer and counts it. asked is
// the required kind, sent the kind of the solution.
func (s *Service) outcome(err error, asked, sent Kind, sub Subject) error {
	switch {
	case err == nil:
		s.metrics.result(sent, "passed")
		return nil
	case errors.Is(err, errStore):
		return s.unavailable(sent, err)
	}
	return s.ask(ErrFailed, err.Error(), asked, sub)
}

func (s *Service) unavailable(kind Kind, err error) error {
	s.metrics.result(kind, "unavailable")
	return ErrUnavailable.After(retryStore).Because(err)
}

// ask requires a challenge and includes one if it needs neither a picture nor an
// entry in Redis, which saves the client a request.
func (s *Service) ask(f *fault.Error, why string, kind Kind, sub Subject) error {
	s.metrics.result(kind, why)
	if f == ErrFailed { //nolint:errorlint // identity, not equality, is meant
		f = f.With("reason", why)
	}
	if kind == Slide {
		return about(f, kind, kind, sub)
	}
	c, err := s.light(kind, sub)
	if err != nil {
		return err
	}
	return about(f, kind, c.Kind, sub).With("challenge", c)
}

// about adds where to get a challenge of the required kind, and the kind that is
// served at the moment.
func about(f *fault.Error, asked, now Kind, sub Subject) *fault.Error {
	return f.With("kind", now).With("challenge_url", sub.challengeURL(asked))
}

// What is kept in Redis, each under its own key, so that it may lie in any slot:
//
//	human:used:<id>    a used ticket, or the hash of what a verifier's widget gave; kept
//	                   until it could no longer be used anyway
//	human:slide:<id>   where the tile of a slide belongs; deleted by the first read
//	human:failed:<of>  how often a user, or an address before a login, failed a slide
const (
	usedPrefix   = "human:used:"
	slidePrefix  = "human:slide:"
	failedPrefix = "human:failed:"
)

// failuresKept is how long a failure counts, from the first one on.
const failuresKept = 10 * time.Minute

// RedisKeys are the prefixes of the package's keys.
var RedisKeys = []string{usedPrefix, slidePrefix, failedPrefix}

const (
	// storeTimeout bounds a call: Redis answers in a millisecond, and for a shopper
	// an error that asks for a retry is better than a long wait.
	storeTimeout = time.Second
	// maxClockGap is how far the clocks of two instances, or ours and a provider's,
	// may differ. A used ticket is remembered for that much longer than it is valid.
	maxClockGap = time.Minute
)

// errStore means that Redis did not answer. Only the log gets the cause.
var errStore = errors.New("humancheck: Redis did not answer")

func slideKey(t *ticket) string {
	return slidePrefix + base64.RawURLEncoding.EncodeToString(t.id[:])
}

// use marks a ticket as used; errUsed if it already was.
func (s *Service) use(ctx context.Context, t *ticket) error {
	return s.mark(ctx, t.id[:], max(0, t.expires().Sub(s.deps.Clock.Now()))+maxClockGap)
}

// longestToken is longer than any verifier accepts a token; Aliyun does for 20 minutes.
const longestToken = 30 * time.Minute

// useOnce marks what a verifier's widget gave as used; errUsed if it already was.
func (s *Service) useOnce(ctx context.Context, given string) error {
	sum := sha256.Sum256([]byte(given))
	return s.mark(ctx, sum[:], longestToken)
}

func (s *Service) mark(ctx context.Context, id []byte, left time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	key := usedPrefix + base64.RawURLEncoding.EncodeToString(id)
	err := s.deps.Redis.SetArgs(ctx, key, 1, redis.SetArgs{Mode: "NX", TTL: left}).Err()
	if errors.Is(err, redis.Nil) {
		return errUsed
	}
	if err != nil {
		return fmt.Errorf("%w: mark a ticket used: %w", errStore, err)
	}
	return nil
}

// keep stores the answer to a slide.
func (s *Service) keep(ctx context.Context, t *ticket, answer int) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := s.deps.Redis.Set(ctx, slideKey(t), answer, challengeLifetime+maxClockGap).Err(); err != nil {
		return fmt.Errorf("%w: keep a slide's answer: %w", errStore, err)
	}
	return nil
}

// answer reads and deletes a slide's answer, and reads how often its subject failed
// lately; errUsed if it was read before.
func (s *Service) answer(ctx context.Context, t *ticket, sub Subject) (answer, failures int, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	pipe := s.deps.Redis.Pipeline()
	stored, failed := pipe.GetDel(ctx, slideKey(t)), pipe.Get(ctx, failedKey(sub))
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return 0, 0, fmt.Errorf("%w: take a slide's answer: %w", errStore, err)
	}
	answer, err = stored.Int()
	if errors.Is(err, redis.Nil) {
		return 0, 0, errUsed
	}
	if err == nil && !errors.Is(failed.Err(), redis.Nil) {
		failures, err = failed.Int()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: take a slide's answer: %w", errStore, err)
	}
	return answer, failures, nil
}

func failedKey(sub Subject) string {
	if sub.User != 0 {
		return failedPrefix + ratelimit.UserKey(sub.User)
	}
	return failedPrefix + sub.address()
}

// countFailure adds one to the failures of a subject.
func (s *Service) countFailure(ctx context.Context, sub Subject) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout) // count even if the client hangs up
	defer cancel()
	key, pipe := failedKey(sub), s.deps.Redis.Pipeline()
	pipe.Incr(ctx, key)
	pipe.ExpireNX(ctx, key, failuresKept)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("%w: count a failed slide: %w", errStore, err)
	}
	return nil
}
