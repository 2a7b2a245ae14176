package account

import (
	"cmp"
	"context"
	"net/http"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/sms"
)

// Routes registers the module's routes.
func (s *Service) Routes(rt *httpx.Router) {
	s.authRoutes(rt)
	s.meRoutes(rt)
	s.totpRoutes(rt)
	s.adminRoutes(rt)
	s.firstAdminRoute(rt)
}

const authPath = "/api/v1/auth"

// Codes shared by several routes.
const (
	problemsInvalid = "invalid"
	problemsLimits  = "rate-limited, too-busy"
	problemsHuman   = "human-check-required, human-check-failed, account-disabled"
	problemsIn      = problemsHuman + ", login-refused"
)

func (s *Service) authRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/sms-codes", ID: "send-sms-code", Load: httpx.Costly, Tag: "shopper", Status: http.StatusAccepted,
		Summary: "Send a code to a phone",
		Description: "The code is valid for its purpose only, once, for five minutes and five attempts from the address that requested it, and five from others; a new code replaces it. " +
			"The answer is the same whether the phone has an account or not.",
		Problems: map[int]string{
			http.StatusForbidden: problemsIn, http.StatusUnprocessableEntity: "invalid, sms-refused, sms-country-refused", http.StatusTooManyRequests: "rate-limited",
			http.StatusServiceUnavailable: "sms-unavailable, sms-ceiling, human-check-unavailable",
		},
	}, s.sendCode)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/register", ID: "register", Load: httpx.Costly, Tag: "shopper", Status: http.StatusCreated,
		Summary:     "Make an account with a phone and a password",
		Description: "Takes a code of the purpose `register`. The account is logged in.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wrong-code", http.StatusForbidden: problemsIn, http.StatusConflict: "phone-taken",
			http.StatusUnprocessableEntity: "invalid, weak-password", http.StatusTooManyRequests: problemsLimits,
			http.StatusServiceUnavailable: "human-check-unavailable",
		},
	}, s.register)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/login", ID: "login", Load: httpx.Costly, Tag: "shopper", Summary: "Log in with phone and password",
		Description: "A phone without an account gets the same answer as a wrong password. After several failures a human check is required.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wrong-login, wrong-totp", http.StatusForbidden: problemsIn + ", totp-required", http.StatusUnprocessableEntity: problemsInvalid,
			http.StatusTooManyRequests: problemsLimits, http.StatusServiceUnavailable: "human-check-unavailable",
		},
	}, s.login)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/login/sms", ID: "login-sms", Load: httpx.Costly, Tag: "shopper", Summary: "Log in with phone and SMS code",
		Description: "Takes a code of the purpose `login`. A phone without an account gets one. The code stays valid after totp-required and wrong-totp.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wrong-code, wrong-totp", http.StatusForbidden: problemsIn + ", totp-required", http.StatusUnprocessableEntity: problemsInvalid,
			http.StatusTooManyRequests: problemsLimits, http.StatusServiceUnavailable: "human-check-unavailable",
		},
	}, s.loginSMS)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/wechat/state", ID: "start-wechat-login", Tag: "shopper", Status: http.StatusCreated,
		Summary: "Begin a WeChat login",
		Description: "Give `state` to WeChat's authorization page or SDK, and send it back with the code; the cookie, which lasts ten minutes, must come with it. " +
			"Send the access token here to link a WeChat account: the state is then for that account only. " +
			"So a code that an attacker got logs no other browser in. An app keeps the cookie itself; a mini program needs neither.",
		Problems: map[int]string{http.StatusServiceUnavailable: "wechat-unavailable"},
	}, s.startWeChat)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/login/wechat", ID: "login-wechat", Load: httpx.Costly, Tag: "shopper", Summary: "Log in with WeChat",
		Description: "Takes the code that WeChat gave to the page or mini program. A WeChat account without an account here gets one.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wechat-bad-code, wrong-totp", http.StatusForbidden: problemsIn + ", totp-required, wechat-state", http.StatusUnprocessableEntity: problemsInvalid,
			http.StatusConflict: "wechat-linked", http.StatusTooManyRequests: problemsLimits,
			http.StatusServiceUnavailable: "wechat-unavailable, human-check-unavailable",
		},
	}, s.loginWeChat)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/password/reset", ID: "reset-password", Load: httpx.Costly, Tag: "shopper", Status: http.StatusNoContent,
		Summary:     "Set a new password with an SMS code",
		Description: "Takes a code of the purpose `reset`. All logins of the account end.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wrong-code", http.StatusForbidden: problemsHuman, http.StatusNotFound: "phone-unknown",
			http.StatusUnprocessableEntity: "invalid, weak-password", http.StatusTooManyRequests: problemsLimits,
			http.StatusServiceUnavailable: "human-check-unavailable",
		},
	}, s.resetPassword)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: authPath + "/refresh", ID: "refresh", Load: httpx.Costly, Tag: "shopper", Summary: "Exchange a refresh token for new tokens",
		Description: "A refresh token is valid for one use. Repeated within 10 s, for example because the answer was lost, it gets the same successor; " +
			"repeated later, or after its successor was used, it ends the login, because it may have been copied.",
		Problems: map[int]string{
			http.StatusUnauthorized: "bad-refresh-token, refresh-reused", http.StatusForbidden: "login-refused",
			http.StatusUnprocessableEntity: problemsInvalid,
		},
	}, s.refresh)
}

