package payment

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/require"
)

func TestOperatorsActOnOrders(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{pay: func(c *Config) { c.Refunds.RefundApprovalAbove = approvalAbove }}),
		anOperatorCancelsForAShopper, moneyThatIsFasterThanAnOperator, sendingIsAStepOfItsOwn,
		goodsThatLeftTheShop, notesStayAmongOperators, whatOtherSystemsKeep, aListDoesWhatCanBeDone, aListIsRepeatable,
		aListRespectsTheApprovalLimit, aListThatRefundsPartsNeedsAKey, aListThatCannotBeMeant,
	)
}

// history is an order's history as operators read it, a line each: "closed by operator
// 9000001: cancel because …".
func (s *bundle) history(no ids.ID) string {
	s.t.Helper()
	a := s.staff(firstOperator, http.MethodGet, "orders/"+no.String(), "")
	lines, _ := a.Doc["history"].([]any)
	var text []string
	for _, l := range lines {
		m, _ := l.(map[string]any)
		text = append(text, strings.TrimSuffix(fmt.Sprintf("%v by %v: %v %v", m["status"], m["actor"], m["action"], m["note"]), ": <nil> <nil>"))
	}
	return strings.Join(text, "; ")
}

// historyEnds requires the last lines of an order's history, in which the first operator is %[1]d.
func (s *bundle) historyEnds(no ids.ID, format string) {
	s.t.Helper()
	if got, want := s.history(no), fmt.Sprintf(format, firstOperator); !strings.HasSuffix(got, want) {
		s.t.Errorf("history: %s; want %s", got, want)
	}
}

// audited is the detail of the newest audit record of an action on an order.
func (s *bundle) audited(action string, no ids.ID) string {
	s.t.Helper()
	return read[string](s, `SELECT coalesce((SELECT detail::text FROM platform.audit WHERE action = $1 AND subject = $2 AND actor = $3 ORDER BY id DESC LIMIT 1), '')`,
		action, "order "+no.String(), firstOperator)
}

func anOperatorCancelsForAShopper(t *testing.T, s *bundle) {
	before := s.stockIs()
	no, user := s.one(100)
	paymentNo, _ := s.startPayment(no, user)
	path := "orders/" + no.String() + "/cancel"
	s.staff(firstOperator, http.MethodPost, path, `{"reason":" "}`).Want(t, "without a reason", http.StatusUnprocessableEntity, "")
	for range 2 { // the second finds it canceled
		s.staff(firstOperator, http.MethodPost, path, `{"reason":"asked by phone"}`).Want(t, "", http.StatusOK, "")
	}
	s.orderIs(no, orderevent.StatusClosed)
	s.paymentIs(paymentNo, "closed")
	require.Equal(t, "history", s.history(no), fmt.Sprintf("pending_payment by system; closed by operator %d: cancel asked by phone", firstOperator))
	require.Equal(t, "audit", s.audited("order.cancel", no), `{"after": {"reason": "withdrawn", "status": "closed"}, "before": {"status": "pending_payment"}, "reason": "asked by phone"}`)
	a := s.document(no, user)
	s.has(a, http.StatusOK, `"reason":"withdrawn"`)
	if raw, _ := json.Marshal(a.Doc); strings.Contains(string(raw), "phone\"") || strings.Contains(string(raw), "operator") {
		t.Errorf("the shopper reads the operator's words: %s", raw)
	}
	require.Equal(t, "stock", s.stockIs(), before)
	s.staff(firstOperator, http.MethodPost, "orders/"+ids.NewFor(7).String()+"/cancel", `{"reason":"x"}`).Want(t, "an unknown order", http.StatusNotFound, "")
	s.says(s.staff(firstOperator, http.MethodGet, "orders/"+ids.NewFor(7).String(), ""), "not-found")
	s.says(s.get(user, "/api/v1/admin/orders/"+no.String()), "forbidden")
}

func moneyThatIsFasterThanAnOperator(_ *testing.T, s *bundle) {
	no, _ := s.paidFor(100, sandbox.Normal)
	a := s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/cancel", `{"reason":"x"}`)
	s.says(a, "order-not-cancelable")
	s.orderIs(no, orderevent.StatusPaid)
}

