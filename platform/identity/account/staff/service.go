// Package staff is what operators see and change of accounts, and how the shop's first
// admin comes about.
//
// At least one active admin remains, however many remove each other concurrently. The
// first comes by the phone in the settings (package login), or by the secret of a link that
// a start prints; it is derived from the signing key, valid for 24 hours and until there
// is an admin, and opens no account that exists.
package staff

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/credential"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

// Service is the staff's view of the accounts, whose questions it answers too. Safe for
// concurrent use.
type Service struct {
	*account.Store
	credentials *credential.Service
	keys        auth.Ring // of invitations
}

// New returns a Service.
func New(credentials *credential.Service) *Service {
	store := credentials.Store
	return &Service{Store: store, credentials: credentials, keys: store.Config.Keys("account-first-admin")}
}

// setRole gives a user a role. Access tokens with the old role end immediately; the
// logins stay and get the new role with their next refresh. Every change is audited
// under the principal in ctx.
func (s *Service) setRole(ctx context.Context, user int64, role auth.Role) error {
	return s.Change(ctx, user, func(tx pgx.Tx, u account.User) error {
		if u.Role == string(role) {
			return nil
		}
		if err := account.KeepAnAdmin(ctx, tx, u); err != nil {
			return err
		}
		if err := accountdb.New(tx).SetRole(ctx, accountdb.SetRoleParams{ID: user, Role: string(role)}); err != nil {
			return err
		}
		if err := s.Revoke.User(ctx, tx, "role changed", user); err != nil {
			return err
		}
		if err := s.Notify(ctx, tx, user, sms.NoteRole); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.role", "user "+httpx.FormatID(user), audit.Change{Before: account.State{Role: u.Role}, After: account.State{Role: string(role)}})
	})
}

// disable keeps a user from logging in and ends all their tokens; grants that the
// user already has become no orders. reason is for the audit log.
func (s *Service) disable(ctx context.Context, user int64, reason string) error {
	return s.changeStatus(ctx, user, func(tx pgx.Tx, u account.User) error {
		if u.Status == account.Disabled {
			return nil
		}
		if err := account.KeepAnAdmin(ctx, tx, u); err != nil {
			return err
		}
		if err := accountdb.New(tx).SetStatus(ctx, accountdb.SetStatusParams{ID: user, Status: account.Disabled}); err != nil {
			return err
		}
		if _, err := s.EndAll(ctx, tx, user, account.EndedByDisable); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.disable", "user "+httpx.FormatID(user), audit.Change{Before: account.State{Status: u.Status}, After: account.State{Status: account.Disabled}, Reason: reason})
	})
}

// enable lets a disabled user log in again.
func (s *Service) enable(ctx context.Context, user int64) error {
	return s.changeStatus(ctx, user, func(tx pgx.Tx, u account.User) error {
		if u.Status == account.Active {
			return nil
		}
		if err := accountdb.New(tx).SetStatus(ctx, accountdb.SetStatusParams{ID: user, Status: account.Active}); err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.enable", "user "+httpx.FormatID(user), audit.Change{Before: account.State{Status: u.Status}, After: account.State{Status: account.Active}})
	})
}

// endAll ends all logins and tokens of a user, who may log in again. The user need
// not have an account: tokens can be minted without one.
func (s *Service) endAll(ctx context.Context, user int64) error {
	return s.InTx(ctx, fmt.Sprintf("end logins of user %d", user), func(tx pgx.Tx) error {
		switch u, err := accountdb.New(tx).LockUser(ctx, user); {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case u.Status == account.Erased:
			return account.ErrErased
		}
		ended, err := s.EndAll(ctx, tx, user, account.EndedByOperator)
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, "user.end-logins", "user "+httpx.FormatID(user), audit.Change{Before: map[string]int{"logins": ended}, After: map[string]int{"logins": 0}})
	})
}

// changeStatus is Change for what the writer of orders must learn, from the blacklist.
func (s *Service) changeStatus(ctx context.Context, user int64, do func(tx pgx.Tx, u account.User) error) error {
	list := s.credentials.Guard.Blacklist
	if list == nil {
		return s.Change(ctx, user, do)
	}
	if err := list.Change(ctx, account.Locked(ctx, user, do)); err != nil {
		return account.Failed(fmt.Sprintf("change user %d", user), err)
	}
	s.Revoke.Tell(ctx)
	return nil
}

// invitedFor is how long the link of a start makes the first admin: a day's work on the
// installation. Another start prints another link.
const invitedFor = 24 * time.Hour

