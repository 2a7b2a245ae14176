package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account/internal/accountdb"
)

// Device is what a client says of itself when it logs in, and where it called
// from. A login belongs to its device: the id stands in every access token and
// has to be stated at each refresh.
type Device struct {
	Kind    string     // web, ios, android, wechat, desktop, other
	ID      string     // the client's own, up to 128 bytes; may be empty
	Name    string     // for the user's list of logins, up to 64 characters
	Address netip.Addr // invalid when it is not known
}

// Tokens is what a login hands out.
type Tokens struct {
	AccessToken      string `json:"access_token" doc:"Send it as Authorization: Bearer …"`
	TokenType        string `json:"token_type" enum:"Bearer"`
	ExpiresIn        int64  `json:"expires_in" doc:"Seconds until the access token expires" example:"900"`
	RefreshToken     string `json:"refresh_token" doc:"Good for one refresh, at auth/refresh and nowhere else"`
	RefreshExpiresAt string `json:"refresh_expires_at" format:"date-time"`
	UserID           string `json:"user_id" example:"1000042"`
}

// Why logins end, as rows, lists and revocations name it.
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
)

// The bounds of logins.
const (
	// mostLogins is how many devices one user is logged in on at once: a family's
	// drawer of them. The one that was used least recently makes room.
	mostLogins = 20
	// saltBytes make the refresh tokens of a login unlike those of any other, also
	// of one with the same id in a database that was restored.
	saltBytes = 16
	// loginMost is how long a login lives at most, however often it is refreshed:
	// half a year, after which a person proves again who they are.
	loginMost = 180 * 24 * time.Hour
)

// ErrDisabled is what a user who was disabled is told, once it is proved that
// it is they who ask.
var ErrDisabled = fault.New(fault.Forbidden, "account-disabled", fault.Titles{"This account is disabled", "账号已被停用"}, "This account is disabled. Ask the shop's staff.")

// OpenLogin opens a login of a user on a device in the caller's transaction and
// returns its tokens. how says by what: password, sms, wechat, qr, register. It
// answers ErrDisabled for a user who may not log in, and the list's refusal for one
// who is kept out. Call Tell of the revocation
// service after the commit: a login beyond the most that a user may have ends
// the one used least recently.
func (s *Service) OpenLogin(ctx context.Context, tx pgx.Tx, user int64, d Device, how string) (Tokens, error) {
	q := accountdb.New(tx)
	u, err := lockActive(ctx, tx, user)
	if err != nil {
		return Tokens{}, err
	}
	if err := s.keepOut(how, user, phoneIn(u), d); err != nil {
		return Tokens{}, err
	}
	if u.Role, err = s.firstAdmin(ctx, tx, u); err != nil {
		return Tokens{}, err
	}
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails
	l, err := q.OpenLogin(ctx, accountdb.OpenLoginParams{
		UserID: user, DeviceKind: d.Kind, DeviceID: d.ID, DeviceName: d.Name, Address: addressOf(d.Address), How: how, Salt: salt,
		LifetimeSeconds: s.cfg.RefreshLifetime.Seconds(),
	})
	if err != nil {
		return Tokens{}, fmt.Errorf("account: open login: %w", err)
	}
	surplus, err := q.EndSurplus(ctx, accountdb.EndSurplusParams{UserID: user, Most: mostLogins, Why: endedBySurplus})
	if err != nil {
		return Tokens{}, fmt.Errorf("account: open login: end surplus: %w", err)
	}
	if err := s.revokeLogins(ctx, tx, endedBySurplus, surplus); err != nil {
		return Tokens{}, err
	}
	who := auth.Principal{UserID: user, Role: auth.Role(u.Role), Login: l.ID, Device: d.ID}
	return s.mint(who, s.keys[0].refreshToken(l.ID, 1, salt), l.ExpiresAt)
}

// lockActive locks a user's row, which orders the caller with whatever ends all
// logins of the user, and returns it if the account may be used.
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

// mint makes the answer of a login or a refresh.
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

// addressOf is an address as a column takes it: NULL when it is not known.
func addressOf(a netip.Addr) *netip.Addr {
	if !a.IsValid() {
		return nil
	}
	a = a.Unmap().WithZone("")
	return &a
}

// clean makes text of a client fit to be stored and shown: characters that
// Postgres or a terminal would stumble over go, and those that nobody sees, with
// which a foreign device or name could be made to look like one's own.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, s))
}
