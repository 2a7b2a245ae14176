package office

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"stampede/platform/edge/auth"
)

const (
	// cookieName is the session's.
	cookieName = "stampede_office"
	// idleFor is how long a session lasts without a request: a shift. A computer that
	// is switched on the next morning asks for the password.
	idleFor = 12 * time.Hour
	// renewAfter bounds how long an access token is used, whatever --access-lifetime says: the
	// cookie is written when one is renewed, and shows that the operator is still there.
	renewAfter = time.Hour
	// freshFor is how long after a sign-in forms with Act.Again need no password.
	freshFor = 5 * time.Minute
	// refreshEarly is how long before its end an access token is refreshed: longer than
	// the requests of a page take.
	refreshEarly = 20 * time.Second
)

// session is what the cookie holds: a login of the API.
type session struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh"`
	// Until is when the access token ends or is to be renewed, Unix seconds.
	Until int64 `json:"until"`
	// Phone is what the operator signed in with, to ask for the password again.
	Phone string `json:"phone"`
	// Signed is when the operator last showed the password, Unix seconds.
	Signed int64 `json:"signed"`
	// Seen is when the cookie was written, Unix seconds.
	Seen int64 `json:"seen"`
}

// fresh reports whether the operator showed the password moments ago.
func (s *session) fresh(now time.Time) bool { return now.Sub(time.Unix(s.Signed, 0)) < freshFor }

// take puts the tokens of an answer into the session.
func (s *session) take(t tokens, now time.Time) {
	s.Access, s.Refresh = t.AccessToken, t.RefreshToken
	s.Until = now.Add(min(time.Duration(t.ExpiresIn)*time.Second, renewAfter)).Unix()
}

// tokens is the API's answer to a login and to a refresh.
type tokens struct {
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token"`
	ExpiresIn    int64  `json:"expires_in"`
}

// sealer encrypts the cookies, with its first key, and opens those of any key.
type sealer struct{ auth.Ring }

func newSealer(signingKeys ...[]byte) sealer {
	return sealer{auth.Keys("office-session", signingKeys...)}
}

func (s sealer) seal(v *session) string {
	raw, _ := json.Marshal(v) // plain strings and numbers
	return base64.RawURLEncoding.EncodeToString(s.Seal(raw, cookieName))
}

// open returns the session of a cookie, nil if it is none or idle for too long.
func (s sealer) open(text string, now time.Time) *session {
	raw, _ := base64.RawURLEncoding.DecodeString(text) // what is decoded of another text does not open
	plain, ok := s.Open(raw, cookieName)
	v := new(session)
	if !ok || json.Unmarshal(plain, v) != nil || now.Sub(time.Unix(v.Seen, 0)) > idleFor {
		return nil
	}
	return v
}

// sessionOf reads the request's session, nil if there is none.
func (o *Office) sessionOf(r *http.Request) *session {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	return o.sealer.open(c.Value, o.now())
}

// keep writes the session's cookie, or removes it for nil. A browser drops it when it
// is closed.
func (o *Office) keep(w http.ResponseWriter, s *session) {
	c := &http.Cookie{Name: cookieName, Path: root, HttpOnly: true, Secure: o.overTLS(), SameSite: http.SameSiteStrictMode, MaxAge: -1} //nolint:gosec // Secure wherever browsers use https
	if s != nil {
		s.Seen = o.now().Unix()
		c.Value, c.MaxAge = o.sealer.seal(s), 0
	}
	http.SetCookie(w, c)
}

// refresh exchanges the session's refresh token, once for all requests that need it at
// the same moment. A refusal (401) means that the login has ended.
func (c *Call) refresh() error {
	old := c.session.Refresh
	made, err, _ := c.office.refreshing.Do(old, func() (any, error) {
		// The other requests wait for it too, so it ends although this client has left.
		alone := *c
		alone.r = c.r.WithContext(context.WithoutCancel(c.r.Context()))
		var t tokens
		err := alone.exchange(http.MethodPost, authPath+"/refresh", "", map[string]any{"refresh_token": old}, &t, "")
		return t, err
	})
	if err != nil {
		return err
	}
	next := *c.session
	t, _ := made.(tokens)
	next.take(t, c.office.now())
	return c.use(&next)
}

// use makes a session the call's, and has the answer set its cookie.
func (c *Call) use(s *session) error {
	who, err := c.office.deps.Tokens.Verify(s.Access)
	if err != nil {
		return fmt.Errorf("office: the API's own token: %w", err)
	}
	c.session, c.Who, c.changed = s, who, true
	return nil
}
