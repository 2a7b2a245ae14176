package exchange

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"stampede/platform/edge/httpx"
	"stampede/platform/edge/outbound"
)

// Settings name the issuer of the shop's own users; without one they register here.
type Settings struct {
	LoginURL   string   `name:"login-url" default:"" env:"STAMPEDE_LOGIN_URL" help:"The shop's own login, https://shop.example/login, if shoppers have accounts there only: pages send them there, and they cannot register or log in here. It comes back to return with #id_token and state. Empty: accounts of this server." rare:""`
	Issuer     string   `name:"oidc-issuer" default:"" env:"STAMPEDE_OIDC_ISSUER" help:"Issuer of the shop's own users' tokens (OpenID Connect), as its tokens name it: https://login.shop.example. Empty: none."`
	JWKSURL    string   `name:"oidc-jwks-url" default:"" env:"STAMPEDE_OIDC_JWKS_URL" help:"Where the issuer's keys are. Empty: its discovery document says it." rare:""`
	Audience   string   `name:"oidc-audience" default:"" env:"STAMPEDE_OIDC_AUDIENCE" help:"Audience that the tokens must name: the client id of this shop at the issuer." rare:""`
	Algorithms []string `name:"oidc-algorithms" default:"RS256,ES256" env:"STAMPEDE_OIDC_ALGORITHMS" help:"Signature algorithms of the issuer; others are refused, whatever a token says." rare:""`
	Phone      string   `name:"oidc-phone-claim" default:"" env:"STAMPEDE_OIDC_PHONE_CLAIM" help:"Claim with a user's phone: phone_number. It is taken at the first exchange if the issuer has verified it (phone_number_verified is true) and no account has it. Empty: none is taken." rare:""`
	Email      string   `name:"oidc-email-claim" default:"" env:"STAMPEDE_OIDC_EMAIL_CLAIM" help:"Claim with a user's e-mail address: email. Messages go to it. It is taken at each exchange if the issuer has verified it (email_verified is true), else the last one is removed. Empty: none is taken." rare:""`
	Nickname   string   `name:"oidc-nickname-claim" default:"" env:"STAMPEDE_OIDC_NICKNAME_CLAIM" help:"Claim with a user's name: nickname. Empty: none is taken." rare:""`
}

// asymmetric are the algorithms whose key cannot sign: a public key must not become the
// secret of an HMAC.
var asymmetric = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// Check returns an error for each setting that is wrong.
func (s Settings) Check() error {
	if s.Issuer == "" {
		if s.JWKSURL != "" || s.Audience != "" {
			return errors.New("--oidc-jwks-url and --oidc-audience are of an issuer: set --oidc-issuer")
		}
		if s.LoginURL != "" { // the pages have no backend that names their shopper
			return errors.New("--login-url brings the pages a token of an issuer: set --oidc-issuer")
		}
		return nil
	}
	var wrong []error
	for _, address := range []struct{ flag, url string }{{"--oidc-issuer", s.Issuer}, {"--oidc-jwks-url", s.JWKSURL}, {"--login-url", s.LoginURL}} {
		u, err := url.Parse(address.url)
		if address.url != "" && (err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !httpx.Loopback(u.Hostname()))) {
			wrong = append(wrong, fmt.Errorf("%s must begin with https:// (http:// on this machine only)", address.flag))
		}
	}
	if s.Audience == "" {
		wrong = append(wrong, errors.New("--oidc-audience must name this shop at the issuer, or tokens of its other clients would log in here"))
	}
	for _, name := range s.Algorithms {
		if !slices.Contains(asymmetric, name) {
			wrong = append(wrong, fmt.Errorf("--oidc-algorithms: %q is none of %s", name, strings.Join(asymmetric, ", ")))
		}
	}
	if len(s.Algorithms) == 0 {
		wrong = append(wrong, errors.New("--oidc-algorithms must name at least one algorithm"))
	}
	return errors.Join(wrong...)
}

