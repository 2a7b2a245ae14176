package risk

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/bus"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/catalogue"
	"stampede/seckill/risk/internal/riskdb"
	"stampede/seckill/rush"
)

func withPause(set *Settings, _ *Deps) { set.UnpaidPause = time.Minute }

// A pause is per user and activity, grows with each unpaid closing, and is the
// same on every instance and after a restart.
func TestUnpaidClosingsPauseTheirUser(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item, other := y.activity("sale", false), y.activity("another sale", false)
	i := y.instance(withPause)
	for _, c := range []struct {
		user, closings int64
		pause          time.Duration
	}{{1, 1, time.Minute}, {2, 2, 4 * time.Minute}, {3, 3, 16 * time.Minute}, {4, 9, 24 * time.Hour}} {
		i.unpaid(c.user, item, int(c.closings))
		again := y.instance(withPause)
		a := again.applicant(c.user, item)
		err := again.Door(t.Context(), a)
		requireFault(t, "a path during the pause", err, "cooling-down")
		if wait := fault.From(err).RetryAfter; wait > c.pause || wait < c.pause-30*time.Second {
			t.Errorf("after %d closings the pause is %s, want %s", c.closings, wait, c.pause)
		}
		if wait := again.Paused(c.user, item.ActivityID, a.Now); wait == 0 {
			t.Error("a rush with a path issued before is not refused")
		}
		requireFault(t, "another activity", again.Door(t.Context(), again.applicant(c.user, other)), "")
	}
	requireFault(t, "another user", i.Door(t.Context(), i.applicant(9, item)), "")
}

func TestPausedAllocatesNothing(t *testing.T) {
	s := &Service{unpaid: unpaid{of: map[taking]closings{{1, 2}: {count: 1}}}}
	s.unpaid.some.Store(true)
	now := time.Now()
	require.Equal(t, "allocations for a rush", testing.AllocsPerRun(100, func() { s.Paused(1, 2, now); s.Paused(3, 2, now) }), 0)
}

func TestPauseEndsInAShorterWindow(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	y.instance(withPause).unpaid(1, item, 2)
	i := y.instance(withPause)
	after := func(pause time.Duration) *rush.Applicant {
		a := i.applicant(1, item)
		a.Now = a.Now.Add(pause)
		return a
	}
	requireFault(t, "just before the end", i.Door(t.Context(), after(3*time.Minute)), "cooling-down")
	a := after(5 * time.Minute)
	requireFault(t, "after it", i.Door(t.Context(), a), "")
	require.Equal(t, "time to pay", a.PayWithin, item.PayWindow/4)
	free := *item
	free.Unlimited = true
	a = i.applicant(1, &free)
	requireFault(t, "an item without a limited stock", i.Door(t.Context(), a), "")
	require.Equal(t, "time to pay", a.PayWithin, item.PayWindow)
}

// A running instance hears of a closing, and forgets one that was paid after all
// when it reads all of them again.
func TestPausesFollowTheOrders(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i, other := y.instance(withPause), y.instance(withPause)
	other.work()
	i.unpaid(1, item, 1)
	pgtest.Eventually(t, inForce, func() bool { return other.Paused(1, item.ActivityID, time.Now()) > 0 }, "the other instance to pause the user")
	o := order(1, item, [16]byte{}, orderevent.StatusPaid, 3)
	o.Reason = orderevent.ReasonBackup
	require.NoError(t, y.db.QueryRow(t.Context(), `SELECT order_no FROM risk.holds`).Scan(&o.No))
	i.tell(orderevent.SubjectPaid, o)
	i.refresh()
	requireFault(t, "paid after all", i.Door(t.Context(), i.applicant(1, item)), "")
}

// A new closing replaces an earlier one where the setting bounds them.
func TestNewClosingsPauseWhenTooManyAreKnown(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance(withPause, func(set *Settings, _ *Deps) { set.MaxOffenders = 1 })
	i.unpaid(1, item, 1)
	i.refresh()
	i.unpaid(2, item, 1)
	y.exec(`UPDATE risk.holds SET noted_at = noted_at - interval '1 hour' WHERE user_id = 1`)
	require.NoError(t, i.readUnpaid(t.Context(), time.Minute))
	if i.Paused(2, item.ActivityID, time.Now()) == 0 || len(i.Service.unpaid.of) != 1 {
		t.Errorf("pauses of %v", i.Service.unpaid.of)
	}
}

