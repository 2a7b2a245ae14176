package account

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account/internal/accountdb"
)

const mePath = "/api/v1/me"

func (s *Service) meRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/logout", ID: "logout", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "End this login", Description: "Its access token and its refresh token end within a second, on every instance.",
		Problems: map[int]string{http.StatusConflict: "no-login"},
	}, s.logout)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: mePath, ID: "get-me", Tag: "shopper", Role: auth.Shopper,
		Summary: "Your account", Problems: map[int]string{http.StatusNotFound: "no-account"},
	}, s.me)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: mePath, ID: "erase-me", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Delete your account permanently",
		Description: "Phone, name, WeChat account and devices are erased and all logins end; orders keep the account's id, and what was told for them, such as an address, until they have ended. " +
			"Requires one of: the password, a code of the purpose `erase`, a WeChat code.",
		Problems: map[int]string{
			http.StatusForbidden: "wrong-password, proof-required", http.StatusUnauthorized: "wrong-code, wechat-bad-code", http.StatusNotFound: "no-account",
			http.StatusConflict: "last-admin", http.StatusTooManyRequests: problemsLimits, http.StatusServiceUnavailable: "wechat-unavailable",
		},
	}, s.eraseMe)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/password", ID: "change-password", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Change the password", Description: "Your other logins end.",
		Problems: map[int]string{
			http.StatusForbidden: "wrong-password", http.StatusNotFound: "no-account", http.StatusConflict: "no-password",
			http.StatusUnprocessableEntity: "invalid, weak-password", http.StatusTooManyRequests: problemsLimits,
		},
	}, s.changePassword)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: mePath + "/logins", ID: "list-logins", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "Your logins, the most recently used first", Description: "At most 20; beyond that the least recently used login ends.",
	}, s.listLogins)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: mePath + "/notices", ID: "list-notices", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "What was changed about your account, the newest first",
		Description: "The last 20 of 30 days. Users with a phone get an SMS too, so show them after a login of a user without one: " +
			"`device` is a login on a new device (two a day at most), `access` a new way to log in, `factor` the second factor.",
	}, s.listNotices)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: mePath + "/logins/{id}", ID: "end-login", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "End one of your logins", Problems: map[int]string{http.StatusNotFound: "not-found"},
	}, s.endOwnLogin)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/logout-others", ID: "logout-others", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "End all your logins but this one", Problems: map[int]string{http.StatusNotFound: "no-account"},
	}, s.logoutOthers)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/wechat", ID: "link-wechat", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary:     "Add your WeChat account",
		Description: "You can then log in with it and pay inside WeChat. Takes this login's refresh token, because a copied access token must not gain a way to log in. Repeating it does nothing.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wechat-bad-code", http.StatusForbidden: "proof-required, wechat-state", http.StatusNotFound: "no-account", http.StatusConflict: "wechat-taken, wechat-linked",
			http.StatusTooManyRequests: "rate-limited", http.StatusServiceUnavailable: "wechat-unavailable",
		},
	}, s.linkWeChat)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/phone", ID: "bind-phone", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Add your phone",
		Description: "For an account without a phone, such as one created by WeChat login. Takes a code of the purpose `bind` and this login's refresh token. You can then log in with the " +
			"phone, by code immediately and by password after `auth/password/reset`. Adding the phone that the account already has does nothing.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wrong-code", http.StatusForbidden: "account-disabled, login-refused, proof-required", http.StatusNotFound: "no-account",
			http.StatusConflict: "phone-taken, phone-linked", http.StatusUnprocessableEntity: problemsInvalid, http.StatusTooManyRequests: "rate-limited",
		},
	}, s.bindPhone)
}

// errNoOwnLogin is the answer to a minted token: it has no login that could be
// ended.
var errNoOwnLogin = fault.New(fault.Conflict, "no-login", fault.T("This token belongs to no login", "该令牌不属于任何登录"),
	fault.T("This token was minted with the server's key and belongs to no login; it ends when it expires.",
		"该令牌由密钥签发，不属于任何登录，到期后自动失效。"),
	fault.T("Log in to get a token of a login; one that was minted with the key ends by itself.",
		"请通过登录获取令牌；由密钥签发的令牌到期后自动失效。"))