const (
	// issuerTimeout bounds a look at the issuer, for which a login waits.
	issuerTimeout = 5 * time.Second
	// fetchPause is between two looks: tokens with made-up key ids must not flood the
	// issuer.
	fetchPause = 10 * time.Second
	// keysAge is when keys are fetched again although they are known, so that one that
	// the issuer withdrew ends.
	keysAge = time.Hour
	// skew is how much later than its end a token is taken.
	skew = 30 * time.Second
	// issuedBefore is how long before the end of its user's logins a token may have been
	// issued: the issuer's clock may be as much behind, and counts whole seconds.
	issuedBefore = 5 * time.Second
	// keysBytes bounds the issuer's documents.
	keysBytes = 256 << 10
)

// errIssuer means that the issuer's keys cannot be had right now.
var errIssuer = errors.New("exchange: the issuer cannot be reached")

// issuer verifies tokens. It keeps the issuer's keys, also while the issuer is away.
// Safe for concurrent use.
type issuer struct {
	set    Settings
	client *outbound.Client
	now    func() time.Time

	flight  singleflight.Group
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time
	tried   time.Time
	failed  error // of the last try
	refused bool  // a token, because its key cannot be had; until the keys are read again
}

// identity is who a token names.
type identity struct {
	subject, phone, nickname string
	email                    *string   // nil: nothing is said about it; empty: there is none any more
	issued                   time.Time // the token; see current
}

// verify returns who a valid ID token names. errIssuer means that this cannot be told now.
func (i *issuer) verify(ctx context.Context, raw string) (who identity, err error) {
	token, claims, err := i.read(ctx, raw)
	if err == nil && claims["events"] != nil {
		err = errors.New("exchange: a token about an event logs no user in") // a logout token, say
	}
	if err != nil {
		return who, err
	}
	text := func(claim string) string {
		s, _ := claims[claim].(string)
		return s
	}
	who = identity{subject: token.Subject, nickname: text(i.set.Nickname), issued: token.IssuedAt}
	if claims[i.set.Phone+"_verified"] == true { // who logs in by SMS shares the account of the phone
		who.phone = text(i.set.Phone)
	}
	if email, said := claims[i.set.Email].(string); said {
		if claims[i.set.Email+"_verified"] != true { // or the messages of one user go to another
			email = ""
		}
		who.email = &email
	}
	return who, nil
}

// read returns a token of the issuer for this shop that has not expired, and its claims.
func (i *issuer) read(ctx context.Context, raw string) (token *oidc.IDToken, claims map[string]any, err error) {
	keys := &keySet{issuer: i}
	verifier := oidc.NewVerifier(i.set.Issuer, keys, &oidc.Config{
		ClientID: i.set.Audience, SupportedSigningAlgs: i.set.Algorithms, Now: func() time.Time { return i.now().Add(-skew) },
	})
	token, err = verifier.Verify(ctx, raw)
	if keys.away != nil {
		return nil, nil, keys.away
	}
	if err == nil {
		err = token.Claims(&claims)
	}
	return token, claims, err
}

// keySet is the issuer's keys for one token. It keeps the error of an issuer that is
// away, of which the verifier's has only the text.
type keySet struct {
	*issuer
	away error
}

// VerifySignature implements oidc.KeySet. The verifier has checked the algorithm.
func (i *keySet) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	var algorithms []jose.SignatureAlgorithm
	for _, name := range i.set.Algorithms {
		algorithms = append(algorithms, jose.SignatureAlgorithm(name))
	}
	signed, err := jose.ParseSigned(raw, algorithms)
	if err != nil {
		return nil, err
	}
	if len(signed.Signatures) != 1 {
		return nil, errors.New("exchange: a token has one signature")
	}
	keys, err := i.keysOf(ctx, signed.Signatures[0].Header.KeyID)
	if errors.Is(err, errIssuer) {
		i.away = err
	}
	if err != nil {
		return nil, err
	}
	return (&oidc.StaticKeySet{PublicKeys: keys}).VerifySignature(ctx, raw)
}

