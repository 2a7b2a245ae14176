package qrlogin

import (
	"cmp"
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

// row reads a QR login; a malformed id counts as unknown.
func (s *Service) row(ctx context.Context, id string) (row qrlogindb.StateRow, err error) {
	parsed, err := ids.Parse(id)
	if err == nil {
		row, err = s.db.State(ctx, parsed)
	}
	if parsed == (ids.ID{}) || errors.Is(err, pgx.ErrNoRows) {
		return row, errUnknown
	}
	return row, unreachable(err)
}

// scan assigns a code to the first user who scans it.
func (s *Service) scan(ctx context.Context, in *idInput) (*httpx.Output[QRLoginScan], error) {
	p := auth.From(ctx)
	if err := s.may(ctx, p); err != nil {
		return nil, err
	}
	id, err := ids.Parse(in.ID)
	if err != nil {
		return nil, errUnknown
	}
	token, hash := newSecret()
	number := newNumber()
	row, err := s.db.Scan(ctx, qrlogindb.ScanParams{ID: id, ScanHash: hash, Number: &number, UserID: &p.UserID, LoginID: &p.Login, TokenIssued: &p.IssuedAt})
	if errors.Is(err, pgx.ErrNoRows) { // why, it says a moment later
		row, err := s.row(ctx, in.ID)
		if err == nil && stateOf(row) == expired {
			return nil, errExpired
		}
		return nil, cmp.Or(err, error(errTaken))
	}
	if err != nil {
		return nil, unreachable(err)
	}
	s.steps.WithLabelValues(scanned).Inc()
	out := QRLoginScan{AskedAt: httpx.Moment(row.CreatedAt), ExpiresAt: httpx.Moment(row.ExpiresAt), ScanToken: token}
	out.Device.Kind, out.Device.Name = row.DeviceKind, row.DeviceName
	if row.Address != nil {
		out.Address = row.Address.String()
	}
	return httpx.Answer(out), nil
}

// decide lets the user who scanned a code confirm or deny it, with the token of that
// scan. A confirmation needs the number that the asking device shows, and the refresh
// token of the confirming login; a wrong number denies the login, so that it cannot be
// guessed.
func (s *Service) decide(ctx context.Context, id, token, decision string, number int, refresh string) error {
	p := auth.From(ctx)
	if err := s.may(ctx, p); err != nil {
		return err
	}
	row, err := s.row(ctx, id)
	if err != nil {
		return err
	}
	if err := undecidable(row, p, token); err != nil {
		return err
	}
	var refusal error
	if decision == confirmed {
		if err := s.deps.Logins.Holds(ctx, p, refresh); err != nil {
			return err
		}
		if row.Number == nil || int(*row.Number) != number {
			decision, refusal = denied, errNumber
		}
	}
	var done int64
	if decision == confirmed {
		done, err = s.db.Confirm(ctx, qrlogindb.ConfirmParams{ID: row.ID, UserID: &p.UserID, LoginID: &p.Login, ClaimSeconds: claimWithin.Seconds()})
	} else {
		done, err = s.db.Deny(ctx, qrlogindb.DenyParams{ID: row.ID, UserID: &p.UserID, LoginID: &p.Login})
	}
	if err != nil {
		return unreachable(err)
	}
	if done == 0 { // decided or expired since it was read
		if row, err = s.row(ctx, id); err != nil {
			return err
		}
		return cmp.Or(undecidable(row, p, token), error(errDecided))
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
