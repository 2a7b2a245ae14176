// Package auth mints and verifies access tokens and carries the principal of a
// request.
package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"stampede/platform/base/fault"
)

// Role is what a token's holder may do.
type Role string

// The roles. A viewer reads what operators read; an admin may do everything.
const (
	Shopper  Role = "shopper"
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// roles in ascending order: each role includes the previous ones, so that an
// operator may try the shop as a shopper.
var roles = []Role{Shopper, Viewer, Operator, Admin}

// Valid reports whether r is one of the roles.
func (r Role) Valid() bool { return slices.Contains(roles, r) }

// May reports whether a holder of r may do what requires need.
func (r Role) May(need Role) bool {
	return need.Valid() && slices.Index(roles, r) >= slices.Index(roles, need)
}

// Principal is the authenticated caller; the zero value is an anonymous one.
type Principal struct {
	UserID int64
	Role   Role
	// Login is the login that the token belongs to; 0 for one that was minted
	// with the signing key.
	Login int64
	// Device is the id that the client gave its device at login, up to 128 bytes.
	Device string
	// Act is what acts for the user (the subject of act, RFC 8693, 4.1), such as
	// ByCLI; empty for the user and for practice.
	Act string
	// Scopes are what an API key may do, separated by spaces; empty for everyone
	// else, whose role says it.
	Scopes string
	// Namespace is whose names an API key's users have; empty for everyone else.
	Namespace string
	// IssuedAt is when the token was minted, to the microsecond; revocations of a
	// user's tokens compare it.
	IssuedAt time.Time
	// ExpiresAt is when the token expires, to the second.
	ExpiresAt time.Time
}

// Scope is what an API key may do. An operation names the one that it needs; keys may
// call no other.
type Scope string

// The scopes.
const (
	OrdersRead    Scope = "orders:read"
	OrdersWrite   Scope = "orders:write"
	PlanRead      Scope = "plan:read"
	PlanWrite     Scope = "plan:write"
	StockWrite    Scope = "stock:write"
	EventsRead    Scope = "events:read"
	UsersExchange Scope = "users:exchange"
)

// Scopes are all of them, in the order of a form.
var Scopes = []Scope{OrdersRead, OrdersWrite, PlanRead, PlanWrite, StockWrite, EventsRead, UsersExchange}

// Has reports whether the principal is an API key with a scope.
func (p Principal) Has(s Scope) bool {
	return s != "" && slices.Contains(strings.Fields(p.Scopes), string(s))
}

// For is the key's principal on an operation that needs a scope. It is an operator's, who
// sees phones and addresses whole, only if the key may also write what the scope is
// about: the system that ships reads them, and one that counts does not.
func (p Principal) For(s Scope) Principal {
	p.Role = Viewer
	if about, _, _ := strings.Cut(string(s), ":"); p.Has(Scope(about + ":write")) {
		p.Role = Operator
	}
	return p
}

// KeyPrefix begins every API key, and no token: secret scanners find keys by it.
const KeyPrefix = "stpk_"

// ByCLI is the Act of tokens of `stampede token`, which an operator holds.
const ByCLI = "cli"

type contextKey struct{}

// Into returns ctx with the principal in it.
func Into(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// From returns the principal in ctx, or the zero value.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(contextKey{}).(Principal)
	return p
}

// Reasons to refuse a token.
var (
	ErrNoToken = fault.New(fault.Unauthenticated, "no-token", fault.T("Please log in", "请先登录"),
		fault.T(`Send an access token as "Authorization: Bearer …".`, "请在 Authorization 请求头中以 Bearer 方式携带访问令牌。"),
		fault.T(`Log in, and send the access token as "Authorization: Bearer …".`, "请登录，并在 Authorization 请求头中携带访问令牌。"))
	ErrBadToken = fault.New(fault.Unauthenticated, "bad-token", fault.T("Please log in again", "登录已失效，请重新登录"),
		fault.T("The access token is not valid here or has expired; get a new one.", "访问令牌无效或已过期，请重新获取。"),
		fault.T("Refresh the access token, or log in again.", "请刷新访问令牌，或重新登录。"))
	ErrForbidden = fault.Plain(fault.Forbidden,
		fault.T("Your role does not allow this; contact the shop's operator.", "您的角色没有此权限，请联系商家运营人员。"))
	ErrBadKey = fault.New(fault.Unauthenticated, "bad-key", fault.T("This API key is not valid", "API 密钥无效"),
		fault.T("The API key is mistyped, has expired or was revoked.", "API 密钥有误、已过期或已撤销。"),
		fault.T("Check the key, or have an admin make another one.", "请检查密钥，或由管理员创建新的密钥。"))
	ErrScope = fault.New(fault.Forbidden, "key-scope", fault.T("This API key may not do that", "该 API 密钥没有此权限"),
		fault.T("This route takes no API keys.", "该接口不接受 API 密钥。"),
		fault.T("If the answer names a scope, have an admin give it to the key. Otherwise call as a user: staff log in, and a shopper's token comes from POST /api/v1/auth/exchange-user.", "响应中注明权限的，请由管理员为密钥添加；否则请以用户身份调用：员工登录，买家的令牌由 POST /api/v1/auth/exchange-user 获取。"))
)

const (
	issuer   = "stampede"
	audience = "stampede-api"
	// leeway covers the clock skew between two instances of one shop, not a
	// client's.
	leeway = 5 * time.Second
	// MinKeyBytes is the shortest signing key that serve accepts: the output size of
	// SHA-256; a shorter key is weaker than the hash.
	MinKeyBytes = 32
	// tokenType identifies an access token in its header (RFC 9068), so that nothing
	// else signed with this key is accepted as one.
	tokenType = "at+jwt"
)

// The longest life of a token. A revocation is kept for as long and then deleted, so
// tokens with a longer life are neither minted nor accepted.
const (
	// LongestLife is for tokens minted with the signing key.
	LongestLife = 30 * 24 * time.Hour
	// LongestLoginLife is for a login's tokens, which a refresh token renews.
	LongestLoginLife = 24 * time.Hour
)

// longestLife is how long a principal's token may be valid.
func (p Principal) longestLife() time.Duration {
	if p.Login != 0 {
		return LongestLoginLife
	}
	return LongestLife
}

// Tokens mints access tokens with one key and verifies them with that and with the
// keys being rotated out. Safe for concurrent use.
type Tokens struct {
	key         []byte
	keys        jwt.VerificationKeySet // key first
	parser      *jwt.Parser
	now         func() time.Time
	revocations Revocations
}

// Option configures Tokens.
type Option func(*Tokens)

// Previous also accepts tokens of other signing keys, such as one being rotated out.
func Previous(signingKeys ...[]byte) Option {
	return func(t *Tokens) {
		for _, other := range signingKeys {
			t.keys.Keys = append(t.keys.Keys, Derive(other, "access-token"))
		}
	}
}

// RevokedBy makes Admit check r; without it no token is ever revoked.
func RevokedBy(r Revocations) Option { return func(t *Tokens) { t.revocations = r } }

// NewTokens derives the token key from the signing key, so that rush paths and
// tokens never share a key.
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

type claims struct {
	Role   Role   `json:"role"`
	Login  int64  `json:"login,omitempty"`
	Device string `json:"device,omitempty"`
	// IssuedMicros is iat in microseconds. The standard claim counts seconds, which
	// cannot tell whether a token from the second of a revocation was issued before
	// or after it.
	IssuedMicros int64 `json:"iat_us"`
	Act          act   `json:"act,omitzero"`
	jwt.RegisteredClaims
}

type act struct {
	Subject string `json:"sub"`
}

// Mint returns an access token for a user, valid for the lifetime: at most
// LongestLoginLife for a login's token, else LongestLife. p.IssuedAt and
// p.ExpiresAt are ignored; the token is issued now.
func (t *Tokens) Mint(p Principal, lifetime time.Duration) (string, error) {
	if p.UserID <= 0 || !p.Role.Valid() {
		return "", fmt.Errorf("auth: mint: user %d with role %q is not a principal", p.UserID, p.Role)
	}
	if longest := p.longestLife(); lifetime > longest {
		return "", fmt.Errorf("auth: mint: a token is valid for at most %s, not %s", longest, lifetime)
	}
	now := t.now()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{
		Role: p.Role, Login: p.Login, Device: p.Device, IssuedMicros: now.UnixMicro(), Act: act{p.Act},
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

// Verify returns the principal of a token, or ErrBadToken. It does not check
// revocations; Admit does.
func (t *Tokens) Verify(token string) (Principal, error) {
	c, ok := t.verifyMinted(token)
	if !ok {
		parsed, err := t.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return t.keys, nil })
		if err != nil {
			return Principal{}, ErrBadToken.Because(err)
		}
		if parsed.Header["typ"] != tokenType {
			return Principal{}, ErrBadToken.Because(fmt.Errorf("auth: the token's type is %v", parsed.Header["typ"]))
		}
	}
	id, err := strconv.ParseInt(c.Subject, 10, 64)
	if err != nil || id <= 0 || !c.Role.Valid() {
		return Principal{}, ErrBadToken.Because(err)
	}
	p := Principal{UserID: id, Role: c.Role, Login: c.Login, Device: c.Device, Act: c.Act.Subject, IssuedAt: time.UnixMicro(c.IssuedMicros).UTC(), ExpiresAt: c.ExpiresAt.UTC()}
	// exp is truncated to seconds, so the difference never exceeds the lifetime
	// given to Mint.
	if c.ExpiresAt.Sub(p.IssuedAt) > p.longestLife() {
		return Principal{}, ErrBadToken.Because(errTooLong)
	}
	return p, nil
}

// Expired reports whether a principal's token has expired since it was verified; false
// for a principal without a token.
func (t *Tokens) Expired(p Principal) bool {
	return !p.ExpiresAt.IsZero() && t.now().After(p.ExpiresAt.Add(leeway))
}

var errTooLong = errors.New("auth: the token is valid for longer than revocations are kept")

// Revocations knows which tokens were revoked before they expired. revoke.Service
// implements it in production. Safe for concurrent use.
type Revocations interface {
	// Revoked reports whether the principal's token has been revoked. An error is a
	// fault that means that the state is unknown; the token must then be refused.
	Revoked(ctx context.Context, p Principal) (bool, error)
	// Version changes with each revocation that comes into force, so that a caller
	// that keeps principals knows when to check them again.
	Version() uint64
}

// ErrRevoked is the refusal of a token whose login has ended. Its code is
// ErrBadToken's, because a client reacts the same way.
var ErrRevoked = ErrBadToken.Saying(fault.T("This login has ended; log in again.", "登录已结束，请重新登录。"))

// Revocations returns the revocations that Admit checks, never nil.
func (t *Tokens) Revocations() Revocations { return t.revocations }

// Admit returns the principal of a token that is valid and not revoked. Otherwise it
// returns ErrBadToken, ErrRevoked, or the fault of a failed check.
func (t *Tokens) Admit(ctx context.Context, token string) (Principal, error) {
	p, err := t.Verify(token)
	if err != nil {
		return Principal{}, err
	}
	revoked, err := t.revocations.Revoked(ctx, p)
	if err != nil {
		return Principal{}, err
	}
	if revoked {
		return Principal{}, ErrRevoked
	}
	return p, nil
}

// none is for a process without revocations.
type none struct{}

func (none) Revoked(context.Context, Principal) (bool, error) { return false, nil }
func (none) Version() uint64                                  { return 0 }
