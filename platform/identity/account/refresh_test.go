package account_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"stampede/platform/identity/account"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func (b *bundle) refresh(token string, device ...string) answer {
	b.t.Helper()
	body := map[string]any{"refresh_token": token}
	if len(device) > 0 {
		body["device_id"] = device[0]
	}
	return b.post("refresh", body)
}

// Twenty concurrent refreshes with one token count as one whose answer twenty
// clients get: one successor, one live login.
func TestParallelRefreshesHaveOneSuccessor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	login := b.register(phone, secret)
	next := map[string]bool{}
	for _, a := range all(20, func(int) answer { return b.refresh(login.str("refresh_token")) }) {
		a.want(t, "a refresh", 200, "")
		next[a.str("refresh_token")] = true
	}
	if len(next) != 1 || next[login.str("refresh_token")] {
		t.Fatalf("%d successors", len(next))
	}
	for token := range next {
		b.refresh(token).want(t, "the successor", http.StatusOK, "")
	}
	require.Equal(t, "logins that were refreshed twice", b.count(`SELECT count(*) FROM account.logins WHERE ended_at IS NULL AND generation = 3`), 1)
}

// A token that is repeated when its answer cannot merely have been lost ends the
// login, for the thief and for the shopper, who logs in again.
func TestReuseEndsTheLogin(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(b *bundle, successor string){
		"after its successor was used": func(b *bundle, successor string) { b.refresh(successor) },
		"long after its use": func(b *bundle, _ string) {
			b.exec(`UPDATE account.logins SET rotated_at = rotated_at - interval '10 seconds'`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			first := b.register(phone, secret).str("refresh_token")
			other := b.login(phone, secret).str("refresh_token")
			second := b.refresh(first)
			if again := b.refresh(first); again.status != 200 || again.str("refresh_token") != second.str("refresh_token") {
				t.Fatalf("the immediate repeat: %d %s", again.status, again.raw)
			}
			meanwhile(b, second.str("refresh_token"))
			p, err := b.tokens.Verify(second.str("access_token"))
			require.NoError(t, err)
			b.refresh(first).must(t, "reused", 401, "refresh-reused")
			b.refresh(second.str("refresh_token")).want(t, "its successor", 401, "bad-refresh-token")
			if b.revoked.why(p.Login) != "refresh token reused" || b.revoked.told == 0 {
				t.Errorf("revoked %v", b.revoked.logins)
			}
			b.refresh(other).want(t, "the user's other login", 200, "")
		})
	}
}

// A text that is not a refresh token of a live login is refused and ends nothing.
func TestRefreshRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.register(phone, secret)
	device := map[string]any{"kind": "ios", "id": "device-1"}
	login := b.post("login", map[string]any{"phone": phone, "password": secret, "device": device})
	good := login.str("refresh_token")
	flipped := good[:20] + string(good[20]^1) + good[21:]
	for name, c := range map[string]struct{ token, device string }{
		"an access token":    {login.str("access_token"), "device-1"},
		"another device":     {good, "device-2"},
		"no device":          {good, ""},
		"altered":            {flipped, "device-1"},
		"cut":                {good[:len(good)-1], "device-1"},
		"longer":             {good + "A", "device-1"},
		"without its prefix": {strings.TrimPrefix(good, "rt_"), "device-1"},
		"a line break":       {good[:30] + "\n" + good[31:], "device-1"},
	} {
		b.refresh(c.token, c.device).want(t, name, 401, "bad-refresh-token")
	}
	b.call(http.MethodGet, "/api/v1/me", good, nil).want(t, "a refresh token as access token", 401, "bad-token")
	// A server with another key makes different tokens for the same login.
	elsewhere := setup(t, func(c *account.Config, d *deps) {
		c.SigningKey, d.DB = []byte("another key of thirty-two bytes!!"), b.pool
	})
	elsewhere.refresh(good, "device-1").want(t, "under another key", 401, "bad-refresh-token")
	next := b.refresh(good, "device-1")
	next.must(t, "the good token after the refusals", 200, "")
	b.exec(`UPDATE account.logins SET expires_at = clock_timestamp()`)
	b.refresh(next.str("refresh_token"), "device-1").want(t, "expired", 401, "bad-refresh-token")
	// However often it is refreshed, a login ends half a year after it began.
	b.exec(`UPDATE account.logins SET created_at = clock_timestamp() - interval '179 days', expires_at = clock_timestamp() + interval '1 day'`)
	b.refresh(next.str("refresh_token"), "device-1").must(t, "on its last day", 200, "")
	late := b.count(`SELECT count(*) FROM account.logins WHERE expires_at > clock_timestamp() + interval '25 hours' AND device_id <> ''`)
	require.Equal(t, "logins that outlive loginMost", late, 0)
}

// During a key rotation, instances with either key accept each other's refresh
// tokens and codes.
func TestKeysAreReplaced(t *testing.T) {
	t.Parallel()
	older, newer := []byte("the older key of thirty-two bytes"), []byte("the newer key of thirty-two bytes")
	a := setup(t, func(c *account.Config, _ *deps) { c.SigningKey, c.PreviousKeys = older, [][]byte{newer} })
	b := setup(t, func(c *account.Config, d *deps) {
		c.SigningKey, c.PreviousKeys, d.DB = newer, [][]byte{older}, a.pool
	})
	code := a.code(phone, "login")
	login := b.post("login/sms", map[string]any{"phone": phone, "code": code})
	login.must(t, "the other instance's code", 200, "")
	token := login.str("refresh_token")
	for i, at := range []*bundle{a, b, b, a, a} {
		next := at.refresh(token)
		next.must(t, fmt.Sprint("refresh ", i+1), 200, "")
		token = next.str("refresh_token")
	}
	gone := setup(t, func(c *account.Config, d *deps) { c.SigningKey, d.DB = newer, a.pool })
	gone.refresh(token).want(t, "a removed key", 401, "bad-refresh-token")
}

// TestAttackMadeUpRefreshTokensTakeNoLock: while the user's row is locked, a token
// whose MAC is wrong is refused at once, and so is each request above the login's
// limit.
func TestAttackMadeUpRefreshTokensTakeNoLock(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.register(phone, secret).str("refresh_token")
	tx := pgtest.Begin(t, b.pool)
	pgtest.Exec(t, tx, `SELECT 1 FROM account.users FOR UPDATE`)
	pgtest.Exec(t, tx, `LOCK TABLE account.logins IN ACCESS EXCLUSIVE MODE`)
	// The third character from the end is in the MAC, and all of its bits count.
	other := map[bool]string{true: "B", false: "A"}[token[len(token)-3] == 'A']
	made := token[:len(token)-3] + other + token[len(token)-2:]
	b.refresh(made).want(t, "a made-up token while the rows are locked", http.StatusUnauthorized, "bad-refresh-token")
	require.NoError(t, tx.Rollback(t.Context()))
	refused := 0
	for _, a := range all(40, func(int) answer { return b.refresh(token) }) {
		if a.is(http.StatusTooManyRequests, "rate-limited") {
			refused++
		}
	}
	if refused < 5 {
		t.Errorf("%d of 40 refreshes of one login were refused", refused)
	}
}
