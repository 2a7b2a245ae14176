package dispute

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"stampede/order/disputeevent"
	"stampede/order/orderevent"
	"stampede/platform/base/fault"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/edge/httpx"
	"stampede/platform/store/pg"
	"stampede/platform/watch/audit"
	"stampede/platform/workshop/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }

const operator = 9_000_001

// bundle is disputes with their routes; refunds are counted, not made.
type bundle struct {
	*testing.T
	*Service
	db      *pgxpool.Pool
	router  *httpx.Router
	tokens  *auth.Tokens
	refunds atomic.Int64
	refused error
	hold    chan struct{} // if set, refunds wait for its end
}

func setup(t *testing.T) *bundle {
	t.Helper()
	s := &bundle{T: t, db: pgtest.DB(t), tokens: auth.NewTokens([]byte(strings.Repeat("key!", 8)), time.Now)}
	log := slog.New(slog.DiscardHandler)
	s.Service = New(Deps{DB: s.db, Wake: func() {}, Log: log, Refund: func(_ context.Context, r Refund) (ids.ID, error) {
		if r.By != operator || r.OrderNo.IsZero() || r.Note == "" || r.Since.IsZero() {
			t.Errorf("refund requested as %+v", r)
		}
		s.refunds.Add(1)
		if s.hold != nil {
			<-s.hold
		}
		return ids.New(), s.refused
	}})
	s.router = httpx.NewRouter(s.tokens, log, "test", prometheus.NewRegistry())
	s.Routes(s.router)
	return s
}

// order is an order of a user in a state.
func (s *bundle) order(user int64, status string) ids.ID {
	s.Helper()
	no := ids.NewFor(user)
	if _, err := s.db.Exec(s.Context(), `INSERT INTO orders.orders (bucket, order_no, user_id, item_id, activity_id, session_id, epoch, quantity, unit_price, currency, title, status, pay_deadline)
		VALUES ($1, $2, $3, $3, 1, 1, 1, 1, 100, 'CNY', 'mug', $4, now())`, no.Bucket(), no, user, status); err != nil {
		s.Fatal(err)
	}
	return no
}

type answer struct {
	status int
	doc    map[string]any
}

func (a answer) text(key string) string { v, _ := a.doc[key].(string); return v }

// says is the status of a dispute, or a problem's code.
func (a answer) says() string {
	if a.status < http.StatusBadRequest {
		return a.text("status")
	}
	return a.text("code")
}

