package payment

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"stampede/order/points"
	"stampede/order/pointsevent"
	"stampede/payment/paymentevent"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/bus"
	"stampede/platform/store/outbox"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// pointsFor gives three points for each 100 fen.
func (s *bundle) pointsFor() {
	s.exec(`INSERT INTO seckill.activities (id, name, starts_at, ends_at, points_rate) OVERRIDING SYSTEM VALUE VALUES (9, 'x', now(), now() + interval '1 hour', 3)`)
	s.plan.sale.PointsRate = 3
}

// TestPointsFollowTheStream: what orders and payments publish reaches the points, and no event
// becomes a dead letter.
func TestPointsFollowTheStream(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	s.pointsFor()
	subscriptions := s.ledgerOfPoints().Subscriptions()
	var handled sync.Map
	for i := range subscriptions {
		sub := &subscriptions[i]
		handle := sub.Handle
		sub.Handle = func(ctx context.Context, m bus.Msg) error {
			handled.Store(sub.Name, true)
			return handle(ctx, m)
		}
	}
	stop, err := s.bus.Subscribe(t.Context(), subscriptions, func(_ context.Context, consumer string, m bus.Msg, cause error) error {
		t.Errorf("%s gave up %s: %v", consumer, m.Subject, cause)
		return nil
	})
	require.NoError(t, err)
	pgtest.Work(t, outbox.New(s.db, s.bus, nil, time.Hour, nil, nil, slog.New(slog.DiscardHandler), nil).Run)
	t.Cleanup(func() { stop(context.WithoutCancel(t.Context())) })
	arrives := func(no ids.ID, want string) {
		t.Helper()
		pgtest.Eventually(t, 30*time.Second, func() bool { return s.pointsOf(no) == want }, want)
	}
	no, _ := s.paidFor(9950, sandbox.Normal)
	arrives(no, "earned 298")
	s.refundPart(no, 3333)
	arrives(no, "earned 298, taken_back -99")
	s.bounce(no)
	arrives(no, "earned 298, taken_back -99, given_back 99")
	whole, _ := s.paidFor(100, sandbox.Normal)
	s.refundPart(whole, 0)
	arrives(whole, "earned 3, taken_back -3")
	for i := range subscriptions {
		pgtest.Eventually(t, 30*time.Second, func() bool {
			_, is := handled.Load(subscriptions[i].Name)
			return is
		}, subscriptions[i].Name+" has handled an event")
	}
}

func TestPoints(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	s.pointsFor()
	run(t, s,
		aPaidOrderEarnsPointsOnce, refundsTakePointsBackInProportion, aRefundBeforeItsPaymentEndsAtZero,
		aDuplicatesRefundTakesNoPoints, anOrderThatWasNeverPaidHasNoPoints, pointsComeBackWithARefundThatIsUndone, aRefundedOrderKeepsNoPoints, aLaterRuleChangesNoPointsEarned,
		pointsAreReadByTheirUserAndByStaff, aBalanceBelowZeroIsShown, verifyFindsWrongPoints,
	)
}

// ledgerOfPoints is an instance of the points on the bundle's stores.
func (s *bundle) ledgerOfPoints() *points.Service {
	return points.New(points.Deps{DB: s.db, Plan: s.plan, Returned: s.Payments.Returned, Enter: s.orders.EnterReading})
}

// follow delivers the events about an order whose subjects contain a word: in any order, and
// each to two instances at the same time.
func (s *bundle) follow(no ids.ID, word string) {
	s.t.Helper()
	rows, err := s.db.Query(s.t.Context(), `SELECT subject, payload FROM platform.outbox WHERE position(convert_to($1, 'UTF8') IN payload) > 0`, no.String())
	require.NoError(s.t, err)
	type event struct {
		Subject string
		Payload []byte
	}
	events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
	require.NoError(s.t, err)
	rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	handled := 0
	for _, e := range events {
		var both errgroup.Group
		for _, instance := range []*points.Service{s.ledgerOfPoints(), s.ledgerOfPoints()} {
			for _, sub := range instance.Subscriptions() {
				if sub.Filter == e.Subject && strings.Contains(e.Subject, word) {
					handled++
					both.Go(func() error { return sub.Handle(s.t.Context(), bus.Msg{Subject: e.Subject, Data: e.Payload}) })
				}
			}
		}
		require.NoError(s.t, both.Wait())
	}
	if handled == 0 {
		s.t.Errorf("no event about %s has %q in its subject", no, word)
	}
}

