package qrlogin

import (
	"net/http"
	"net/netip"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/identity/account"
	"stampede/platform/identity/account/login"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestAttackStolenAccessToken: an access token that was copied, valid for a quarter of
// an hour, does not become a login of weeks on the thief's device.
func TestAttackStolenAccessToken(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	_, stolen := s.phone(i, auth.Shopper)
	_, own := s.phone(i, auth.Shopper) // the thief's account
	for name, token := range map[string]string{"no": "", "a made-up": "rt_x", "the thief's own": i.refreshOf(own), "the access": stolen} {
		a := i.asks(t)
		scan := i.scans(t, a, stolen)
		i.confirmsWith(t, a, stolen, scan.body.ScanToken, token, i.polled(t, a).body.Number).
			is(t, "confirm with "+name+" token", http.StatusForbidden, "proof-required")
		i.finds(t, a, "with "+name+" token", "scanned")
	}
}

// TestAttackForwardedCode: a user who is sent the picture of another's device does not
// see its number, and has one guess.
func TestAttackForwardedCode(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	_, token := s.phone(i, auth.Shopper)
	a := i.asks(t)
	if a.body.Number != 0 || i.polled(t, a).body.Number != 0 {
		t.Error("the number is shown before the scan")
	}
	scan := i.scans(t, a, token)
	require.Equal(t, "the number in the answer to the scan", scan.body.Number, 0)
	guess := 10 + (i.shows(t, a)-10+1)%90
	i.confirmsWith(t, a, token, scan.body.ScanToken, i.refreshOf(token), guess).
		is(t, "a wrong number", http.StatusConflict, "qr-wrong-number")
	i.finds(t, a, "after a wrong number", "denied")
	i.decides(t, a, "confirm", token, scan.body.ScanToken).is(t, "the right number afterwards", http.StatusConflict, "qr-decided")
}

// TestAttackLoginOutlivesItsSurplusConfirmer: a login that is pushed out by newer ones
// leaves no login behind that it let in. One that let in a login in use stays.
func TestAttackLoginOutlivesItsSurplusConfirmer(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	user, token := s.phone(i, auth.Shopper)
	who, err := s.tokens.Verify(token)
	require.NoError(t, err)
	open := func(confirmer int64) int64 {
		t.Helper()
		var id int64
		err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error {
			tokens, err := i.acc.OpenConfirmed(t.Context(), tx, user, confirmer, login.Device{Kind: "web"}, "qr")
			if err != nil {
				return err
			}
			who, err := s.tokens.Verify(tokens.AccessToken)
			id = who.Login
			return err
		})
		require.NoError(t, err)
		return id
	}
	phone := who.Login
	desktop := open(phone)
	tv := open(desktop)
	for range 17 {
		open(0)
	}
	for hours, login := range map[int]int64{3: phone, 2: desktop, 1: tv} {
		pgtest.Exec(t, s.db, `UPDATE account.logins SET last_used_at = now() - make_interval(hours => $2) WHERE id = $1`, login, hours)
	}
	last := open(phone)
	for _, want := range [][]int64{{tv}, {desktop, tv}} {
		rows, _ := s.db.Query(t.Context(), `SELECT id FROM account.logins WHERE ended_at IS NOT NULL ORDER BY id`)
		got, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("phone %d, desktop %d, tv %d: ended %v, want %v, %v", phone, desktop, tv, got, want, err)
		}
		open(0)
	}

	// Twenty logins in one line leave no room for another.
	for range 20 {
		err = pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error {
			tokens, err := i.acc.OpenConfirmed(t.Context(), tx, user, last, login.Device{Kind: "web"}, "qr")
			if err == nil {
				who, err = s.tokens.Verify(tokens.AccessToken)
				last = who.Login
			}
			return err
		})
		if err != nil {
			break
		}
	}
	require.ErrorIs(t, err, login.ErrConfirmerEnded) // the 21st login of a line
}

// TestAttackLoginOutlivesItsConfirmer: what a login let in ends with it, at any depth.
// The confirmer has shown the second factor.
func TestAttackLoginOutlivesItsConfirmer(t *testing.T) {
	t.Parallel()
	s := setup(t, nil)
	i := s.start()
	user, token := s.phone(i, auth.Shopper)
	phone, err := s.tokens.Verify(token)
	require.NoError(t, err)
	pgtest.Exec(t, s.db, `INSERT INTO account.totp (user_id, secret, confirmed_at) VALUES ($1, sha256('x'), now())`, user)
	letIn := func(confirmer string) *login.Tokens {
		t.Helper()
		a := i.confirms(t, confirmer)
		got := i.polled(t, a)
		if got.body.Tokens == nil {
			t.Fatalf("not let in: %s", got.raw)
		}
		s.held.Store(got.body.Tokens.AccessToken, got.body.Tokens.RefreshToken)
		return got.body.Tokens
	}
	desktop := letIn(token)
	tv := letIn(desktop.AccessToken)
	unclaimed := i.confirms(t, tv.AccessToken)
	err = i.deps.Store.InTx(t.Context(), "log out", func(tx pgx.Tx) error {
		return i.deps.Store.EndLogin(t.Context(), tx, user, phone.Login, account.EndedByLogout)
	})
	require.NoError(t, err)
	for name, tokens := range map[string]*login.Tokens{"desktop": desktop, "tv": tv} {
		p, err := s.tokens.Verify(tokens.AccessToken)
		require.NoError(t, err)
		if ended, err := i.revoke.Revoked(t.Context(), p); err != nil || !ended {
			t.Errorf("the %s's access token is valid, %v", name, err)
		}
		if _, err := i.acc.Refresh(t.Context(), tokens.RefreshToken, "desk-1", netip.Addr{}); err == nil {
			t.Errorf("the %s's login is renewed", name)
		}
	}
	err = pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { // as a poll would that missed the revocation
		_, err := i.acc.OpenConfirmed(t.Context(), tx, user, phone.Login, login.Device{Kind: "web"}, "qr")
		return err
	})
	require.ErrorIs(t, err, login.ErrConfirmerEnded)
	i.finds(t, unclaimed, "a confirmation by the tv", "denied")
}
