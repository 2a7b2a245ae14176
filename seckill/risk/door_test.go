package risk

import (
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/identity/blacklist"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/rush"
)

// list is a fake blacklist.
type list map[string]bool

func (l list) Listed(user int64, _, device string, addr netip.Addr) (blacklist.Entry, bool) {
	if l[decimal(user)] || l[device] || l[addr.String()] {
		return blacklist.Entry{ID: 4, Kind: string(blacklist.Device), Reason: "secret"}, true
	}
	return blacklist.Entry{}, false
}

func TestListedUserGetsANeutralRefusal(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance(func(_ *Settings, d *Deps) { d.Blacklist = list{"1": true, "stolen": true, "192.0.2.1": true} })
	stop := i.work()
	for _, change := range []func(*rush.Applicant){
		func(a *rush.Applicant) { a.User = 1 },
		func(a *rush.Applicant) { a.Device = "stolen" },
		func(a *rush.Applicant) { a.Address = netip.MustParseAddr("192.0.2.1") },
	} {
		a := i.applicant(2, item)
		require.NoError(t, i.Door(t.Context(), a))
		change(a)
		err := i.Door(t.Context(), a)
		requireFault(t, "listed", err, "not-available")
		require.Equal(t, "words", fault.From(err).Detail[0], "This item is not available to you right now.")
	}
	stop()
	require.Equal(t, "decisions", y.count(`SELECT count(*) FROM risk.decisions WHERE rule_id = 0 AND result = 'refused' AND rule->>'blacklist' = '4'`), 3)
	require.Equal(t, "reasons kept", y.count(`SELECT count(*) FROM risk.decisions WHERE rule::text LIKE '%secret%'`), 0)
}