// keysOf returns the public keys with an id, all if the token names none. The issuer is
// asked for an id that is not known, and in the background for keys that are old: keys
// that are known stay in use while it is slow or away.
func (i *issuer) keysOf(ctx context.Context, id string) ([]crypto.PublicKey, error) {
	found, age := i.known(id)
	switch {
	case len(found) > 0 && age > keysAge:
		go func() { _ = i.refresh(ctx) }() // the next one tells
		return found, nil
	case len(found) > 0:
		return found, nil
	}
	err := i.refresh(ctx)
	if found, _ = i.known(id); len(found) > 0 {
		return found, nil
	}
	if err != nil {
		i.mu.Lock()
		i.refused = true
		i.mu.Unlock()
		return nil, errors.Join(errIssuer, err)
	}
	return nil, fmt.Errorf("exchange: the issuer has no key %q", id)
}

// away returns why logins cannot go through, nil if they can: while none of the issuer's
// keys is known, or a token's could not be had, it asks for them.
func (i *issuer) away(ctx context.Context) error {
	i.mu.Lock()
	fails := len(i.keys) == 0 || i.refused
	i.mu.Unlock()
	if !fails {
		return nil
	}
	return i.refresh(ctx)
}

// count returns how many keys are known.
func (i *issuer) count() float64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return float64(len(i.keys))
}

func (i *issuer) known(id string) (found []crypto.PublicKey, age time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, k := range i.keys {
		if k.IsPublic() && k.Use != "enc" && (id == "" || k.KeyID == id) {
			found = append(found, k.Key)
		}
	}
	return found, i.now().Sub(i.fetched)
}

// refresh asks the issuer for its keys, at most once in fetchPause: who comes meanwhile
// waits for the same answer, and who comes later in the pause gets the error of that try.
func (i *issuer) refresh(ctx context.Context) error {
	_, err, _ := i.flight.Do("", func() (any, error) {
		i.mu.Lock()
		now := i.now()
		if now.Sub(i.tried) < fetchPause {
			defer i.mu.Unlock()
			return nil, i.failed
		}
		i.tried = now
		i.mu.Unlock()
		keys, err := i.fetch(ctx)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.failed = err; err == nil {
			i.keys, i.fetched, i.refused = keys, i.now(), false
		}
		return nil, err
	})
	return err
}

// fetch reads the issuer's keys.
func (i *issuer) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), issuerTimeout) // the keys are for all who wait
	defer cancel()
	at := i.set.JWKSURL
	if at == "" {
		var discovered struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		if err := i.get(ctx, strings.TrimSuffix(i.set.Issuer, "/")+"/.well-known/openid-configuration", &discovered); err != nil {
			return nil, err
		}
		if discovered.Issuer != i.set.Issuer {
			return nil, fmt.Errorf("exchange: the discovery document is of the issuer %q", discovered.Issuer)
		}
		at = discovered.Keys
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.get(ctx, at, &set); err != nil {
		return nil, err
	}
	// A key of a kind that is not known here must stop no other one (RFC 7517, 5).
	var keys []jose.JSONWebKey
	unread := errors.New("exchange: the issuer lists no keys")
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if err := json.Unmarshal(raw, &key); err != nil {
			unread = err
		} else if key.Key != nil { // it is for null
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, unread
	}
	return keys, nil
}

func (i *issuer) get(ctx context.Context, address string, into any) error {
	return i.client.Do(ctx, outbound.Request{URL: address}, func(reply outbound.Reply) error {
		if reply.Status != http.StatusOK {
			return fmt.Errorf("HTTP %d", reply.Status)
		}
		return json.Unmarshal(reply.Body, into)
	})
}
