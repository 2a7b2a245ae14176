package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account/internal/accountdb"
)

// Device is what a client states about itself when it logs in, its address and what its
// cookie proves. A login is bound to its device: the id is part of every access token
// and must be stated at each refresh. As a client chooses it, it is a label: it names
// the device in lists and on the blacklist, and is worth no more against a client that
// wants another one.
type Device struct {
	Kind    string     // web, ios, android, wechat, desktop, other
	ID      string     // chosen by the client, up to 128 bytes; may be empty
	Name    string     // for the user's list of logins, up to 64 characters
	Address netip.Addr // invalid when it is not known
	Browser []byte     // 16 bytes that a signed cookie proves; nil without one
	TOTP    string     // the code of the user's second factor; not stored
}

// Tokens is the answer to a login.
type Tokens struct {
	AccessToken      string `json:"access_token" doc:"Send it as Authorization: Bearer …"`
	TokenType        string `json:"token_type" enum:"Bearer"`
	ExpiresIn        int64  `json:"expires_in" doc:"Seconds until the access token expires" example:"900"`
	RefreshToken     string `json:"refresh_token" doc:"Valid for one refresh, at auth/refresh only"`
	RefreshExpiresAt string `json:"refresh_expires_at" format:"date-time"`
	UserID           string `json:"user_id" example:"1000042"`
}

// Reasons why a login ended, as rows, lists and revocations name them.
const (
	endedByLogout   = "logout"
	endedByUser     = "ended by the user"
	endedByPassword = "password changed"
	endedByReset    = "password reset"
	endedByReuse    = "refresh token reused"
	endedByDisable  = "account disabled"
	endedByErasure  = "account erased"
	endedByOperator = "ended by an operator"
	endedBySurplus  = "more logins than one user may have"
	endedByTOTP     = "second factor changed"
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

// ErrDisabled is the answer to a disabled user, after authentication.
var ErrDisabled = fault.New(fault.Forbidden, "account-disabled", fault.T("This account is disabled", "账号已被停用"),
	fault.T("This account is disabled. Ask the shop's staff.", "该账号已被停用，请联系商家。"),
	fault.T("Ask the shop’s staff to enable the account.", "请联系商家工作人员恢复账号。"))

// OpenLogin opens a login of a user on a device in the caller's transaction and
// returns its tokens. how names the method: password, sms, wechat, qr, register. It
// returns ErrDisabled for a disabled user, and the blacklist's refusal for a listed
// one. A login above mostLogins ends the user's least recently used one, so call the
// revocation service's Tell after the commit.
func (s *Service) OpenLogin(ctx context.Context, tx pgx.Tx, user int64, d Device, how string) (Tokens, error) {
	return s.openLogin(ctx, tx, user, 0, d, how)
}

// ErrConfirmerEnded reports that the confirming login has ended.
var ErrConfirmerEnded = errors.New("account: the confirming login has ended")

// OpenConfirmed is OpenLogin for a login that another one of the user, the confirmer,
// has confirmed. It ends when the confirmer is ended, and returns ErrConfirmerEnded if
// that has already happened, or if mostLogins logins have confirmed one another.
func (s *Service) OpenConfirmed(ctx context.Context, tx pgx.Tx, user, confirmer int64, d Device, how string) (Tokens, error) {
	return s.openLogin(ctx, tx, user, confirmer, d, how)
}

func (s *Service) openLogin(ctx context.Context, tx pgx.Tx, user, confirmer int64, d Device, how string) (Tokens, error) {
	q := accountdb.New(tx)
	u, err := lockActive(ctx, tx, user)
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
	if err := s.keepOut(how, user, phoneIn(u), d); err != nil {
		return Tokens{}, err
	}
	if parent == nil { // a confirmer has passed it
		if err := s.secondFactor(ctx, tx, user, d.TOTP); err != nil {
			return Tokens{}, err
		}
	}
	if u.Role, err = s.firstAdmin(ctx, tx, u); err != nil {
		return Tokens{}, err
	}
	role, err := s.roleOf(ctx, tx, u)
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
		LifetimeSeconds: s.cfg.RefreshLifetime.Seconds(),
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("account: open login: %w", err)
	}
	surplus, err := q.EndSurplus(ctx, accountdb.EndSurplusParams{UserID: user, Most: mostLogins, Why: endedBySurplus})
	if err != nil {
		return Tokens{}, fmt.Errorf("account: open login: end surplus: %w", err)
	}
	if slices.Contains(surplus, l.ID) { // its confirmers alone are mostLogins
		return Tokens{}, ErrConfirmerEnded
	}
	if err := s.revokeLogins(ctx, tx, endedBySurplus, surplus); err != nil {
		return Tokens{}, err
	}
	who := auth.Principal{UserID: user, Role: role, Login: l.ID, Device: d.ID}
	return s.mint(who, s.keys[0].refreshToken(l.ID, 1, salt), l.ExpiresAt)
}

// lockActive locks a user's row and returns it if the account may be used. The lock
// orders the caller with every operation that ends all of the user's logins.
func lockActive(ctx context.Context, tx pgx.Tx, user int64) (accountdb.AccountUser, error) {
	u, err := accountdb.New(tx).LockUser(ctx, user)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return u, errNoAccount
	case err != nil:
		return u, fmt.Errorf("account: lock user: %w", err)
	case u.Status != statusActive:
		return u, ErrDisabled
	}
	return u, nil
}

// mint builds the answer to a login or a refresh.
func (s *Service) mint(who auth.Principal, refresh string, refreshUntil time.Time) (Tokens, error) {
	access, err := s.deps.Tokens.Mint(who, s.cfg.AccessLifetime)
	if err != nil {
		return Tokens{}, fmt.Errorf("account: %w", err)
	}
	return Tokens{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(s.cfg.AccessLifetime.Seconds()),
		RefreshToken: refresh, RefreshExpiresAt: httpx.Moment(refreshUntil), UserID: httpx.FormatID(who.UserID),
	}, nil
}

// addressOf converts an address for a column: NULL when it is unknown.
func addressOf(a netip.Addr) *netip.Addr {
	if !a.IsValid() {
		return nil
	}
	a = a.Unmap().WithZone("")
	return &a
}

// clean makes a client's text safe to store and show: it drops characters that
// Postgres or a terminal cannot handle, and invisible ones, which could make another
// device or name look like the user's.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s))
}
