package payment

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// line is the queue of granted numbers, filled by a test.
type line struct {
	mu      sync.Mutex
	waiting map[ids.ID]int64 // number → position
	err     error
}

func (l *line) set(waiting map[ids.ID]int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting, l.err = waiting, err
}

func (l *line) Queued(_ context.Context, _ int64, no ids.ID) (position, itemID int64, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	position, ok = l.waiting[no]
	return position, 1, ok, l.err
}

// A shopper who pays or cancels right after a 202, before the order writer has
// processed the grant, gets the answer of a poll: the number is in line, and
// when to retry.
func TestQueuedNumberIsNotReportedMissing(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	user := s.user.Add(1)
	first, next, twice, never := ids.NewFor(user), ids.NewFor(user), ids.NewFor(user), ids.NewFor(user)
	grant := func(no ids.ID) {
		t.Helper()
		m := seckillevent.Batch{
			ID: ids.New(), ItemID: s.item, ActivityID: 9, SessionID: 5, UnitPrice: 100, Currency: "CNY", Title: "x", PayWindow: time.Minute,
			Grants: []seckillevent.Grant{{No: no, User: user, Quantity: 1, Seq: 1}},
		}
		require.NoError(t, s.bus.Publish(t.Context(), seckillevent.GrantsSubject(s.item), m.ID, m.Encode(nil)))
	}
	is := func(what string, no ids.ID, poll, status int, code string) {
		t.Helper()
		s.get(user, "/api/v1/orders/"+no.String()).Want(t, what, poll, "")
		for how, a := range map[string]answer{"pay": s.askToPay(no, user), "cancel": s.cancelOrder(no, user)} {
			a.Want(t, what+": "+how, status, code)
			if come := code == "order-queued" || code == "unknown"; come && a.Header.Get("Retry-After") != "1" {
				t.Errorf("%s: %s: Retry-After %q", what, how, a.Header.Get("Retry-After"))
			}
		}
	}
	grant(first)
	s.line.set(map[ids.ID]int64{first: 0, next: 2000}, nil)
	is("the next to be written", first, http.StatusOK, http.StatusConflict, "order-queued")
	is("far behind", next, http.StatusOK, http.StatusConflict, "order-queued")
	is("never granted", never, http.StatusNotFound, http.StatusNotFound, "not-entered")
	pay := "/api/v1/orders/" + first.String() + "/payments"
	s.says(s.keyed(user, pay, "k", ""), "order-queued")
	s.line.set(nil, errors.New("redis is down"))
	is("outcome unknown", never, http.StatusServiceUnavailable, http.StatusServiceUnavailable, "unknown")
	s.line.set(nil, nil)

	pgtest.Work(t, s.orders.Workers()[0].Run)
	s.until("the order is written", func() bool { return s.written(first) })
	if a := s.keyed(user, pay, "k", ""); a.Status != http.StatusOK || a.Text("pay_url") == "" {
		t.Errorf("the same request, now that there is an order: %d %v", a.Status, a.Doc)
	}
	grant(twice) // while the first is live
	s.until("the second is refused", func() bool { return s.written(twice) })
	require.Equal(t, "the history of a refusal", s.history(twice), "refused by system")
	for code, a := range map[string]answer{"order-not-payable": s.askToPay(twice, user), "order-not-cancelable": s.cancelOrder(twice, user)} {
		if a.Status != http.StatusConflict || a.Text("code") != code || a.Text("order_status") != orderevent.StatusRefused || a.Text("reason") != orderevent.ReasonDuplicate {
			t.Errorf("a refused number: %d %v", a.Status, a.Doc)
		}
	}
}

// written reports whether the order writer has processed the number.
func (s *bundle) written(no ids.ID) bool {
	return read[int](s, `SELECT count(*) FROM orders.orders WHERE order_no = $1`, no) == 1
}
