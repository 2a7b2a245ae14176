package qrlogin

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/qrlogin/internal/qrlogindb"
)

// The states of a row. Expiry is not stored: it follows from the time.
const (
	pending   = "pending"
	scanned   = "scanned"
	confirmed = "confirmed"
	denied    = "denied"
	claimed   = "claimed"
	expired   = "expired" // reported, never stored
)

// may returns why a principal cannot scan or decide at all: a minted token has no
// login that could be ended, and perhaps no account; a blacklisted user must not let
// a device in.
func (s *Service) may(ctx context.Context, p auth.Principal) error {
	if p.Login == 0 {
		return errMinted
	}
	if err := s.deps.Guard.KeepOut("qr-scan", p.UserID, "", p.Device, httpx.ClientAddr(ctx)); err != nil {
		return err
	}
	return s.deps.Guard.Take(ctx, ratelimit.Ask{Rule: s.cfg.PerUser, Key: ratelimit.UserKey(p.UserID)})
}

// scan assigns a code to the first user who scans it.
func (s *Service) scan(ctx context.Context, p auth.Principal, id ids.ID) (qrlogindb.ScanRow, string, error) {
	if err := s.may(ctx, p); err != nil {
		return qrlogindb.ScanRow{}, "", err
	}
	token, hash := newSecret()
	number := newNumber()
	row, err := s.db.Scan(ctx, qrlogindb.ScanParams{ID: id, ScanHash: hash, Number: &number, UserID: &p.UserID, LoginID: &p.Login, TokenIssued: &p.IssuedAt})
	if errors.Is(err, pgx.ErrNoRows) {
		return row, "", s.whyNotScanned(ctx, id)
	}
	if err != nil {
		return row, "", unreachable("scan", err)
	}
	s.steps.WithLabelValues(scanned).Inc()
	return row, token, nil
}

// whyNotScanned returns why a scan failed a moment ago.
func (s *Service) whyNotScanned(ctx context.Context, id ids.ID) error {
	row, err := s.db.State(ctx, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return errUnknown
	case err != nil:
		return unreachable("scan", err)
	case stateOf(row) == expired:
		return errExpired
	}
	return errTaken
}

// proof is what a confirmation requires beside the scan token.
type proof struct {
	number  int    // that the asking device shows
	refresh string // the refresh token of the confirming login
}

// decide lets the user who scanned a code confirm or deny it, with the token of that
// scan. A confirmation needs the proof; a wrong number denies the login, so that it
// cannot be guessed.
func (s *Service) decide(ctx context.Context, p auth.Principal, id ids.ID, token string, decision string, shown proof) error {
	if err := s.may(ctx, p); err != nil {
		return err
	}
	row, err := s.db.State(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return errUnknown
	}
	if err != nil {
		return unreachable("decide", err)
	}
	if err := undecidable(row, p, token); err != nil {
		return err
	}
	var refusal error
	if decision == confirmed {
		if err := s.deps.Logins.Holds(ctx, p, shown.refresh); err != nil {
			return err
		}
		if row.Number == nil || int(*row.Number) != shown.number {
			decision, refusal = denied, errNumber
		}
	}
	var done int64
	if decision == confirmed {
		done, err = s.db.Confirm(ctx, qrlogindb.ConfirmParams{ID: id, UserID: &p.UserID, LoginID: &p.Login, ClaimSeconds: claimWithin.Seconds()})
	} else {
		done, err = s.db.Deny(ctx, qrlogindb.DenyParams{ID: id, UserID: &p.UserID, LoginID: &p.Login})
	}
	if err != nil {
		return unreachable("decide", err)
	}
	if done == 0 { // decided or expired since it was read
		if row, err = s.db.State(ctx, id); err != nil {
			return unreachable("decide", err)
		}
		if err := undecidable(row, p, token); err != nil {
			return err
		}
		return errDecided
	}
	s.steps.WithLabelValues(decision).Inc()
	return refusal
}

// undecidable returns why a principal with a scan token may not decide on a row; nil
// when it may.
func undecidable(row qrlogindb.StateRow, p auth.Principal, token string) error {
	state := stateOf(row)
	switch {
	case row.UserID == nil && state == expired:
		return errExpired
	case row.UserID == nil:
		return errNotScanned
	case *row.UserID != p.UserID || *row.LoginID != p.Login:
		return errUnknown // another user's
	case !fits(token, row.ScanHash):
		return errNotScanned
	case state == expired:
		return errExpired
	case state != scanned:
		return errDecided
	}
	return nil
}

// stateOf is a row's state, by the database's clock when it was read.
func stateOf(row qrlogindb.StateRow) string {
	if row.Expired && (row.Status == pending || row.Status == scanned || row.Status == confirmed) {
		return expired
	}
	return row.Status
}
