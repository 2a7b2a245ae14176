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

	used   bool
	usedBy string // the idempotency key of the first request
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
	spent           // answers that the shop has used up what it paid for
)

// fakeVerifier answers siteverify as documented for Turnstile. Safe for concurrent use.
type fakeVerifier struct {
	Secret string // the accepted secret

	mu      sync.Mutex
	tokens  map[string]*fakeToken
	trouble trouble
	asked   int
	clients []string // the addresses in the requests, in order
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
		s.tokens = map[string]*fakeToken{}
	}
	s.tokens[text] = &t
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
		_ = json.NewEncoder(w).Encode(reply{Success: true, At: time.Now().Format(time.RFC3339)}) // which callers must not trust
	case cut:
		panic(http.ErrAbortHandler)
	case hangs:
		<-r.Context().Done()
	case garbage:
		_, _ = w.Write([]byte("<html>down for maintenance</html>"))
	case locked:
		_ = json.NewEncoder(w).Encode(fakeNo("invalid-input-secret"))
	case spent:
		w.WriteHeader(http.StatusTooManyRequests)
	case fine:
		_ = json.NewEncoder(w).Encode(s.judge(r)) // an error means that the client has left
	}
}

func fakeNo(code string) reply { return reply{Codes: []string{code}} }

func (s *fakeVerifier) judge(r *http.Request) reply {
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
	return reply{
		Success: true, At: t.At.UTC().Format("2006-01-02T15:04:05.000Z"), Hostname: t.Hostname, Action: t.Action, Data: t.Data,
	}
}

// Solve implements captcha.
func (s *fakeVerifier) Solve(w *VerifierWidget, denied bool) string {
	return s.Issue(fakeToken{Hostname: testHost, Action: w.Action, Data: w.Data, Denied: denied})
}

// Forget implements captcha.
func (s *fakeVerifier) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tokens {
		t.used = false
	}
}