func (s *Service) logout(ctx context.Context, _ *struct{}) (*struct{}, error) {
	p := auth.From(ctx)
	if p.Login == 0 {
		return nil, errNoOwnLogin
	}
	err := s.EndLogin(ctx, p.UserID, p.Login, endedByLogout)
	if errors.Is(err, errNoLogin) {
		return nil, nil //nolint:nilnil // it has already ended, as requested; 204 has no body
	}
	return nil, err
}

// MeView is an account as its owner sees it.
type MeView struct {
	ID          string    `json:"id" example:"1000042"`
	Phone       string    `json:"phone,omitempty" doc:"Masked" example:"138****5678"`
	Name        string    `json:"name,omitempty"`
	Role        auth.Role `json:"role" enum:"shopper,viewer,operator,admin"`
	HasPassword bool      `json:"has_password" doc:"Whether one is set"`
	HasWeChat   bool      `json:"has_wechat" doc:"Whether a WeChat account is linked"`
	HasTOTP     bool      `json:"has_totp" doc:"Whether a second factor is in force"`
	Recovery    int32     `json:"recovery_codes_left" doc:"How many recovery codes were not used"`
	CreatedAt   string    `json:"created_at" format:"date-time"`
}

func (s *Service) me(ctx context.Context, _ *struct{}) (*httpx.Output[MeView], error) {
	q := accountdb.New(s.deps.DB)
	u, err := q.UserByID(ctx, auth.From(ctx).UserID)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && u.Status == statusErased {
		return nil, errNoAccount
	}
	if err != nil {
		return nil, fmt.Errorf("account: read user: %w", err)
	}
	linked, err := q.HasIdentity(ctx, u.ID)
	if err != nil {
		return nil, fmt.Errorf("account: read identities: %w", err)
	}
	t, err := totpOf(ctx, s.deps.DB, u.ID)
	if err != nil {
		return nil, err
	}
	return httpx.Answer(MeView{
		HasTOTP: t.Confirmed, Recovery: t.RecoveryLeft,
		ID: httpx.FormatID(u.ID), Phone: phoneIn(u).Masked(), Name: u.Name, Role: auth.Role(u.Role), HasPassword: u.Password != nil, HasWeChat: linked,
		CreatedAt: httpx.Moment(u.CreatedAt),
	}), nil
}

type eraseInput struct {
	Body struct {
		Password   string `json:"password,omitempty" maxLength:"128"`
		Code       string `json:"code,omitempty" pattern:"^([0-9]{6})?$" doc:"Sent to your phone by auth/sms-codes with the purpose erase"`
		WeChatCode string `json:"wechat_code,omitempty" maxLength:"128"`
	} `nameHint:"AccountErasure"`
}

func (s *Service) eraseMe(ctx context.Context, in *eraseInput) (*struct{}, error) {
	return nil, s.Erase(ctx, auth.From(ctx).UserID, Proof{Password: in.Body.Password, Code: in.Body.Code, WeChatCode: in.Body.WeChatCode})
}

type changeInput struct {
	Body struct {
		Old string `json:"old_password" maxLength:"128"`
		New string `json:"new_password" maxLength:"128" doc:"8 to 128 characters; not the phone, not the name, not the shop's name, none of the 10,000 most common ones"`
	} `nameHint:"PasswordChange"`
}

func (s *Service) changePassword(ctx context.Context, in *changeInput) (*struct{}, error) {
	p := auth.From(ctx)
	return nil, s.ChangePassword(ctx, p.UserID, p.Login, in.Body.Old, in.Body.New)
}

// LoginView is a login as lists show it.
type LoginView struct {
	ID         string `json:"id"`
	Current    bool   `json:"current" doc:"Whether this request uses the login"`
	DeviceKind string `json:"device_kind" enum:"web,ios,android,wechat,desktop,other"`
	DeviceName string `json:"device_name,omitempty" doc:"The name that the device gave"`
	Address    string `json:"address,omitempty" doc:"The address of the last login or refresh" example:"203.0.113.7"`
	How        string `json:"how" doc:"password, sms, wechat, qr or register" example:"password"`
	CreatedAt  string `json:"created_at" format:"date-time"`
	LastUsedAt string `json:"last_used_at" format:"date-time" doc:"When it was opened or last refreshed"`
	ExpiresAt  string `json:"expires_at" format:"date-time" doc:"When it ends if it is not refreshed"`
}

type loginsOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Data []LoginView `json:"data" nullable:"false"`
	} `nameHint:"Logins"`
}