// What an instance reads each second does not grow with the closings of a day, nor what a rule with a short window counts
// with those of all days.
func TestUnpaidClosingsAreReadByTheirTime(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	y.exec(`INSERT INTO risk.holds (order_no, user_id, item_id, activity_id, reason, closed_at, noted_at)
		SELECT gen_random_uuid(), i, 1, 1, 'timeout', n.at, n.at
		FROM generate_series(1, 40000) i, LATERAL (SELECT now() - interval '1 minute' * (i % 2000 + 10) AS at) n`)
	y.instance().unpaid(50_000, item, 1)
	y.exec(`ANALYZE risk.holds`)
	tx := pgtest.Begin(t, y.db)
	q := riskdb.New(tx)
	for name, users := range map[string]func() int{
		"read within ten seconds": func() int {
			found, err := q.Unpaid(t.Context(), riskdb.UnpaidParams{Period: pausePeriod, Since: unpaidOverlap, AtMost: 100})
			require.NoError(t, err)
			return len(found)
		},
		"counted within a minute": func() int {
			found, err := q.UnpaidHits(t.Context(), riskdb.UnpaidHitsParams{Threshold: 1, WindowLength: time.Minute, AtMost: 100})
			require.NoError(t, err)
			return len(found)
		},
	} {
		before := pgtest.RowsRead(t, tx, "risk.holds")
		require.Equal(t, "users "+name, users(), 1)
		if rows := pgtest.RowsRead(t, tx, "risk.holds") - before; rows > 100 {
			t.Errorf("the user %s cost %d rows", name, rows)
		}
	}
}

// An instance without pauses reads no closings.
func TestWithoutPausesNoClosingIsRead(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	y.instance().unpaid(1, item, 1)
	i := y.instance()
	require.NoError(t, i.readUnpaid(t.Context(), pausePeriod))
	require.Equal(t, "closings in memory", len(i.Service.unpaid.of), 0)
}

