package qrlogin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"stampede/platform/base/fault"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/login"
	"stampede/platform/identity/blacklist"
)

const base = "/api/v1/auth/qr"

// Routes registers the routes of both devices.
func (s *Service) Routes(rt *httpx.Router) {
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: base, ID: "ask-qr-login", Tag: "shopper", Status: http.StatusCreated,
		Summary: "Start a QR login", NoKey: httpx.NoLogin,
		Description: "Show the picture, keep `poll_secret` private and poll `GET /api/v1/auth/qr/{qr_id}` with it. The `qr_id` alone gives no access. " +
			"The login is bound to the device in this request.",
		Refuses: []*fault.Error{account.ErrElsewhere, blacklist.ErrRefused},
	}, s.ask)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: base + "/{id}", ID: "poll-qr-login", Tag: "shopper",
		Summary: "The state of a QR login, and its tokens once",
		Description: "pending → scanned → confirmed, or denied; a login that takes too long has expired. The answer `confirmed` carries the tokens " +
			"once, for the first request; after that the state is `claimed`. Poll again after `poll_after_ms`.",
		Refuses: []*fault.Error{account.ErrDisabled, account.ErrElsewhere, blacklist.ErrRefused},
	}, s.poll)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodGet, Path: base + "/{id}/image.png", ID: "get-qr-login-image", Tag: "shopper",
		Summary:     "The QR code as PNG, 256 × 256 pixels",
		Files:       []string{"image/png"},
		Description: "The code contains a URL of the shop with `?qr=` and the `qr_id`. A scanned or expired code is no longer drawn.",
		Refuses:     []*fault.Error{errTaken, errExpired},
	}, s.picture)

	decision := []*fault.Error{blacklist.ErrRefused, errNotScanned, errDecided, errExpired}
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: base + "/{id}/scan", ID: "scan-qr-login", Tag: "shopper", Role: auth.Shopper,
		Summary: "Scan a QR code with a device that is logged in", NoKey: httpx.ValidOnce,
		Description: "Returns the asking device, its address and the time: show them to the user before they confirm. Only the first scan succeeds; " +
			"`scan_token` belongs to this scan, user and login.",
		Refuses: []*fault.Error{blacklist.ErrRefused, errTaken, errExpired},
	}, s.scan)
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: base + "/{id}/confirm", ID: "confirm-qr-login", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Let the scanned device log in as you", NoKey: httpx.ValidOnce,
		Description: "Takes the number that the asking device shows; a wrong one refuses the login. It also takes the refresh token of this device's login, which stays valid: " +
			"an access token alone, which may have been copied, lets no device in. The new login ends when this one is ended.",
		Refuses: slices.Concat(decision, []*fault.Error{login.ErrProof, errNumber}),
	}, func(ctx context.Context, in *confirmInput) (*struct{}, error) {
		return nil, s.decide(ctx, in.ID, in.Body.ScanToken, confirmed, in.Body.Number, in.Body.RefreshToken)
	})
	httpx.Register(rt.API, httpx.Op{
		Method: http.MethodPost, Path: base + "/{id}/deny", ID: "deny-qr-login", Tag: "shopper", Role: auth.Shopper, Status: http.StatusNoContent,
		Summary: "Refuse the scanned device", NoKey: httpx.ValidOnce, Refuses: decision,
	}, func(ctx context.Context, in *decideInput) (*struct{}, error) {
		return nil, s.decide(ctx, in.ID, in.Body.ScanToken, denied, 0, "")
	})
}

type askInput struct {
	Body struct {
		Device login.DeviceInput `json:"device" doc:"The phone shows its name before the user confirms"`
	} `nameHint:"QRLoginRequest"`
}

// QRLogin is a login that waits for a scan.
type QRLogin struct { //nolint:revive // the name in the API document
	QRID       string `json:"qr_id" example:"5b0e6f2d9c4a4f0e8d7c6b5a49382716" doc:"What the picture says"`
	PollSecret string `json:"poll_secret" doc:"Send it in the header QR-Secret; never put it into a URL" example:"pZ7mW4cD1s"`
	URL        string `json:"url" doc:"What the picture says"`
	Image      string `json:"image" doc:"Path of the picture" example:"/api/v1/auth/qr/5b0e6f2d9c4a4f0e8d7c6b5a49382716/image.png"`
	ExpiresAt  string `json:"expires_at" format:"date-time"`
}

// pollAfter is how soon the asking device should poll again: soon enough for a person,
// slow enough for a shop full of desktops.
const pollAfter = time.Second

type pollInput struct {
	ID     string `path:"id" doc:"The qr_id"`
	Secret string `header:"QR-Secret" required:"true" minLength:"1" maxLength:"64" doc:"The poll_secret"`
}

// QRLoginState is the answer to a poll.
type QRLoginState struct { //nolint:revive // the name in the API document
	Status      string        `json:"status" enum:"pending,scanned,confirmed,denied,expired,claimed"`
	ExpiresAt   string        `json:"expires_at" format:"date-time"`
	Number      int           `json:"number,omitempty" doc:"With the status scanned: show it to the user, who types it on the phone" example:"47"`
	PollAfterMs int64         `json:"poll_after_ms" doc:"Milliseconds until the next poll; 0 when the state is final"`
	Tokens      *login.Tokens `json:"tokens,omitempty" doc:"With the status confirmed, once"`
}

type idInput struct {
	ID string `path:"id" doc:"The qr_id"`
}

type askingDevice struct {
	Kind string `json:"kind" example:"web"`
	Name string `json:"name" example:"Chrome on Windows"`
}

// QRLoginScan is what the user who scanned a code sees before confirming.
type QRLoginScan struct { //nolint:revive // the name in the API document
	Device    askingDevice `json:"device" doc:"As the asking device describes itself"`
	Address   string       `json:"address" doc:"The asking device's address; empty when it is unknown" example:"203.0.113.7"`
	AskedAt   string       `json:"asked_at" format:"date-time"`
	ExpiresAt string       `json:"expires_at" format:"date-time"`
	ScanToken string       `json:"scan_token" doc:"For confirm and deny" example:"T3k9x2vQ"`
}

type decideInput struct {
	ID   string `path:"id" doc:"The qr_id"`
	Body struct {
		ScanToken string `json:"scan_token" minLength:"1" maxLength:"64" doc:"From the answer to the scan"`
	} `nameHint:"QRLoginDecision"`
}

type confirmInput struct {
	ID   string `path:"id" doc:"The qr_id"`
	Body struct {
		ScanToken    string `json:"scan_token" minLength:"1" maxLength:"64" doc:"From the answer to the scan"`
		Number       int    `json:"number" minimum:"10" maximum:"99" doc:"That the asking device shows" example:"47"`
		RefreshToken string `json:"refresh_token" maxLength:"4096" doc:"Of this device's login; it is not used up"`
	} `nameHint:"QRLoginConfirmation"`
}
