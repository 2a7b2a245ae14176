package credential

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
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
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/store/pg"
)

var (
	errNoWeChat = wechat.ErrUnavailable.Saying(
		fault.T("WeChat login is not available here; log in by phone.", "此处不支持微信登录，请使用手机号登录。"))
	errWeChatTaken = fault.New(fault.Conflict, "wechat-taken", fault.T("This WeChat account is in use", "该微信已绑定其他账号"),
		fault.T("This WeChat account belongs to another account of the shop. Log in with it instead.",
			"该微信已绑定其他账号，请直接用它登录。"),
		fault.T("Log in with this WeChat account instead.", "请直接使用该微信登录。"))
	errWeChatLinked = fault.New(fault.Conflict, "wechat-linked",
		fault.T("Your account has another WeChat account", "您的账号已绑定其他微信"),
		fault.T("Your account has another WeChat account already.", "您的账号已绑定其他微信。"),
		fault.T("Log in with the WeChat account that is linked, or use another account of the shop.",
			"请使用已绑定的微信登录，或换用其他账号。"))
)

// loginByWeChat logs in with a code that WeChat gave to the client. An unknown
// WeChat account gets an account; one that is known from another app of the shop, by
// its union id, gets the same account. State and cookie show that this client asked for
// the code, see useState.
func (s *Service) loginByWeChat(ctx context.Context, in *loginWeChatInput, d login.Device) (login.Tokens, error) {
	if err := s.Store.ShoppersLogInHere(); err != nil {
		return login.Tokens{}, err
	}
	from := in.Caller(ctx)
	app, err := s.weChatApp(in.Body.App)
	if err != nil {
		return login.Tokens{}, err
	}
	if err := s.Guard.KeepOut(login.ByWeChat, 0, "", d.ID, d.Address); err != nil {
		return login.Tokens{}, err
	}
	if err := s.Guard.Login(ctx, "", from, true); err != nil {
		return login.Tokens{}, err
	}
	if err := s.useState(ctx, app, in.Body.State, in.StateCookie); err != nil {
		return login.Tokens{}, err
	}
	who, err := s.WeChat.Exchange(ctx, app, in.Body.Code)
	if err != nil {
		if errors.Is(err, wechat.ErrBadCode) {
			s.Guard.Failed(ctx, "", from)
		}
		return login.Tokens{}, account.Failed("wechat", err)
	}
	var out login.Tokens
	created := false
	err = s.Store.InTx(ctx, "log in by wechat", func(tx pgx.Tx) error {
		user, found, err := ownerOf(ctx, tx, who)
		if err != nil {
			return err
		}
		if created = !found; created {
			u, err := account.Create(ctx, tx, "", "", "")
			if err != nil {
				return err
			}
			user = u.ID
			if err := s.Guard.Create(ctx, from); err != nil {
				return err
			}
		}
		if err := putIdentity(ctx, tx, user, who); err != nil {
			return err
		}
		out, err = s.Logins.Open(ctx, tx, user, d, login.ByWeChat)
		return err
	})
	if err != nil {
		return login.Tokens{}, err
	}
	if created {
		s.Guard.Created(ctx, from)
	}
	return out, nil
}

// linkWeChat adds a WeChat account to the user's account as a way to log in.
// Repeating it does nothing.
func (s *Service) linkWeChat(ctx context.Context, in *linkInput) (*struct{}, error) {
	user := auth.From(ctx).UserID
	if err := s.Logins.Holds(ctx, auth.From(ctx), in.Body.RefreshToken); err != nil {
		return nil, err
	}
	app, err := s.weChatApp(in.Body.App)
	if err != nil {
		return nil, err
	}
	if err := s.Guard.Own(ctx, user); err != nil {
		return nil, err
	}
	if err := s.useState(ctx, app, in.Body.State, in.StateCookie); err != nil {
		return nil, err
	}
	who, err := s.WeChat.Exchange(ctx, app, in.Body.Code)
	if err != nil {
		return nil, account.Failed("wechat", err)
	}
	err = pg.InTx(ctx, s.Store.DB, func(tx pgx.Tx) error {
		if _, err := account.LockActive(ctx, tx, user); err != nil {
			return err
		}
		owner, found, err := ownerOf(ctx, tx, who)
		if err != nil {
			return err
		}
		if found && owner != user {
			return errWeChatTaken
		}
		if err := putIdentity(ctx, tx, user, who); err != nil || found {
			return err
		}
		return s.Store.Notify(ctx, tx, user, sms.NoteAccess)
	})
	return nil, account.Failed("link wechat", err)
}

// weChatApp returns the app that a code is from, by the name that the client gave.
func (s *Service) weChatApp(named wechat.Kind) (wechat.Kind, error) {
	if s.WeChat != nil {
		if app, has := s.WeChat.App(named); has {
			return app, nil
		}
	}
	return "", errNoWeChat
}

