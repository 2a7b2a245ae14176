package account

import (
	"context"
	"crypto/hmac"
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
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/password"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
)

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
	if s.cfg.FirstAdmin != "" {
		return "", nil
	}
	admins, err := accountdb.New(s.deps.DB).CountOtherAdmins(ctx, 0)
	if err != nil || admins > 0 {
		return "", asFault("count admins", err)
	}
	return s.keys[0].inviteUntil(time.Now().Add(invitedFor)), nil
}

// inviteUntil is a secret that is valid until a time, which it says.
func (k keys) inviteUntil(end time.Time) string {
	until := binary.BigEndian.AppendUint64(nil, uint64(end.Unix())) //nolint:gosec // after 1970
	return base64.RawURLEncoding.EncodeToString(append(until, k.invitation(until)...))
}

// invitation is the part of a secret that only the signing key makes.
func (k keys) invitation(until []byte) []byte {
	mac := hmac.New(sha256.New, k.invite)
	mac.Write(until)
	return mac.Sum(nil)
}

// invited reports whether a secret is one of InviteFirstAdmin's and in time.
func (s *Service) invited(secret string) bool {
	const untilBytes = 8
	raw, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || len(raw) != untilBytes+sha256.Size {
		return false
	}
	until := raw[:untilBytes]
	for _, k := range s.keys {
		if hmac.Equal(k.invitation(until), raw[untilBytes:]) {
			return time.Now().Unix() < int64(binary.BigEndian.Uint64(until)) //nolint:gosec // seconds
		}
	}
	return false
}

// CreateFirstAdmin creates the account of the shop's first admin and logs in. The
// secret proves what a code by SMS proves elsewhere; a phone that has an account is
// refused, because the secret must not open that.
func (s *Service) CreateFirstAdmin(ctx context.Context, secret string, phone Phone, chosen string, d Device) (out Tokens, err error) {
	if !s.invited(secret) {
		return Tokens{}, errInvitation
	}
	if err := password.Accept(chosen, string(phone), s.cfg.SMSSignature); err != nil {
		return Tokens{}, err //nolint:wrapcheck // a fault
	}
	phc, err := s.hasher.Hash(ctx, chosen)
	if err != nil {
		return Tokens{}, asFault("hash password", err)
	}
	err = pg.InTx(ctx, s.deps.DB, func(tx pgx.Tx) error {
		others, err := s.otherAdmins(ctx, tx, 0)
		if err != nil {
			return err
		}
		if others > 0 {
			return errInvitation
		}
		number := string(phone)
		u, err := newUser(ctx, tx, accountdb.CreateUserParams{Phone: &number, Password: &phc})
		if errors.Is(err, pgx.ErrNoRows) {
			return errPhoneTaken
		}
		if err != nil {
			return fmt.Errorf("account: create the first admin: %w", err)
		}
		if err := accountdb.New(tx).SetRole(ctx, accountdb.SetRoleParams{ID: u.ID, Role: string(auth.Admin)}); err != nil {
			return fmt.Errorf("account: first admin: %w", err)
		}
		if err := audit.Record(ctx, tx, "user.first-admin", "user "+httpx.FormatID(u.ID), audit.Change{
			After: state{Role: string(auth.Admin)}, Reason: "the link that a start printed",
		}); err != nil {
			return err //nolint:wrapcheck // it names the operation
		}
		out, err = s.OpenLogin(ctx, tx, u.ID, d, byRegister)
		return err
	})
	return out, asFault("first admin", err)
}

func (s *Service) firstAdminRoute(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/first-admin", ID: "create-first-admin", Load: httpx.Costly, Tag: "operator", Status: http.StatusCreated,
		Summary: "Make the shop's first admin with the link that a start printed",
		Description: "For 24 hours, while the shop has no admin. The account is logged in; its tokens have the role shopper until it has an authenticator app, " +
			"see `me/totp`.",
		Problems: map[int]string{
			http.StatusForbidden: errInvitation.Code, http.StatusConflict: "phone-taken", http.StatusUnprocessableEntity: "invalid, weak-password",
			http.StatusTooManyRequests: problemsLimits,
		},
	}, func(ctx context.Context, in *firstAdminInput) (*httpx.Output[Tokens], error) {
		return s.enter(ctx, byRegister, in.Body.Phone, in.Body.Device, func(phone Phone, d Device) (Tokens, error) {
			return s.CreateFirstAdmin(ctx, in.Body.Link, phone, in.Body.Password, d)
		})
	})
}

type firstAdminInput struct {
	Body struct {
		Link     string       `json:"link" maxLength:"128" doc:"The last part of the printed link"`
		Phone    string       `json:"phone" maxLength:"32" example:"13800138000"`
		Password string       `json:"password" maxLength:"128" doc:"8 to 128 characters; not the phone, not the shop's name, none of the 10,000 most common ones"`
		Device   *DeviceInput `json:"device,omitempty"`
	} `nameHint:"FirstAdmin"`
}
