// Package auth mints and checks access tokens and carries who is asking.
package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stampede/platform/base/fault"
)

// Role is what a token's holder may do.
type Role string

// The roles. A viewer reads what operators read; an admin may do all.
const (
	Shopper  Role = "shopper"
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// roles in order: each may do what those before it may, so that an operator may
// try the shop as any shopper would.
var roles = []Role{Shopper, Viewer, Operator, Admin}

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// May reports whether a holder of r may do what need asks for.
func (r Role) May(need Role) bool {
	return need.Valid() && slices.Index(roles, r) >= slices.Index(roles, need)
}

// Principal is who is asking; the zero value is nobody.
type Principal struct {
	UserID int64
	Role   Role
	// Login is the login that the token belongs to; 0 for one that was minted
	// with the signing key.
	Login int64
	// Device is what the client called its device at login, up to 128 bytes.
	Device string
	// IssuedAt is when the token was minted, to the microsecond; a user's tokens
	// are revoked by it.
	IssuedAt time.Time
}

type contextKey struct{}

// Into returns ctx with the principal in it.
func Into(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal in ctx, the zero value when there is none.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(contextKey{}).(Principal)
	return p
}

// What a token can be refused for.
var (
	ErrNoToken   = fault.New(fault.Unauthenticated, "no-token", fault.Titles{"Please log in", "请先登录"}, "Send an access token as \"Authorization: Bearer …\".")
	ErrBadToken  = fault.New(fault.Unauthenticated, "bad-token", fault.Titles{"Please log in again", "登录已失效，请重新登录"}, "The access token is not valid here or has expired; get a new one.")
	ErrForbidden = fault.Plain(fault.Forbidden, "Your role may not do this; ask an operator of the shop.")
)

const (
	issuer   = "stampede"
	audience = "stampede-api"
	// leeway covers the clocks of two instances of one shop, not a client's.
	leeway = 5 * time.Second
	// MinKeyBytes is the shortest signing key that serve accepts: the output of
	// SHA-256, below which guessing the key is the cheaper attack.
	MinKeyBytes = 32
	// tokenType names what an access token is in its header (RFC 9068), so that
	// nothing else that is ever signed with this key passes for one.
	tokenType = "at+jwt"
)

// The longest that a token is valid. A revocation is kept for as long and then
// forgotten, so that tokens beyond these are neither minted nor taken.
const (
	// LongestLife is for tokens that are minted with the signing key.
	LongestLife = 30 * 24 * time.Hour
	// LongestLoginLife is for those of a login, which a refresh token renews.
	LongestLoginLife = 24 * time.Hour
)

// longestLife is how long a principal's token may be valid.
func (p Principal) longestLife() time.Duration {
	if p.Login != 0 {
		return LongestLoginLife
	}
	return LongestLife
}

// Tokens mints access tokens with one key and verifies them with that and with
// those that are being replaced. Safe for concurrent use.
type Tokens struct {
	key         []byte
	keys        jwt.VerificationKeySet // key first
	parser      *jwt.Parser
	now         func() time.Time
	revocations Revocations
}

// Option is what Tokens may have besides their key.
type Option func(*Tokens)

// Previous has tokens of other signing keys taken, too, such as one that is being
// replaced.
func Previous(signingKeys ...[]byte) Option {
	return func(t *Tokens) {
		for _, other := range signingKeys {
			t.keys.Keys = append(t.keys.Keys, Derive(other, "access-token"))
		}
	}
}

// RevokedBy has Admit ask r; without it no token is ever revoked.
func RevokedBy(r Revocations) Option { return func(t *Tokens) { t.revocations = r } }

// NewTokens derives the token key from the signing key, so that rush paths and
// tokens never share one.
func NewTokens(signingKey []byte, now func() time.Time, with ...Option) *Tokens {
	key := Derive(signingKey, "access-token")
	t := &Tokens{
		key: key, keys: jwt.VerificationKeySet{Keys: []jwt.VerificationKey{key}},
		now: now,
		parser: jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(issuer),
			jwt.WithAudience(audience), jwt.WithExpirationRequired(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(now)),
		revocations: none{},
	}
	for _, option := range with {
		option(t)
	}
	return t
}

// Derive returns the key for one purpose from the signing key: HMAC-SHA256 of
// the purpose, the expand step of HKDF (RFC 5869) for one block.
func Derive(signingKey []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, signingKey)
	mac.Write([]byte("stampede/" + purpose + "\x01"))
	return mac.Sum(nil)
}

type claims struct {
	Role   Role   `json:"role"`
	Login  int64  `json:"login,omitempty"`
	Device string `json:"device,omitempty"`
	// IssuedMicros is iat in microseconds. The standard claim counts seconds, and a
	// token from the second in which its user's tokens were revoked is either too
	// old or new, which a second cannot tell.
	IssuedMicros int64 `json:"iat_us"`
	jwt.RegisteredClaims
}

// Mint returns an access token for a user, valid for the lifetime: at most
// LongestLoginLife for a login's, else LongestLife. p.IssuedAt is ignored, the
// token is issued now.
func (t *Tokens) Mint(p Principal, lifetime time.Duration) (string, error) {
	if p.UserID <= 0 || !p.Role.Valid() {
		return "", fmt.Errorf("auth: mint: user %d with role %q is not a principal", p.UserID, p.Role)
	}
	if longest := p.longestLife(); lifetime > longest {
		return "", fmt.Errorf("auth: mint: a token is valid for at most %s, not %s", longest, lifetime)
	}
	now := t.now()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		Role: p.Role, Login: p.Login, Device: p.Device, IssuedMicros: now.UnixMicro(),
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Audience: jwt.ClaimStrings{audience}, Subject: strconv.FormatInt(p.UserID, 10),
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(lifetime)),
		},
	})
	token.Header["typ"] = tokenType
	s, err := token.SignedString(t.key)
	if err != nil {
		return "", fmt.Errorf("auth: mint: %w", err)
	}
	return s, nil
}

// Verify returns whom a token names, or ErrBadToken. It does not ask whether the
// token was revoked; Admit does.
func (t *Tokens) Verify(token string) (Principal, error) {
	var c claims
	parsed, err := t.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return t.keys, nil })
	if err != nil {
		return Principal{}, ErrBadToken.Because(err)
	}
	if parsed.Header["typ"] != tokenType {
		return Principal{}, ErrBadToken.Because(fmt.Errorf("auth: its type is %v", parsed.Header["typ"]))
	}
	id, err := strconv.ParseInt(c.Subject, 10, 64)
	if err != nil || id <= 0 || !c.Role.Valid() {
		return Principal{}, ErrBadToken.Because(err)
	}
	p := Principal{UserID: id, Role: c.Role, Login: c.Login, Device: c.Device, IssuedAt: time.UnixMicro(c.IssuedMicros).UTC()}
	// exp is cut to seconds, so the difference never exceeds what Mint was given.
	if c.ExpiresAt.Sub(p.IssuedAt) > p.longestLife() {
		return Principal{}, ErrBadToken.Because(errTooLong)
	}
	return p, nil
}

var errTooLong = errors.New("auth: it is valid for longer than revocations are kept")