func TestHundredParallelClaimsGiveOneActivity(t *testing.T) {
	t.Parallel()
	y := setup(t)
	var items []*catalogue.Item
	for range 10 {
		items = append(items, y.activity("one of ten", true))
	}
	instances := []*instance{y.instance(), y.instance()}
	const user = 42
	var taken sync.Map
	var in, out atomic.Int64
	var all sync.WaitGroup
	for n := range 100 {
		all.Go(func() {
			i, item := instances[n%2], items[n%10]
			switch _, err := i.asks(user, item); {
			case err == nil:
				taken.Store(item.ActivityID, true)
				in.Add(1)
			case fault.From(err).Code == "one-activity":
				out.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	activities := 0
	taken.Range(func(any, any) bool { activities++; return true })
	if activities != 1 || in.Load() != 10 || out.Load() != 90 {
		t.Fatalf("%d activities, %d paths, %d refusals; want 1, 10 and 90", activities, in.Load(), out.Load())
	}
	require.Equal(t, "claims", y.count(`SELECT count(*) FROM risk.claims`), 1)
	require.Equal(t, "paths", y.count(`SELECT paths FROM risk.claims`), 10)
}

func TestRefusalNamesTheActivity(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a, b := y.activity("双十一跑鞋", true), y.activity("another", true)
	i := y.instance()
	shopper{i, 1, a}.path()
	_, err := i.asks(1, b)
	requireFault(t, "another activity", err, "one-activity")
	f := fault.From(err)
	if f.Kind != fault.Conflict || !strings.Contains(f.Detail[0], "双十一跑鞋") || f.Fields["activity_id"] != decimal(a.ActivityID) {
		t.Fatalf("%+v", f)
	}
	shopper{i, 2, b}.path()
}

func TestOtherActivitiesCostNoQuery(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("open to all", false)
	i := y.instance()
	y.db.Close() // any query would fail
	shopper{i, 1, item}.path()
	require.NoError(t, i.Door(t.Context(), i.applicant(1, item)))
}

// shopper is a user who takes part in an activity.
type shopper struct {
	*instance
	user int64
	item *catalogue.Item
}

func (s shopper) path() ids.ID {
	s.t.Helper()
	no, err := s.asks(s.user, s.item)
	require.NoError(s.t, err)
	return no
}

// becomes delivers a status of an order; versions count the order's changes.
func (s shopper) becomes(no ids.ID, status string, version int32) {
	s.t.Helper()
	subject := map[string]string{
		orderevent.StatusPending: orderevent.SubjectCreated, orderevent.StatusPaid: orderevent.SubjectPaid,
		orderevent.StatusRefused: orderevent.SubjectRefused, orderevent.StatusClosed: orderevent.SubjectClosed,
	}[status]
	s.tell(subject, order(s.user, s.item, no, status, version))
}

// waits advances the clock past the time in which a path may become an order.
func (s shopper) waits() {
	s.exec(`UPDATE risk.claims SET until = clock_timestamp() - interval '1 s' WHERE user_id = $1`, s.user)
}

// When a claim is released, and when it is not.
func TestClaimBindsWhileSomethingMayBeBought(t *testing.T) {
	t.Parallel()
	y := setup(t)
	b := y.activity("the other", true)
	cases := []struct {
		name    string
		happens func(s shopper)
		free    bool
	}{
		{"path at large", func(s shopper) { s.path() }, false},
		{"path over", func(s shopper) { s.path(); s.waits() }, true},
		{"live order", func(s shopper) {
			no := s.path()
			s.becomes(no, orderevent.StatusPending, 1)
			s.becomes(no, orderevent.StatusPaid, 2)
			s.waits()
		}, false},
		{"refused", func(s shopper) { s.becomes(s.path(), orderevent.StatusRefused, 1) }, true},
		{"closed unpaid", func(s shopper) {
			no := s.path()
			s.becomes(no, orderevent.StatusPending, 1)
			s.becomes(no, orderevent.StatusClosed, 2)
		}, true},
		{"paid late from the backup", func(s shopper) {
			no := s.path()
			s.becomes(no, orderevent.StatusPending, 1)
			s.becomes(no, orderevent.StatusClosed, 2)
			o := order(s.user, s.item, no, orderevent.StatusPaid, 3)
			o.Reason = orderevent.ReasonBackup
			s.tell(orderevent.SubjectPaid, o)
		}, false},
		{"events out of order", func(s shopper) {
			no := s.path()
			s.becomes(no, orderevent.StatusClosed, 2)
			s.becomes(no, orderevent.StatusPending, 1)
		}, true},
		{"events out of order, another request, and the path over", func(s shopper) {
			no := s.path()
			s.becomes(no, orderevent.StatusClosed, 2)
			s.becomes(no, orderevent.StatusPending, 1)
			s.path()
			s.waits()
		}, true},
		{"refused with another path at large", func(s shopper) {
			s.path()
			s.becomes(s.path(), orderevent.StatusRefused, 1)
		}, false},
		{"refused a second one beside a live order", func(s shopper) {
			s.becomes(s.path(), orderevent.StatusPending, 1)
			s.becomes(s.path(), orderevent.StatusRefused, 1)
			s.waits()
		}, false},
		{"bought, and the activity long over", func(s shopper) {
			s.becomes(s.path(), orderevent.StatusPaid, 2)
			s.exec(`UPDATE risk.claims SET ends_at = clock_timestamp() - interval '1 s' WHERE user_id = $1`, s.user)
		}, true},
		{"bought, and the activity terminated", func(s shopper) {
			s.becomes(s.path(), orderevent.StatusPaid, 2)
			s.exec(`UPDATE seckill.activities SET status = 'terminated' WHERE id = $1`, s.item.ActivityID)
		}, true},
	}
	for range cases {
		y.activity("the user's", true)
	}
	i := y.instance()
	has := func(user int64) int64 {
		return int64(y.count(`SELECT activity_id FROM risk.claims WHERE user_id = $1`, user))
	}
	for n, c := range cases {
		s := shopper{i, int64(n) + 1, y.sale[n+1]}
		c.happens(s)
		// Tidying up does not change any result.
		require.NoError(t, i.tidy(t.Context()))
		_, err := i.asks(s.user, b)
		want, code := s.item.ActivityID, "one-activity"
		if c.free {
			want, code = b.ActivityID, ""
		}
		requireFault(t, c.name, err, code)
		require.Equal(t, c.name+": the claim's activity", has(s.user), want)
	}
}

// A claim lasts as long as its path plus a minute, counted from when the path
// can be used, and at most until an hour after the activity.
func TestClaimLastsBeyondItsPath(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("soon", true)
	i := y.instance()
	shopper{i, 1, item}.path()
	// The next path can be used for longer, and prolongs the claim.
	a := i.applicant(1, item)
	a.UsableFrom = a.Now.Add(90 * time.Second)
	require.NoError(t, i.Participate(t.Context(), a))
	shopper{i, 1, item}.path() // a path that ends earlier does not shorten it
	var until, ends time.Time
	require.NoError(t, y.db.QueryRow(t.Context(), `SELECT until, ends_at FROM risk.claims`).Scan(&until, &ends))
	near := func(what string, got, want time.Time) {
		if d := got.Sub(want).Abs(); d > 5*time.Second {
			t.Errorf("%s %s, want %s", what, got, want)
		}
	}
	near("the path's claim ends", until, a.UsableFrom.Add(120*time.Second+time.Minute))
	near("the activity's claim ends", ends, item.ClosesAt.Add(time.Hour))
}

func TestTidyRemovesEndedRows(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.activity("first", true)
	i := y.instance()
	for user := range int64(3) {
		no, err := i.asks(user+1, a)
		require.NoError(t, err)
		if user == 2 {
			i.tell(orderevent.SubjectCreated, order(3, a, no, orderevent.StatusPending, 1))
		}
	}
	y.exec(`UPDATE risk.claims SET until = clock_timestamp() - interval '1 s' WHERE user_id > 1`)
	i.unpaid(1, a, 2)
	y.exec(`UPDATE risk.holds SET noted_at = noted_at - interval '91 days' WHERE order_no = (SELECT min(order_no::text)::uuid FROM risk.holds)`)
	i.work()
	pgtest.Eventually(t, 30*time.Second, func() bool {
		return y.count(`SELECT count(*) FROM risk.holds`) == 1 && y.count(`SELECT count(*) FROM risk.claims`) == 2
	}, "what has ended is removed")
	require.Equal(t, "who keeps a claim", y.count(`SELECT sum(user_id) FROM risk.claims`), 1+3)
}
