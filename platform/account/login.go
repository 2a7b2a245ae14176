package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/account/internal/accountdb"
	"stampede/platform/auth"
	"stampede/platform/fault"
	"stampede/platform/httpx"
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
var ErrDisabled = fault.New(fault.Forbidden, "account-disabled", "This account is disabled. Ask the shop's staff.")

// OpenLogin opens a login of a user on a device in the caller's transaction and
// returns its tokens. how says by what: password, sms, wechat, qr, register. It
// answers ErrDisabled for a user who may not log in. Call Tell of the revocation
// service after the commit: a login beyond the most that a user may have ends
// the one used least recently.
func (s *Service) OpenLogin(ctx context.Context, tx pgx.Tx, user int64, d Device, how string) (Tokens, error) {
	q := accountdb.New(tx)
	// The lock orders this with whatever ends all logins of the user.
	u, err := q.LockUser(ctx, user)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tokens{}, errNoAccount
	}
	if err != nil {
		return Tokens{}, fmt.Errorf("account: open login: %w", err)
	}
	if u.Status != statusActive {
		return Tokens{}, ErrDisabled
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

// mint makes the answer of a login or a refresh.
func (s *Service) mint(who auth.Principal, refresh string, refreshUntil time.Time) (Tokens, error) {
	access, err := s.deps.Tokens.Mint(who, s.cfg.AccessLifetime)
	if err != nil {
		return Tokens{}, fmt.Errorf("account: %w", err)
	}
	return Tokens{
		AccessToken: access, TokenType: "Bearer", ExpiresIn: int64(s.cfg.AccessLifetime.Seconds()),
		RefreshToken: refresh, RefreshExpiresAt: httpx.Moment(refreshUntil), UserID: decimal(who.UserID),
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
// Postgres or a terminal would stumble over go.
func clean(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return -1
		}
		return r
	}, s))
}
