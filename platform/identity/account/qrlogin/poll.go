package qrlogin

import (
	"cmp"
	"context"
	"errors"
	"net/netip"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/login"
	"stampede/platform/store/pg"
)

// poll returns the state of a QR login to the holder of the secret. A confirmed login
// is claimed: the first caller gets the tokens.
func (s *Service) poll(ctx context.Context, in *pollInput) (*httpx.Output[QRLoginState], error) {
	id, err := ids.Parse(in.ID)
	if err != nil {
		return nil, errUnknown
	}
	guess := ratelimit.Ask{Rule: s.cfg.Guesses, Key: ratelimit.AddrKey(httpx.ClientAddr(ctx)) + "/" + id.String()}
	if err := s.deps.Guard.Limits.Look(guess).Err(); err != nil {
		return nil, err
	}
	row, err := s.row(ctx, in.ID)
	if err == nil && !fits(in.Secret, row.PollHash) {
		err = errUnknown
	}
	switch {
	case errors.Is(err, errUnknown):
		return nil, cmp.Or(s.deps.Guard.Take(ctx, guess), err)
	case err != nil:
		return nil, err
	}
	if err := s.deps.Guard.Take(ctx, ratelimit.Ask{Rule: s.cfg.Polls, Key: "q:" + id.String()}); err != nil {
		return nil, err
	}
	var tokens *login.Tokens
	state := stateOf(row)
	if state == confirmed {
		tokens, err = s.claim(ctx, id)
		switch {
		case errors.Is(err, errTooLate):
			if row, err = s.row(ctx, in.ID); err == nil {
				state = stateOf(row)
			}
		case errors.Is(err, errEnded), errors.Is(err, login.ErrConfirmerEnded):
			state, err = denied, nil // what the asking device gets
		}
		if err != nil {
			return nil, unreachable(err)
		}
	}
	out := QRLoginState{Status: state, ExpiresAt: httpx.Moment(row.ExpiresAt), Tokens: tokens}
	if state == scanned && row.Number != nil {
		out.Number = int(*row.Number)
	}
	if state == pending || state == scanned {
		out.PollAfterMs = pollAfter.Milliseconds()
	}
	return httpx.Answer(out), nil
}

// How a claim ends without tokens.
var (
	// errTooLate means that another poll was faster, or the code has expired.
	errTooLate = errors.New("qrlogin: already claimed or expired")
	// errEnded means that the confirming login has ended since.
	errEnded = errors.New("qrlogin: the confirming login has ended")
)

// claim opens the confirmed login and returns its tokens, in one transaction.
func (s *Service) claim(ctx context.Context, id ids.ID) (*login.Tokens, error) {
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
		d := login.Device{Kind: row.DeviceKind, ID: row.DeviceID, Name: row.DeviceName, Address: pg.ValueOr(row.Address, netip.Addr{})}
		tokens, err = s.deps.Logins.OpenConfirmed(ctx, tx, who.UserID, who.Login, d, "qr")
		return err
	})
	if err != nil {
		return nil, err // the caller wraps it
	}
	s.deps.Revocations.Tell(ctx) // opening a login may end the user's oldest one
	s.steps.WithLabelValues(claimed).Inc()
	return &tokens, nil
}