// A rule in its dry run restricts no user and records whom it would have
// restricted. A new shop begins with such rules.
func TestDryRunOfARule(t *testing.T) {
	t.Parallel()
	var defaults, dry int
	if err := pgtest.DB(t).QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE kind = 'unpaid_holds' AND dry_run_until > clock_timestamp() + interval '6 days') FROM risk.rules`).
		Scan(&defaults, &dry); err != nil || defaults != 2 || dry != 2 {
		t.Errorf("a new shop has %d rules, %d of them in a dry run; %v", defaults, dry, err)
	}
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	stop := i.work()
	id := i.addRule(`{"kind":"unpaid_holds","threshold":1,"action":"none","dry_run_until":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`)
	i.unpaid(1, item, 1)
	requireFault(t, "during the dry run", i.Door(t.Context(), i.applicant(1, item)), "")
	after := i.applicant(1, item)
	after.Now = after.Now.Add(2 * time.Hour)
	requireFault(t, "after it", i.Door(t.Context(), after), "not-available")
	stop()
	_, doc := i.call(auth.Viewer, "GET", "/decisions?rule_id="+id, "")
	var results []any
	for _, d := range doc["data"].([]any) { // a list, or the test is broken
		results = append(results, d.(map[string]any)["result"])
	}
	require.Equal(t, "decisions", results, []any{"refused", "dry-run"})
}

func TestOpenUnpaidFollowsTheOrders(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	y.open[1] = 3
	i.addRule(`{"kind":"open_unpaid","threshold":3,"action":"none"}`)
	requireFault(t, "three open orders and a path", i.Door(t.Context(), i.applicant(1, item)), "not-available")
	// Another instance counts after one of them has been paid.
	paid := y.instance(func(_ *Settings, d *Deps) { d.Orders = openOrders{1: 2} })
	paid.work()
	for _, at := range []*instance{paid, i} {
		pgtest.Eventually(t, inForce, func() bool {
			at.refresh()
			return at.Door(t.Context(), at.applicant(1, item)) == nil
		}, "the user is below the threshold")
	}
}

var errNoOrders = errors.New("no answer")

// noOrders is an order module that cannot answer.
type noOrders struct{}

func (noOrders) OpenUnpaid(context.Context, int, int) (map[int64]int64, error) {
	return nil, errNoOrders
}

// A count that fails delays no other work of the round.
func TestOneFailedCountStopsNoOtherWork(t *testing.T) {
	t.Parallel()
	y := setup(t)
	y.instance().addRule(`{"kind":"open_unpaid","threshold":3,"action":"none"}`)
	y.exec(`INSERT INTO risk.decisions (at, user_id, item_id, activity_id, order_no, rule_id, rule, inputs, result)
		VALUES (now() - interval '91 days', 1, 1, 1, gen_random_uuid(), 1, '{}', '{}', 'refused')`)
	i := y.instance(func(_ *Settings, d *Deps) { d.Orders = noOrders{} })
	var due jobs
	began := time.Now()
	require.ErrorIs(t, i.countOnce(t.Context(), &due), errNoOrders)
	require.Equal(t, "old decisions", y.count(`SELECT count(*) FROM risk.decisions`), 0)
	require.Equal(t, "the next count waits", due.open.After(began), true)
}

func TestAnOrderPaidAfterAllIsForgotten(t *testing.T) {
	t.Parallel()
	y := setup(t)
	item := y.activity("sale", false)
	i := y.instance()
	i.addRule(`{"kind":"unpaid_holds","threshold":1,"action":"none"}`)
	i.unpaid(1, item, 1)
	o := order(1, item, [16]byte{}, orderevent.StatusPaid, 3)
	o.Reason = orderevent.ReasonBackup
	require.NoError(t, y.db.QueryRow(t.Context(), `SELECT order_no FROM risk.holds`).Scan(&o.No))
	i.tell(orderevent.SubjectPaid, o)
	require.NoError(t, i.recount(t.Context(), UnpaidHolds))
	require.NoError(t, i.Door(t.Context(), i.applicant(1, item)))
	// The event of the closing comes, or comes again, after that of the payment.
	i.set.UnpaidPause = time.Minute
	for _, no := range []ids.ID{o.No, ids.NewFor(1)} {
		paid, closed := o, o
		paid.No, closed.No, closed.Status, closed.Reason = no, no, orderevent.StatusClosed, orderevent.ReasonTimeout
		i.tell(orderevent.SubjectPaid, paid)
		i.tell(orderevent.SubjectClosed, closed)
		i.refresh()
		require.NoError(t, i.Door(t.Context(), i.applicant(1, item)))
	}
}

// After a crash the consumer is given its events again before the catalogue is
// read, when no activity is known to be exclusive.
func TestClaimFollowsAnOrderThatArrivesBeforeTheCatalogue(t *testing.T) {
	t.Parallel()
	y := setup(t)
	first, second := y.activity("first", true), y.activity("second", true)
	before := y.instance()
	no, err := before.asks(1, first)
	requireFault(t, "the first activity", err, "")

	plan := new(starting)
	i := y.instance(func(_ *Settings, d *Deps) { d.Items = plan })
	stop, err := y.bus.Subscribe(t.Context(), i.Subscriptions(), func(context.Context, string, bus.Msg, error) error { return nil })
	require.NoError(t, err)
	defer stop(t.Context())
	payloads, err := orderevent.Pack([]orderevent.Order{order(1, first, no, orderevent.StatusPending, 1)})
	require.NoError(t, err)
	require.NoError(t, y.bus.Publish(t.Context(), orderevent.SubjectCreated, ids.New(), payloads[0]))
	pgtest.Eventually(t, 30*time.Second, func() bool { return plan.asked.Load() > 0 }, "the event is delivered")
	plan.now.Store(&y.sale)
	pgtest.Eventually(t, 30*time.Second, func() bool { return y.count(`SELECT count(*) FROM risk.claim_orders`) == 1 }, "the order holds its claim")
	y.exec(`UPDATE risk.claims SET until = clock_timestamp()`) // the path has expired
	_, err = before.asks(1, second)
	requireFault(t, "the second activity", err, "one-activity")
}

// starting is a catalogue that has not been read until now is set.
type starting struct {
	now   atomic.Pointer[onSale]
	asked atomic.Int64
}

func (s *starting) Items() []*catalogue.Item {
	s.asked.Add(1)
	if now := s.now.Load(); now != nil {
		return *now
	}
	return nil
}

func (s *starting) Ready() bool { s.asked.Add(1); return s.now.Load() != nil }