// pointsAre requires an order's entries, in their order.
func (s *bundle) pointsAre(no ids.ID, want string) {
	s.t.Helper()
	require.Equal(s.t, "points", s.pointsOf(no), want)
}

// pointsOf are an order's entries, in their order.
func (s *bundle) pointsOf(no ids.ID) string {
	return read[string](s, `SELECT coalesce(string_agg(kind || ' ' || points, ', ' ORDER BY line), '') FROM orders.points WHERE order_no = $1`, no)
}

// refundPart refunds a part of an order, or the rest with 0, until its money is back.
func (s *bundle) refundPart(no ids.ID, amount int64) (refundNo string) {
	s.t.Helper()
	body := `{"reason":"damaged"}`
	if amount > 0 {
		body = fmt.Sprintf(`{"amount":{"amount":%d,"currency":"CNY"},"reason":"scratched"}`, amount)
	}
	refundNo = s.askBack(no, body, "requested")
	s.refundsDone(no)
	return refundNo
}

// wrongPoints are the subjects that the check of the points names, of the orders given.
func (s *bundle) wrongPoints(about ...fmt.Stringer) (n int) {
	s.t.Helper()
	found, err := s.ledgerOfPoints().Check().Run(s.t.Context())
	require.NoError(s.t, err)
	for _, v := range found {
		for _, no := range about {
			if strings.Contains(v.Subject+v.Detail, no.String()) {
				n++
			}
		}
	}
	return n
}

func aPaidOrderEarnsPointsOnce(t *testing.T, s *bundle) {
	no, _ := s.paidFor(9950, sandbox.Normal)
	require.Equal(t, "violations before the event", s.wrongPoints(no), 1)
	s.follow(no, "paid")
	s.follow(no, "")
	s.pointsAre(no, "earned 298")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
	s.plan.sale.PointsRate = 0
	other, _ := s.paidFor(9950, sandbox.Normal)
	s.follow(other, "")
	s.pointsAre(other, "")
	s.plan.sale.PointsRate = 3
	s.follow(other, "")
}

func refundsTakePointsBackInProportion(t *testing.T, s *bundle) {
	no, _ := s.paidFor(9950, sandbox.Normal)
	s.follow(no, "paid")
	s.refundPart(no, 3333) // 298 * 3333 / 9950 = 99.8
	s.follow(no, "")
	s.pointsAre(no, "earned 298, taken_back -99")
	s.refundPart(no, 1) // 99.85 in all
	s.refundPart(no, 3332)
	s.follow(no, "")
	s.pointsAre(no, "earned 298, taken_back -99, taken_back -100")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
	s.refundPart(no, 0)
	s.follow(no, "refunded")
	s.follow(no, "")
	s.pointsAre(no, "earned 298, taken_back -99, taken_back -100, taken_back -99")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
}

func aRefundBeforeItsPaymentEndsAtZero(t *testing.T, s *bundle) {
	no, _ := s.paidFor(9950, sandbox.Normal)
	s.refundPart(no, 0)
	s.follow(no, "payment.refunded")
	s.pointsAre(no, "earned 298, taken_back -298")
	s.follow(no, "paid")
	s.pointsAre(no, "earned 298, taken_back -298")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
}

// Of two captures of an order one goes back as a duplicate: the order stays paid.
func aDuplicatesRefundTakesNoPoints(t *testing.T, s *bundle) {
	no, user := s.one(9950)
	first, firstURL := s.startPayment(no, user)
	s.exec(`UPDATE payments.payments SET status = 'closed' WHERE payment_no = $1`, first) // the bank will not honour its close
	_, secondURL := s.startPayment(no, user)
	s.settlesAt(secondURL, no)
	s.payAt(firstURL, sandbox.Normal)
	s.refundRequested(no, "duplicate")
	s.refundsDone(no)
	s.follow(no, "payment.refunded")
	s.follow(no, "")
	s.pointsAre(no, "earned 298")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
}

