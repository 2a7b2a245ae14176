package qrlogin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// expire expires a code.
func (s bundle) expire(t testing.TB, a answer) {
	t.Helper()
	tag, err := s.db.Exec(t.Context(), `UPDATE auth.qr_logins SET expires_at = clock_timestamp() WHERE id = $1::uuid`, a.body.QRID)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.PerUser.Count, c.Guesses.Count = 1000, 1000 })
	i := s.start()
	_, phone := s.phone(i, auth.Shopper)
	_, foreign := s.phone(i, auth.Admin)
	p, err := s.tokens.Verify(phone)
	require.NoError(t, err)
	mintAs := func(user, login int64) string {
		return httpxtest.Token(t, s.tokens, auth.Principal{UserID: user, Role: auth.Shopper, Login: login})
	}
	mint := func(login int64) string { return mintAs(p.UserID, login) }
	unknown := answer{}
	unknown.body.QRID, unknown.body.PollSecret = newID().String(), "x"
	garbage := answer{}
	garbage.body.QRID, garbage.body.PollSecret = "1", "x"
	const wrong = "an-unknown-token"

	none := func() (answer, string) { return answer{}, "" }
	unknownOne := func() (answer, string) { return unknown, "" }
	fresh := func() (answer, string) { return i.asks(t), "" }
	scannedOne := func() (answer, string) {
		a := i.asks(t)
		return a, i.scans(t, a, phone).body.ScanToken
	}
	confirmedOne := func() (answer, string) {
		a, token := scannedOne()
		i.decides(t, a, "confirm", phone, token).is(t, "confirm", http.StatusNoContent, "")
		return a, token
	}
	// What is done to the code that was made, with the token of its scan.
	type act = func(a answer, scanToken string) answer
	const own = "the scan's" // token
	get := func(rest string) act {
		return func(a answer, _ string) answer { return i.call(t, http.MethodGet, "/"+a.body.QRID+rest, "") }
	}
	poll := func(secret string) act {
		return func(a answer, scanToken string) answer {
			if a.body.PollSecret = secret; secret == own {
				a.body.PollSecret = scanToken
			}
			return i.polled(t, a)
		}
	}
	scan := func(token string) act { return func(a answer, _ string) answer { return i.scans(t, a, token) } }
	decide := func(decision, token, with string) act {
		return func(a answer, scanToken string) answer {
			return i.decides(t, a, decision, token, map[bool]string{true: scanToken, false: with}[with == own])
		}
	}
	ask := func(device string) act {
		return func(answer, string) answer { return i.call(t, http.MethodPost, "", `{"device":`+device+`}`) }
	}
	_, others := scannedOne()
	for name, c := range map[string]struct {
		made   func() (answer, string)
		expire bool
		do     act
		status int
		code   string
	}{
		"a poll without the secret":             {fresh, false, get(""), 422, "invalid"},
		"a poll with the secret in the address": {fresh, false, func(a answer, _ string) answer { return get("?QR-Secret="+a.body.PollSecret)(a, "") }, 422, "invalid"},
		"a poll with a wrong secret":            {confirmedOne, false, poll(wrong), 404, "not-found"},
		"a poll with another code's secret":     {confirmedOne, false, poll(i.asks(t).body.PollSecret), 404, "not-found"},
		"a poll with the scan token":            {confirmedOne, false, poll(own), 404, "not-found"},
		"a poll of an unknown id":               {unknownOne, false, poll("x"), 404, "not-found"},
		"a poll of no id":                       {func() (answer, string) { return garbage, "" }, false, poll("x"), 404, "not-found"},

		"a scan without a valid token": {fresh, false, scan("x"), 401, "bad-token"},
		"a scan by a minted token":     {fresh, false, scan(mint(0)), 403, "forbidden"},
		"a scan of an unknown id":      {unknownOne, false, scan(phone), 404, "not-found"},
		"a second scanner":             {scannedOne, false, scan(foreign), 409, "qr-taken"},
		"a second scan":                {scannedOne, false, scan(phone), 409, "qr-taken"},
		"a scan too late":              {fresh, true, scan(phone), 410, "qr-expired"},

		"a confirmation without a scan":                           {fresh, false, decide("confirm", phone, wrong), 409, "qr-not-scanned"},
		"a confirmation without a token":                          {scannedOne, false, decide("confirm", phone, ""), 422, "invalid"},
		"a confirmation with a wrong token":                       {scannedOne, false, decide("confirm", phone, wrong), 409, "qr-not-scanned"},
		"a confirmation with another scan's token":                {scannedOne, false, decide("confirm", phone, others), 409, "qr-not-scanned"},
		"a confirmation by another user":                          {scannedOne, false, decide("confirm", foreign, own), 404, "not-found"},
		"a confirmation by another user under the login's number": {scannedOne, false, decide("confirm", mintAs(p.UserID+1000, p.Login), own), 404, "not-found"},
		"a confirmation by another login":                         {scannedOne, false, decide("confirm", mint(p.Login+1000), own), 404, "not-found"},
		"a confirmation by a minted token":                        {scannedOne, false, decide("confirm", mint(0), own), 403, "forbidden"},
		"a confirmation by the desktop": {scannedOne, false, func(a answer, _ string) answer {
			return i.call(t, http.MethodPost, "/"+a.body.QRID+"/confirm", `{"scan_token":"`+a.body.PollSecret+`","number":10,"refresh_token":""}`)
		}, 401, "no-token"},
		"a second confirmation":                  {confirmedOne, false, decide("confirm", phone, own), 409, "qr-decided"},
		"a denial after the confirmation":        {confirmedOne, false, decide("deny", phone, own), 409, "qr-decided"},
		"a confirmation too late":                {scannedOne, true, decide("confirm", phone, own), 410, "qr-expired"},
		"a confirmation too late without a scan": {fresh, true, decide("confirm", phone, wrong), 410, "qr-expired"},
		"a confirmation of an unknown id":        {unknownOne, false, decide("confirm", phone, wrong), 404, "not-found"},
		"a denial by another user":               {scannedOne, false, decide("deny", foreign, own), 404, "not-found"},

		"a picture of an unknown id":   {unknownOne, false, get("/image.png"), 404, "not-found"},
		"a picture of an expired code": {fresh, true, get("/image.png"), 410, "qr-expired"},
		"a picture of a scanned code":  {scannedOne, false, get("/image.png"), 409, "qr-taken"},

		"a device of an unknown kind":          {none, false, ask(`{"kind":"fridge"}`), 422, "invalid"},
		"a device whose id reads backwards":    {none, false, ask(`{"kind":"web","id":"\u202Esdrawkcab"}`), 422, "invalid"},
		"a device with a control character":    {none, false, ask(`{"kind":"web","id":"a\u0001b"}`), 422, "invalid"},
		"a device whose id has too many bytes": {none, false, ask(`{"kind":"web","id":"` + strings.Repeat("界", 100) + `"}`), 422, "invalid"},
	} {
		a, scanToken := c.made()
		if c.expire {
			s.expire(t, a)
		}
		got := c.do(a, scanToken)
		got.is(t, name, c.status, c.code)
		if strings.Contains(string(got.raw), "refresh_token") {
			t.Errorf("%s: the answer contains tokens", name)
		}
	}
}

