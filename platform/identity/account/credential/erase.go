package credential

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/identity/account/exchange"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/watch/audit"
)

// AccountErasure is what a user shows before the irreversible step: one of the four. An
// account that only a backend names may have none, until it has a phone.
type AccountErasure struct {
	Password   string      `json:"password,omitempty" maxLength:"128"`
	Code       string      `json:"code,omitempty" pattern:"^([0-9]{6})?$" doc:"Sent to your phone by auth/sms-codes with the purpose erase"`
	Token      string      `json:"token,omitempty" maxLength:"8192" doc:"A new ID token of the shop's own login, for a user who comes from there"`
	WeChatCode string      `json:"wechat_code,omitempty" maxLength:"128"`
	WeChatApp  wechat.Kind `json:"wechat_app,omitempty" enum:"official,mini" doc:"The app that the code is from, as app at the login"`
}

// Erasure erases accounts: the last to be built, because other modules give it what they
// erase.
type Erasure struct {
	*Service
	also []func(ctx context.Context, tx pgx.Tx, user int64) error
}

// NewErasure returns the erasure of these credentials' users. also erase, in the same
// transaction, what other modules know about a user.
func NewErasure(s *Service, also ...func(ctx context.Context, tx pgx.Tx, user int64) error) *Erasure {
	return &Erasure{Service: s, also: also}
}

// Routes registers the route of an erasure.
func (e *Erasure) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: mePath, ID: "erase-me", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Delete your account permanently",
		Description: "Phone, e-mail address, name, WeChat account and devices are erased and all logins end; orders keep the account's id, and what was told for them, such as an address, until they have ended. " +
			"Requires one of: the password, a code of the purpose `erase`, a WeChat code, a token of the shop's own login.",
		Refuses: []*fault.Error{
			errWrongPassword, login.ErrProof, code.ErrWrong, wechat.ErrBadCode, account.ErrNoAccount, account.ErrLastAdmin,
			password.ErrBusy, wechat.ErrUnavailable, exchange.ErrToken, exchange.ErrOther, exchange.ErrAway,
		},
	}, e.erase)
}

type eraseInput struct{ Body AccountErasure }

// erase anonymizes a user irreversibly: phone, e-mail address, name, password, WeChat account,
// devices and addresses are deleted and all logins end. The id stays, and with it
// orders and payments, which the shop must keep. The phone may register again as a
// new user, unless the blacklist has the user or the phone.
func (e *Erasure) erase(ctx context.Context, in *eraseInput) (*struct{}, error) {
	user, p := auth.From(ctx).UserID, in.Body
	u, err := e.Store.ByID(ctx, user)
	if err != nil {
		return nil, err
	}
	inTx := func(tx pgx.Tx) error { return e.eraseIn(ctx, tx, user) }
	if phone := account.PhoneOf(u); p.Code != "" && phone != "" {
		return nil, e.Codes.Use(ctx, phone, sms.ForErase, p.Code, guard.Caller{Address: httpx.ClientAddr(ctx)}, inTx)
	}
	if err := e.prove(ctx, u, p); err != nil {
		return nil, err
	}
	return nil, e.Store.InTx(ctx, "erase", inTx)
}

// prove checks a proof other than a code.
func (e *Erasure) prove(ctx context.Context, u account.User, p AccountErasure) error {
	switch {
	case p.Password != "" && u.Password != nil:
		return e.showPassword(ctx, u, p.Password)
	case p.Token != "" && e.Exchange != nil:
		return e.Exchange.Prove(ctx, u.ID, p.Token)
	case p.WeChatCode != "":
		app, err := e.weChatApp(p.WeChatApp)
		if err != nil {
			return err
		}
		who, err := e.WeChat.Exchange(ctx, app, p.WeChatCode)
		if err != nil {
			return account.Failed("wechat", err)
		}
		open, err := e.Store.OpenIDOf(ctx, u.ID, who.AppID)
		if err == nil && open != who.OpenID {
			return login.ErrProof
		}
		return err
	default:
		return login.ErrProof
	}
}

// eraseIn performs the erasure in tx.
func (e *Erasure) eraseIn(ctx context.Context, tx pgx.Tx, user int64) error {
	q := accountdb.New(tx)
	u, err := q.LockUser(ctx, user)
	if err != nil {
		return err // the caller names the operation
	}
	if u.Status == account.Erased {
		return account.ErrNoAccount
	}
	if err := account.KeepAnAdmin(ctx, tx, u); err != nil {
		return err
	}
	steps := []func() error{
		func() error {
			if e.Guard.Blacklist == nil || u.Phone == nil {
				return nil
			}
			return e.Guard.Blacklist.KeepPhone(ctx, tx, user, *u.Phone)
		},
		func() error { _, err := e.Store.EndAll(ctx, tx, user, account.EndedByErasure); return err },
		func() error { return q.EraseLogins(ctx, user) },
		func() error { return q.EraseIdentities(ctx, user) },
		func() error { return q.EraseSubjects(ctx, user) },
		func() error { return q.EraseNotes(ctx, user) },
		func() error { _, err := q.RemoveTOTP(ctx, user); return err },
		func() error { return q.EraseCodes(ctx, string(account.PhoneOf(u))) },
		func() error { return q.EraseUser(ctx, user) },
		func() error {
			return audit.Record(ctx, tx, "user.erase", "user "+httpx.FormatID(user), audit.Change{
				Before: account.State{Role: u.Role, Status: u.Status}, After: account.State{Role: string(auth.Shopper), Status: account.Erased},
			})
		},
	}
	for _, also := range e.also {
		steps = append(steps, func() error { return also(ctx, tx, user) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return account.Failed("erase", err)
		}
	}
	return nil
}