// Money that came too late for an order goes back, and the order has no points.
func anOrderThatWasNeverPaidHasNoPoints(t *testing.T, s *bundle) {
	no, _ := s.one(9950)
	for _, sub := range s.ledgerOfPoints().Subscriptions() {
		if sub.Filter == paymentevent.SubjectRefunded {
			require.NoError(t, sub.Handle(t.Context(), bus.Msg{Subject: sub.Filter, Data: fmt.Appendf(nil, `{"order_no":%q}`, no)}))
		}
	}
	s.pointsAre(no, "")
}

func pointsComeBackWithARefundThatIsUndone(t *testing.T, s *bundle) {
	no, _ := s.paidFor(100, sandbox.Normal)
	refundNo := s.refundPart(no, 34)
	s.follow(no, "payment.refunded")
	s.pointsAre(no, "earned 3, taken_back -1")
	s.bounce(no)
	s.until("the refund is taken back", func() bool { return s.refundOf(no) == "operator failed" })
	s.follow(no, "refund_failed")
	s.follow(no, "")
	s.pointsAre(no, "earned 3, taken_back -1, given_back 1")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
	require.Equal(t, "events", []int{s.events(pointsevent.SubjectEarned, no), s.events(pointsevent.SubjectTakenBack, no), s.events(pointsevent.SubjectGivenBack, no)}, []int{1, 1, 1})
	s.act(firstOperator, refundNo, "settle-by-hand", `{"receipt":"ICBC 7"}`, "settled_by_hand")
	s.follow(no, "")
	s.pointsAre(no, "earned 3, taken_back -1, given_back 1, taken_back -1")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
}

// An order that is refunded in full keeps no points, although its provider undid the refund and the
// shop owes the money again.
func aRefundedOrderKeepsNoPoints(t *testing.T, s *bundle) {
	no, _ := s.paidFor(9950, sandbox.Normal)
	refundNo := s.refundPart(no, 0)
	s.bounce(no)
	s.until("the refund is taken back", func() bool { return s.refundOf(no) == "operator failed" })
	require.Equal(t, "the order", read[string](s, `SELECT status FROM orders.orders WHERE order_no = $1`, no), "refunded")
	s.follow(no, "paid")
	s.follow(no, "")
	s.pointsAre(no, "earned 298, taken_back -298")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
	s.act(firstOperator, refundNo, "settle-by-hand", `{"receipt":"ICBC 8"}`, "settled_by_hand")
}

func aLaterRuleChangesNoPointsEarned(_ *testing.T, s *bundle) {
	no, _ := s.paidFor(200, sandbox.Normal)
	s.follow(no, "paid")
	s.plan.sale.PointsRate = 700
	defer func() { s.plan.sale.PointsRate = 3 }()
	s.refundPart(no, 100)
	s.follow(no, "")
	s.pointsAre(no, "earned 6, taken_back -3")
}

// accountOf reads the points of a user by the route of shoppers or of staff.
func (s *bundle) accountOf(by auth.Principal, path string) (status int, balance any, rows []any, next string) {
	s.t.Helper()
	rt := httpx.NewRouter(s.tokens, slog.New(slog.DiscardHandler), "shop", prometheus.NewRegistry())
	s.ledgerOfPoints().Routes(rt)
	srv := httptest.NewServer(rt)
	defer srv.Close()
	a, err := s.try(http.MethodGet, 0, srv.URL+path, "", "Authorization", "Bearer "+s.token(by))
	require.NoError(s.t, err)
	rows, _ = a.Doc["data"].([]any)
	next, _ = a.Doc["next_cursor"].(string)
	return a.Status, a.Doc["balance"], rows, next
}