func (s *bundle) call(user int64, role auth.Role, method, path, body string, headers ...string) answer {
	s.Helper()
	token, err := s.tokens.Mint(auth.Principal{UserID: user, Role: role}, time.Minute)
	if err != nil {
		s.Fatal(err)
	}
	req := httptest.NewRequestWithContext(s.Context(), method, "/api/v1/"+path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	s.router.ServeHTTP(rec, req)
	a := answer{status: rec.Code}
	if err := json.Unmarshal(rec.Body.Bytes(), &a.doc); err != nil {
		s.Errorf("%s %s: %s", method, path, rec.Body)
	}
	return a
}

func (s *bundle) shopper(user int64, method, path, body string, headers ...string) answer {
	s.Helper()
	return s.call(user, auth.Shopper, method, path, body, headers...)
}

func (s *bundle) staff(method, path, body string, headers ...string) answer {
	s.Helper()
	return s.call(operator, auth.Operator, method, "admin/"+path, body, headers...)
}

// opened is a new dispute about a new paid order.
func (s *bundle) opened(user int64) (order ids.ID, dispute string) {
	s.Helper()
	order = s.order(user, orderevent.StatusPaid)
	a := s.shopper(user, http.MethodPost, "orders/"+order.String()+"/disputes", `{"reason":"收到的鞋码不对"}`)
	if a.status != http.StatusCreated || a.says() != disputeevent.StatusOpen {
		s.Fatalf("open: %d %v", a.status, a.doc)
	}
	return order, a.text("dispute_no")
}

// events are the subjects of an order's events with the statuses in them.
func (s *bundle) events(order ids.ID) (list []string) {
	s.Helper()
	rows, err := s.db.Query(s.Context(), `SELECT subject, payload FROM platform.outbox WHERE position(convert_to($1, 'UTF8') IN payload) > 0 ORDER BY id`, order.String())
	if err != nil {
		s.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var subject string
		var payload []byte
		var e disputeevent.Changed
		if err := errors.Join(rows.Scan(&subject, &payload), json.Unmarshal(payload, &e)); err != nil {
			s.Fatal(err)
		}
		list = append(list, subject+" "+e.Status+e.Outcome)
	}
	return list
}

// Both sides write in turns until the shop closes it; each change is an event, the
// shop's are audited, and nothing can be written afterwards.
func TestCourseOfADispute(t *testing.T) {
	t.Parallel()
	s := setup(t)
	order, no := s.opened(7)
	for _, tt := range []struct {
		name string
		do   func() answer
		want string
	}{
		{"a second one", func() answer {
			return s.shopper(7, http.MethodPost, "orders/"+order.String()+"/disputes", `{"reason":"x"}`)
		}, "dispute-open"},
		{"of a stranger's order", func() answer {
			return s.shopper(8, http.MethodPost, "orders/"+order.String()+"/disputes", `{"reason":"x"}`)
		}, "not-found"},
		{"a stranger's reply", func() answer { return s.shopper(8, http.MethodPost, "disputes/"+no+"/replies", `{"text":"x"}`) }, "not-found"},
		{"a viewer's answer", func() answer {
			return s.call(operator, auth.Viewer, http.MethodPost, "admin/disputes/"+no+"/answers", `{"text":"x"}`)
		}, "forbidden"},
		{"an answer", func() answer {
			return s.staff(http.MethodPost, "disputes/"+no+"/answers", `{"text":"请发照片"}`, "Idempotency-Key", "a")
		}, "answered"},
		{"the same again", func() answer {
			return s.staff(http.MethodPost, "disputes/"+no+"/answers", `{"text":"请发照片"}`, "Idempotency-Key", "a")
		}, "answered"},
		{"a reply", func() answer {
			return s.shopper(7, http.MethodPost, "disputes/"+no+"/replies", `{"text":"已发\n第二行"}`)
		}, "open"},
		{"the end", func() answer { return s.staff(http.MethodPost, "disputes/"+no+"/close", `{"text":"尺码无误"}`) }, "closed"},
		{"the end again", func() answer { return s.staff(http.MethodPost, "disputes/"+no+"/close", `{"text":"尺码无误"}`) }, "closed"},
		{"another end", func() answer { return s.staff(http.MethodPost, "disputes/"+no+"/close", `{"text":"x","refund":{}}`) }, "dispute-closed"},
		{"an answer after it", func() answer { return s.staff(http.MethodPost, "disputes/"+no+"/answers", `{"text":"x"}`) }, "dispute-closed"},
		{"a reply after it", func() answer { return s.shopper(7, http.MethodPost, "disputes/"+no+"/replies", `{"text":"x"}`) }, "dispute-closed"},
	} {
		if a := tt.do(); a.says() != tt.want {
			t.Errorf("%s: %d %v, want %s", tt.name, a.status, a.doc, tt.want)
		}
	}
	if n := s.refunds.Load(); n != 0 {
		t.Errorf("%d refunds", n)
	}
	want := "events.dispute.opened open, events.dispute.answered answered, events.dispute.replied open, events.dispute.closed closedno_refund"
	if got := strings.Join(s.events(order), ", "); got != want {
		t.Errorf("events %s", got)
	}
	list := s.shopper(7, http.MethodGet, "orders/"+order.String()+"/disputes", "")
	raw, _ := json.Marshal(list.doc["data"])
	for _, part := range []string{`"by":"shop"`, `"by":"shopper"`, `"outcome":"no_refund"`, "请发照片", "尺码无误"} {
		if !strings.Contains(string(raw), part) {
			t.Errorf("the shopper reads %s, without %s", raw, part)
		}
	}
	if strings.Contains(string(raw), `operator`) {
		t.Errorf("the shopper reads who answered: %s", raw)
	}
	if a := s.shopper(8, http.MethodGet, "orders/"+order.String()+"/disputes", ""); a.status != http.StatusNotFound {
		t.Errorf("a stranger reads %d %v", a.status, a.doc)
	}
	detail := s.staff(http.MethodGet, "disputes/"+no, "")
	if raw, _ := json.Marshal(detail.doc["texts"]); strings.Count(string(raw), `"operator":"9000001"`) != 2 || detail.text("closed_by") != "9000001" {
		t.Errorf("the operator reads %v", detail.doc)
	}
	actions, err := audit.List(t.Context(), s.db, audit.Filter{Subject: "dispute " + no})
	if err != nil || len(actions) != 2 {
		t.Errorf("audited %+v, %v", actions, err)
	}
}

// Orders in other states, and texts that cannot be kept or read, are refused.
func TestWhatCanBeDisputed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for status, want := range map[string]string{
		orderevent.StatusPending: "order-not-disputable", orderevent.StatusPaid: "open", orderevent.StatusCompleted: "open",
		orderevent.StatusClosed: "order-not-disputable", orderevent.StatusRefused: "order-not-disputable", orderevent.StatusRefunding: "order-not-disputable",
		orderevent.StatusRefunded: "order-not-disputable", orderevent.StatusRefundFailed: "open",
	} {
		user := int64(len(status)) + 100
		no := s.order(user, status)
		if a := s.shopper(user, http.MethodPost, "orders/"+no.String()+"/disputes", `{"reason":"x"}`); a.says() != want {
			t.Errorf("%s: %d %v", status, a.status, a.doc)
		}
		if _, err := s.db.Exec(t.Context(), `DELETE FROM orders.orders WHERE order_no = $1`, no); err != nil { // one live order per item
			t.Fatal(err)
		}
	}
	no := s.order(7, orderevent.StatusPaid)
	for name, text := range map[string]string{
		"nothing visible": `" \n "`, "U+0000": `"a\u0000b"`, "a tab": `"a\tb"`, "not UTF-8": "\"a\xff\"", "U+FFFD": `"a\ufffd"`,
		"right to left": `"a\u202eb"`, "too long": `"` + strings.Repeat("长", 501) + `"`, "empty": `""`,
	} {
		if a := s.shopper(7, http.MethodPost, "orders/"+no.String()+"/disputes", `{"reason":`+text+`}`); a.says() != "invalid" && a.says() != "bad-request" {
			t.Errorf("%s: %d %v", name, a.status, a.doc)
		}
	}
	for _, path := range []string{"orders/x/disputes", "orders/" + ids.NewFor(7).String() + "/disputes"} {
		if a := s.shopper(7, http.MethodPost, path, `{"reason":"x"}`); a.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	for i := range maxDisputes + 1 {
		a := s.shopper(7, http.MethodPost, "orders/"+no.String()+"/disputes", `{"reason":"又一次"}`)
		if i == maxDisputes {
			if a.says() != "dispute-limit" {
				t.Errorf("dispute %d: %d %v", i, a.status, a.doc)
			}
			break
		}
		if a = s.staff(http.MethodPost, "disputes/"+a.text("dispute_no")+"/close", `{"text":"x"}`); a.says() != "closed" {
			t.Fatalf("close %d: %v", i, a.doc)
		}
	}
}

// Of concurrent requests to open one dispute one succeeds; of concurrent closings with
// a refund one requests it, and its repetition none.
func TestDisputesAtOneMoment(t *testing.T) {
	t.Parallel()
	s := setup(t)
	order := s.order(7, orderevent.StatusPaid)
	var opened, closed atomic.Int64
	var no atomic.Value
	atOnce := func(do func()) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(do)
		}
		wg.Wait()
	}
	atOnce(func() {
		if a := s.shopper(7, http.MethodPost, "orders/"+order.String()+"/disputes", `{"reason":"x"}`); a.status == http.StatusCreated {
			opened.Add(1)
			no.Store(a.text("dispute_no"))
		} else if a.says() != "dispute-open" {
			t.Errorf("open: %d %v", a.status, a.doc)
		}
	})
	if opened.Load() != 1 {
		t.Fatalf("%d disputes opened", opened.Load())
	}
	path := "disputes/" + no.Load().(string) + "/close"
	atOnce(func() {
		switch a := s.staff(http.MethodPost, path, `{"text":"退款","refund":{"amount":40}}`); a.says() {
		case "closed":
			closed.Add(1)
		case "dispute-closing":
		default:
			t.Errorf("close: %d %v", a.status, a.doc)
		}
	})
	a := s.staff(http.MethodPost, path, `{"text":"退款","refund":{"amount":40}}`)
	if a.says() != "closed" || a.text("outcome") != "refund" || a.text("refund_no") == "" || closed.Load() == 0 || s.refunds.Load() != 1 {
		t.Errorf("%d closed, %d refunds, then %d %v", closed.Load(), s.refunds.Load(), a.status, a.doc)
	}
}

