package payment

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/paymentevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/sandbox/sandboxtest"
	"stampede/payment/statement"
	"stampede/payment/stripe"
	"stampede/payment/stripe/standin"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// TestChargebacks has a company report chargebacks in orders of all kinds, and compares
// books, order and statement with what it did.
func TestChargebacks(t *testing.T) {
	t.Parallel()
	s := setup(t, options{pay: func(c *Config) { c.Refunds.RefundApprovalAbove = 4000 }})
	bank := sandboxtest.Open(t)
	company, cfg := standin.Pair(bank.URL, time.Now, slog.New(slog.DiscardHandler))
	bank.Speak(t, company)
	client := stripe.New(cfg)
	t.Cleanup(client.CloseIdleConnections)
	shop := s.instance(options{}, client)

	// captured is an order whose money came in time or late, and is taken back at the bank at once.
	captured := func(how sandbox.Behaviour, outcome string) (ids.ID, provider.Capture) {
		t.Helper()
		no, user := s.one(4200)
		s.exec(`UPDATE orders.orders SET pay_deadline = now() + interval '45 minutes' WHERE order_no = $1`, no)
		p, err := shop.begin(t.Context(), no, user, way{})
		require.NoError(t, err)
		if outcome == outcomeLate {
			s.closeBehindTheBank(no, user)
		}
		s.payAt(p.Handoff.URL, how)
		st, err := client.Query(t.Context(), provider.Payment{No: p.PaymentNo, Ref: p.Handoff.Ref})
		require.NoError(t, err)
		got, err := shop.settle(t.Context(), "stripe", st.Capture, asked)
		require.NoError(t, err)
		require.Equal(t, "outcome", got, outcome)
		return no, st.Capture
	}
	paid := func(how sandbox.Behaviour) (ids.ID, provider.Capture) { return captured(how, outcomePaid) }
	// report delivers a company's report, as if its capture were that of an order.
	report := func(of provider.Capture, d sandbox.Dispute) {
		t.Helper()
		ref, err := ids.Parse(of.Transaction[len("pi_"):])
		require.NoError(t, err)
		text, err := company.Callback(sandbox.Event{Payment: sandbox.Payment{Ref: ref, Captured: of.Amount, Currency: of.Currency, At: of.At}, Dispute: &d})
		require.NoError(t, err)
		h := http.Header{}
		company.Head(h, text)
		n, err := client.Parse(h, text)
		if err != nil || n.Chargeback == nil {
			t.Fatalf("%s is read as %+v, %v", text, n, err)
		}
		require.NoError(t, shop.chargedBack(t.Context(), "stripe", *n.Chargeback))
	}
	is := func(no ids.ID, want string) {
		t.Helper()
		views, err := shop.Payments.Of(t.Context(), no)
		require.NoError(t, err)
		require.Equal(t, "payments", len(views), 1)
		require.Equal(t, "chargebacks", len(views[0].Chargebacks), 1)
		c := views[0].Chargebacks[0]
		got := fmt.Sprintf("%s %d withdrawn %t, rows %d %d, alarms %d", c.Status, c.Amount.Amount, c.Withdrawn,
			s.ledger(no, "chargeback"), s.ledger(no, "chargeback_reversal"), s.alarms("chargeback", "chargeback "+c.ChargebackNo))
		require.Equal(t, "the chargeback", got, want)
	}
	chargebackOf := func(of provider.Capture) string { return "dp_" + strings.TrimPrefix(of.Transaction, "pi_") }
	created, withdrawn := sandbox.Dispute{}, sandbox.Dispute{Moved: true}
	lost, won, reinstated := sandbox.Dispute{Ended: true}, sandbox.Dispute{Ended: true, Won: true}, sandbox.Dispute{Ended: true, Won: true, Moved: true}

	no, capture := paid(sandbox.ChargebackWon)
	report(capture, created)
	is(no, "open 4200 withdrawn false, rows 0 0, alarms 1")
	waiting := s.askBack(no, `{"reason":"asked for before the bank took it"}`, "awaiting_approval")
	report(capture, withdrawn)
	is(no, "open 4200 withdrawn true, rows 1 0, alarms 1")
	user := read[int64](s, `SELECT user_id FROM orders.orders WHERE order_no = $1`, no)
	shown, _ := s.document(no, user).Doc["payment"].(map[string]any)
	theirs, _ := json.Marshal(shown["chargebacks"])
	if !regexp.MustCompile(`^\[\{"amount":\{"amount":4200,"currency":"CNY"\},"created_at":"[^"]+","status":"open","updated_at":"[^"]+","withdrawn":true\}\]$`).Match(theirs) {
		t.Errorf("the shopper reads of the chargeback %s", theirs)
	}
	s.orderIs(no, orderevent.StatusPaid)
	s.booksAreRight()
	s.act(secondOperator, waiting, "approve", "", "payment-charged-back")
	s.exec(`UPDATE payments.refunds SET status = 'failed'`)
	s.act(secondOperator, waiting, "retry", "", "payment-charged-back")
	s.exec(`DELETE FROM payments.refunds`)
	s.askBack(no, `{"reason":"the shopper asks"}`, "payment-charged-back")
	s.plan.within = time.Hour
	require.Equal(t, "refundable while the bank has the money", s.document(no, user).Text("refund_until"), "")
	report(capture, reinstated)
	require.Equal(t, "refundable once it is back", s.document(no, user).Text("refund_until") != "", true)
	s.booksAreRight()
	s.askBack(no, `{"amount":{"amount":1,"currency":"CNY"},"reason":"the shopper asks"}`, "requested")
	s.exec(`DELETE FROM payments.refunds`) // the bank would make it

	// The shopper takes back what a failed refund owes: the refund is not made again, and ends once the shop has lost.
	late, lateMoney := captured(sandbox.ChargebackLost, outcomeLate)
	owed, owedMoney := paid(sandbox.ChargebackLost)
	s.askBack(owed, `{"reason":"damaged"}`, "awaiting_approval")
	s.exec(`UPDATE payments.refunds SET status = 'failed'`)
	s.exec(`UPDATE orders.orders SET status = 'refund_failed' WHERE order_no = $1`, owed)
	nos := []ids.ID{no, late, owed}
	for no, of := range map[ids.ID]provider.Capture{late: lateMoney, owed: owedMoney} {
		refund := read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, no).String()
		s.act(firstOperator, refund, "end-by-chargeback", "", "chargeback-not-lost")
		part := of
		part.Amount = 100
		report(part, sandbox.Dispute{Asked: true}) // about less than the bank takes in the end
		report(of, created)
		report(of, withdrawn)
		require.Equal(t, "alarms about an inquiry and the chargeback that it became", s.alarms("chargeback", "inquiry "+chargebackOf(of))+s.alarms("chargeback", "chargeback "+chargebackOf(of)), 2)
		s.act(firstOperator, refund, "retry", "", "payment-charged-back")
		s.act(firstOperator, refund, "end-by-chargeback", "", "chargeback-not-lost")
		report(of, lost)
		report(of, sandbox.Dispute{Asked: true})
		is(no, "lost 4200 withdrawn true, rows 1 0, alarms 1")
		s.act(firstOperator, refund, "end-by-chargeback", "", "charged_back")
		s.act(firstOperator, refund, "end-by-chargeback", "", "refund-not-waiting")
	}
	s.orderIs(late, orderevent.StatusClosed)
	s.orderIs(owed, orderevent.StatusRefunded)
	s.booksAreRight()

	all := []sandbox.Dispute{created, withdrawn, won, reinstated, lost}
	for how, orders := range map[sandbox.Behaviour][][]int{
		sandbox.ChargebackWon:  {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}},
		sandbox.ChargebackLost: {{0, 1, 4}, {4, 1, 0}, {1, 4, 0}, {4, 0, 1}},
	} {
		for _, reports := range orders {
			no, capture := paid(how)
			for _, i := range append(reports, reports[0]) {
				report(capture, all[i])
				s.booksAreRight()
			}
			want := "won 4200 withdrawn false, rows 1 1, alarms "
			alarms := 1
			if how == sandbox.ChargebackLost {
				want = "lost 4200 withdrawn true, rows 1 0, alarms "
			} else if all[reports[0]].Won {
				alarms = 0 // an operator has nothing to do
			}
			is(no, fmt.Sprint(want, alarms))
			nos = append(nos, no)
		}
	}
	missed, missing := paid(sandbox.ChargebackLost)
	nos = append(nos, missed)

	// What is not ours changes nothing.
	report(provider.Capture{Transaction: "pi_" + ids.New().String(), Amount: 1, Currency: "USD"}, withdrawn)
	require.Equal(t, "chargebacks", read[int](s, `SELECT count(*) FROM payments.chargebacks`), len(nos)-1)
	if err := shop.chargedBack(t.Context(), "stripe", provider.Chargeback{Merchant: cfg.Account, No: "dp_1", Capture: missing.Transaction, Amount: 4200, Currency: "USD", State: provider.ChargebackOpen}); err == nil || s.alarms("payment-mismatch", "chargeback dp_1") != 1 {
		t.Errorf("a chargeback in another currency than the capture: %v", err)
	}

	// The statement of the day has all of it.
	url, token := s.serve(shop), s.token(auth.Principal{UserID: 1, Role: auth.Operator})
	bank.DisputesEnd(t)
	for _, no := range nos {
		bank.Backdate(t, read[ids.ID](s, `SELECT payment_no FROM payments.payments WHERE order_no = $1`, no), 24*time.Hour)
	}
	pgtest.Work(t, shop.statements.Workers()[0].Run) // it fetches the day of its own accord, and Ask waits for that
	found, err := statement.Ask(t.Context(), url, token, missing.At.UTC().AddDate(0, 0, -1).Format(time.DateOnly), "stripe", true)
	if err != nil || found.Open() != 1 {
		t.Fatalf("%+v, %v, want one difference", found, err)
	}
	if d := found.Statements[0].Differences[0]; d.Class != "missing" || d.Kind != "chargeback" || d.Stated.Amount != 4200 || d.Proposal != "look" {
		t.Errorf("the statement misses %+v", d)
	}
	// The bank gives the money of a lost chargeback back, and what that chargeback ended is owed again.
	again, againMoney := paid(sandbox.Normal)
	refund := s.askBack(again, `{"reason":"damaged"}`, "awaiting_approval")
	s.exec(`UPDATE payments.refunds SET status = 'failed' WHERE order_no = $1`, again)
	s.exec(`UPDATE orders.orders SET status = 'refund_failed' WHERE order_no = $1`, again)
	report(againMoney, withdrawn)
	report(againMoney, lost)
	s.act(firstOperator, refund, "end-by-chargeback", "", "charged_back")
	s.orderIs(again, orderevent.StatusRefunded)
	for range 2 {
		report(againMoney, reinstated)
		report(againMoney, lost)
		is(again, "won 4200 withdrawn false, rows 1 1, alarms 1")
		s.oneIsOwed()
		require.Equal(t, "the refund", s.refundOf(again), "operator failed")
		require.Equal(t, "alarms about it", s.alarms("refund-failed", "refund "+refund), 1)
		require.Equal(t, "events about it", s.events(paymentevent.SubjectRefundFailed, again), 1)
	}
	s.act(firstOperator, refund, "end-by-chargeback", "", "chargeback-not-lost")
	s.act(firstOperator, refund, "settle-by-hand", `{"receipt":"42"}`, "settled_by_hand")
	report(againMoney, reinstated)
	s.orderIs(again, orderevent.StatusRefunded)
	s.booksAreRight()
	for _, reports := range [][]int{{1, 4, 3}, {3, 4, 1}, {4, 1, 3}} {
		no, capture := paid(sandbox.Normal)
		for _, i := range append(reports, reports[0]) {
			report(capture, all[i])
		}
		is(no, fmt.Sprint("won 4200 withdrawn false, rows 1 1, alarms ", map[bool]int{true: 0, false: 1}[all[reports[0]].Won]))
	}
	s.booksAreRight()

	// What the bank takes of a second capture of a payment guards that capture's refund, and no other.
	twice, first := paid(sandbox.Normal)
	second := first
	second.Transaction = "pi_" + ids.New().String()
	if got, err := shop.settle(t.Context(), "stripe", second, asked); err != nil || got != outcomeDuplicate {
		t.Fatal(got, err)
	}
	surplus := read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, twice).String()
	report(second, withdrawn)
	kept := s.askBack(twice, `{"amount":{"amount":4000,"currency":"CNY"},"reason":"damaged"}`, "requested")
	s.exec(`UPDATE payments.refunds SET status = 'failed' WHERE order_no = $1`, twice)
	s.act(firstOperator, surplus, "retry", "", "payment-charged-back")
	report(second, lost)
	s.act(firstOperator, kept, "end-by-chargeback", "", "chargeback-not-lost")
	s.act(firstOperator, surplus, "end-by-chargeback", "", "charged_back")
	s.act(firstOperator, kept, "settle-by-hand", `{"receipt":"42"}`, "settled_by_hand")
	s.booksAreRight()
	s.exec(`UPDATE payments.chargebacks SET capture_txn = NULL`) // as the release before wrote it
	s.askBack(twice, `{"amount":{"amount":1,"currency":"CNY"},"reason":"damaged"}`, "payment-charged-back")

	// A bank that takes a part leaves the rest to refunds.
	partly, whole := paid(sandbox.Normal)
	part := whole
	part.Amount = 1000
	report(part, withdrawn)
	s.askBack(partly, `{"amount":{"amount":3201,"currency":"CNY"},"reason":"damaged"}`, "payment-charged-back")
	report(part, lost)
	s.askBack(partly, `{"amount":{"amount":3201,"currency":"CNY"},"reason":"damaged"}`, "payment-charged-back")
	rest := s.askBack(partly, `{"reason":"all that is left"}`, "requested")
	require.Equal(t, "what goes back beside the bank's 1000 of 4200", read[int64](s, `SELECT amount FROM payments.refunds WHERE order_no = $1`, partly), 3200)
	s.askBack(partly, `{"amount":{"amount":1,"currency":"CNY"},"reason":"damaged"}`, "payment-charged-back")
	s.exec(`UPDATE payments.refunds SET status = 'failed' WHERE order_no = $1`, partly)
	s.act(firstOperator, rest, "retry", "", "requested")
	s.booksAreRight()

	// A bank may take more than was paid: rates between currencies move.
	above, more := paid(sandbox.Normal)
	more.Amount++
	report(more, withdrawn)
	is(above, "open 4201 withdrawn true, rows 1 0, alarms 1")
	s.askBack(above, `{"reason":"damaged"}`, "payment-charged-back")
	report(more, lost)
	s.booksAreRight()
}