var errInvitation = fault.New(fault.Forbidden, "first-admin-link", fault.T("This link is not valid any more", "链接已失效"),
	fault.T("The link for the first admin is valid for 24 hours, and until the shop has an admin.",
		"首位管理员的链接 24 小时内有效，且仅在还没有管理员时可用。"),
	fault.T("Start the server again for another link, or ask an admin for a role.", "请重新启动服务以获取新链接，或联系管理员授予角色。"))

// InviteFirstAdmin returns the secret that makes the first admin, "" if the shop has
// one, or will have one by the phone in the settings. Nothing is stored: the secret is
// derived from the signing key, and is used up because a shop that has an admin always
// keeps one.
func (s *Service) InviteFirstAdmin(ctx context.Context) (string, error) {
	if s.Config.FirstAdmin != "" {
		return "", nil
	}
	admins, err := accountdb.New(s.DB).CountOtherAdmins(ctx, 0)
	if err != nil || admins > 0 {
		return "", account.Failed("count admins", err)
	}
	return s.InviteUntil(time.Now().Add(invitedFor)), nil
}

// InviteUntil is a secret that is valid until a time, which it says.
func (s *Service) InviteUntil(end time.Time) string {
	until := binary.BigEndian.AppendUint64(nil, uint64(end.Unix())) //nolint:gosec // after 1970
	return base64.RawURLEncoding.EncodeToString(append(until, s.keys.MAC(until)...))
}

// invited reports whether a secret is one of InviteFirstAdmin's and in time.
func (s *Service) invited(secret string) bool {
	const untilBytes = 8
	raw, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(raw) != untilBytes+sha256.Size {
		return false
	}
	until := raw[:untilBytes]
	return s.keys.Made(raw[untilBytes:], until) && time.Now().Unix() < int64(binary.BigEndian.Uint64(until)) //nolint:gosec // seconds
}

// createFirstAdmin creates the account of the shop's first admin and logs in. The
// secret proves what a code by SMS proves elsewhere; a phone that has an account is
// refused, because the secret must not open that.
func (s *Service) createFirstAdmin(ctx context.Context, secret string, phone account.Phone, chosen string, d login.Device) (out login.Tokens, err error) {
	if !s.invited(secret) {
		return login.Tokens{}, errInvitation
	}
	if err := password.Accept(chosen, string(phone), s.Config.SMSSignature); err != nil {
		return login.Tokens{}, err
	}
	phc, err := s.credentials.Hasher.Hash(ctx, chosen)
	if err != nil {
		return login.Tokens{}, account.Failed("hash password", err)
	}
	err = pg.InTx(ctx, s.DB, func(tx pgx.Tx) error {
		others, err := account.OtherAdmins(ctx, tx, 0)
		if err != nil {
			return err
		}
		if others > 0 {
			return errInvitation
		}
		u, err := account.Create(ctx, tx, phone, "", phc)
		if err != nil {
			return err
		}
		if u.ID == 0 {
			return credential.ErrPhoneTaken
		}
		if err := account.MakeFirstAdmin(ctx, tx, u, "the link that a start printed"); err != nil {
			return err
		}
		out, err = s.credentials.Logins.Open(ctx, tx, u.ID, d, login.ByRegister)
		return err
	})
	return out, account.Failed("first admin", err)
}

func (s *Service) firstAdminRoute(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/first-admin", ID: "create-first-admin", Load: httpx.Costly, Tag: "operator", Status: http.StatusCreated,
		Summary: "Make the shop's first admin with the link that a start printed", Audit: "user.first-admin", NoKey: httpx.ValidOnce,
		Description: "For 24 hours, while the shop has no admin. The account is logged in; its tokens have the role shopper until it has an authenticator app (`me/totp`), " +
			"unless the server runs with --admin-without-totp, as `stampede run` does.",
		Refuses: []*fault.Error{errInvitation, credential.ErrPhoneTaken, password.ErrWeak, password.ErrBusy},
	}, func(ctx context.Context, in *firstAdminInput) (*httpx.Output[login.Tokens], error) {
		return credential.Enter(ctx, s.credentials.Logins, login.ByRegister, in.Body.Phone, in.Body.Device, "", func(phone account.Phone, d login.Device) (login.Tokens, error) {
			return s.createFirstAdmin(ctx, in.Body.Link, phone, in.Body.Password, d)
		})
	})
}

type firstAdminInput struct {
	Body struct {
		Link     string             `json:"link" maxLength:"128" doc:"The last part of the printed link" example:"f3Kq9ZpT"`
		Phone    string             `json:"phone" maxLength:"32" example:"13800138000"`
		Password string             `json:"password" maxLength:"128" doc:"8 to 128 characters; not the phone, not the shop's name, none of the 10,000 most common ones"`
		Device   *login.DeviceInput `json:"device,omitempty"`
	} `nameHint:"FirstAdmin"`
}
