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
		Method: http.MethodPost, Path: mePath + "/totp/confirm", ID: "confirm-totp", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary:     "Put the second factor into force",
		Description: "Your other logins end. Each login needs a code from now on, and each code is valid once; refresh this login for an admin's role.",
		Problems:    map[int]string{http.StatusUnauthorized: "wrong-totp", http.StatusNotFound: "not-found", http.StatusConflict: "totp-set", http.StatusTooManyRequests: "rate-limited"},
	}, s.confirmTOTP)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodDelete, Path: mePath + "/totp", ID: "remove-totp", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary:  "Remove your second factor",
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

func (s *Service) confirmTOTP(ctx context.Context, in *totpInput) (*struct{}, error) {
	p := auth.From(ctx)
	return nil, s.ConfirmTOTP(ctx, p.UserID, p.Login, in.Body.Code)
}

func (s *Service) removeTOTP(ctx context.Context, in *totpInput) (*struct{}, error) {
	return nil, s.RemoveTOTP(ctx, auth.From(ctx).UserID, in.Body.Code)
}