func (s *Service) listLogins(ctx context.Context, _ *struct{}) (*loginsOutput, error) {
	p := auth.From(ctx)
	views, err := s.loginsOf(ctx, p.UserID, p.Login)
	if err != nil {
		return nil, err
	}
	out := &loginsOutput{CacheControl: httpx.NoStore}
	out.Body.Data = views
	return out, nil
}

// loginsOf returns a user's open logins; current is the login of the request.
func (s *Service) loginsOf(ctx context.Context, user, current int64) ([]LoginView, error) {
	rows, err := accountdb.New(s.deps.DB).LiveLogins(ctx, accountdb.LiveLoginsParams{UserID: user, Most: mostLogins})
	if err != nil {
		return nil, fmt.Errorf("account: list logins: %w", err)
	}
	views := make([]LoginView, 0, len(rows))
	for _, l := range rows {
		v := LoginView{
			ID: httpx.FormatID(l.ID), Current: l.ID == current, DeviceKind: l.DeviceKind, DeviceName: l.DeviceName, How: l.How,
			CreatedAt: httpx.Moment(l.CreatedAt), LastUsedAt: httpx.Moment(l.LastUsedAt), ExpiresAt: httpx.Moment(l.ExpiresAt),
		}
		if l.Address != nil {
			v.Address = l.Address.String()
		}
		views = append(views, v)
	}
	return views, nil
}

// NoticeView is a change of an account.
type NoticeView struct {
	About string `json:"about" enum:"device,password,access,role,factor"`
	At    string `json:"at" format:"date-time"`
}

type noticesOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Data []NoticeView `json:"data" nullable:"false"`
	} `nameHint:"Notices"`
}

// mostNotices is a page that a user reads.
const mostNotices = 20

func (s *Service) listNotices(ctx context.Context, _ *struct{}) (*noticesOutput, error) {
	rows, err := accountdb.New(s.deps.DB).ListNotices(ctx, accountdb.ListNoticesParams{UserID: auth.From(ctx).UserID, Most: mostNotices})
	if err != nil {
		return nil, fmt.Errorf("account: list notices: %w", err)
	}
	out := &noticesOutput{CacheControl: httpx.NoStore}
	out.Body.Data = make([]NoticeView, 0, len(rows))
	for _, n := range rows {
		out.Body.Data = append(out.Body.Data, NoticeView{About: n.About, At: httpx.Moment(n.CreatedAt)})
	}
	return out, nil
}

type loginInPath struct {
	ID string `path:"id" doc:"The login's id"`
}

func (s *Service) endOwnLogin(ctx context.Context, in *loginInPath) (*struct{}, error) {
	id, err := httpx.ParseID(in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.EndLogin(ctx, auth.From(ctx).UserID, id, endedByUser)
}

func (s *Service) logoutOthers(ctx context.Context, _ *struct{}) (*struct{}, error) {
	p := auth.From(ctx)
	return nil, s.EndOtherLogins(ctx, p.UserID, p.Login)
}

type linkInput struct {
	StateInput
	Body struct {
		Code         string `json:"code" minLength:"1" maxLength:"128" doc:"From WeChat; valid for one use"`
		State        string `json:"state,omitempty" maxLength:"128" doc:"From auth/wechat/state; a mini program leaves it out"`
		RefreshToken string `json:"refresh_token" maxLength:"4096" doc:"Of this login; it is not used up"`
	} `nameHint:"WeChatLinking"`
}

func (s *Service) linkWeChat(ctx context.Context, in *linkInput) (*struct{}, error) {
	if err := s.Holds(ctx, auth.From(ctx), in.Body.RefreshToken); err != nil {
		return nil, err
	}
	return nil, s.LinkWeChat(ctx, auth.From(ctx).UserID, in.Body.Code, in.Body.State, in.StateCookie)
}

type bindInput struct {
	Body struct {
		Phone string `json:"phone" maxLength:"32" example:"13800138000"`
		Code  string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`

		RefreshToken string `json:"refresh_token" maxLength:"4096" doc:"Of this login; it is not used up"`
	} `nameHint:"PhoneBinding"`
}

func (s *Service) bindPhone(ctx context.Context, in *bindInput) (*struct{}, error) {
	phone, err := TypedPhone(in.Body.Phone)
	if err != nil {
		return nil, err
	}
	if err := s.Holds(ctx, auth.From(ctx), in.Body.RefreshToken); err != nil {
		return nil, err
	}
	return nil, s.BindPhone(ctx, auth.From(ctx).UserID, phone, in.Body.Code, httpx.ClientAddr(ctx))
}
