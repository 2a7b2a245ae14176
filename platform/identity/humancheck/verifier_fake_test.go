package humancheck

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// fakeToken is what the widget of a verifier such as Cloudflare Turnstile gives to a
// page: its parameters and where it ran.
type fakeToken struct {
	Hostname, Action, Data string
	At                     time.Time // when it was solved; zero means now
	Denied                 bool      // it was not a person
}

// trouble is what the fake does instead of answering.
type trouble int

const (
	fine    trouble = iota
	broken          // 500, whatever its body says
	cut             // closes the connection
	hangs           // answers only when the client has left
	garbage         // 200 with a body that is not JSON
	locked          // answers that the shop's secret is wrong
)

// fakeVerifier answers siteverify as documented for Turnstile. Safe for concurrent use.
type fakeVerifier struct {
	Secret string // the accepted secret

	mu      sync.Mutex
	tokens  map[string]*fakeIssued
	trouble trouble
	asked   int
	clients []string
}

// fakeIssued is a token with its state.
type fakeIssued struct {
	fakeToken
	usedBy string // idempotency key of the first request; "" means unused
	used   bool
}

// Issue issues a token that can be verified once.
func (s *fakeVerifier) Issue(t fakeToken) string {
	if t.At.IsZero() {
		t.At = time.Now()
	}
	text := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = map[string]*fakeIssued{}
	}
	s.tokens[text] = &fakeIssued{fakeToken: t}
	return text
}

// Be makes the server behave so from now on.
func (s *fakeVerifier) Be(t trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = t
}

// Asked returns how many requests have arrived.
func (s *fakeVerifier) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Clients returns the client addresses in the requests, in order.
func (s *fakeVerifier) Clients() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.clients...)
}

// fakeReply is the documented answer.
type fakeReply struct {
	Success  bool     `json:"success"`
	At       string   `json:"challenge_ts,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	Codes    []string `json:"error-codes"`
	Action   string   `json:"action,omitempty"`
	Data     string   `json:"cdata,omitempty"`
}

// ServeHTTP answers one request.
func (s *fakeVerifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.ParseForm() != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	now := s.trouble
	s.asked++
	s.mu.Unlock()
	switch now {
	case broken:
		w.WriteHeader(http.StatusInternalServerError)
		fakeAnswer(w, fakeReply{Success: true, At: time.Now().Format(time.RFC3339)}) // which callers must not trust
	case cut:
		panic(http.ErrAbortHandler)
	case hangs:
		<-r.Context().Done()
	case garbage:
		_, _ = w.Write([]byte("<html>down for maintenance</html>"))
	case locked:
		fakeAnswer(w, fakeNo("invalid-input-secret"))
	case fine:
		fakeAnswer(w, s.judge(r))
	}
}

func fakeNo(code string) fakeReply { return fakeReply{Codes: []string{code}} }

func (s *fakeVerifier) judge(r *http.Request) fakeReply {
	secret, response, key := r.PostForm.Get("secret"), r.PostForm.Get("response"), r.PostForm.Get("idempotency_key")
	switch {
	case secret == "":
		return fakeNo("missing-input-secret")
	case secret != s.Secret:
		return fakeNo("invalid-input-secret")
	case response == "":
		return fakeNo("missing-input-response")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, r.PostForm.Get("remoteip"))
	t := s.tokens[response]
	switch {
	case t == nil:
		return fakeNo("invalid-input-response")
	case time.Since(t.At) > 5*time.Minute, t.used && (key == "" || key != t.usedBy):
		return fakeNo("timeout-or-duplicate")
	}
	t.used, t.usedBy = true, key
	if t.Denied {
		return fakeNo("invalid-input-response")
	}
	return fakeReply{
		Success: true, At: t.At.UTC().Format("2006-01-02T15:04:05.000Z"), Hostname: t.Hostname, Codes: []string{}, Action: t.Action, Data: t.Data,
	}
}

func fakeAnswer(w http.ResponseWriter, r fakeReply) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // an error means that the client has left
}