func pointsAreReadByTheirUserAndByStaff(t *testing.T, s *bundle) {
	no, user := s.paidFor(9950, sandbox.Normal)
	s.refundPart(no, 3333)
	s.follow(no, "")
	s.refundPart(no, 1000)
	s.follow(no, "")
	shopper, staff := auth.Principal{UserID: user, Role: auth.Shopper}, auth.Principal{UserID: firstOperator, Role: auth.Viewer}
	var kinds []any
	cursor := ""
	for page := 0; page == 0 || page < 5 && cursor != ""; page++ {
		_, balance, rows, next := s.accountOf(shopper, "/api/v1/me/points?limit=1&cursor="+cursor)
		require.Equal[any](t, "balance and rows", [...]any{balance, len(rows)}, [...]any{169.0, 1})
		kinds, cursor = append(kinds, rows[0].(map[string]any)["kind"]), next
	}
	require.Equal(t, "three pages, the newest first", kinds, []any{"taken_back", "taken_back", "earned"})
	path := fmt.Sprintf("/api/v1/admin/users/%d/points", user)
	_, balance, rows, _ := s.accountOf(staff, path)
	require.Equal[any](t, "for staff balance and rows", [...]any{balance, len(rows)}, [...]any{169.0, 3})
	if row := rows[0].(map[string]any); row["order_no"] != no.String() || row["at"] == "" {
		t.Errorf("an entry says %v", row)
	}
	for bad, by := range map[string]auth.Principal{path: shopper, "/api/v1/admin/users/me/points": staff, "/api/v1/me/points?cursor=x": shopper} {
		if status, _, _, _ := s.accountOf(by, bad); status < http.StatusBadRequest || status >= http.StatusInternalServerError {
			t.Errorf("%s: %d", bad, status)
		}
	}
	_, balance, rows, _ = s.accountOf(auth.Principal{UserID: 77_000_001, Role: auth.Shopper}, "/api/v1/me/points")
	require.Equal[any](t, "of a user without points", [...]any{balance, len(rows)}, [...]any{0.0, 0})
}

// spoil adds an entry that no event made.
func (s *bundle) spoil(order ids.ID, user, points int64, line int) (entry ids.ID) {
	s.t.Helper()
	entry = ids.NewFor(user)
	kind := "taken_back"
	if line == 1 {
		kind = "earned"
	}
	s.exec(`INSERT INTO orders.points (bucket, entry_no, order_no, line, user_id, kind, points) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		order.Bucket(), entry, order, line, user, kind, points)
	return entry
}

func aBalanceBelowZeroIsShown(t *testing.T, s *bundle) {
	no, user := s.paidFor(9950, sandbox.Normal)
	s.follow(no, "paid")
	entry := s.spoil(no, user, -300, 2)
	_, balance, _, _ := s.accountOf(auth.Principal{UserID: user, Role: auth.Shopper}, "/api/v1/me/points")
	require.Equal[any](t, "balance", balance, -2.0)
	s.exec(`DELETE FROM orders.points WHERE entry_no = $1`, entry)
}

func verifyFindsWrongPoints(t *testing.T, s *bundle) {
	no, user := s.paidFor(9950, sandbox.Normal)
	s.follow(no, "paid")
	s.refundPart(no, 3333)
	require.Equal(t, "violations of a refund that took nothing back", s.wrongPoints(no), 1)
	s.follow(no, "")
	require.Equal(t, "violations", s.wrongPoints(no), 0)
	too := s.spoil(no, user, -1, 3)
	require.Equal(t, "violations of a point too many taken back", s.wrongPoints(no), 1)
	s.exec(`DELETE FROM orders.points WHERE entry_no = $1`, too)
	s.exec(`UPDATE orders.points SET points = points + 1 WHERE order_no = $1 AND line = 1`, no)
	require.Equal(t, "violations of a point too many", s.wrongPoints(no), 1)
	s.exec(`DELETE FROM orders.points WHERE order_no = $1`, no)
	require.Equal(t, "violations of no points", s.wrongPoints(no), 1)
	unpaid, buyer := s.one(100)
	for what, entry := range map[string]ids.ID{
		"no order": s.spoil(ids.NewFor(user), user, 5, 1), "an unpaid order": s.spoil(unpaid, buyer, 5, 1), "another user's order": s.spoil(no, user+1, 298, 1),
	} {
		require.Equal(t, "violations of points of "+what, s.wrongPoints(entry), 1)
	}
}