func sendingIsAStepOfItsOwn(t *testing.T, s *bundle) {
	no, user := s.one(100)
	path := "orders/" + no.String() + "/shipment"
	s.says(s.staff(firstOperator, http.MethodPut, path, `{"carrier":"SF","tracking_no":"1"}`), "order-not-shippable")
	s.pays(no, user)
	for _, blank := range []string{`{"carrier":"  ","tracking_no":"1"}`, `{"carrier":"SF","tracking_no":"\u202e"}`, `{"carrier":"S\nF","tracking_no":"1"}`} {
		s.says(s.staff(firstOperator, http.MethodPut, path, blank), "invalid")
		s.says(s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", blank), "invalid")
	}
	for _, number := range []string{`\u202e1 `, "1", "2"} { // the second changes nothing, the third corrects
		s.staff(firstOperator, http.MethodPut, path, `{"carrier":"SF","tracking_no":"`+number+`"}`).Want(t, "", http.StatusOK, "")
	}
	s.orderIs(no, orderevent.StatusPaid)
	s.has(s.document(no, user), http.StatusOK, `"tracking_no":"2"`)
	require.Equal(t, "events", s.events(orderevent.SubjectShipped, no), 2)
	require.Equal(t, "audit", s.audited("order.ship", no), `{"after": {"status": "paid", "carrier": "SF", "tracking_no": "2"}, "before": {"status": "paid", "carrier": "SF", "tracking_no": "1"}}`)
	s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", "").Want(t, "complete", http.StatusOK, "")
	s.historyEnds(no, "paid by operator %[1]d: ship SF 1; paid by operator %[1]d: ship SF 2; completed by operator %[1]d")
	s.booksAreRight()
}

// A shopper cannot have both, and the units are not sold again.
func goodsThatLeftTheShop(t *testing.T, s *bundle) {
	s.plan.within = time.Hour
	t.Cleanup(func() { s.plan.within = 0 })
	no, user := s.paidFor(100, sandbox.Normal)
	s.staff(firstOperator, http.MethodPut, "orders/"+no.String()+"/shipment", `{"carrier":"SF","tracking_no":"1"}`)
	s.says(s.post(user, "/api/v1/orders/"+no.String()+"/refunds", ""), "refund-not-allowed")
	s.askBack(no, `{"reason":"lost on its way"}`, "requested")
	require.Equal(t, "the units", read[string](s, `SELECT units FROM payments.refunds WHERE order_no = $1`, no), "write_off")
	s.refundsDone(no)
	s.historyEnds(no, "paid by operator %[1]d: refund lost on its way; refunding by operator %[1]d; refunded by provider sandbox")
	s.booksAreRight()

	// A refund that waited for its approval while the parcel left.
	no, _ = s.paidFor(approvalAbove+1, sandbox.Normal)
	refundNo := s.askBack(no, `{"reason":"broken"}`, "awaiting_approval")
	s.staff(firstOperator, http.MethodPut, "orders/"+no.String()+"/shipment", `{"carrier":"SF","tracking_no":"1"}`)
	s.act(secondOperator, refundNo, "approve", "", "requested")
	require.Equal(t, "the units of the one that waited", read[string](s, `SELECT units FROM payments.refunds WHERE order_no = $1`, no), "write_off")
	s.refundsDone(no)

	// The parcel left between two approvals, the later one of the refund that was asked for first.
	no, _ = s.paidFor(approvalAbove+2, sandbox.Normal)
	refundNo = s.askBack(no, fmt.Sprintf(`{"amount":{"amount":%d,"currency":"CNY"},"reason":"broken"}`, approvalAbove+1), "awaiting_approval")
	rest := s.askBack(no, `{"reason":"the rest"}`, "awaiting_approval")
	s.act(secondOperator, rest, "approve", "", "requested")
	s.refundsDone(no)
	s.staff(firstOperator, http.MethodPut, "orders/"+no.String()+"/shipment", `{"carrier":"SF","tracking_no":"1"}`).Want(t, "ship", http.StatusOK, "")
	var available, written int
	_, err := fmt.Sscanf(s.stockIs(), "%d, %d", &available, &written)
	require.NoError(t, err)
	s.act(secondOperator, refundNo, "approve", "", "requested")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	require.Equal(t, "stock after the unit left", s.stockIs(), fmt.Sprintf("%d, %d", available, written+1))
	s.booksAreRight()
}

func notesStayAmongOperators(t *testing.T, s *bundle) {
	no, user := s.one(100)
	path := "orders/" + no.String() + "/notes"
	for range 2 {
		s.staff(firstOperator, http.MethodPost, path, `{"note":"call back on Friday"}`, "Idempotency-Key", "n1").Want(t, "", http.StatusOK, "")
	}
	require.Equal(t, "history", s.history(no), fmt.Sprintf("pending_payment by system; pending_payment by operator %d: note call back on Friday", firstOperator))
	if got := s.audited("order.note", no); strings.Contains(got, "Friday") || got == "" {
		t.Errorf("audit: %q", got)
	}
	if raw, _ := json.Marshal(s.document(no, user).Doc); strings.Contains(string(raw), "Friday") {
		t.Errorf("the shopper reads the note: %s", raw)
	}
}

// The shop's other systems keep their id and texts with an order; its shopper reads neither,
// and the audit log has no value of the texts.
func whatOtherSystemsKeep(t *testing.T, s *bundle) {
	no, user := s.one(100)
	path := "orders/" + no.String() + "/external"
	version := read[int32](s, `SELECT version FROM orders.orders WHERE order_no = $1`, no)
	records := func() int {
		return read[int](s, `SELECT count(*)::int FROM platform.audit WHERE action = 'order.external' AND subject = $1`, "order "+no.String())
	}
	for range 2 { // the repetition has no effect
		a := s.staff(firstOperator, http.MethodPatch, path, `{"external_id":"SO/7","metadata":{"clerk":"Li Lei"}}`)
		a.Want(t, "set", http.StatusOK, "", `"external_id":"SO/7"`, `"metadata":{"clerk":"Li Lei"}`)
	}
	require.Equal(t, "records", records(), 1)
	require.Equal(t, "audit", s.audited("order.external", no), `{"after": {"external_id": "SO/7", "metadata_keys": ["clerk"]}, "before": {"external_id": "", "metadata_keys": []}}`)
	s.has(s.staff(firstOperator, http.MethodGet, "orders?external_id=SO%2F7", ""), http.StatusOK, no.String())
	if raw, _ := json.Marshal(s.document(no, user).Doc); strings.Contains(string(raw), "SO/7") || strings.Contains(string(raw), "Li Lei") {
		t.Errorf("the shopper reads the reference: %s", raw)
	}
	require.Equal(t, "the order's version", read[int32](s, `SELECT version FROM orders.orders WHERE order_no = $1`, no), version)
	for _, bad := range []string{`{"external_id":"a b"}`, `{"external_id":"é"}`, `{"metadata":{"":"x"}}`, `{"metadata":{"k":"\u0001"}}`, `{"metadata":{"k":1}}`} {
		s.says(s.staff(firstOperator, http.MethodPatch, path, bad), "invalid")
	}
	s.says(s.staff(firstOperator, http.MethodPatch, "orders/"+ids.NewFor(user).String()+"/external", `{}`), "not-found")
	s.staff(firstOperator, http.MethodPatch, path, `{}`).Want(t, "nothing to change", http.StatusOK, "", `"external_id":"SO/7"`, `"metadata":{"clerk":"Li Lei"}`)
	a := s.staff(firstOperator, http.MethodPatch, path, `{"metadata":{}}`)
	a.Want(t, "no metadata", http.StatusOK, "", `"external_id":"SO/7"`)
	a = s.staff(firstOperator, http.MethodPatch, path, `{"external_id":""}`)
	a.Want(t, "removed", http.StatusOK, "")
	require.Equal(t, "what is left", []any{a.Doc["external_id"], a.Doc["metadata"], records()}, []any{nil, nil, 3})

	// Written after the user has deleted the account, to an order that had none, it is to be erased with the rest.
	later, gone := s.one(100)
	require.NoError(t, pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return s.orders.Forget(t.Context(), tx, gone) }))
	s.staff(firstOperator, http.MethodPatch, "orders/"+later.String()+"/external", `{"metadata":{"clerk":"Li Lei"}}`).Want(t, "set after the deletion", http.StatusOK, "")
	require.Equal(t, "forgotten references", read[int](s, `SELECT count(*)::int FROM orders.external_references WHERE forget AND order_no = $1`, later), 1)
	require.Equal(t, "of others", read[int](s, `SELECT count(*)::int FROM orders.external_references WHERE forget AND user_id = $1`, user), 0)
}

