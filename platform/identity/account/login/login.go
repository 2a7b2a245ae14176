// Package login opens, refreshes and ends logins, each with its tokens.
//
// A login is one user on one device. It issues an access token, which is short-lived
// and checked without any store, and a refresh token, which is valid for one use, at
// Refresh only. Refresh tokens are numbered within their login and computed from it
// (refresh.go): the contents of the database do not suffice to make one.
//
// A refresh token that arrives twice may come from a shopper whose answer was lost,
// or from a thief. Within 10 s, and while the successor is unused, it gets that same
// successor: a lost answer logs no shopper out, and concurrent repeats share one
// successor. Otherwise the login ends, for both of them.
//
// A login that another one confirmed, by QR code, ends when that one is ended: by
// logout, by the user or an operator, or because its refresh token was copied. A
// login that is pushed out by newer ones has none left that it confirmed.
//
// A login that is being opened while all of its user's logins end is either ended or
// refused: both take the user's row lock.
package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/store/pg"
)

// Bounds of logins.
const (
	// mostLogins is how many devices a user may be logged in on: a whole family's.
	// Beyond it the least recently used login ends; see EndSurplus.
	mostLogins = 20
	// saltBytes make a login's refresh tokens differ from any other's, including
	// those of a login with the same id in a restored database.
	saltBytes = 16
	// loginMost is the longest that a login lives, however often it is refreshed:
	// half a year, after which the user authenticates again.
	loginMost = 180 * 24 * time.Hour
)

// Open is OpenConfirmed for a login that no other one has confirmed.
func (s *Service) Open(ctx context.Context, tx pgx.Tx, user int64, d Device, how string) (Tokens, error) {
	return s.OpenConfirmed(ctx, tx, user, 0, d, how)
}

// ErrStaff refuses a login by exchange to a user with a role.
var ErrStaff = fault.New(fault.Forbidden, "staff-login", fault.T("This account belongs to the shop's staff", "该账号属于店铺员工"),
	fault.T("The shop's login opens no account with a role.", "具有后台权限的账号不能通过商城登录打开。"),
	fault.T("Sign in to the back office with the account's phone, and buy with another account.", "请用该账号的手机号登录后台；购物请换用其他账号。"))

// ErrConfirmerEnded reports that the confirming login has ended.
var ErrConfirmerEnded = errors.New("account: the confirming login has ended")

