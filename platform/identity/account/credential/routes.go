package credential

import (
	"context"
	"net/http"
	"slices"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/code"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/guard"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/account/password"
	"stampede/platform/identity/account/wechat"
	"stampede/platform/identity/blacklist"
	"stampede/platform/identity/humancheck"
)

const (
	authPath = "/api/v1/auth"
	mePath   = "/api/v1/me"
)

// refusesHuman are the refusals of a route that may require a human check, and refusesIn
// of one that logs in.
var (
	refusesHuman = []*fault.Error{humancheck.ErrRequired, humancheck.ErrFailed, humancheck.ErrUnavailable, account.ErrDisabled}
	refusesIn    = slices.Concat(refusesHuman, []*fault.Error{account.ErrElsewhere, blacklist.ErrRefused})
)

// Routes registers the routes of credentials and of a user's own account.
func (s *Service) Routes(rt *httpx.Router) {
	s.meRoutes(rt)
	s.totpRoutes(rt)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/register", ID: "register", Load: httpx.Costly, Tag: "shopper", Status: http.StatusCreated,
		Summary: "Make an account with a phone and a password", NoKey: httpx.ValidOnce,
		Description: "Takes a code of the purpose `register`. The account is logged in.",
		Refuses:     slices.Concat(refusesIn, []*fault.Error{code.ErrWrong, ErrPhoneTaken, password.ErrWeak, password.ErrBusy}),
	}, func(ctx context.Context, in *registerInput) (*httpx.Output[login.Tokens], error) {
		return Enter(ctx, s.Logins, login.ByRegister, in.Body.Phone, in.Body.Device, "", func(phone account.Phone, d login.Device) (login.Tokens, error) {
			return s.register(ctx, in, phone, d)
		})
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/login", ID: "login", Load: httpx.Costly, Tag: "shopper", Summary: "Log in with phone and password", NoKey: httpx.NoLogin,
		Description: "A phone without an account gets the same answer as a wrong password. After several failures a human check is required.",
		Refuses:     slices.Concat(refusesIn, []*fault.Error{errWrongLogin, factor.ErrWrong, factor.ErrRequired, password.ErrBusy}),
	}, func(ctx context.Context, in *loginInput) (*httpx.Output[login.Tokens], error) {
		return Enter(ctx, s.Logins, login.ByPassword, in.Body.Phone, in.Body.Device, in.Body.TOTP, func(phone account.Phone, d login.Device) (login.Tokens, error) {
			return s.loginByPassword(ctx, in, phone, d)
		})
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/login/sms", ID: "login-sms", Load: httpx.Costly, Tag: "shopper", Summary: "Log in with phone and SMS code", NoKey: httpx.ValidOnce,
		Description: "Takes a code of the purpose `login`. A phone without an account gets one. The code stays valid after totp-required and wrong-totp.",
		Refuses:     slices.Concat(refusesIn, []*fault.Error{code.ErrWrong, factor.ErrWrong, factor.ErrRequired, password.ErrBusy}),
	}, func(ctx context.Context, in *loginSMSInput) (*httpx.Output[login.Tokens], error) {
		return Enter(ctx, s.Logins, login.BySMS, in.Body.Phone, in.Body.Device, in.Body.TOTP, func(phone account.Phone, d login.Device) (login.Tokens, error) {
			return s.loginByCode(ctx, in, phone, d)
		})
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/wechat/state", ID: "start-wechat-login", Tag: "shopper", Status: http.StatusCreated,
		Summary: "Begin a WeChat login", NoKey: "it stores nothing",
		Description: "Give `state` to WeChat's authorization page or SDK, and send it back with the code; the cookie, which lasts ten minutes, must come with it. " +
			"Send the access token here to link a WeChat account: the state is then for that account only. " +
			"So a code that an attacker got logs no other browser in. An app keeps the cookie itself; a mini program needs neither.",
		Refuses: []*fault.Error{wechat.ErrUnavailable, account.ErrElsewhere},
	}, s.startWeChat)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/login/wechat", ID: "login-wechat", Load: httpx.Costly, Tag: "shopper", Summary: "Log in with WeChat", NoKey: httpx.ValidOnce,
		Description: "Takes the code that WeChat gave to the page or mini program. A WeChat account without an account here gets one.",
		Refuses: slices.Concat(refusesIn, []*fault.Error{
			wechat.ErrBadCode, factor.ErrWrong, factor.ErrRequired, errWeChatState, errWeChatLinked,
			password.ErrBusy, wechat.ErrUnavailable,
		}),
	}, func(ctx context.Context, in *loginWeChatInput) (*httpx.Output[login.Tokens], error) {
		d, err := in.Body.Device.Proved(ctx, in.Body.TOTP)
		if err != nil {
			return nil, err
		}
		out, err := s.loginByWeChat(ctx, in, d)
		return s.Logins.Answer(login.ByWeChat, out, err)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/password/reset", ID: "reset-password", Load: httpx.Costly, Tag: "shopper", Status: http.StatusNoContent,
		Summary: "Set a new password with an SMS code", NoKey: httpx.ValidOnce,
		Description: "Takes a code of the purpose `reset`. All logins of the account end.",
		Refuses:     slices.Concat(refusesHuman, []*fault.Error{code.ErrWrong, errPhoneUnknown, password.ErrWeak, password.ErrBusy}),
	}, s.resetPassword)
}