// list sends a list and returns the outcome of each order, and the sums.
func (s *bundle) list(key, body string) (outcome map[string]string, sums string) {
	s.t.Helper()
	token := s.token(auth.Principal{UserID: firstOperator, Role: auth.Operator})
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+"/api/v1/admin/orders/actions", strings.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Language", "zh")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	if kind := resp.Header.Get("Content-Type"); resp.StatusCode == http.StatusOK && kind != "application/jsonl" {
		s.t.Errorf("content type %s", kind)
	}
	outcome = map[string]string{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var l struct {
			OrderNo      string `json:"order_no"`
			OK           bool
			Status       any    // a number in a problem that is the whole answer
			RefundStatus string `json:"refund_status"`
			Problem      *struct{ Code, Title string }
			Code         string // of such a problem
			Done, Failed int
		}
		require.NoError(s.t, json.Unmarshal(lines.Bytes(), &l))
		switch {
		case l.Code != "":
			return nil, l.Code
		case l.OrderNo == "":
			sums = fmt.Sprintf("%v %d %d", l.OK, l.Done, l.Failed)
		case l.Problem != nil:
			outcome[l.OrderNo] = l.Problem.Code + " " + l.Problem.Title
		default:
			outcome[l.OrderNo] = strings.TrimSpace(fmt.Sprint(l.Status, " ", l.RefundStatus))
		}
	}
	return outcome, sums
}

