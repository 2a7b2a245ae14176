// Package verifiertest is a fake of a verifier such as Cloudflare Turnstile: an
// http.Handler that answers siteverify as documented for the real one, and a
// way to issue the tokens that its widget would give to pages.
package verifiertest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// maxAge is how long a token can be verified, as at Turnstile.
const maxAge = 5 * time.Minute

// maxFormBytes bounds a request.
const maxFormBytes = 64 << 10

// Token is the widget's parameters and where it ran.
type Token struct {
	Hostname string
	Action   string
	Data     string
	At       time.Time // when it was solved; zero means now
	// Denied makes the verifier answer that it was not a person.
	Denied bool
}

// Trouble is what the fake does instead of answering.
type Trouble int

// The troubles.
const (
	Fine    Trouble = iota
	Broken          // 500, whatever its body says
	Cut             // closes the connection
	Hangs           // answers only when the client has left
	Garbage         // 200 with a body that is not JSON
	Locked          // answers that the shop's secret is wrong
)

// Server answers siteverify. Safe for concurrent use.
type Server struct {
	Secret string // the accepted secret

	mu      sync.Mutex
	tokens  map[string]*issued
	trouble Trouble
	asked   int
	clients []string
}

// issued is a token with its state.
type issued struct {
	Token
	usedBy string // idempotency key of the first request; "" means unused
	used   bool
}

// Issue issues a token that can be verified once.
func (s *Server) Issue(t Token) string {
	if t.At.IsZero() {
		t.At = time.Now()
	}
	text := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = map[string]*issued{}
	}
	s.tokens[text] = &issued{Token: t}
	return text
}

// Be makes the server behave so from now on.
func (s *Server) Be(t Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = t
}

// Asked returns how many requests have arrived.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Clients returns the client addresses in the requests, in order.
func (s *Server) Clients() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.clients...)
}

// reply is the documented answer.
type reply struct {
	Success  bool     `json:"success"`
	At       string   `json:"challenge_ts,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	Codes    []string `json:"error-codes"`
	Action   string   `json:"action,omitempty"`
	Data     string   `json:"cdata,omitempty"`
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if r.Method != http.MethodPost || r.ParseForm() != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	trouble := s.trouble
	s.asked++
	s.mu.Unlock()
	switch trouble {
	case Broken:
		w.WriteHeader(http.StatusInternalServerError)
		write(w, reply{Success: true, At: time.Now().Format(time.RFC3339)}) // which callers must not trust
	case Cut:
		panic(http.ErrAbortHandler)
	case Hangs:
		<-r.Context().Done()
	case Garbage:
		_, _ = w.Write([]byte("<html>down for maintenance</html>"))
	case Locked:
		write(w, no("invalid-input-secret"))
	case Fine:
		write(w, s.judge(r))
	}
}

func no(code string) reply { return reply{Codes: []string{code}} }

func (s *Server) judge(r *http.Request) reply {
	secret, response, key := r.PostForm.Get("secret"), r.PostForm.Get("response"), r.PostForm.Get("idempotency_key")
	switch {
	case secret == "":
		return no("missing-input-secret")
	case secret != s.Secret:
		return no("invalid-input-secret")
	case response == "":
		return no("missing-input-response")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, r.PostForm.Get("remoteip"))
	t := s.tokens[response]
	switch {
	case t == nil:
		return no("invalid-input-response")
	case time.Since(t.At) > maxAge, t.used && (key == "" || key != t.usedBy):
		return no("timeout-or-duplicate")
	}
	t.used, t.usedBy = true, key
	if t.Denied {
		return no("invalid-input-response")
	}
	return reply{
		Success: true, At: t.At.UTC().Format("2006-01-02T15:04:05.000Z"), Hostname: t.Hostname, Codes: []string{}, Action: t.Action, Data: t.Data,
	}
}

func write(w http.ResponseWriter, r reply) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // an error means that the client has left
}