// While one operator's refund is being requested, the dispute does not close without
// one; a refund that is refused leaves the dispute as it was.
func TestRefundThatClosesADispute(t *testing.T) {
	t.Parallel()
	s := setup(t)
	order, no := s.opened(7)
	s.refused = fault.New(fault.Conflict, "refund-exceeds", fault.Titles{"x", "x"}, "x.")
	if a := s.staff(http.MethodPost, "disputes/"+no+"/close", `{"text":"退款","refund":{}}`); a.says() != "refund-exceeds" {
		t.Errorf("refused refund: %d %v", a.status, a.doc)
	}
	if a := s.staff(http.MethodGet, "disputes/"+no, ""); a.says() != "open" || a.text("waiting_since") == "" {
		t.Errorf("after it: %v", a.doc)
	}
	s.refused, s.hold = nil, make(chan struct{})
	done := make(chan answer)
	go func() { done <- s.staff(http.MethodPost, "disputes/"+no+"/close", `{"text":"退款","refund":{}}`) }()
	pgtest.Eventually(t, 30*time.Second, func() bool { return s.refunds.Load() == 2 }, "the refund is requested")
	if a := s.staff(http.MethodPost, "disputes/"+no+"/close", `{"text":"不退"}`); a.says() != "dispute-closing" {
		t.Errorf("without a refund meanwhile: %d %v", a.status, a.doc)
	}
	close(s.hold)
	if a := <-done; a.says() != "closed" {
		t.Errorf("%d %v", a.status, a.doc)
	}
	if got := s.events(order); len(got) != 2 || got[1] != "events.dispute.closed closedrefund" {
		t.Errorf("events %q", got)
	}
}