func listOf(action, reason string, nos ...ids.ID) string {
	rows := make([]map[string]string, len(nos))
	for i, no := range nos {
		rows[i] = map[string]string{"order_no": no.String()}
	}
	why := "reason"
	if action == "note" {
		why = action
	}
	raw, _ := json.Marshal(map[string]any{"action": action, why: reason, "orders": rows})
	return string(raw)
}

func aListDoesWhatCanBeDone(t *testing.T, s *bundle) {
	paid, _ := s.paidFor(100, sandbox.Normal)
	open, _ := s.buy(6, 100)
	unknown := ids.NewFor(7)
	got, sums := s.list("", listOf("cancel", "the shop closes", append(open, paid, unknown)...))
	require.Equal(t, "sums", sums, "false 6 2")
	require.Equal(t, "outcomes", len(got), 8)
	for _, no := range open {
		require.Equal(t, "an open order", got[no.String()], "closed")
	}
	require.Equal(t, "the paid one", got[paid.String()], "order-not-cancelable 订单已无法取消")
	require.Equal(t, "the unknown one", got[unknown.String()], "not-found 未找到")
	body := fmt.Sprintf(`{"action":"ship","orders":[{"order_no":%q,"carrier":"SF","tracking_no":"7"},{"order_no":%q,"carrier":"SF","tracking_no":"8"}]}`, paid, open[0])
	got, sums = s.list("", body)
	if sums != "false 1 1" || got[paid.String()] != "paid" || !strings.HasPrefix(got[open[0].String()], "order-not-shippable") {
		t.Errorf("ship: %s of %v", sums, got)
	}
	got, sums = s.list("", listOf("complete", "handed over", paid))
	require.Equal(t, "complete", []any{sums, got}, []any{"true 1 0", map[string]string{paid.String(): "completed"}})
	s.historyEnds(paid, "completed by operator %d: complete handed over")
}

// Every action of a list that is sent twice with a key answers the same and has its
// effect once.
func aListIsRepeatable(t *testing.T, s *bundle) {
	for _, action := range []string{"cancel", "refund", "complete", "note"} {
		var no ids.ID
		if action == "cancel" {
			no, _ = s.one(100)
		} else {
			no, _ = s.paidFor(100, sandbox.Normal)
		}
		first, sums := s.list("again", listOf(action, "because", no))
		second, again := s.list("again", listOf(action, "because", no))
		if sums != "true 1 0" || again != sums {
			t.Errorf("%s: %s %v, then %s %v", action, sums, first, again, second)
		}
		require.Equal(t, action+": acts", read[int](s, `SELECT count(*) FROM orders.acts WHERE order_no = $1 AND action = $2`, no, action), 1)
	}
}

