package blacklist

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

func TestListedByAnythingKnown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.register(42)
	i := s.instance()
	i.add(User, "7")
	i.add(Phone, "138 0013 8000")
	i.add(Device, "stolen phone")
	i.add(Address, "192.0.2.7")
	i.add(Address, "198.51.100.0/24")
	i.add(Address, "2001:db8::1")
	i.add(Address, "::ffff:203.0.113.7")
	for _, c := range []struct {
		user                int64
		phone, device, addr string
		want                bool
	}{
		{7, "", "", "", true},
		{8, "", "", "", false},
		{42, "", "", "", true}, // by phone
		{0, "+8613800138000", "", "", true},
		{8, "+8613800138001", "", "", false},
		{8, "", "stolen phone", "", true},
		{8, "", "own phone", "", false},
		{8, "", "", "192.0.2.7", true},
		{8, "", "", "192.0.2.8", false},
		{8, "", "", "198.51.100.250", true},
		{8, "", "", "::ffff:198.51.100.250", true},
		{8, "", "", "203.0.113.7", true},
		{8, "", "", "2001:db8::ffff:1", true}, // the same /64
		{8, "", "", "2001:db8:0:1::1", false}, // another
		{0, "", "", "", false},
	} {
		if got := i.listed(c.user, c.phone, c.device, c.addr); got != c.want {
			t.Errorf("%+v is listed: %v", c, got)
		}
	}
	if !i.User(7) || !i.User(42) || i.User(8) || i.User(0) {
		t.Error("User disagrees with Listed")
	}
}

func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.register(1)
	i := s.instance()
	in := func(d time.Duration) string {
		return fmt.Sprintf(`,"expires_at":%q`, time.Now().Add(d).UTC().Format(time.RFC3339))
	}
	i.add(User, "1", in(time.Hour))
	i.add(Address, "192.0.2.0/24", in(time.Hour))
	i.add(User, "2", in(time.Hour))
	i.add(User, "2", in(3*time.Hour)) // adding it again replaces the end
	i.add(Device, "d")
	i.clock.advance(59 * time.Minute)
	if !i.User(1) || !i.listed(0, "", "", "192.0.2.1") {
		t.Fatal("ended too early")
	}
	i.clock.advance(2 * time.Minute)
	if i.User(1) || i.listed(0, "", "", "192.0.2.1") || i.listed(1, "", "", "") {
		t.Fatal("still in force after its end")
	}
	if !i.User(2) || !i.listed(0, "", "d", "") {
		t.Fatal("ended too early")
	}
	// A user who is listed twice is listed until the later end.
	i.add(Phone, "13800138000")
	require.Equal(t, "the phone's entry applies to its user", i.User(1), true)
	_, doc := i.call(auth.Viewer, http.MethodGet, "?kind=user&value=1", "")
	require.Equal(t, "in_force of the entry that has ended", doc["data"].([]any)[0].(map[string]any)["in_force"], any(false))
	// An ended entry is deleted after its retention.
	pgtest.Exec(t, s.db, `UPDATE platform.blacklist SET expires_at = clock_timestamp() - interval '31 days' WHERE value = '1'`)
	require.NoError(t, i.tidy(t.Context()))
	_, doc = i.call(auth.Viewer, http.MethodGet, "?kind=user", "")
	require.Equal(t, "entries of users that are left", len(doc["data"].([]any)), 1)
}

// An entry for an unregistered phone applies to the user who registers it later.
func TestPhoneEntryAppliesToLaterUser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.instance()
	i.add(Phone, "13800138000")
	require.Equal(t, "listed before the phone has a user", i.User(42), false)
	s.register(42)
	require.NoError(t, i.tidy(t.Context()))
	require.Equal(t, "listed by phone", i.User(42), true)
}

// The last list stays in force while Postgres is down.
func TestListOutlivesPostgres(t *testing.T) {
	t.Parallel()
	s := setup(t)
	i := s.instance()
	i.add(User, "1")
	cfg := s.db.Config().ConnConfig.Copy()
	name := cfg.Database
	cfg.Database = "postgres"
	beside, err := pgx.ConnectConfig(t.Context(), cfg)
	if err == nil {
		_, err = beside.Exec(t.Context(), "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
		err = errors.Join(err, beside.Close(t.Context()))
	}
	require.NoError(t, err)
	s.db.Reset()
	if i.Refresh(t.Context()) == nil {
		t.Fatal("Refresh succeeded without Postgres")
	}
	require.Equal(t, "listed without Postgres", i.User(1), true)
	code, doc := i.call(auth.Operator, http.MethodPost, "", `{"kind":"user","value":"5","reason":"x"}`)
	if code != http.StatusServiceUnavailable || doc["code"] != "unavailable" {
		t.Fatalf("%d %v", code, doc)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"192.0.2.1", "192.0.2.0/24", "2001:db8::1", "2001:db8::/32", "::ffff:192.0.2.1/120", "42", "", "\x00"} {
		f.Add("address", s)
		f.Add("user", s)
		f.Add("device", s)
	}
	f.Fuzz(func(t *testing.T, kind, raw string) {
		value, err := canonical(Kind(kind), raw)
		if err != nil {
			return
		}
		// The stored value is canonical, so that one thing is listed once.
		again, err := canonical(Kind(kind), value)
		if diff := cmp.Diff(value, again); err != nil || diff != "" {
			t.Fatalf("%q becomes %q, then %q (%v)", raw, value, again, err)
		}
	})
}
