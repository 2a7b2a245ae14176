package account

import (
	"context"
	"net/http"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
)

func (s *Service) totpRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/totp", ID: "start-totp", Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated,
		Summary: "Start adding a second factor",
		Description: "Enter `secret` into an authenticator app, or open `url` with one, and confirm with its code; until then nothing changes. " +
			"Admins need a second factor: their tokens have the role shopper until then.",
		Problems: map[int]string{http.StatusForbidden: "proof-required", http.StatusConflict: "totp-set"},
	}, s.startTOTP)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/totp/confirm", ID: "confirm-totp", Tag: "shopper", Role: auth.Shopper,
		Summary: "Put the second factor into force",
		Description: "Your other logins end. Each login needs a code from now on, and each code is valid once; refresh this login for an admin's role. " +
			"Each of the answer's `recovery_codes` is taken once in place of the app's code, if the phone is lost; they are not shown again.",
		Problems: map[int]string{http.StatusUnauthorized: "wrong-totp", http.StatusNotFound: "not-found", http.StatusConflict: "totp-set", http.StatusTooManyRequests: "rate-limited"},
	}, s.confirmTOTP)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/totp/recovery-codes", ID: "renew-recovery-codes", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated,
		Summary: "Replace your recovery codes", Description: "Takes the password and a code of the authenticator app. The codes before are not valid any more.",
		Problems: map[int]string{
			http.StatusUnauthorized: "wrong-totp", http.StatusForbidden: "wrong-password", http.StatusNotFound: "not-found, no-account",
			http.StatusConflict: "no-password", http.StatusTooManyRequests: "rate-limited",
		},
	}, s.renewRecovery)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: mePath + "/totp", ID: "remove-totp", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary:  "Remove your second factor, with one of its codes or a recovery code",
		Problems: map[int]string{http.StatusUnauthorized: "wrong-totp", http.StatusNotFound: "not-found", http.StatusTooManyRequests: "rate-limited"},
	}, s.removeTOTP)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: adminPath + "/{id}/totp", ID: "reset-user-totp", Tag: "operator", Role: auth.Admin, Status: http.StatusNoContent,
		Summary: "Remove the second factor of a user who lost it", Description: "All logins of the user end.",
		Problems: map[int]string{http.StatusNotFound: "not-found", http.StatusConflict: errErased.Code},
	}, func(ctx context.Context, in *userInPath) (*struct{}, error) {
		return nil, withUser(in.ID, func(user int64) error { return s.ResetTOTP(ctx, user) })
	})
}

type startTOTPInput struct {
	Body struct {
		RefreshToken string `json:"refresh_token" maxLength:"4096" doc:"Of this login; it is not used up"`
	} `nameHint:"TOTPStart"`
}

type startTOTPOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Secret string `json:"secret" doc:"In base32"`
		URL    string `json:"url" doc:"For authenticator apps, otpauth://totp/…"`
	} `nameHint:"TOTPSecret"`
}

func (s *Service) startTOTP(ctx context.Context, in *startTOTPInput) (*startTOTPOutput, error) {
	p := auth.From(ctx)
	if err := s.Holds(ctx, p, in.Body.RefreshToken); err != nil {
		return nil, err
	}
	out := &startTOTPOutput{CacheControl: httpx.NoStore}
	var err error
	out.Body.Secret, out.Body.URL, err = s.StartTOTP(ctx, p.UserID)
	return out, err
}

type totpInput struct {
	Body struct {
		Code string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
	} `nameHint:"TOTPCode"`
}

type recoveryOutput struct {
	CacheControl string `header:"Cache-Control"`
	Body         struct {
		Codes []string `json:"recovery_codes" nullable:"false" doc:"Each is taken once in place of the authenticator app's code; they are not shown again" example:"[\"mfrgg-zdfmz-twq2l-knruw-y5dpn4\"]"`
	} `nameHint:"RecoveryCodes"`
}

func recovered(codes []string, err error) (*recoveryOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &recoveryOutput{CacheControl: httpx.NoStore}
	out.Body.Codes = codes
	return out, nil
}

func (s *Service) confirmTOTP(ctx context.Context, in *totpInput) (*recoveryOutput, error) {
	p := auth.From(ctx)
	return recovered(s.ConfirmTOTP(ctx, p.UserID, p.Login, in.Body.Code))
}

type renewInput struct {
	Body struct {
		Password string `json:"password" maxLength:"128"`
		Code     string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
	} `nameHint:"RecoveryRenewal"`
}

func (s *Service) renewRecovery(ctx context.Context, in *renewInput) (*recoveryOutput, error) {
	return recovered(s.RenewRecovery(ctx, auth.From(ctx).UserID, in.Body.Password, in.Body.Code))
}

type factorInput struct {
	Body struct {
		Code string `json:"code" pattern:"^([0-9]{6}|[A-Za-z2-7 -]{26,40})$" doc:"Of the authenticator app, or a recovery code" example:"123456"`
	} `nameHint:"FactorCode"`
}

func (s *Service) removeTOTP(ctx context.Context, in *factorInput) (*struct{}, error) {
	return nil, s.RemoveTOTP(ctx, auth.From(ctx).UserID, in.Body.Code)
}