// DeviceInput is what a client states about itself. It is exported because the QR
// login takes the same input.
type DeviceInput struct {
	Kind string `json:"kind,omitempty" enum:"web,ios,android,wechat,desktop,other" default:"other" doc:"The kind of device"`
	ID   string `json:"id,omitempty" maxLength:"128" doc:"Chosen by the client, the same at each login and refresh of this device. It becomes part of the access token. It is a label: what proves a device is the cookie stampede_device, which codes and logins set"`
	Name string `json:"name,omitempty" maxLength:"64" doc:"The device's name in the user's list of logins" example:"Li's phone"`
}

// Device validates the input, which may be nil, and adds the address of the request
// in ctx.
func (in *DeviceInput) Device(ctx context.Context) (Device, error) {
	d := Device{Kind: "other", Address: httpx.ClientAddr(ctx)}
	if in == nil {
		return d, nil
	}
	// maxLength counts characters; the token and the column count bytes.
	const mostIDBytes = 128
	if len(in.ID) > mostIDBytes || clean(in.ID) != in.ID {
		return Device{}, fault.Plain(fault.Invalid,
			fault.T("device.id has at most 128 bytes, and no control or invisible characters.",
				"device.id 最多 128 字节，不能含有控制字符或不可见字符。"))
	}
	d.Kind, d.ID, d.Name = cmp.Or(in.Kind, d.Kind), in.ID, clean(in.Name)
	return d, nil
}

// give makes the device known by its cookie, which it gets with the answer if it has
// none.
func (d *Device) give(ctx context.Context) {
	if id := httpx.GiveDevice(ctx); id != [16]byte{} {
		d.Browser = id[:]
	}
}

// enter parses the phone and the device of a login attempt, runs it and counts it.
func (s *Service) enter(ctx context.Context, how, rawPhone string, device *DeviceInput, try func(Phone, Device) (Tokens, error)) (*httpx.Output[Tokens], error) {
	phone, err := TypedPhone(rawPhone)
	if err != nil {
		return nil, err
	}
	d, err := device.Device(ctx)
	if err != nil {
		return nil, err
	}
	d.give(ctx)
	out, err := try(phone, d)
	return s.answer(how, out, err)
}

// SolutionHeader carries the solution of a human check; inputs embed it. It is
// exported because huma requires that of embedded fields.
type SolutionHeader struct {
	HumanCheck string `header:"Human-Check" maxLength:"4096" doc:"The solution of a human check, when one is required"`
}

func (h SolutionHeader) caller(ctx context.Context) caller {
	return caller{Address: httpx.ClientAddr(ctx), Origin: httpx.Origin(ctx), Solution: h.HumanCheck}
}

// answer counts a login attempt and wraps its tokens.
func (s *Service) answer(how string, out Tokens, err error) (*httpx.Output[Tokens], error) {
	s.metrics.attempt(how, err)
	if err != nil {
		return nil, err
	}
	return httpx.Answer(out), nil
}

type codeInput struct {
	SolutionHeader
	AcceptLanguage string `header:"Accept-Language" maxLength:"256" doc:"The language of the message: zh or en"`
	Body           struct {
		Phone   string  `json:"phone" maxLength:"32" example:"13800138000"`
		Purpose Purpose `json:"purpose" enum:"login,register,reset,erase,bind" doc:"What the code will be used for"`
		Device  string  `json:"device_id,omitempty" maxLength:"128" doc:"device.id of the login"`
	} `nameHint:"SMSCodeRequest"`
}

type codeOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		ExpiresIn  int64 `json:"expires_in" doc:"Seconds until the code expires" example:"300"`
		RetryAfter int64 `json:"retry_after" doc:"Seconds until another code may be requested" example:"60"`
	} `nameHint:"SMSCodeSent"`
}

func (s *Service) sendCode(ctx context.Context, in *codeInput) (*codeOutput, error) {
	phone, err := TypedPhone(in.Body.Phone)
	if err != nil {
		return nil, err
	}
	lang := sms.English
	if in.AcceptLanguage == "" && phone.inChina() || in.AcceptLanguage != "" && httpx.LanguageOf(in.AcceptLanguage) == httpx.Chinese {
		lang = sms.Chinese
	}
	httpx.GiveDevice(ctx)
	if err := s.SendCode(ctx, phone, in.Body.Purpose, lang, in.Body.Device, in.caller(ctx)); err != nil {
		return nil, err
	}
	out := &codeOutput{CacheControl: httpx.NoStore}
	out.Body.ExpiresIn, out.Body.RetryAfter = int64(codeLifetime.Seconds()), int64(shortWindow.Seconds())
	return out, nil
}

