package httpx

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/ratelimit"
)

// DeviceCookie proves that a client is the device that was here before. It is worth
// that and no more: a client without it is a new device, so it can give an advantage
// (a device that its user has logged in on) and no disadvantage that dropping it would
// not end. What a new device does counts on its address. The device id that clients
// state at a login is their own label, and proves nothing.
const DeviceCookie = "stampede_device"

const (
	// deviceLife is the longest that browsers keep it without asking, about.
	deviceLife = 365 * 24 * time.Hour
	// The cookie is base64url of: id, Unix seconds of its making, half of an
	// HMAC-SHA256 over both.
	deviceIDBytes, deviceBodyBytes, deviceBytes = 16, 16 + 4, 16 + 4 + 16
)

// devices makes and verifies the cookies, with its first key or with any of them.
type devices struct {
	keys   auth.Ring
	secure bool // for https only
}

// Origin is whose record a request adds to: the client's address, unless many clients
// have it because it is a trusted proxy's or this machine's, and the device that the
// request's cookie proves. A proxy that is not configured then makes no shopper a
// suspect.
func Origin(ctx context.Context) ratelimit.Origin {
	r := fromContext(ctx)
	return ratelimit.Origin{Address: r.origin, Device: r.device()}
}

// GiveDevice returns the device that the request's cookie proves, or a new one whose
// cookie the answer then sets. The zero id means that the router gives none.
func GiveDevice(ctx context.Context) (id [deviceIDBytes]byte) {
	r := fromContext(ctx)
	if id = r.device(); id != [deviceIDBytes]byte{} || r.devices == nil || r.header == nil {
		return id
	}
	_, _ = rand.Read(id[:])                   // never fails
	r.header.Add("Set-Cookie", (&http.Cookie{ //nolint:gosec // Secure wherever clients reach the server by https
		Name: DeviceCookie, Value: r.devices.sign(id, time.Now()), Path: "/", MaxAge: int(deviceLife / time.Second),
		HttpOnly: true, Secure: r.devices.secure, SameSite: http.SameSiteLaxMode,
	}).String())
	return id
}

// device returns the id that a cookie of the request proves.
func (r request) device() (id [deviceIDBytes]byte) {
	if r.devices == nil || len(r.cookies) == 0 {
		return id
	}
	for _, c := range (&http.Request{Header: http.Header{"Cookie": r.cookies}}).CookiesNamed(DeviceCookie) {
		if id, ok := r.devices.open(c.Value, time.Now()); ok {
			return id
		}
	}
	return id
}

func (d *devices) sign(id [deviceIDBytes]byte, now time.Time) string {
	raw := binary.BigEndian.AppendUint32(id[:], uint32(now.Unix())) //nolint:gosec // until 2106
	return base64.RawURLEncoding.EncodeToString(append(raw, d.keys.MAC(raw)[:deviceBytes-deviceBodyBytes]...))
}

func (d *devices) open(text string, now time.Time) (id [deviceIDBytes]byte, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != deviceBytes {
		return id, false
	}
	made := time.Unix(int64(binary.BigEndian.Uint32(raw[deviceIDBytes:])), 0)
	if now.Sub(made) > deviceLife || !d.keys.Made(raw[deviceBodyBytes:], raw[:deviceBodyBytes]) {
		return id, false
	}
	return [deviceIDBytes]byte(raw), true
}
