package humancheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"stampede/platform/base/fault"
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
	sol, err := parse(text)
	if err != nil {
		return s.ask(ErrFailed, err.Error(), kind, sub)
	}
	switch sol.kind {
	case Pow:
		if kind == Pow || kind == Verifier {
			return s.checkWork(ctx, kind, sub, sol)
		}
	case Slide:
		if kind == Slide {
			return s.checkSlide(ctx, sub, sol)
		}
	case Verifier:
		if kind == Verifier {
			return s.checkToken(ctx, sub, sol)
		}
	default: // parse returns no other
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

// checkToken verifies a token with the verifier. It uses up the token's ticket too:
// a provider that is queried twice about one token may accept it twice.
func (s *Service) checkToken(ctx context.Context, sub Subject, sol solution) error {
	if s.verifier == nil {
		return s.unavailable(Verifier, errNoVerifier)
	}
	v, err := s.verifier.verify(ctx, sol.whole, sub.Address)
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
	}
	err = s.judge(v, sub)
	if err == nil {
		var t ticket
		if t, err = s.read(v.data, formVerifier, sub); err == nil {
			err = s.use(ctx, &t)
		}
	}
	return s.outcome(err, Verifier, Verifier, sub)
}

// judge checks the verdict, apart from the ticket that came back with it.
func (s *Service) judge(v verdict, sub Subject) error {
	now := s.deps.Clock.Now()
	switch {
	case v.used:
		return errUsed
	case !v.success:
		return errWrong
	case !slices.Contains(s.cfg.Hosts, strings.ToLower(v.hostname)), v.action != sub.Purpose:
		return errForeign // a token of another site, or from another of our forms
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