// OpenConfirmed opens a login of a user on a device in the caller's transaction and
// returns its tokens. how names the method: password, sms, wechat, qr, register, exchange. It
// returns account.ErrDisabled for a disabled user, account.ErrElsewhere for a shopper whose
// account is in the shop's own system, and the blacklist's refusal for a listed user. A
// login above mostLogins ends the user's least recently used one, so call the revocation
// service's Tell after the commit.
//
// If another login of the user, the confirmer, has confirmed it, it ends when that one is
// ended. ErrConfirmerEnded means that this has already happened, or that mostLogins logins
// have confirmed one another.
func (s *Service) OpenConfirmed(ctx context.Context, tx pgx.Tx, user, confirmer int64, d Device, how string) (Tokens, error) {
	q := accountdb.New(tx)
	u, err := account.LockActive(ctx, tx, user)
	if err != nil {
		return Tokens{}, err
	}
	var parent *int64
	if confirmer != 0 {
		// Whatever ends the confirmer takes the user's lock first, so that it either
		// is seen here or sees the new login.
		l, err := q.LoginState(ctx, accountdb.LoginStateParams{ID: confirmer})
		if errors.Is(err, pgx.ErrNoRows) || err == nil && (!l.Live || l.UserID != user) {
			return Tokens{}, ErrConfirmerEnded
		}
		if err != nil {
			return Tokens{}, fmt.Errorf("account: confirming login: %w", err)
		}
		parent = &confirmer
	}
	if err := s.guard.KeepOut(how, user, account.PhoneOf(u), d.ID, d.Address); err != nil {
		return Tokens{}, err
	}
	if parent == nil { // a confirmer has passed it
		if err := s.factors.Check(ctx, tx, user, d.TOTP); err != nil {
			return Tokens{}, err
		}
	}
	if how != ByExchange {
		if u.Role, err = s.firstAdmin(ctx, tx, u); err == nil && u.Role == string(auth.Shopper) {
			err = s.store.ShoppersLogInHere()
		}
	} else if u.Role != string(auth.Shopper) {
		err = ErrStaff
	}
	if err != nil {
		return Tokens{}, err
	}
	role, err := s.factors.RoleOf(ctx, tx, u)
	if err != nil {
		return Tokens{}, err
	}
	if err := s.noteDevice(ctx, tx, user, d); err != nil {
		return Tokens{}, err
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	l, err := q.OpenLogin(ctx, accountdb.OpenLoginParams{
		UserID: user, DeviceKind: d.Kind, DeviceID: d.ID, DeviceName: d.Name, Browser: d.Browser, Address: addressOf(d.Address), How: how, Salt: salt, ParentID: parent,
		LifetimeSeconds: s.store.Config.RefreshLifetime.Seconds(),
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("account: open login: %w", err)
	}
	surplus, err := q.EndSurplus(ctx, accountdb.EndSurplusParams{UserID: user, Most: mostLogins, Why: account.EndedBySurplus})
	if err != nil {
		return Tokens{}, fmt.Errorf("account: open login: end surplus: %w", err)
	}
	if slices.Contains(surplus, l.ID) { // its confirmers alone are mostLogins
		return Tokens{}, ErrConfirmerEnded
	}
	if err := s.store.Revoke.Logins(ctx, tx, account.EndedBySurplus, surplus...); err != nil {
		return Tokens{}, err
	}
	who := auth.Principal{UserID: user, Role: role, Login: l.ID, Device: d.ID}
	return s.mint(who, s.refreshToken(l.ID, 1, salt), l.ExpiresAt)
}

// deviceNotes bounds the messages about new devices: a program that states another
// device id at each login must not send SMS at the shop's expense.
var deviceNotes = ratelimit.Rule{Name: "note-device", Count: 2, Per: guard.LongWindow}

// noteDevice tells a user about a login on a device that is new to the account, before
// the login's row exists. The cookie says which device it is; one that has neither
// cookie nor id is not recognized, so not new either. Only this relies on the id that a
// client states, because an app without cookies would cause a note at each login.
func (s *Service) noteDevice(ctx context.Context, tx pgx.Tx, user int64, d Device) error {
	if d.ID == "" && len(d.Browser) == 0 {
		return nil
	}
	browser := d.Browser
	if browser == nil {
		browser = []byte{} // not NULL
	}
	isNew, err := accountdb.New(tx).IsNewDevice(ctx, accountdb.IsNewDeviceParams{UserID: user, DeviceID: d.ID, Browser: browser})
	if err != nil {
		return fmt.Errorf("account: known devices: %w", err)
	}
	if !isNew {
		return nil
	}
	err = s.guard.Take(ctx, ratelimit.Ask{Rule: deviceNotes, Key: ratelimit.UserKey(user)})
	if guard.IsRefused(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.store.Notify(ctx, tx, user, sms.NoteDevice)
}

// firstAdmin returns the role that a user logs in with: admin for the phone in the
// settings while the shop has no admin, else the row's role. The check for an
// existing admin makes sure that a demoted admin stays demoted.
func (s *Service) firstAdmin(ctx context.Context, tx pgx.Tx, u account.User) (string, error) {
	if s.store.Config.FirstAdmin == "" || account.PhoneOf(u) != s.store.Config.FirstAdmin || u.Role == string(auth.Admin) {
		return u.Role, nil
	}
	others, err := account.OtherAdmins(ctx, tx, u.ID)
	if err != nil || others > 0 {
		return u.Role, err
	}
	return string(auth.Admin), account.MakeFirstAdmin(ctx, tx, u, "--first-admin-phone")
}

// mint builds the answer to a login or a refresh.
func (s *Service) mint(who auth.Principal, refresh string, refreshUntil time.Time) (Tokens, error) {
	access, err := s.tokens.Mint(who, s.store.Config.AccessLifetime)
	if err != nil {
		return Tokens{}, fmt.Errorf("account: %w", err)
	}
	return Tokens{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(s.store.Config.AccessLifetime.Seconds()),
		RefreshToken: refresh, RefreshExpiresAt: httpx.Moment(refreshUntil), UserID: httpx.FormatID(who.UserID),
	}, nil
}

// addressOf converts an address for a column: NULL when it is unknown.
func addressOf(a netip.Addr) *netip.Addr {
	return pg.Null(a.Unmap().WithZone(""))
}
