package qrlogin

import (
	"net/http"
	"strings"
	"testing"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestGuessesAreLimited per code and address, without locking out the holder of
// another code.
func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) { c.Guesses.Count = 3 })
	i := s.start()
	a, other := i.asks(t), i.asks(t)
	guess := a
	guess.body.PollSecret = "guessed"
	for n := range 3 {
		i.polled(t, guess).is(t, "guess "+string(rune('1'+n)), http.StatusNotFound, "not-found")
	}
	i.polled(t, guess).is(t, "one guess too many", http.StatusTooManyRequests, "rate-limited")
	i.polled(t, a).is(t, "the right secret after that", http.StatusTooManyRequests, "rate-limited")
	i.polled(t, other).is(t, "another code from that address", http.StatusOK, "")
	if _, err := i.poll(t.Context(), &pollInput{ID: a.body.QRID, Secret: a.body.PollSecret}); err != nil { // without an address
		t.Errorf("the holder at another address: %v", err)
	}
}

func TestAskingIsLimitedPerAddress(t *testing.T) {
	t.Parallel()
	s := setup(t, func(c *Config) {
		c.PerAddress.Count, c.PicturesPerAddress.Count, c.PerUser.Count, c.Polls.Count = 2, 1, 1, 1
	})
	i := s.start()
	a := i.asks(t)
	i.asks(t)
	i.call(t, http.MethodPost, "", aDesktop).is(t, "a third code", http.StatusTooManyRequests, "rate-limited")
	image := "/" + a.body.QRID + "/image.png"
	i.call(t, http.MethodGet, image, "").is(t, "the first picture", http.StatusOK, "")
	i.call(t, http.MethodGet, image, "").is(t, "the second picture", http.StatusTooManyRequests, "rate-limited")
	i.polled(t, a).is(t, "the first poll", http.StatusOK, "")
	i.polled(t, a).is(t, "the second poll", http.StatusTooManyRequests, "rate-limited")
	_, phone := s.phone(i, auth.Shopper)
	i.scans(t, a, phone).is(t, "the first scan", http.StatusOK, "")
	i.scans(t, a, phone).is(t, "a second scan of one user", http.StatusTooManyRequests, "rate-limited")
}

// TestSecretsAreNotStored: a reader of the table can neither poll nor confirm.
func TestSecretsAreNotStored(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	_, phone := s.phone(i, auth.Shopper)
	a := i.asks(t)
	scan := i.scans(t, a, phone)
	row := one[string](s, `SELECT q::text || encode(poll_hash, 'escape') || encode(scan_hash, 'escape') FROM auth.qr_logins q`)
	for _, secret := range []string{a.body.PollSecret, scan.body.ScanToken} {
		if len(secret) < 43 || strings.Contains(row, secret) {
			t.Errorf("%q is in %s", secret, row)
		}
	}
}

func TestOldRowsGo(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	a := i.asks(t)
	i.asks(t)
	pgtest.Exec(t, s.db, `UPDATE auth.qr_logins SET expires_at = clock_timestamp() - interval '61 minutes' WHERE id = $1::uuid`, a.body.QRID)
	require.NoError(t, i.forget(t.Context()))
	i.polled(t, a).is(t, "an old code", http.StatusNotFound, "not-found")
	require.Equal(t, "rows that are left", one[int](s, `SELECT count(*) FROM auth.qr_logins`), 1)
}
