package qrlogin

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/qrlogin/internal/qrlogindb"
	"stampede/platform/store/pg"
)

// progress is the answer to a poll.
type progress struct {
	state     string
	expiresAt time.Time
	number    int           // with the state scanned
	tokens    *login.Tokens // with the state confirmed
}

// poll returns the state of a QR login to the holder of the secret. A confirmed login
// is claimed: the first caller gets the tokens.
func (s *Service) poll(ctx context.Context, id ids.ID, secret string, from netip.Addr) (progress, error) {
	row, err := s.holder(ctx, id, secret, from)
	if err != nil {
		return progress{}, err
	}
	p := progress{state: stateOf(row), expiresAt: row.ExpiresAt}
	if p.state == scanned && row.Number != nil {
		p.number = int(*row.Number)
	}
	if p.state != confirmed {
		return p, nil
	}
	return s.claim(ctx, p, id)
}

// holder returns the row if the secret matches.
func (s *Service) holder(ctx context.Context, id ids.ID, secret string, from netip.Addr) (qrlogindb.StateRow, error) {
	guess := ratelimit.Ask{Rule: s.cfg.Guesses, Key: ratelimit.AddrKey(from) + "/" + id.String()}
	if err := s.deps.Guard.Limits.Look(guess).Err(); err != nil {
		return qrlogindb.StateRow{}, err
	}
	row, err := s.db.State(ctx, id)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return row, unreachable("poll", err)
	}
	if err != nil || !fits(secret, row.PollHash) {
		if err := s.deps.Guard.Take(ctx, guess); err != nil {
			return row, err
		}
		return row, errUnknown
	}
	return row, s.deps.Guard.Take(ctx, ratelimit.Ask{Rule: s.cfg.Polls, Key: "q:" + id.String()})
}

// claim opens the confirmed login and returns its tokens, in one transaction.
func (s *Service) claim(ctx context.Context, p progress, id ids.ID) (progress, error) {
	var tokens login.Tokens
	err := pg.InTx(ctx, s.deps.Store.DB, func(tx pgx.Tx) error {
		row, err := s.db.WithTx(tx).Claim(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return errTooLate
		}
		if err != nil {
			return err
		}
		who := auth.Principal{UserID: *row.UserID, Login: *row.LoginID, IssuedAt: *row.TokenIssued}
		if ended, err := s.deps.Revocations.Revoked(ctx, who); err != nil {
			return err
		} else if ended {
			return errEnded
		}
		tokens, err = s.deps.Logins.OpenConfirmed(ctx, tx, who.UserID, who.Login, login.Device{
			Kind: row.DeviceKind, ID: row.DeviceID, Name: row.DeviceName, Address: address(row.Address),
		}, "qr")
		return err
	})
	var refused *fault.Error
	switch {
	case errors.Is(err, errTooLate):
		row, err := s.db.State(ctx, id)
		if err != nil {
			return progress{}, unreachable("claim", err)
		}
		return progress{state: stateOf(row), expiresAt: row.ExpiresAt}, nil
	case errors.Is(err, errEnded), errors.Is(err, login.ErrConfirmerEnded):
		p.state = denied
		return p, nil
	case errors.As(err, &refused):
		return progress{}, err
	case err != nil:
		return progress{}, unreachable("claim", err)
	}
	s.deps.Revocations.Tell(ctx) // opening a login may end the user's oldest one
	s.steps.WithLabelValues(claimed).Inc()
	p.tokens = &tokens
	return p, nil
}

// How a claim ends without tokens.
var (
	// errTooLate means that another poll was faster, or the code has expired.
	errTooLate = errors.New("qrlogin: already claimed or expired")
	// errEnded means that the confirming login has ended since. The asking device
	// gets a denial.
	errEnded = errors.New("qrlogin: the confirming login has ended")
)
