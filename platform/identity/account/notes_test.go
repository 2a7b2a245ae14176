package account_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/account"
	"stampede/platform/identity/sms"
	"stampede/platform/workshop/pgtest"
)

// Users read of new devices, resets and role changes, in their language.
func TestUsersAreNotifiedOfChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	for _, w := range b.accts.Workers() {
		if w.Name == "account-notes" {
			go func() { ended <- w.Run(ctx) }()
		}
	}
	on := func(device string) {
		t.Helper()
		if a := b.post("login", map[string]any{"phone": phone, "password": secret, "device": map[string]any{"id": device}}); a.status != 200 {
			t.Fatalf("login on %s: %d %s", device, a.status, a.raw)
		}
	}
	user := b.register(phone, secret).str("user_id")
	on("laptop") // the registration gave no id
	on("laptop")
	on("tablet")
	on("a program's third id") // more than two messages a day
	if a := b.post("password/reset", map[string]any{"phone": phone, "code": b.code(phone, "reset"), "password": secret + "2"}); a.status != 204 {
		t.Fatalf("reset: %d %s", a.status, a.raw)
	}
	if a := b.admin(auth.Admin, http.MethodPost, "/"+user+"/role", map[string]any{"role": "viewer"}); a.status != 204 {
		t.Fatalf("role: %d %s", a.status, a.raw)
	}
	want := map[string]int{
		sms.NoteText(sms.Chinese, "Stampede", sms.NoteDevice): 2, sms.NoteText(sms.Chinese, "Stampede", sms.NotePassword): 1,
		sms.NoteText(sms.Chinese, "Stampede", sms.NoteRole): 1,
	}
	pgtest.Eventually(t, 30*time.Second, func() bool { return b.count(`SELECT count(*) FROM account.notes`) == 0 }, "every note is sent")
	got := map[string]int{}
	for _, m := range b.phones.all() {
		if !strings.Contains(m.Text, "验证码 ") {
			got[m.Text]++
		}
	}
	for text, n := range want {
		if got[text] != n {
			t.Errorf("%d messages %q, want %d", got[text], text, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("sent %v", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A gateway that is down gets a note again, and one that refuses it does not.
func TestNotesAreRetried(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *account.Config, _ *account.Deps) {})
	user := b.register(phone, secret).str("user_id")
	b.exec(`INSERT INTO account.notes (id, user_id, about) VALUES (gen_random_uuid(), $1::bigint, 'role')`, user)
	b.phones.breaks(sms.ErrUnavailable)
	if err := b.accts.SendDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count(`SELECT count(*) FROM account.notes WHERE attempts = 1 AND next_try > now() + interval '20 s'`); n != 1 {
		t.Errorf("%d notes wait for another attempt, want 1", n)
	}
	b.exec(`UPDATE account.notes SET next_try = now()`)
	b.phones.breaks(nil)
	if err := b.accts.SendDue(t.Context()); err != nil || b.count(`SELECT count(*) FROM account.notes`) != 0 {
		t.Errorf("the second attempt: %v", err)
	}
}