func aListRespectsTheApprovalLimit(t *testing.T, s *bundle) {
	small, _ := s.paidFor(100, sandbox.Normal)
	large, _ := s.paidFor(approvalAbove+1, sandbox.Normal)
	got, sums := s.list("", listOf("refund", "recalled", small, large))
	require.Equal(t, "sums", sums, "true 2 0")
	require.Equal(t, "outcomes", got, map[string]string{small.String(): "refunding requested", large.String(): "paid awaiting_approval"})
	s.refundsDone(small)
}

// A list that broke off is sent again: without a key it would refund a part twice.
func aListThatRefundsPartsNeedsAKey(t *testing.T, s *bundle) {
	no, _ := s.paidFor(100, sandbox.Normal)
	part := fmt.Sprintf(`{"action":"refund","reason":"scratched","orders":[{"order_no":%q,"amount":{"amount":30,"currency":"CNY"}}]}`, no)
	if got, sums := s.list("", part); sums != "false 0 1" || !strings.HasPrefix(got[no.String()], "idempotency-key-required") {
		t.Errorf("without a key: %s of %v", sums, got)
	}
	if got, sums := s.list("zero", strings.Replace(part, `{"amount":30`, `{"amount":0`, 1)); sums != "false 0 1" || !strings.HasPrefix(got[no.String()], "refund-of-nothing") {
		t.Errorf("of zero: %s of %v", sums, got)
	}
	for range 2 {
		got, sums := s.list("scratches", part)
		require.Equal(t, "with a key", []any{sums, got}, []any{"true 1 0", map[string]string{no.String(): "paid requested"}})
	}
	s.refundsDone(no)
	require.Equal(t, "refunded", read[int64](s, `SELECT sum(amount) FROM payments.refunds WHERE order_no = $1`, no), 30)

	// Orders that cannot be read any more once the refund is committed leave it done.
	s.exec(`CREATE FUNCTION orders.go_away() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN ALTER TABLE orders.orders RENAME TO away; RETURN NULL; END'`)
	s.exec(`CREATE CONSTRAINT TRIGGER go_away AFTER INSERT ON payments.refunds DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION orders.go_away()`)
	got, sums := s.list("more scratches", part)
	s.exec(`DROP TRIGGER go_away ON payments.refunds`)
	s.exec(`ALTER TABLE orders.away RENAME TO orders`)
	require.Equal(t, "without the order's status", []any{sums, got}, []any{"true 1 0", map[string]string{no.String(): "<nil> requested"}})
	s.refundsDone(no)
}

func aListThatCannotBeMeant(t *testing.T, s *bundle) {
	no := ids.NewFor(7)
	for name, body := range map[string]string{
		"no reason":       listOf("cancel", "", no),
		"a blank reason":  listOf("cancel", "  ", no),
		"an order twice":  listOf("note", "x", no, no),
		"no parcel":       listOf("ship", "", no),
		"a parcel":        fmt.Sprintf(`{"action":"note","reason":"x","orders":[{"order_no":%q,"carrier":"SF","tracking_no":"7"}]}`, no),
		"half a parcel":   fmt.Sprintf(`{"action":"complete","orders":[{"order_no":%q,"carrier":"SF"}]}`, no),
		"an amount":       fmt.Sprintf(`{"action":"cancel","reason":"x","orders":[{"order_no":%q,"amount":{"amount":1,"currency":"CNY"}}]}`, no),
		"an empty list":   `{"action":"cancel","reason":"x","orders":[]}`,
		"another action":  listOf("delete", "x", no),
		"too many orders": listOf("note", "x", make([]ids.ID, 1001)...),
	} {
		outcome, code := s.list("", body)
		require.Equal(t, name, []any{code, outcome}, []any{"invalid", map[string]string(nil)})
	}
}
