package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/blacklist"
)

// Routes registers the routes of logins.
func (s *Service) Routes(rt *httpx.Router) {
	rt.API.Member("login_url", huma.Schema{
		Type: huma.TypeString, Description: "Where shoppers log in instead, in a login-elsewhere or wrong-login problem", Examples: []any{"https://www.shop.example/login"},
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/refresh", ID: "refresh", Load: httpx.Costly, Tag: "shopper", Summary: "Exchange a refresh token for new tokens", NoKey: "a repeated token gets the same successor while the answer may have been lost",
		Description: "A refresh token is valid for one use. Repeated within 10 s, for example because the answer was lost, it gets the same successor; " +
			"repeated later, or after its successor was used, it ends the login, because it may have been copied.",
		Refuses: []*fault.Error{errBadRefresh, errReused, blacklist.ErrRefused},
	}, func(ctx context.Context, in *refreshInput) (*httpx.Output[Tokens], error) {
		out, err := s.Refresh(ctx, in.Body.RefreshToken, in.Body.DeviceID, httpx.ClientAddr(ctx))
		return s.Answer(ByRefresh, out, err)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/auth/logout", ID: "logout", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "End this login", NoKey: httpx.SetsState, Description: "Its access token and its refresh token end within a second, on every instance.",
		Refuses: []*fault.Error{errNoOwnLogin},
	}, s.logout)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: "/api/v1/me/logins", ID: "list-logins", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "Your logins, the most recently used first", Description: "At most 20; beyond that the least recently used login ends.",
	}, func(ctx context.Context, _ *struct{}) (*httpx.Output[Logins], error) {
		p := auth.From(ctx)
		views, err := s.List(ctx, p.UserID, p.Login)
		return httpx.Answer(Logins{views}), err
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: "/api/v1/me/logins/{id}", ID: "end-login", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "End one of your logins",
	}, func(ctx context.Context, in *loginInPath) (*struct{}, error) {
		id, err := httpx.ParseID(in.ID)
		if err != nil {
			return nil, err
		}
		return nil, s.end(ctx, auth.From(ctx).UserID, id, account.EndedByUser)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: "/api/v1/me/logout-others", ID: "logout-others", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "End all your logins but this one", NoKey: httpx.SetsState, Refuses: []*fault.Error{account.ErrNoAccount},
	}, s.logoutOthers)
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
	err := s.end(ctx, p.UserID, p.Login, account.EndedByLogout)
	if errors.Is(err, account.ErrNoLogin) {
		return nil, nil // it has already ended, as requested; 204 has no body
	}
	return nil, err
}

// end ends a login at its user's request.
func (s *Service) end(ctx context.Context, user, login int64, why string) error {
	return s.store.InTx(ctx, "end login", func(tx pgx.Tx) error {
		// Without an account there is no login either.
		if _, err := accountdb.New(tx).LockUser(ctx, user); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return s.store.EndLogin(ctx, tx, user, login, why)
	})
}

func (s *Service) logoutOthers(ctx context.Context, _ *struct{}) (*struct{}, error) {
	p := auth.From(ctx)
	return nil, s.store.InTx(ctx, "end other logins", func(tx pgx.Tx) error {
		// The lock keeps a login that is being opened from slipping through.
		if _, err := account.LockActive(ctx, tx, p.UserID); err != nil {
			return err
		}
		_, err := s.store.EndLogins(ctx, tx, p.UserID, p.Login, account.EndedByUser)
		return err
	})
}

type refreshInput struct {
	Body struct {
		RefreshToken string `json:"refresh_token" maxLength:"4096"`
		DeviceID     string `json:"device_id,omitempty" maxLength:"128" doc:"device.id of the login; left out if it had none"`
	} `nameHint:"TokenRefresh"`
}

type loginInPath struct {
	ID string `path:"id" doc:"The login's id"`
}

// Logins are a user's.
type Logins struct {
	Data []LoginView `json:"data" nullable:"false"`
}

// LoginView is a login as lists show it.
type LoginView struct { //nolint:revive // the name in the API document
	ID         string `json:"id"`
	Current    bool   `json:"current" doc:"Whether this request uses the login"`
	DeviceKind string `json:"device_kind" enum:"web,ios,android,wechat,desktop,other"`
	DeviceName string `json:"device_name,omitempty" doc:"The name that the device gave" example:"Li Wei’s phone"`
	Address    string `json:"address,omitempty" doc:"The address of the last login or refresh" example:"203.0.113.7"`
	How        string `json:"how" doc:"password, sms, wechat, qr, exchange or register" example:"password"`
	CreatedAt  string `json:"created_at" format:"date-time"`
	LastUsedAt string `json:"last_used_at" format:"date-time" doc:"When it was opened or last refreshed"`
	ExpiresAt  string `json:"expires_at" format:"date-time" doc:"When it ends if it is not refreshed"`
}

// List returns a user's open logins; current is the login of the request.
func (s *Service) List(ctx context.Context, user, current int64) ([]LoginView, error) {
	rows, err := accountdb.New(s.store.DB).LiveLogins(ctx, accountdb.LiveLoginsParams{UserID: user, Most: mostLogins})
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
