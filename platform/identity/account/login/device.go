package login

import (
	"cmp"
	"context"
	"net/netip"

	"stampede/platform/base/fault"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
)

// Device is what a client states about itself when it logs in, its address and what its
// cookie proves. A login is bound to its device: the id is part of every access token
// and must be stated at each refresh. As a client chooses it, it is a label: it names
// the device in lists and on the blacklist, and is worth no more against a client that
// wants another one.
type Device struct {
	Kind    string     // web, ios, android, wechat, desktop, other
	ID      string     // chosen by the client, up to 128 bytes; may be empty
	Name    string     // for the user's list of logins, up to 64 characters
	Address netip.Addr // invalid when it is not known
	Browser []byte     // 16 bytes that a signed cookie proves; nil without one
	TOTP    string     // the code of the user's second factor; not stored
}

// Tokens is the answer to a login.
type Tokens struct {
	AccessToken      string `json:"access_token" doc:"Send it as Authorization: Bearer …" example:"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMDAwMDQyIn0.Qm4k"`
	TokenType        string `json:"token_type" enum:"Bearer"`
	ExpiresIn        int64  `json:"expires_in" doc:"Seconds until the access token expires" example:"900"`
	RefreshToken     string `json:"refresh_token" doc:"Valid for one refresh, at auth/refresh only" example:"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMDAwMDQyIn0.9x2c"`
	RefreshExpiresAt string `json:"refresh_expires_at" format:"date-time"`
	UserID           string `json:"user_id" example:"1000042"`
}

// DeviceInput is what a client states about itself. It is exported because the QR
// login takes the same input.
type DeviceInput struct {
	Kind string `json:"kind,omitempty" enum:"web,ios,android,wechat,desktop,other" default:"other" doc:"The kind of device"`
	ID   string `json:"id,omitempty" maxLength:"128" doc:"Chosen by the client, the same at each login and refresh of this device. It becomes part of the access token. It is a label: what proves a device is the cookie stampede_device, which codes and logins set"`
	Name string `json:"name,omitempty" maxLength:"64" doc:"The device's name in the user's list of logins" example:"Li's phone"`
}

// SecondFactor is what a login shows besides. It is exported because huma documents
// embedded fields of exported types only.
type SecondFactor struct {
	TOTP string `json:"totp,omitempty" pattern:"^([0-9]{6}|[A-Za-z2-7 -]{26,40})?$" doc:"The code of the authenticator app, for an account that has one, or a recovery code" example:"123456"`
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
	if len(in.ID) > mostIDBytes || account.Clean(in.ID) != in.ID {
		return Device{}, fault.Plain(fault.Invalid,
			fault.T("device.id has at most 128 bytes, and no control or invisible characters.",
				"device.id 最多 128 字节，不能含有控制字符或不可见字符。"))
	}
	d.Kind, d.ID, d.Name = cmp.Or(in.Kind, d.Kind), in.ID, account.Clean(in.Name)
	return d, nil
}

// Proved is Device for a login: it has the code of the second factor, and is known by its
// cookie, which it gets with the answer if it has none.
func (in *DeviceInput) Proved(ctx context.Context, totp string) (Device, error) {
	d, err := in.Device(ctx)
	if err != nil {
		return d, err
	}
	if id := httpx.GiveDevice(ctx); id != [16]byte{} {
		d.Browser = id[:]
	}
	d.TOTP = totp
	return d, nil
}
