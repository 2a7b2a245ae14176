package credential

import (
	"context"
	"net/http"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/factor"
	"stampede/platform/identity/account/login"
)

func (s *Service) totpRoutes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/totp", ID: "start-totp", Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated,
		Summary: "Start adding a second factor",
		NoKey:   "a new secret replaces one that was not confirmed",
		Description: "Enter `secret` into an authenticator app, or open `url` with one, and confirm with its code; until then nothing changes. " +
			"Admins need a second factor: their tokens have the role shopper until then.",
		Refuses: []*fault.Error{login.ErrProof, factor.ErrSet},
	}, s.startTOTP)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/totp/confirm", ID: "confirm-totp", Tag: "shopper", Role: auth.Shopper,
		Summary: "Put the second factor into force", NoKey: httpx.ValidOnce,
		Description: "Your other logins end. Each login needs a code from now on, and each code is valid once; refresh this login for an admin's role. " +
			"Each of the answer's `recovery_codes` is taken once in place of the app's code, if the phone is lost; they are not shown again.",
		Refuses: []*fault.Error{fault.ErrNotFound, factor.ErrWrong, factor.ErrSet},
	}, s.confirmTOTP)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: mePath + "/totp/recovery-codes", ID: "renew-recovery-codes", Load: httpx.Costly, Tag: "shopper", Role: auth.Shopper, Status: http.StatusCreated,
		Summary: "Replace your recovery codes", NoKey: httpx.ValidOnce, Description: "Takes the password and a code of the authenticator app. The codes before are not valid any more.",
		Refuses: []*fault.Error{fault.ErrNotFound, factor.ErrWrong, errWrongPassword, account.ErrNoAccount, errNoPassword},
	}, s.renewRecovery)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: mePath + "/totp", ID: "remove-totp", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Remove your second factor, with one of its codes or a recovery code",
		Refuses: []*fault.Error{fault.ErrNotFound, factor.ErrWrong},
	}, s.removeTOTP)
}

type startTOTPInput struct {
	Body struct {
		RefreshToken string `json:"refresh_token" maxLength:"4096" doc:"Of this login; it is not used up"`
	} `nameHint:"TOTPStart"`
}

// TOTPSecret is a secret for an authenticator app.
type TOTPSecret struct {
	Secret string `json:"secret" doc:"In base32"`
	URL    string `json:"url" doc:"For authenticator apps, otpauth://totp/…"`
}

func (s *Service) startTOTP(ctx context.Context, in *startTOTPInput) (*httpx.Output[TOTPSecret], error) {
	p := auth.From(ctx)
	if err := s.Logins.Holds(ctx, p, in.Body.RefreshToken); err != nil {
		return nil, err
	}
	secret, url, err := s.Factors.Start(ctx, p.UserID)
	return httpx.Answer(TOTPSecret{secret, url}), err
}

type totpInput struct {
	Body struct {
		Code string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
	} `nameHint:"TOTPCode"`
}

// RecoveryCodes are a user's new ones.
type RecoveryCodes struct {
	Codes []string `json:"recovery_codes" nullable:"false" doc:"Each is taken once in place of the authenticator app's code; they are not shown again" example:"[\"mfrgg-zdfmz-twq2l-knruw-y5dpn4\"]"`
}

func (s *Service) confirmTOTP(ctx context.Context, in *totpInput) (*httpx.Output[RecoveryCodes], error) {
	p := auth.From(ctx)
	codes, err := s.Factors.Confirm(ctx, p.UserID, p.Login, in.Body.Code)
	return httpx.Answer(RecoveryCodes{codes}), err
}

type renewInput struct {
	Body struct {
		Password string `json:"password" maxLength:"128"`
		Code     string `json:"code" pattern:"^[0-9]{6}$" example:"123456"`
	} `nameHint:"RecoveryRenewal"`
}

func (s *Service) renewRecovery(ctx context.Context, in *renewInput) (*httpx.Output[RecoveryCodes], error) {
	u, err := s.Store.ByID(ctx, auth.From(ctx).UserID)
	if err != nil {
		return nil, err
	}
	if u.Password == nil {
		return nil, errNoPassword
	}
	if err := s.showPassword(ctx, u, in.Body.Password); err != nil {
		return nil, err
	}
	codes, err := s.Factors.Renew(ctx, u.ID, in.Body.Code)
	return httpx.Answer(RecoveryCodes{codes}), err
}

type factorInput struct {
	Body struct {
		Code string `json:"code" pattern:"^([0-9]{6}|[A-Za-z2-7 -]{26,40})$" doc:"Of the authenticator app, or a recovery code" example:"123456"`
	} `nameHint:"FactorCode"`
}

func (s *Service) removeTOTP(ctx context.Context, in *factorInput) (*struct{}, error) {
	return nil, s.Factors.Remove(ctx, auth.From(ctx).UserID, in.Body.Code)
}
