package account_test

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/platform/identity/account"
	"stampede/platform/identity/humancheck"
)

// revoked records revocations.
type revoked struct {
	account.Revoker // of which no test here asks more

	mu     sync.Mutex
	logins map[int64]string
	users  map[int64]string
	told   int
}

func (r *revoked) Logins(_ context.Context, _ pgx.Tx, why string, logins ...int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range logins {
		if r.logins == nil {
			r.logins = map[int64]string{}
		}
		r.logins[l] = why
	}
	return nil
}

func (r *revoked) User(_ context.Context, _ pgx.Tx, why string, user int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users = map[int64]string{}
	}
	r.users[user] = why
	return nil
}

func (r *revoked) Tell(context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told++
}

func (r *revoked) why(login int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logins[login]
}

func (r *revoked) whyUser(user int64) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.users[user]
}

// human accepts "solved" as the solution.
type human struct {
	kind  humancheck.Kind
	mu    sync.Mutex
	asked []humancheck.Subject
}

func (h *human) Public() humancheck.Kind { return h.kind }

func (h *human) Check(_ context.Context, kind humancheck.Kind, sub humancheck.Subject, solution string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, sub)
	if solution == "solved" {
		return nil
	}
	return humancheck.ErrRequired.With("kind", kind)
}

// logs is the log, and the secrets that it must not contain.
type logs struct {
	mu      sync.Mutex
	text    bytes.Buffer
	secrets map[string]bool
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// secretMembers are the members of requests and answers whose values must not be
// logged.
var secretMembers = regexp.MustCompile(`"(phone|code|password|old_password|new_password|access_token|refresh_token|name|wechat_code)":"([^"]{4,})"`)

func (l *logs) secret(texts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range texts {
		for _, m := range secretMembers.FindAllStringSubmatch(t, -1) {
			if strings.Contains(m[2], "*") || !strings.ContainsAny(m[2], "0123456789") && m[1] == "code" {
				continue // a masked phone; the code of a problem
			}
			if l.secrets == nil {
				l.secrets = map[string]bool{}
			}
			l.secrets[m[2]] = true
		}
	}
}

// durations have the six digits of some code now and then: took=34.715757ms.
var durations = regexp.MustCompile(`took=\S+`)

func (l *logs) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := durations.ReplaceAllString(l.text.String(), "")
	for s := range l.secrets {
		if strings.Contains(text, s) {
			t.Errorf("the log contains %q:\n%s", s, l.text.String())
			return
		}
	}
}
