package credential

import (
	"context"
	"fmt"
	"net/http"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/internal/accountdb"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/blacklist"
	"stampede/platform/store/pg"
)

func (s *Service) meRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: mePath, ID: "get-me", Tag: "shopper", Role: auth.Shopper,
		Summary: "Your account", Refuses: []*fault.Error{account.ErrNoAccount},
	}, s.me)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/password", ID: "change-password", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Change the password", NoKey: httpx.ValidOnce, Description: "Your other logins end.",
		Refuses: []*fault.Error{errWrongPassword, account.ErrNoAccount, errNoPassword, password.ErrWeak, password.ErrBusy},
	}, func(ctx context.Context, in *changeInput) (*struct{}, error) {
		p := auth.From(ctx)
		return nil, s.changePassword(ctx, p.UserID, p.Login, in.Body.Old, in.Body.New)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: mePath + "/notices", ID: "list-notices", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper,
		Summary: "What was changed about your account, the newest first",
		Description: "The last 20 of 30 days. Users with a phone get an SMS too, so show them after a login of a user without one: " +
			"`device` is a login on a new device (two a day at most), `access` a new way to log in, `factor` the second factor.",
	}, s.listNotices)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/wechat", ID: "link-wechat", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Add your WeChat account", NoKey: httpx.SetsState,
		Description: "You can then log in with it and pay inside WeChat. Takes this login's refresh token, because a copied access token must not gain a way " +
			"to log in. Repeating it does nothing.",
		Refuses: []*fault.Error{wechat.ErrBadCode, login.ErrProof, errWeChatState, account.ErrNoAccount, errWeChatTaken, errWeChatLinked, wechat.ErrUnavailable},
	}, s.linkWeChat)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/phone", ID: "bind-phone", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Add your phone", NoKey: httpx.SetsState,
		Description: "For an account without a phone, such as one created by WeChat login. Takes a code of the purpose `bind` and this login's refresh token. You can then log in with the " +
			"phone, by code immediately and by password after `auth/password/reset`. Adding the phone that the account already has does nothing.",
		Refuses: []*fault.Error{code.ErrWrong, account.ErrDisabled, blacklist.ErrRefused, login.ErrProof, account.ErrNoAccount, ErrPhoneTaken, errPhoneLinked},
	}, s.bindPhone)
}

// MeView is an account as its owner sees it.
type MeView struct {
	ID          string    `json:"id" example:"1000042"`
	Phone       string    `json:"phone,omitempty" doc:"Masked" example:"138****5678"`
	Email       string    `json:"email,omitempty" doc:"Masked; messages go to it where no SMS does" example:"l****@shop.example"`
	Name        string    `json:"name,omitempty" example:"Li Wei"`
	Role        auth.Role `json:"role" enum:"shopper,viewer,operator,admin"`
	HasPassword bool      `json:"has_password" doc:"Whether one is set"`
	HasWeChat   bool      `json:"has_wechat" doc:"Whether a WeChat account is linked"`
	HasTOTP     bool      `json:"has_totp" doc:"Whether a second factor is in force"`
	Recovery    int32     `json:"recovery_codes_left" doc:"How many recovery codes were not used"`
	CreatedAt   string    `json:"created_at" format:"date-time"`
}

func (s *Service) me(ctx context.Context, _ *struct{}) (*httpx.Output[MeView], error) {
	u, err := s.Store.ByID(ctx, auth.From(ctx).UserID)
	if err == nil && u.Status == account.Erased {
		err = account.ErrNoAccount
	}
	if err != nil {
		return nil, err
	}
	linked, err := accountdb.New(s.Store.DB).HasIdentity(ctx, u.ID)
	if err != nil {
		return nil, fmt.Errorf("account: read identities: %w", err)
	}
	t, err := factor.Of(ctx, s.Store.DB, u.ID)
	if err != nil {
		return nil, err
	}
	return httpx.Answer(MeView{
		HasTOTP: t.Confirmed, Recovery: t.RecoveryLeft,
		ID: httpx.FormatID(u.ID), Phone: account.PhoneOf(u).Masked(), Email: account.MaskedEmail(pg.ValueOr(u.Email, "")),
		Name: u.Name, Role: auth.Role(u.Role), HasPassword: u.Password != nil, HasWeChat: linked,
		CreatedAt: httpx.Moment(u.CreatedAt),
	}), nil
}

type changeInput struct {
	Body struct {
		Old string `json:"old_password" maxLength:"128" example:"eight-words-or-so"`
		New string `json:"new_password" maxLength:"128" doc:"8 to 128 characters; not the phone, not the name, not the shop's name, none of the 10,000 most common ones" example:"nine-other-words"`
	} `nameHint:"PasswordChange"`
}

// NoticeView is a change of an account.
type NoticeView struct {
	About string `json:"about" enum:"device,password,access,role,factor"`
	At    string `json:"at" format:"date-time"`
}

// Notices are the changes of a user's account.
type Notices struct {
	Data []NoticeView `json:"data" nullable:"false"`
}

// mostNotices is a page that a user reads.
const mostNotices = 20

func (s *Service) listNotices(ctx context.Context, _ *struct{}) (*httpx.Output[Notices], error) {
	rows, err := accountdb.New(s.Store.DB).ListNotices(ctx, accountdb.ListNoticesParams{UserID: auth.From(ctx).UserID, Most: mostNotices})
	if err != nil {
		return nil, fmt.Errorf("account: list notices: %w", err)
	}
	views := make([]NoticeView, 0, len(rows))
	for _, n := range rows {
		views = append(views, NoticeView{About: n.About, At: httpx.Moment(n.CreatedAt)})
	}
	return httpx.Answer(Notices{views}), nil
}

type linkInput struct {
	StateInput
	Body struct {
		WeChatCode
		RefreshToken string `json:"refresh_token" maxLength:"4096" doc:"Of this login; it is not used up"`
	} `nameHint:"WeChatLinking"`
}

type bindInput struct {
	Body struct {
		Phone string `json:"phone" maxLength:"32" example:"13800138000"`
		Code  string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`

		RefreshToken string `json:"refresh_token" maxLength:"4096" doc:"Of this login; it is not used up"`
	} `nameHint:"PhoneBinding"`
}
