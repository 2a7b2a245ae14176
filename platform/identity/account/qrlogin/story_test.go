package qrlogin

import (
	"bytes"
	"image/png"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/qrtest"
	"stampede/platform/workshop/require"
)

// TestADesktopIsLoggedInByAPhone: the desktop talks to one instance, the phone to
// another, and the desktop's next poll shows each change.
func TestADesktopIsLoggedInByAPhone(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	here, there := s.start(), s.start()
	user, token := s.phone(there, auth.Operator)

	began := time.Now()
	a := here.asks(t)
	expires, err := time.Parse(time.RFC3339, a.body.ExpiresAt)
	if err != nil || expires.Sub(began).Round(time.Minute) != 2*time.Minute {
		t.Errorf("it expires at %s, %v; want in 120 s", a.body.ExpiresAt, err)
	}
	pictured := there.call(t, http.MethodGet, strings.TrimPrefix(a.body.Image, "/api/v1/auth/qr"), "")
	img, err := png.Decode(bytes.NewReader(pictured.raw))
	if err != nil {
		t.Fatalf("picture: %d %v", pictured.status, err)
	}
	if text, _, _, err := qrtest.Read(img); err != nil || text != a.body.URL || text != "https://sale.example.com/?qr="+a.body.QRID || strings.Contains(text, a.body.PollSecret) {
		t.Errorf("the picture says %q, %v; want %q", text, err, a.body.URL)
	}
	if now := here.polled(t, a); now.body.Status != "pending" || now.body.PollAfter != 1000 {
		t.Errorf("at first: %s", now.raw)
	}

	scan := there.scans(t, a, token)
	if got := here.polled(t, a); got.body.Status != "scanned" || got.body.Tokens != nil || got.body.Number != here.shows(t, a) || got.body.Number < 10 {
		t.Errorf("after the scan: %s", got.raw)
	}
	asked, err := time.Parse(time.RFC3339, scan.body.AskedAt)
	if scan.status != http.StatusOK || scan.body.Device.Kind != "desktop" || scan.body.Device.Name != "Firefox on Windows" ||
		scan.body.Address != "192.0.2.1" || err != nil || asked.Sub(began).Abs() > time.Minute || strings.Contains(string(scan.raw), "desk-1") {
		t.Errorf("the phone is shown %d %s", scan.status, scan.raw)
	}
	there.decides(t, a, "confirm", token, scan.body.ScanToken).is(t, "confirm", http.StatusNoContent, "")
	got := here.polled(t, a)
	if got.body.Status != "confirmed" || got.body.Tokens == nil {
		t.Fatalf("after the confirmation: %s", got.raw)
	}
	p, err := s.tokens.Verify(got.body.Tokens.AccessToken)
	if err != nil || p.UserID != user || p.Role != auth.Operator || p.Device != "desk-1" || p.Login == 0 {
		t.Errorf("the token names %+v, %v", p, err)
	}
	var kind, name, how, from string
	err = s.db.QueryRow(t.Context(), `SELECT device_kind, device_name, how, host(address) FROM account.logins WHERE id = $1 AND user_id = $2`, p.Login, user).
		Scan(&kind, &name, &how, &from)
	if err != nil || kind != "desktop" || name != "Firefox on Windows" || how != "qr" || from != "192.0.2.1" {
		t.Errorf("the login is %s %q by %s from %s, %v", kind, name, how, from, err)
	}
	for _, i := range []*instance{here, there} {
		i.finds(t, a, "asked again", "claimed")
	}
	for _, answer := range []answer{a, pictured, scan, got} {
		require.Equal(t, "Cache-Control", answer.header.Get("Cache-Control"), "no-store")
	}
}

// all makes n requests concurrently and returns their answers.
func all(n int, ask func(n int) answer) []answer {
	answers := make([]answer, n)
	var group sync.WaitGroup
	for n := range answers {
		group.Go(func() { answers[n] = ask(n) })
	}
	group.Wait()
	return answers
}

func TestADeniedDeviceGetsNothing(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	_, token := s.phone(i, auth.Shopper)
	a := i.asks(t)
	scan := i.scans(t, a, token)
	i.decides(t, a, "deny", token, scan.body.ScanToken).is(t, "deny", http.StatusNoContent, "")
	i.finds(t, a, "after a denial", "denied")
	i.decides(t, a, "confirm", token, scan.body.ScanToken).is(t, "confirm after a denial", http.StatusConflict, "qr-decided")
}

// TestTokensAreHandedOutOnce to a hundred concurrent polls.
func TestTokensAreHandedOutOnce(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	instances := []*instance{s.start(), s.start()}
	user, token := s.phone(instances[0], auth.Shopper)
	a := instances[0].confirms(t, token)
	states, handed := map[any]int{}, 0
	for _, got := range all(100, func(n int) answer { return instances[n%2].polled(t, a) }) {
		states[got.body.Status]++
		if got.body.Tokens != nil {
			handed++
		}
	}
	require.Equal(t, "answers with tokens", handed, 1)
	require.Equal(t, "answers by status", states, map[any]int{"confirmed": 1, "claimed": 99})
	require.Equal(t, "logins", one[int](s, `SELECT count(*) FROM account.logins WHERE user_id = $1 AND how = 'qr'`, user), 1)
}

// TestOneOfFiftyScannersHasTheCode.
func TestOneOfFiftyScannersHasTheCode(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	instances := []*instance{s.start(), s.start()}
	a := instances[0].asks(t)
	answers := map[int]int{}
	for _, got := range all(50, func(n int) answer {
		token := httpxtest.Token(t, s.tokens, auth.Principal{UserID: int64(n) + 1, Role: auth.Shopper, Login: int64(n) + 1})
		return instances[n%2].scans(t, a, token)
	}) {
		answers[got.status]++
		if (got.status == http.StatusOK) != (got.body.ScanToken != "") || got.status != http.StatusOK && got.body.Code != "qr-taken" {
			t.Errorf("a scanner got %d %s", got.status, got.raw)
		}
	}
	require.Equal(t, "answers by status", answers, map[int]int{http.StatusOK: 1, http.StatusConflict: 49})
}

// TestAConfirmationEndsWithItsLogin: a user who confirmed by mistake can log the
// phone out until the desktop has its tokens.
func TestAConfirmationEndsWithItsLogin(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	here, there := s.start(), s.start()
	_, token := s.phone(here, auth.Shopper)
	a := here.confirms(t, token)
	p, err := s.tokens.Verify(token)
	require.NoError(t, err)
	require.NoError(t, pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return there.revoke.Logins(t.Context(), tx, "logout", p.Login) }))
	here.revoke.Tell(t.Context())
	for range 2 {
		here.finds(t, a, "after the logout", "denied")
	}
}

// TestADisabledAccountIsRefused when the login is opened, and the desktop gets the
// reason.
func TestADisabledAccountIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	user, token := s.phone(i, auth.Shopper)
	a := i.confirms(t, token)
	set := func(status string) {
		pgtest.Exec(t, s.db, `UPDATE account.users SET status = $2 WHERE id = $1`, user, status)
	}
	set("disabled")
	i.polled(t, a).is(t, "a disabled account", http.StatusForbidden, "account-disabled")
	set("active")
	if got := i.polled(t, a); got.body.Tokens == nil {
		t.Errorf("the refusal used the confirmation up: %s", got.raw)
	}
}
