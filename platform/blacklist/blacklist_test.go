package blacklist

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/app"
	"stampede/platform/audit"
	"stampede/platform/auth"
	"stampede/platform/bus"
	"stampede/platform/bus/bustest"
	"stampede/platform/fault"
	"stampede/platform/httpx"
	"stampede/platform/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

// inForce is three times what is promised: a change is in force everywhere
// within a second.
const inForce = 3 * time.Second

type testClock struct{ offset atomic.Int64 }

func (c *testClock) Now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())).UTC() }
func (c *testClock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// phones stands for the accounts: E.164 → user.
type phones map[string]int64

func (p phones) Owner(_ context.Context, raw string) (string, int64, error) {
	phone := "+86" + strings.TrimPrefix(strings.ReplaceAll(raw, " ", ""), "+86")
	if len(phone) != len("+8613800138000") {
		return "", 0, fault.New(fault.Invalid, "invalid", "That is no phone.")
	}
	return phone, p[phone], nil
}

// shop is one database with any number of instances of the list.
type shop struct {
	t   testing.TB
	db  *pgxpool.Pool
	bus *bus.Bus
}

func newShop(t testing.TB) *shop {
	t.Helper()
	return &shop{t: t, db: pgtest.DB(t), bus: bustest.Open(t)}
}

type instance struct {
	*Service
	t     testing.TB
	clock *testClock
	rt    *httpx.Router
}

func (s *shop) instance(known phones, change ...func(*Config)) *instance {
	s.t.Helper()
	cfg := DefaultConfig()
	for _, f := range change {
		f(&cfg)
	}
	i := &instance{t: s.t, clock: new(testClock)}
	deps := Deps{DB: s.db, Bus: s.bus, Clock: i.clock, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()}
	if known != nil {
		deps.Phones = known
	}
	var err error
	if i.Service, err = New(cfg, deps); err != nil {
		s.t.Fatal(err)
	}
	i.rt = httpx.NewRouter(testTokens, deps.Log, "test", prometheus.NewRegistry())
	i.Routes(i.rt)
	return i
}

// work runs the instance's workers until the test ends.
func (i *instance) work() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	for _, w := range i.Workers() {
		go func(w app.Worker) { done <- w.Run(ctx) }(w)
	}
	i.t.Cleanup(func() {
		cancel()
		for range i.Workers() {
			if err := <-done; err != nil {
				i.t.Error(err)
			}
		}
	})
}

var testTokens = auth.NewTokens([]byte("0123456789abcdef0123456789abcdef"), time.Now)