type registerInput struct {
	SolutionHeader
	Body struct {
		Phone    string       `json:"phone" maxLength:"32" example:"13800138000"`
		Code     string       `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
		Password string       `json:"password" maxLength:"128" doc:"8 to 128 characters; not the phone, not the name, not the shop's name, none of the 10,000 most common ones"`
		Name     string       `json:"name,omitempty" maxLength:"64"`
		Device   *DeviceInput `json:"device,omitempty"`
	} `nameHint:"Registration"`
}

func (s *Service) register(ctx context.Context, in *registerInput) (*httpx.Output[Tokens], error) {
	return s.enter(ctx, byRegister, in.Body.Phone, in.Body.Device, func(phone Phone, d Device) (Tokens, error) {
		return s.Register(ctx, phone, in.Body.Code, in.Body.Password, clean(in.Body.Name), d, in.caller(ctx))
	})
}

type loginInput struct {
	SolutionHeader
	Body struct {
		Phone    string       `json:"phone" maxLength:"32" example:"13800138000"`
		Password string       `json:"password" maxLength:"128"`
		Device   *DeviceInput `json:"device,omitempty"`
		TOTP     string       `json:"totp,omitempty" pattern:"^([0-9]{6}|[A-Za-z2-7 -]{26,40})?$" doc:"The code of the authenticator app, for an account that has one, or a recovery code" example:"123456"`
	} `nameHint:"PasswordLogin"`
}

func (s *Service) login(ctx context.Context, in *loginInput) (*httpx.Output[Tokens], error) {
	return s.enter(ctx, byPassword, in.Body.Phone, in.Body.Device, func(phone Phone, d Device) (Tokens, error) {
		d.TOTP = in.Body.TOTP
		return s.LoginByPassword(ctx, phone, in.Body.Password, d, in.caller(ctx))
	})
}

type loginSMSInput struct {
	SolutionHeader
	Body struct {
		Phone  string       `json:"phone" maxLength:"32" example:"13800138000"`
		Code   string       `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
		Device *DeviceInput `json:"device,omitempty"`
		TOTP   string       `json:"totp,omitempty" pattern:"^([0-9]{6}|[A-Za-z2-7 -]{26,40})?$" doc:"The code of the authenticator app, for an account that has one, or a recovery code" example:"123456"`
	} `nameHint:"SMSLogin"`
}

func (s *Service) loginSMS(ctx context.Context, in *loginSMSInput) (*httpx.Output[Tokens], error) {
	return s.enter(ctx, bySMS, in.Body.Phone, in.Body.Device, func(phone Phone, d Device) (Tokens, error) {
		d.TOTP = in.Body.TOTP
		return s.LoginByCode(ctx, phone, in.Body.Code, d, in.caller(ctx))
	})
}

type loginWeChatInput struct {
	SolutionHeader
	StateInput
	Body struct {
		Code   string       `json:"code" minLength:"1" maxLength:"128" doc:"From WeChat; valid for one use"`
		State  string       `json:"state,omitempty" maxLength:"128" doc:"From auth/wechat/state; a mini program leaves it out"`
		Device *DeviceInput `json:"device,omitempty"`
		TOTP   string       `json:"totp,omitempty" pattern:"^([0-9]{6}|[A-Za-z2-7 -]{26,40})?$" doc:"The code of the authenticator app, for an account that has one, or a recovery code" example:"123456"`
	} `nameHint:"WeChatLogin"`
}

func (s *Service) loginWeChat(ctx context.Context, in *loginWeChatInput) (*httpx.Output[Tokens], error) {
	d, err := in.Body.Device.Device(ctx)
	if err != nil {
		return nil, err
	}
	d.TOTP = in.Body.TOTP
	d.give(ctx)
	out, err := s.LoginByWeChat(ctx, in.Body.Code, in.Body.State, in.StateCookie, d, in.caller(ctx))
	return s.answer(byWeChat, out, err)
}

type resetInput struct {
	SolutionHeader
	Body struct {
		Phone    string `json:"phone" maxLength:"32" example:"13800138000"`
		Code     string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
		Password string `json:"password" maxLength:"128" doc:"The new password"`
	} `nameHint:"PasswordReset"`
}

func (s *Service) resetPassword(ctx context.Context, in *resetInput) (*struct{}, error) {
	phone, err := TypedPhone(in.Body.Phone)
	if err != nil {
		return nil, err
	}
	return nil, s.ResetPassword(ctx, phone, in.Body.Code, in.Body.Password, in.caller(ctx))
}

type refreshInput struct {
	Body struct {
		RefreshToken string `json:"refresh_token" maxLength:"4096"`
		DeviceID     string `json:"device_id,omitempty" maxLength:"128" doc:"device.id of the login; left out if it had none"`
	} `nameHint:"TokenRefresh"`
}

func (s *Service) refresh(ctx context.Context, in *refreshInput) (*httpx.Output[Tokens], error) {
	out, err := s.Refresh(ctx, in.Body.RefreshToken, in.Body.DeviceID, httpx.ClientAddr(ctx))
	return s.answer(byRefresh, out, err)
}
