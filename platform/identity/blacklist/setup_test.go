package blacklist

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/platform/base/config"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/identity/account"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/bustest"
	"stampede/platform/workshop/httpxtest"
	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

type testClock struct{ offset atomic.Int64 }

func (c *testClock) Now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())).UTC() }
func (c *testClock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// bundle is one database with several instances of the list.
type bundle struct {
	t   testing.TB
	db  *pgxpool.Pool
	bus *bus.Bus
}

func setup(t testing.TB) *bundle {
	t.Helper()
	return &bundle{t: t, db: pgtest.DB(t), bus: bustest.Open(t)}
}

type instance struct {
	*Service
	t     testing.TB
	clock *testClock
	rt    *httpx.Router
}

// register makes an account with the phone +8613800138000.
func (s *bundle) register(user int64) {
	s.t.Helper()
	pgtest.Exec(s.t, s.db, `INSERT INTO account.users (id, phone) OVERRIDING SYSTEM VALUE VALUES ($1, '+8613800138000')`, user)
}

func (s *bundle) instance(change ...func(*Settings)) *instance {
	s.t.Helper()
	cfg := config.Defaults[Settings]()
	for _, f := range change {
		f(&cfg)
	}
	i := &instance{t: s.t, clock: new(testClock)}
	deps := Deps{
		DB: s.db, Bus: s.bus, Clock: i.clock, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Accounts: &account.Store{DB: s.db}, Keep: keepEndedMost,
	}
	i.Service = New(cfg, deps)
	i.rt = httpx.NewRouter(testTokens, deps.Log, "test", prometheus.NewRegistry())
	i.Routes(i.rt)
	return i
}

var testTokens = auth.NewTokens([]byte("0123456789abcdef0123456789abcdef"), time.Now)

func (i *instance) call(role auth.Role, method, path, body string) (int, map[string]any) {
	i.t.Helper()
	return httpxtest.As(i.t, i.rt, testTokens, role, method, "/api/v1/admin/blacklist"+path, body)
}

// add adds an entry and returns its id.
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
