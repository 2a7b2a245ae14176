package account_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/edge/sms"
	"stampede/platform/identity/account"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// Users read of new devices, resets and role changes, in their language.
func TestUsersAreNotifiedOfChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, w := range b.codes.Workers() {
		if w.Name == "account-notes" {
			pgtest.Work(t, w.Run)
		}
	}
	devices := func(want int, device string, opts ...option) {
		t.Helper()
		a := b.post("login", map[string]any{"phone": phone, "password": secret, "device": map[string]any{"id": device}}, opts...)
		a.must(t, "login on "+device, 200, "")
		require.Equal(t, "notices after a login on "+device, b.count(`SELECT count(*) FROM account.notices WHERE about = 'device'`), want)
	}
	li := b.register(phone, secret)
	user, token := li.str("user_id"), li.str("access_token")
	devices(0, "laptop", on(li)) // the cookie of the registration
	devices(1, "laptop")         // somebody else states its id
	devices(2, "")
	devices(2, "a third device") // more than two messages a day
	b.me(http.MethodPost, "/wechat", token, map[string]any{"code": b.wechat.Code("open-li", "")}).must(t, "wechat", 204, "")
	b.me(http.MethodPost, "/password", token, map[string]any{"old_password": secret, "new_password": secret + "1"}).must(t, "password", 204, "")
	b.me(http.MethodPost, "/totp", token, map[string]any{"refresh_token": li.str("refresh_token")}).must(t, "second factor", 201, "")
	b.admin(auth.Admin, http.MethodDelete, "/"+user+"/totp", nil).must(t, "reset of the second factor", 204, "")
	b.post("password/reset", map[string]any{"phone": phone, "code": b.code(phone, "reset"), "password": secret + "2"}).must(t, "reset", 204, "")
	b.admin(auth.Admin, http.MethodPost, "/"+user+"/role", map[string]any{"role": "viewer"}).must(t, "role", 204, "")
	want := map[string]int{}
	for about, n := range map[sms.Note]int{sms.NoteDevice: 2, sms.NotePassword: 2, sms.NoteAccess: 1, sms.NoteFactor: 1, sms.NoteRole: 1} {
		want[sms.NoteMessage("Stampede", about, httpx.Chinese).Text] = n
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.count(`SELECT count(*) FROM account.notes`) == 0 }, "every note is sent")
	got := map[string]int{}
	for _, m := range b.phones.all() {
		if !strings.Contains(m.Text, "验证码 ") {
			got[m.Text]++
		}
	}
	require.Equal(t, "what was sent", got, want)
}

// A gateway that is down gets a note again, a few times; one that refuses it does not.
// No note is claimed before its turn, so that no instance sends it twice.
func TestNotesAreRetried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	user := b.register(phone, secret).str("user_id")
	for _, c := range []struct {
		name          string
		attempts      int
		answers       error
		waiting, sent int
	}{
		{"down", 0, sms.ErrUnavailable, 2, 0},
		{"up again", 1, nil, 0, 2},
		{"refused", 0, sms.ErrRefused, 0, 0},
		{"down for the last attempt", 6, sms.ErrUnavailable, 0, 0},
	} {
		before := len(b.phones.all())
		b.exec(`DELETE FROM account.notes`)
		b.exec(`INSERT INTO account.notes (id, user_id, about, attempts) SELECT gen_random_uuid(), $1::bigint, 'role', $2 FROM generate_series(1, 2)`, user, c.attempts)
		turns := 0
		b.phones.breaks(func() error {
			turns++
			if n := b.count(`SELECT count(*) FROM account.notes WHERE next_try <= now()`); n != 2-turns {
				t.Errorf("%s: at attempt %d, %d notes are unclaimed", c.name, turns, n)
			}
			return c.answers
		})
		require.NoError(t, b.codes.SendDue(t.Context()))
		require.Equal(t, c.name+": notes that wait", b.count(`SELECT count(*) FROM account.notes WHERE next_try > now() + interval '20 s'`), c.waiting)
		if n := len(b.phones.all()) - before; n != c.sent || turns != 2 || b.count(`SELECT count(*) FROM account.notes`) != c.waiting {
			t.Errorf("%s: %d of %d attempts sent a note, want %d", c.name, n, turns, c.sent)
		}
	}
}

// A user without a phone reads at me/notices what others learn by SMS, also in a shop
// without a gateway.
func TestNoticesReachUsersWithoutAPhone(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *account.Config, d *deps) { d.SMS, c.KeepEnded = nil, time.Hour })
	on := func(device string) answer {
		return b.post("login/wechat", map[string]any{"code": b.wechat.Code("open-li", ""), "device": map[string]any{"id": device}})
	}
	li := on("phone")
	on("a thief's")
	b.admin(auth.Admin, http.MethodPost, "/"+li.str("user_id")+"/role", map[string]any{"role": "viewer"}).must(t, "role", 204, "")
	reads := func(who answer) (about []string) {
		a := b.me(http.MethodGet, "/notices", who.str("access_token"), nil)
		for _, n := range a.doc["data"].([]any) {
			about = append(about, n.(map[string]any)["about"].(string))
		}
		return about
	}
	require.Equal(t, "notices", reads(li), []string{"role", "device"})
	require.Equal(t, "another user's notices", len(reads(b.loginWeChat("open-wang", ""))), 0)
	b.exec(`UPDATE account.notices SET created_at = now() - interval '2 h' WHERE about = 'device'`)
	require.NoError(t, b.accts.Tidy(t.Context()))
	require.Equal(t, "notices after the old one was deleted", reads(li), []string{"role"})
}