// Operators list by state, page by page.
func TestListOfDisputes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var nos []string
	for user := range int64(5) {
		_, no := s.opened(user + 1)
		nos = append(nos, no)
	}
	s.staff(http.MethodPost, "disputes/"+nos[1]+"/answers", `{"text":"x"}`)
	s.staff(http.MethodPost, "disputes/"+nos[2]+"/close", `{"text":"x"}`)
	pages := func(query string) (list []string) {
		for cursor := ""; ; {
			a := s.staff(http.MethodGet, "disputes?limit=2&"+query+"&cursor="+cursor, "")
			data, ok := a.doc["data"].([]any)
			if !ok {
				t.Fatalf("%d %v", a.status, a.doc)
			}
			for _, d := range data {
				list = append(list, d.(map[string]any)["dispute_no"].(string))
			}
			if cursor = a.text("next_cursor"); cursor == "" {
				return list
			}
		}
	}
	for query, want := range map[string][]string{
		"": {nos[4], nos[3], nos[2], nos[1], nos[0]}, "status=open": {nos[4], nos[3], nos[0]}, "status=answered": {nos[1]}, "status=closed": {nos[2]},
	} {
		if got := pages(query); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q lists %q, want %q", query, got, want)
		}
	}
}

func TestUnansweredDisputesAreAnAlarm(t *testing.T) {
	t.Parallel()
	s := setup(t)
	probe := s.Probes()[0]
	if probe.Alarm != alarmUnanswered {
		t.Fatalf("the probe is for %s", probe.Alarm.Code)
	}
	finds := func(want int) {
		t.Helper()
		if found, err := probe.Look(t.Context()); err != nil || len(found) != want {
			t.Fatalf("found %+v, %v; want %d", found, err, want)
		}
	}
	_, no := s.opened(7)
	finds(0)
	if _, err := s.db.Exec(t.Context(), `UPDATE orders.disputes SET waiting_since = now() - interval '49 hours'`); err != nil {
		t.Fatal(err)
	}
	finds(1)
	s.staff(http.MethodPost, "disputes/"+no+"/answers", `{"text":"x"}`)
	finds(0)
}

// What was written in closed disputes goes after a while, or with the account; that
// there was a dispute stays.
func TestErasureOfDisputes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var nos []string
	for user := range int64(4) {
		_, no := s.opened(user + 1)
		s.staff(http.MethodPost, "disputes/"+no+"/answers", `{"text":"李雷，请来电"}`)
		if user > 0 {
			s.staff(http.MethodPost, "disputes/"+no+"/close", `{"text":"x"}`)
		}
		nos = append(nos, no)
	}
	if _, err := s.db.Exec(t.Context(), `UPDATE orders.disputes SET updated_at = now() - interval '91 days' WHERE user_id IN (1, 2)`); err != nil {
		t.Fatal(err)
	}
	err := pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return errors.Join(Forget(t.Context(), tx, 1), Forget(t.Context(), tx, 3)) })
	if err := errors.Join(err, Erase(t.Context(), s.db, 90*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	for i, kept := range []bool{true, false, false, true} { // still open, closed long ago, of a deleted account, closed lately
		a := s.staff(http.MethodGet, "disputes/"+nos[i], "")
		texts, _ := a.doc["texts"].([]any)
		if a.status != http.StatusOK || (a.text("reason") != "") != kept || (len(texts) > 0) != kept {
			t.Errorf("dispute %d: %v", i, a.doc)
		}
	}
}