// Enter parses the phone and the device of a login attempt, makes it and counts it.
func Enter(
	ctx context.Context, logins *login.Service, how, rawPhone string, device *login.DeviceInput, totp string,
	try func(phone account.Phone, d login.Device) (login.Tokens, error),
) (*httpx.Output[login.Tokens], error) {
	phone, err := account.TypedPhone(rawPhone)
	if err != nil {
		return nil, err
	}
	d, err := device.Proved(ctx, totp)
	if err != nil {
		return nil, err
	}
	out, err := try(phone, d)
	return logins.Answer(how, out, err)
}

type registerInput struct {
	guard.SolutionHeader
	Body struct {
		Phone    string             `json:"phone" maxLength:"32" example:"13800138000"`
		Code     string             `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
		Password string             `json:"password" maxLength:"128" doc:"8 to 128 characters; not the phone, not the name, not the shop's name, none of the 10,000 most common ones" example:"eight-words-or-so"`
		Name     string             `json:"name,omitempty" maxLength:"64"`
		Device   *login.DeviceInput `json:"device,omitempty"`
	} `nameHint:"Registration"`
}

type loginInput struct {
	guard.SolutionHeader
	Body struct {
		Phone    string             `json:"phone" maxLength:"32" example:"13800138000"`
		Password string             `json:"password" maxLength:"128"`
		Device   *login.DeviceInput `json:"device,omitempty"`
		login.SecondFactor
	} `nameHint:"PasswordLogin"`
}

type loginSMSInput struct {
	guard.SolutionHeader
	Body struct {
		Phone  string             `json:"phone" maxLength:"32" example:"13800138000"`
		Code   string             `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
		Device *login.DeviceInput `json:"device,omitempty"`
		login.SecondFactor
	} `nameHint:"SMSLogin"`
}

// WeChatCode is a code of WeChat's and where it is from. It is exported because huma
// documents embedded fields of exported types only.
type WeChatCode struct {
	Code  string      `json:"code" minLength:"1" maxLength:"128" doc:"From WeChat; valid for one use" example:"081xQ0Ga1"`
	State string      `json:"state,omitempty" maxLength:"128" doc:"From auth/wechat/state; a mini program leaves it out"`
	App   wechat.Kind `json:"app,omitempty" enum:"official,mini" doc:"The app that the code is from; left out for the official account, and where the shop has one app only"`
}

type loginWeChatInput struct {
	guard.SolutionHeader
	StateInput
	Body struct {
		WeChatCode
		Device *login.DeviceInput `json:"device,omitempty"`
		login.SecondFactor
	} `nameHint:"WeChatLogin"`
}

type resetInput struct {
	guard.SolutionHeader
	Body struct {
		Phone    string `json:"phone" maxLength:"32" example:"13800138000"`
		Code     string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
		Password string `json:"password" maxLength:"128" doc:"The new password"`
	} `nameHint:"PasswordReset"`
}
