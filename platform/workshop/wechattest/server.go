// Package wechattest is a local server that answers like WeChat's API, for
// tests and for experiments without an app.
package wechattest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"

	"stampede/platform/workshop/require"
)

// Server is a fake with an official account and a mini program of one owner. Safe for
// concurrent use.
type Server struct {
	AppID, MiniAppID string
	Secret           string // of both
	URL              string

	// Subscribed are the people who get messages, each once in the mini program.
	Subscribed map[string]int

	mu    sync.Mutex
	codes map[string]*person
	token map[string]string // of each app
	asked int               // calls for a token
	got   []Message
	calls atomic.Int64
	ill   atomic.Int64 // an errcode for every exchange; 0 means none
}

type person struct {
	openID, unionID string
	used            bool
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{AppID: "wx0123456789abcdef", MiniAppID: "wxfedcba9876543210", Secret: rand.Text(), codes: map[string]*person{}, Subscribed: map[string]int{}, token: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sns/oauth2/access_token", func(w http.ResponseWriter, r *http.Request) { s.exchange(w, r, s.AppID, "code") })
	mux.HandleFunc("GET /sns/jscode2session", func(w http.ResponseWriter, r *http.Request) { s.exchange(w, r, s.MiniAppID, "js_code") })
	mux.HandleFunc("GET /connect/oauth2/authorize", s.authorize)
	mux.HandleFunc("POST /cgi-bin/stable_token", s.stableToken)
	mux.HandleFunc("POST /cgi-bin/message/subscribe/send", func(w http.ResponseWriter, r *http.Request) { s.take(w, r, s.MiniAppID) })
	mux.HandleFunc("POST /cgi-bin/message/template/send", func(w http.ResponseWriter, r *http.Request) { s.take(w, r, s.AppID) })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// Code issues a code for a person, as WeChat passes to the page.
func (s *Server) Code(openID, unionID string) string {
	code := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = &person{openID: openID, unionID: unionID}
	return code
}

// Redirect returns the URL at which a person's browser arrives after the authorization:
// a page with the code, and with the state that the page gave. WeChat refuses states
// with other characters than letters and digits, or above 128 of them.
func (s *Server) Redirect(t testing.TB, page, state, openID, unionID string) *url.URL {
	t.Helper()
	if !wellFormed.MatchString(state) {
		t.Errorf("WeChat refuses the state %q", state)
	}
	to, err := url.Parse(page + "?" + url.Values{"code": {s.Code(openID, unionID)}, "state": {state}}.Encode())
	require.NoError(t, err)
	return to
}

// authorize sends a browser back with a code of a person who agrees. WeChat refuses an
// address whose members are in another order.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	back, err := url.Parse(q.Get("redirect_uri"))
	if !ordered.MatchString(r.URL.RawQuery) || q.Get("appid") != s.AppID || !wellFormed.MatchString(q.Get("state")) || err != nil {
		http.Error(w, "WeChat refuses this link", http.StatusBadRequest)
		return
	}
	with := back.Query()
	with.Set("code", s.Code("open-page", ""))
	with.Set("state", q.Get("state"))
	back.RawQuery = with.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // WeChat itself knows the shop's address; a test may have any
}

var ordered = regexp.MustCompile(`^appid=[^&]+&redirect_uri=[^&]+&response_type=code&scope=snsapi_(base|userinfo)&state=[^&]+$`)

var wellFormed = regexp.MustCompile(`^[a-zA-Z0-9]{1,128}$`)

// FallIll answers every exchange with an errcode until it is called with 0.
// Real ones are -1 (busy) and 45011 (rate limit); 1 means an answer that is not
// JSON.
func (s *Server) FallIll(errcode int) { s.ill.Store(int64(errcode)) }

// Calls returns how many exchanges were requested.
func (s *Server) Calls() int { return int(s.calls.Load()) }

// WeChat's error codes.
const (
	badAppID  = 40013
	badSecret = 40125
	badCode   = 40029
	usedCode  = 40163
	badGrant  = 40002
)

// exchange always answers with status 200, as WeChat does.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, app, param string) {
	s.calls.Add(1)
	q := r.URL.Query()
	w.Header().Set("Content-Type", "text/plain") // WeChat sends its JSON with this type
	switch ill := s.ill.Load(); {
	case ill == 1:
		_, _ = w.Write([]byte("<html>502</html>"))
		return
	case ill != 0:
		s.tell(w, int(ill))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.codes[q.Get(param)]
	switch {
	case q.Get("appid") != app:
		s.tell(w, badAppID)
	case q.Get("secret") != s.Secret:
		s.tell(w, badSecret)
	case q.Get("grant_type") != "authorization_code":
		s.tell(w, badGrant)
	case p == nil:
		s.tell(w, badCode)
	case p.used:
		s.tell(w, usedCode)
	default:
		p.used = true
		out := map[string]any{"openid": p.openID}
		if p.unionID != "" {
			out["unionid"] = p.unionID
		}
		if param == "js_code" {
			out["session_key"] = rand.Text()
		} else {
			out["access_token"], out["refresh_token"], out["expires_in"], out["scope"] = rand.Text(), rand.Text(), 7200, "snsapi_base"
		}
		_ = json.NewEncoder(w).Encode(out)
	}
}
