package qrlogin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"math/big"

	"stampede/platform/base/ids"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/qrcode"
	"stampede/platform/edge/ratelimit"
	"stampede/platform/identity/account/qrlogin/internal/qrlogindb"
	"stampede/platform/store/pg"
)

// ask opens a QR login for a device.
func (s *Service) ask(ctx context.Context, in *askInput) (*httpx.Output[QRLogin], error) {
	d, err := in.Body.Device.Device(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.deps.Store.ShoppersLogInHere(); err != nil {
		return nil, err
	}
	if err := s.deps.Guard.KeepOut("qr-ask", 0, "", d.ID, d.Address); err != nil {
		return nil, err
	}
	if err := s.deps.Guard.Take(ctx, ratelimit.Ask{Rule: s.cfg.PerAddress, Key: ratelimit.AddrKey(d.Address)}); err != nil {
		return nil, err
	}
	id := newID()
	secret, hash := newSecret()
	expiresAt, err := s.db.Ask(ctx, qrlogindb.AskParams{
		ID: id, PollHash: hash, DeviceKind: d.Kind, DeviceID: d.ID, DeviceName: d.Name, Address: pg.Null(d.Address),
		LifetimeSeconds: codeLifetime.Seconds(),
	})
	if err != nil {
		return nil, unreachable(err)
	}
	s.steps.WithLabelValues("asked").Inc()
	return httpx.Answer(QRLogin{
		QRID: id.String(), PollSecret: secret, URL: s.url(id), Image: base + "/" + id.String() + "/image.png", ExpiresAt: httpx.Moment(expiresAt),
	}), nil
}

// url is the content of the picture. A scanner other than the shop's app opens the
// shop's page.
func (s *Service) url(id ids.ID) string { return s.cfg.BaseURL + "/?qr=" + id.String() }

// picture is the QR code of an id as PNG. It contains no secret, so a page can show
// it in an <img>; a scanned or expired one is not drawn.
func (s *Service) picture(ctx context.Context, in *idInput) (*httpx.File, error) {
	if err := s.deps.Guard.Take(ctx, ratelimit.Ask{Rule: s.cfg.PicturesPerAddress, Key: ratelimit.AddrKey(httpx.ClientAddr(ctx))}); err != nil {
		return nil, err
	}
	row, err := s.row(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	switch stateOf(row) {
	case expired:
		return nil, errExpired
	case pending:
		png, err := qrcode.PNG(s.url(row.ID))
		return &httpx.File{CacheControl: httpx.NoStore, ContentType: "image/png", Body: png}, err
	default:
		return nil, errTaken
	}
}

// secretBytes rules out guessing the secret, also from its hash.
const secretBytes = 32

// newSecret returns a secret as its holder sends it, and its stored hash.
func newSecret() (text string, hash []byte) {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never returns an error
	text = base64.RawURLEncoding.EncodeToString(raw)
	return text, hashOf(text)
}

// hashOf needs neither a salt nor a slow hash: its input is random.
func hashOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// fits compares in constant time.
func fits(text string, hash []byte) bool { return subtle.ConstantTimeCompare(hashOf(text), hash) == 1 }

// newNumber returns two random digits, the first of which is not 0: enough for a user
// to compare, and one guess is allowed.
func newNumber() int16 {
	n, _ := rand.Int(rand.Reader, big.NewInt(90)) // never returns an error
	return int16(10 + n.Int64())                  //nolint:gosec // below 100
}

// newID returns 128 random bits: an id derived from the time could be guessed from
// another one.
func newID() ids.ID {
	var id ids.ID
	_, _ = rand.Read(id[:]) // as above
	return id
}