func (i *instance) call(role auth.Role, method, path, body string) (int, map[string]any) {
	i.t.Helper()
	req := httptest.NewRequestWithContext(i.t.Context(), method, "/api/v1/admin/blacklist"+path, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := testTokens.Mint(auth.Principal{UserID: 7, Role: role}, time.Minute)
	if err != nil {
		i.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	i.rt.ServeHTTP(rec, req)
	raw, err := io.ReadAll(rec.Body)
	if err != nil {
		i.t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		i.t.Fatalf("%s %s: %s", method, path, raw)
	}
	return rec.Code, doc
}

// add lists something and returns the entry's id.
func (i *instance) add(kind Kind, value string, more ...string) string {
	i.t.Helper()
	code, doc := i.call(auth.Operator, http.MethodPost, "",
		fmt.Sprintf(`{"kind":%q,"value":%q,"reason":"resells"%s}`, kind, value, strings.Join(more, "")))
	if code != http.StatusCreated {
		i.t.Fatalf("%d %v", code, doc)
	}
	return doc["id"].(string)
}

func (i *instance) listed(user int64, phone, device, addr string) bool {
	a, _ := netip.ParseAddr(addr)
	_, listed := i.Listed(user, phone, device, a)
	return listed
}

func TestListedByAnythingKnown(t *testing.T) {
	t.Parallel()
	i := newShop(t).instance(phones{"+8613800138000": 42})
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
		t.Error("who may not have an order is wrong")
	}
}

// What one instance changes is in force on another within a second, by broadcast
// and also without.
func TestChangesReachEveryInstance(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	one, two := s.instance(nil), s.instance(nil)
	two.work()
	id := one.add(User, "1")
	if !one.User(1) {
		t.Fatal("not in force where it was changed")
	}
	pgtest.Eventually(t, inForce, func() bool { return two.User(1) }, "an entry is in force elsewhere")
	if code, doc := one.call(auth.Operator, http.MethodDelete, "/"+id, ""); code != http.StatusOK {
		t.Fatalf("%d %v", code, doc)
	}
	pgtest.Eventually(t, inForce, func() bool { return !two.User(1) }, "a removal is in force elsewhere")
	for _, sql := range []string{
		`INSERT INTO platform.blacklist (kind, value, reason, created_by) VALUES ('user', '2', 'x', 1)`,
		`UPDATE platform.blacklist_revision SET revision = revision + 1`,
	} {
		if _, err := s.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Eventually(t, inForce, func() bool { return two.User(2) }, "a change that was not broadcast is found")
}

func TestEntriesExpire(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	i := s.instance(phones{"+8613800138000": 1})
	in := func(d time.Duration) string {
		return fmt.Sprintf(`,"expires_at":%q`, time.Now().Add(d).UTC().Format(time.RFC3339))
	}
	i.add(User, "1", in(time.Hour))
	i.add(Address, "192.0.2.0/24", in(time.Hour))
	i.add(User, "2", in(time.Hour))
	i.add(User, "2", in(3*time.Hour)) // the same again replaces the end
	i.add(Device, "d")
	i.clock.advance(59 * time.Minute)
	if !i.User(1) || !i.listed(0, "", "", "192.0.2.1") {
		t.Fatal("over too early")
	}
	i.clock.advance(2 * time.Minute)
	if i.User(1) || i.listed(0, "", "", "192.0.2.1") || i.listed(1, "", "", "") {
		t.Fatal("not over at its end")
	}
	if !i.User(2) || !i.listed(0, "", "d", "") {
		t.Fatal("over too early")
	}
	// A user who is listed twice stays so until the later end.
	i.add(Phone, "13800138000")
	if !i.User(1) {
		t.Fatal("the phone's entry does not count for its user")
	}
	_, doc := i.call(auth.Viewer, http.MethodGet, "?kind=user&value=1", "")
	if e := doc["data"].([]any)[0].(map[string]any); e["in_force"] != false {
		t.Fatalf("%v", e)
	}
	// Long after its end it is forgotten.
	if _, err := s.db.Exec(t.Context(), `UPDATE platform.blacklist SET expires_at = clock_timestamp() - interval '31 days' WHERE value = '1'`); err != nil {
		t.Fatal(err)
	}
	if err := i.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, doc = i.call(auth.Viewer, http.MethodGet, "?kind=user", "")
	if n := len(doc["data"].([]any)); n != 1 {
		t.Fatalf("%d entries of users are left, want 1", n)
	}
}

// A phone that nobody had when it was listed counts for whoever registers it.
func TestAPhoneFindsItsUserLater(t *testing.T) {
	t.Parallel()
	known := phones{}
	i := newShop(t).instance(known)
	i.add(Phone, "13800138000")
	if i.User(42) {
		t.Fatal("listed before it was known whose phone that is")
	}
	known["+8613800138000"] = 42
	if err := i.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !i.User(42) {
		t.Fatal("not listed by his phone")
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	i := s.instance(phones{}, func(c *Config) { c.MaxEntries = 100 })
	without := s.instance(nil)
	first := i.add(Phone, "13800138000")
	const good = `{"kind":"user","value":"5","reason":"x"}`
	for _, c := range []struct {
		name               string
		role               auth.Role
		method, path, body string
		status             int
	}{
		{"shopper", auth.Shopper, http.MethodGet, "", "", 403},
		{"viewer adds", auth.Viewer, http.MethodPost, "", good, 403},
		{"viewer removes", auth.Viewer, http.MethodDelete, "/" + first, "", 403},
		{"no user", auth.Operator, http.MethodPost, "", `{"kind":"user","value":"-5","reason":"x"}`, 422},
		{"no address", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"example.com","reason":"x"}`, 422},
		{"half the world", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"0.0.0.0/1","reason":"x"}`, 422},
		{"half the world in disguise", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"::ffff:0.0.0.0/97","reason":"x"}`, 422},
		{"an interface's address", auth.Operator, http.MethodPost, "", `{"kind":"address","value":"fe80::1%eth0","reason":"x"}`, 422},
		{"no phone", auth.Operator, http.MethodPost, "", `{"kind":"phone","value":"911","reason":"x"}`, 422},
		{"no reason", auth.Operator, http.MethodPost, "", `{"kind":"user","value":"5","reason":" "}`, 422},
		{"a NUL", auth.Operator, http.MethodPost, "", `{"kind":"device","value":"a\u0000b","reason":"x"}`, 422},
		{"over already", auth.Operator, http.MethodPost, "", `{"kind":"user","value":"5","reason":"x","expires_at":"2020-01-01T00:00:00Z"}`, 422},
		{"value without kind", auth.Viewer, http.MethodGet, "?value=5", "", 422},
		{"a cursor of nobody", auth.Viewer, http.MethodGet, "?cursor=x", "", 422},
		{"no such entry", auth.Operator, http.MethodDelete, "/4711", "", 404},
		{"add", auth.Operator, http.MethodPost, "", good, 201},
	} {
		if code, doc := i.call(c.role, c.method, c.path, c.body); code != c.status {
			t.Errorf("%s: %d %v, want %d", c.name, code, doc, c.status)
		}
	}
	if code, _ := without.call(auth.Operator, http.MethodPost, "", `{"kind":"phone","value":"13800138000","reason":"x"}`); code != http.StatusUnprocessableEntity {
		t.Errorf("a phone without accounts: %d", code)
	}

	// Pages, newest first; a phone is shown in part, and found by its number.
	_, page := i.call(auth.Viewer, http.MethodGet, "?limit=1", "")
	if e := page["data"].([]any)[0].(map[string]any); e["value"] != "5" || e["created_by"] != "7" || e["in_force"] != true {
		t.Errorf("%v", e)
	}
	_, page = i.call(auth.Viewer, http.MethodGet, "?limit=1&cursor="+page["next_cursor"].(string), "")
	if e := page["data"].([]any)[0].(map[string]any); e["value"] != "138****8000" || page["next_cursor"] != "" {
		t.Errorf("%v", page)
	}
	_, page = i.call(auth.Viewer, http.MethodGet, "?kind=phone&value=13800138000&active=true", "")
	if n := len(page["data"].([]any)); n != 1 {
		t.Errorf("%d entries for the phone", n)
	}

	if code, _ := i.call(auth.Operator, http.MethodDelete, "/"+first, ""); code != http.StatusOK {
		t.Errorf("remove: %d", code)
	}
	entries, err := audit.List(t.Context(), s.db, audit.Filter{Subject: "blacklist " + first})
	if err != nil || len(entries) != 2 || entries[0].Action != "blacklist.remove" || entries[1].Action != "blacklist.add" {
		t.Fatalf("%v %v", entries, err)
	}
	if strings.Contains(string(entries[0].Detail)+string(entries[1].Detail), "13800138000") {
		t.Errorf("the audit log holds a phone: %s", entries[0].Detail)
	}

	// The list is bounded; replacing an entry needs no room.
	if _, err := s.db.Exec(t.Context(), `INSERT INTO platform.blacklist (kind, value, reason, created_by)
		SELECT 'user', n::text, 'x', 1 FROM generate_series(1000, 1098) n`); err != nil {
		t.Fatal(err)
	}
	if code, doc := i.call(auth.Operator, http.MethodPost, "", `{"kind":"user","value":"6","reason":"x"}`); code != http.StatusConflict || doc["code"] != "list-full" {
		t.Errorf("beyond the bound: %d %v", code, doc)
	}
	if code, _ := i.call(auth.Operator, http.MethodPost, "", good); code != http.StatusCreated {
		t.Errorf("the same again: %d", code)
	}
}

// The last list stays in force while Postgres is away.
func TestListOutlivesPostgres(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	i := s.instance(nil)
	i.add(User, "1")
	s.db.Close()
	if i.Refresh(t.Context()) == nil {
		t.Fatal("read from a closed pool")
	}
	if !i.User(1) {
		t.Fatal("forgotten")
	}
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
		// What is stored is its own spelling, so that one thing is listed once.
		again, err := canonical(Kind(kind), value)
		if diff := cmp.Diff(value, again); err != nil || diff != "" {
			t.Fatalf("%q becomes %q, then %q (%v)", raw, value, again, err)
		}
	})
}

// The order writer asks for every grant.
func BenchmarkUser(b *testing.B) {
	for _, n := range []int{0, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			entries := make([]Entry, n)
			for k := range entries {
				entries[k] = Entry{Kind: User, Value: fmt.Sprint(1_000_000 + k)}
			}
			s := &Service{deps: Deps{Clock: new(testClock)}}
			s.current.Store(newPicture(1, entries))
			user := int64(0)
			for b.Loop() {
				if user++; s.User(user % 1000) {
					b.Fatal("listed")
				}
			}
		})
	}
}