// TestExpiredCodeIsReported, whatever its state was, and gives no tokens.
func TestExpiredCodeIsReported(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	_, phone := s.phone(i, auth.Shopper)
	a := i.asks(t)
	s.expire(t, a)
	i.finds(t, a, "pending", "expired")
	a = i.confirms(t, phone)
	s.expire(t, a)
	i.finds(t, a, "confirmed", "expired")
}

// TestAConfirmationInTheLastMomentCounts: the desktop has half a minute to fetch its
// tokens, even if the code would have expired before.
func TestAConfirmationInTheLastMomentCounts(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	_, phone := s.phone(i, auth.Shopper)
	a := i.asks(t)
	scan := i.scans(t, a, phone)
	pgtest.Exec(t, s.db, `UPDATE auth.qr_logins SET expires_at = clock_timestamp() + interval '20 s'`)
	i.decides(t, a, "confirm", phone, scan.body.ScanToken).is(t, "confirm", http.StatusNoContent, "")
	kept := one[bool](s, `SELECT expires_at > clock_timestamp() + interval '21 s' FROM auth.qr_logins`)
	require.Equal(t, "the tokens wait longer than the code", kept, true)
	if got := i.polled(t, a); got.body.Tokens == nil {
		t.Errorf("the desktop got %s", got.raw)
	}
}

// TestExpiryDuringAChangeWins if it is committed first, over a confirmation and over
// a claim.
func TestExpiryDuringAChangeWins(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	_, phone := s.phone(i, auth.Shopper)
	// overtaken lets a code expire while a change waits for its row.
	overtaken := func(a answer, query string, change func() answer) answer {
		t.Helper()
		tx := pgtest.Begin(t, s.db)
		pgtest.Exec(t, tx, `UPDATE auth.qr_logins SET expires_at = clock_timestamp() WHERE id = $1::uuid`, a.body.QRID)
		done := make(chan answer, 1)
		go func() { done <- change() }()
		pgtest.Eventually(t, 30*time.Second, func() bool {
			return pgtest.Read[bool](t, s.db, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE wait_event_type = 'Lock' AND query LIKE '%name: ' || $1 || ' :%' AND datname = current_database())`, query)
		}, query+" waits for the row")
		require.NoError(t, tx.Commit(t.Context()))
		return <-done
	}
	a := i.asks(t)
	scan := i.scans(t, a, phone)
	got := overtaken(a, "Confirm", func() answer { return i.decides(t, a, "confirm", phone, scan.body.ScanToken) })
	got.is(t, "a confirmation that was overtaken", http.StatusGone, "qr-expired")

	a = i.confirms(t, phone)
	if got := overtaken(a, "Claim", func() answer { return i.polled(t, a) }); got.body.Status != "expired" || got.body.Tokens != nil {
		t.Errorf("a claim that was overtaken: %s", got.raw)
	}
}

// A device's kind in another case used to pass the schema's list of kinds, whatever
// its length. The table refuses it too.
func TestAttackOversizedDeviceIsNotStored(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	huge := strings.Repeat("x", 61<<10)
	for _, body := range []string{`{"device":{"Kind":"` + huge + `"}}`, `{"device":{"kind":"web","Kind":"` + huge + `"}}`} {
		i.call(t, http.MethodPost, "", body).is(t, "a kind in another case", http.StatusUnprocessableEntity, "invalid")
	}
	i.call(t, http.MethodPost, "", `{"device":{"kind":"web","kind":"ios"}}`).is(t, "two kinds", http.StatusBadRequest, "bad-request")
	_, err := s.db.Exec(t.Context(), `INSERT INTO auth.qr_logins (id, poll_hash, device_kind, device_id, device_name, expires_at)
		VALUES (gen_random_uuid(), sha256('x'), $1, '', '', now())`, huge)
	if !pg.ViolatesCheck(err, "qr_logins_device_kind_check") {
		t.Errorf("the table stores a kind of %d bytes: %v", len(huge), err)
	}
}
