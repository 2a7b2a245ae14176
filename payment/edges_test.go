package payment

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/orderevent"
	"stampede/payment/refund"
	"stampede/payment/sandbox"
	"stampede/platform/base/ids"
	"stampede/platform/store/pg"
	"stampede/platform/workshop/require"
)

func TestEdgesOfRefunds(t *testing.T) {
	t.Parallel()
	run(t, setup(t, options{pay: func(c *Config) { c.Refunds.RefundApprovalAbove = approvalAbove }}),
		unitsHandedOverBeforeTheApprovalAreWrittenOff, aRetryKeepsTheLatestDecisionAboutUnits,
		aRetryForAnEarlierDisputeClosesNoOther, shoppersNotesGoWithTheAccount,
	)
}

// Goods that were handed over while a refund waited for its approval are not sold a
// second time.
func unitsHandedOverBeforeTheApprovalAreWrittenOff(t *testing.T, s *bundle) {
	no, _ := s.paidFor(approvalAbove+1, sandbox.Normal)
	before := s.stockIs()
	refundNo := s.askBack(no, `{"note":"a whim"}`, "awaiting_approval")
	s.staff(firstOperator, http.MethodPost, "orders/"+no.String()+"/complete", "").want(t, "complete", http.StatusOK, "")
	s.act(secondOperator, refundNo, "approve", "", "requested")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	if after := s.stockIs(); after[:len("9999,")] != before[:len("9999,")] {
		t.Errorf("stock was %s, is %s", before, after)
	}
	s.booksAreRight()
}

// A retry repeats a refund's money, not its decision about units, which may be older
// than another one's.
func aRetryKeepsTheLatestDecisionAboutUnits(t *testing.T, s *bundle) {
	no, part := s.failedRefund(`{"amount":40,"note":"scratched"}`)
	before := s.stockIs()
	s.exec(`UPDATE sandbox.payments SET behaviour = 'normal'`)
	s.askBack(no, `{"note":"the rest","units":"write_off"}`, "requested")
	s.refundsDone(no)
	s.act(secondOperator, part, "retry", "", "requested")
	s.refundsDone(no)
	s.orderIs(no, orderevent.StatusRefunded)
	if after := s.stockIs(); after[:len("9999,")] != before[:len("9999,")] {
		t.Errorf("stock was %s, is %s", before, after)
	}
	s.booksAreRight()
}

// What a shopper wrote goes with the account, and so does the answer to a dispute; why an operator refunded stays.
func shoppersNotesGoWithTheAccount(t *testing.T, s *bundle) {
	s.plan.within = time.Hour
	t.Cleanup(func() { *s.plan = plan{} })
	no, user := s.paidFor(100, sandbox.Normal)
	s.says(s.post(user, "/api/v1/orders/"+no.String()+"/refunds", `{"note":"my street is too narrow"}`), "requested")
	s.exec(`UPDATE payments.refunds SET status = 'failed' WHERE order_no = $1`, no)
	s.act(firstOperator, read[ids.ID](s, `SELECT refund_no FROM payments.refunds WHERE order_no = $1`, no).String(), "retry", "", "requested")
	other, otherUser := s.paidFor(100, sandbox.Normal)
	s.askBack(other, `{"note":"damaged"}`, "requested")
	answered, third := s.paidFor(100, sandbox.Normal)
	if _, err := s.Refunds.Request(t.Context(), "", refund.Request{OrderNo: answered, Reason: refund.ByDispute, Note: "退给您母亲"}); err != nil {
		t.Fatal(err)
	}
	for _, u := range []int64{user, otherUser, third} {
		require.NoError(t, pg.InTx(t.Context(), s.db, func(tx pgx.Tx) error { return s.Forget(t.Context(), tx, u) }))
	}
	note := func(no ids.ID) string {
		return read[string](s, `SELECT note FROM payments.refunds WHERE order_no = $1`, no)
	}
	if note(no) != "" || note(other) != "damaged" || note(answered) != "" {
		t.Errorf("notes: %q, %q, %q", note(no), note(other), note(answered))
	}
	audited := func(word string) int {
		return read[int](s, `SELECT count(*) FROM platform.audit WHERE position($1 IN detail::text) > 0`, word)
	}
	if audited("street") != 0 || audited("damaged") == 0 {
		t.Errorf("the audit log has the shopper's words in %d rows, the operator's in %d", audited("street"), audited("damaged"))
	}
	s.refundsDone(no)
	s.refundsDone(other)
	s.refundsDone(answered)
	s.booksAreRight()
}