// ownerOf finds the user of a WeChat account and locks it until tx ends, so that two
// concurrent transactions cannot both find no user.
func ownerOf(ctx context.Context, tx pgx.Tx, who wechat.Identity) (user int64, found bool, err error) {
	q := accountdb.New(tx)
	// Union before app, in every transaction: a person's accounts in two apps may
	// arrive concurrently.
	if who.UnionID != "" {
		if err := q.LockUnion(ctx, who.UnionID); err != nil {
			return 0, false, fmt.Errorf("account: lock wechat account: %w", err)
		}
	}
	if err := q.LockIdentity(ctx, accountdb.LockIdentityParams{AppID: who.AppID, OpenID: who.OpenID}); err != nil {
		return 0, false, fmt.Errorf("account: lock wechat account: %w", err)
	}
	user, err = q.UserOfIdentity(ctx, accountdb.UserOfIdentityParams{AppID: who.AppID, OpenID: who.OpenID})
	if errors.Is(err, pgx.ErrNoRows) && who.UnionID != "" {
		user, err = q.UserOfUnion(ctx, &who.UnionID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("account: user of a wechat account: %w", err)
	}
	return user, true, nil
}

// putIdentity stores a WeChat account as the user's, with a union id that was not
// known before.
func putIdentity(ctx context.Context, tx pgx.Tx, user int64, who wechat.Identity) error {
	owner, err := accountdb.New(tx).PutIdentity(ctx, accountdb.PutIdentityParams{
		AppID: who.AppID, OpenID: who.OpenID, UnionID: pg.Null(who.UnionID), UserID: user,
	})
	if pg.ViolatesUnique(err, "one_identity_per_app") {
		return errWeChatLinked
	}
	if err != nil {
		return fmt.Errorf("account: store wechat account: %w", err)
	}
	if owner != user {
		return errWeChatTaken
	}
	return nil
}

const (
	// stateLifetime is enough to agree in WeChat, and a code lives half as long.
	stateLifetime = 10 * time.Minute
	// stateCookie holds the half of a state that stays in the browser.
	stateCookie = "stampede_wechat"
	// stateBytes of the MAC keep a state within the 128 letters and digits that
	// WeChat passes on.
	stateBytes = 24
)

var errWeChatState = fault.New(fault.Forbidden, "wechat-state",
	fault.T("Please log in with WeChat again", "微信授权已失效，请重新授权"),
	fault.T("This browser did not ask for this code, or asked with another account or more than ten minutes ago. Get "+
		"a state from auth/wechat/state, give it to WeChat, and send it with the code and the cookie.",
		"该授权码不是由本浏览器发起，或由其他账号、十分钟前发起。请从 auth/wechat/state 获取 state 交给微信，并与授权码和 Cookie 一起提交。"),
	fault.T("Start the WeChat login again.", "请重新发起微信登录。"))

// stateFor is what a state binds: when it ends, the user who asked, 0 before a login, and
// the browser's cookie. The state that WeChat gives back with a code is, in hex, the end
// and a MAC of these.
func stateFor(ctx context.Context, end time.Time, cookie string) []byte {
	raw := binary.BigEndian.AppendUint64(nil, uint64(end.Unix()))           //nolint:gosec // a time after 1970
	raw = binary.BigEndian.AppendUint64(raw, uint64(auth.From(ctx).UserID)) //nolint:gosec // bits of an id
	return append(raw, cookie...)
}

// useState refuses a code that another client asked for: an attacker's link must not
// log a user in to the attacker's account. It refuses a code that another account asked
// for as well: one that has logged in since in the same browser must not get the WeChat
// account of the other. A state is valid once. Codes of a mini program pass through no
// URL and need none.
func (s *Service) useState(ctx context.Context, app wechat.Kind, state, cookie string) error {
	if app == wechat.Mini {
		return nil
	}
	raw, err := hex.DecodeString(state)
	if err != nil || len(raw) != 8+stateBytes || cookie == "" {
		return errWeChatState
	}
	end := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0) //nolint:gosec // verified below
	if !s.states.Made(raw[8:], stateFor(ctx, end, cookie)) || time.Now().After(end) {
		return errWeChatState
	}
	err = s.Guard.Take(ctx, ratelimit.Ask{Rule: ratelimit.Rule{Name: "wechat-state", Count: 1, Per: stateLifetime}, Key: hex.EncodeToString(raw)})
	if guard.IsRefused(err) {
		return errWeChatState
	}
	return err
}

// StateInput is the cookie of a state; inputs embed it. It is exported because huma
// requires that of embedded fields.
type StateInput struct {
	StateCookie string `cookie:"stampede_wechat" maxLength:"64" doc:"Set by auth/wechat/state"`
}

type stateOutput struct {
	CacheControl string      `header:"Cache-Control"`
	SetCookie    http.Cookie `header:"Set-Cookie"`
	Body         struct {
		State     string `json:"state" doc:"For WeChat's authorization URL, or its SDK, and then for the login" example:"8fQ2xLr0"`
		URL       string `json:"url,omitempty" doc:"Where a page inside WeChat sends its shopper, who returns to the shop's page with a code; left out where the shop has no official account"`
		ExpiresIn int64  `json:"expires_in" doc:"Seconds" example:"600"`
	} `nameHint:"WeChatState"`
}

// startWeChat keeps the browser's cookie, which may belong to a login in another tab.
func (s *Service) startWeChat(ctx context.Context, in *StateInput) (*stateOutput, error) {
	if s.WeChat == nil {
		return nil, errNoWeChat
	}
	if auth.From(ctx).UserID == 0 { // else it is to be linked, for payments
		if err := s.Store.ShoppersLogInHere(); err != nil {
			return nil, err
		}
	}
	cookie := cmp.Or(in.StateCookie, rand.Text())
	out := &stateOutput{CacheControl: httpx.NoStore, SetCookie: http.Cookie{ //nolint:gosec // not Secure without https only
		Name: stateCookie, Value: cookie, Path: "/api/v1", MaxAge: int(stateLifetime.Seconds()),
		HttpOnly: true, Secure: s.Store.Config.OverTLS, SameSite: http.SameSiteLaxMode,
	}}
	bound := stateFor(ctx, time.Now().Add(stateLifetime), cookie)
	out.Body.State = hex.EncodeToString(append(bound[:8:8], s.states.MAC(bound)[:stateBytes]...))
	out.Body.URL = s.WeChat.AuthorizeURL(out.Body.State)
	out.Body.ExpiresIn = int64(stateLifetime.Seconds())
	return out, nil
}
