package payment

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"stampede/order/orderevent"
	"stampede/payment/provider"
	"stampede/payment/sandbox"
	"stampede/payment/statement"
	"stampede/platform/base/ids"
	"stampede/platform/edge/auth"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// reconcile sends a request about a day's statements as an operator.
func (s *bundle) reconcile(day, body string) answer {
	s.t.Helper()
	return s.staff(firstOperator, http.MethodPost, "statements/"+day, body).Want(s.t, "statements", http.StatusOK, "")
}

// differing are the differences of a report with one statement, as "class kind proposal
// stated recorded", by transaction.
func (s *bundle) differing(a answer) map[string]string {
	s.t.Helper()
	list, _ := a.Doc["statements"].([]any)
	require.Equal(s.t, "statements", len(list), 1)
	st, _ := list[0].(map[string]any)
	require.Equal[any](s.t, "state", st["state"], "compared")
	found := map[string]string{}
	rows, _ := st["differences"].([]any)
	for _, row := range rows {
		d, _ := row.(map[string]any)
		stated, _ := d["stated"].(map[string]any)
		recorded, _ := d["recorded"].(map[string]any)
		txn, _ := d["transaction"].(string)
		found[txn] = fmt.Sprintf("%v %v %v %v %v", d["class"], d["kind"], d["proposal"], stated["amount"], recorded["amount"])
	}
	return found
}

func (s *bundle) differ(a answer, want map[string]string) {
	s.t.Helper()
	require.Equal(s.t, "differences", s.differing(a), want)
}

// askAsTheCommand asks as the command does, and requires so many differences.
func (s *bundle) askAsTheCommand(day string, open int) {
	s.t.Helper()
	token := s.token(auth.Principal{UserID: 1, Role: auth.Operator})
	found, err := statement.Ask(s.t.Context(), s.url, token, day, "", true)
	var text strings.Builder
	if err != nil || found.Open() != open || found.Write(&text) != nil || strings.Count(text.String(), "    ") < open {
		s.t.Errorf("%d differences, %v, want %d:\n%s", found.Open(), err, open, text.String())
	}
}

// TestStatementFindsMoneyThatWasNeverRecorded: callbacks of a capture and of a refund are
// lost after the order was closed. The statement shows both, settling them ends as the
// callbacks would have, and the next comparison is clean.
func TestStatementFindsMoneyThatWasNeverRecorded(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	pgtest.Work(t, s.statements.Workers()[0].Run)
	noon := time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour)
	day := noon.Format(time.DateOnly)
	txn := func(no ids.ID) string {
		return read[string](s, `SELECT p.txn FROM sandbox.payments p JOIN payments.payments o ON replace(o.payment_no::text, '-', '') = p.payment_no WHERE o.order_no = $1`, no)
	}

	known, _ := s.paidFor(100, sandbox.Normal)
	renumbered, _ := s.paidFor(300, sandbox.Normal)

	refunded, _ := s.late(sandbox.Normal)
	s.door.lose.Store(true)
	s.round(s.refundDue)
	refundTxn := func() string {
		return read[string](s, `SELECT coalesce(max('sbr-' || replace(ref::text, '-', '')), '') FROM sandbox.refunds WHERE status = 'succeeded'`)
	}
	s.until("the bank has made the refund", func() bool { return refundTxn() != "" })

	lost, loser := s.one(700)
	_, url := s.startPayment(lost, loser)
	s.closeBehindTheBank(lost, loser)
	s.payAt(url, sandbox.Normal)
	s.exec(`DELETE FROM sandbox.callbacks`) // and they never come

	s.exec(`UPDATE sandbox.payments SET captured_at = $1`, noon)
	s.exec(`UPDATE sandbox.refunds SET updated_at = $1`, noon)
	missing := map[string]string{txn(lost): "missing capture settle 700 0", refundTxn(): "missing refund settle 100 0"}
	s.differ(s.reconcile(day, `{}`), missing)
	require.Equal(t, "alarms", s.alarms("statement-differs", "statement sandbox "+day), 1)
	s.orderIs(lost, "closed")
	require.Equal(t, "ledger rows that a comparison wrote", s.ledger(lost, "capture"), 0)

	s.differ(s.reconcile(day, `{"provider":"sandbox","apply":true}`), map[string]string{})
	require.Equal(t, "settlements in the audit log", read[int](s, `SELECT jsonb_array_length(detail->'before') FROM platform.audit WHERE action = 'statement.apply' AND subject = $1 AND actor = $2`, "statement sandbox "+day, firstOperator), 2)
	require.Equal(t, "the refund", s.refundOf(refunded), "late succeeded")
	s.door.lose.Store(false)
	s.refundRequested(lost, "late")
	s.refundsDone(lost)
	s.differ(s.reconcile(day, `{"apply":true}`), map[string]string{})
	s.differ(s.reconcile(day, `{}`), map[string]string{})
	require.Equal(t, "captures in the ledger", s.ledger(lost, "capture"), 1)
	s.booksAreRight()

	s.askAsTheCommand(day, 0)

	// What only we have, what only the bank has, and another sum.
	s.exec(`INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency, at)
		SELECT provider, kind, 'sb-never', payment_no, order_no, 1, currency, $2 FROM payments.ledger WHERE order_no = $1 AND kind = 'capture'`, known, noon)
	s.exec(`UPDATE sandbox.payments SET captured_amount = 90 WHERE txn = $1`, txn(known))
	stranger := ids.NewFor(1).String()
	s.exec(`INSERT INTO sandbox.payments (ref, merchant, payment_no, amount, currency, status, expires_at, txn, captured_amount, captured_at)
		VALUES ($1, $2, $3, 5, 'CNY', 'captured', now(), 'sb-stranger', 5, $4)`, ids.New(), merchantNo, stranger, noon)
	// A second capture of a payment that we know as captured: settled, it would go back as a duplicate, and companies
	// that refund by the payment's number would take back the first.
	s.exec(`UPDATE sandbox.payments SET txn = 'sb-renumbered' WHERE txn = $1`, txn(renumbered))
	strange := map[string]string{
		"sb-renumbered": "missing capture look 300 0",
		"sb-never":      "extra capture look 0 1", txn(known): "different capture look 90 100", "sb-stranger": "missing capture look 5 0",
	}
	s.differ(s.reconcile(day, `{}`), strange)
	s.differ(s.reconcile(day, `{"apply":true}`), strange) // none of it settles itself
	s.askAsTheCommand(day, 4)
	for path, want := range map[string]int{
		"2026-13-01": http.StatusUnprocessableEntity, "9999-01-01": http.StatusUnprocessableEntity, day + "?provider=bitcoin": http.StatusUnprocessableEntity, day: http.StatusOK,
	} {
		token := s.token(auth.Principal{UserID: 2, Role: auth.Viewer})
		a, err := s.try(http.MethodGet, 0, s.url+"/api/v1/admin/statements/"+path, "", "Authorization", "Bearer "+token)
		if err != nil || a.Status != want {
			t.Errorf("GET %s: %d %v, %v, want %d", path, a.Status, a.Doc, err, want)
		}
	}
}

// TestStatementThatWasNotComparedIsComparedLater: the process died, or Postgres failed,
// between the last line and the comparison.
func TestStatementThatWasNotComparedIsComparedLater(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	for back := range 4 { // the last three days and the one before, of which yesterday is not compared
		day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1-back)
		s.exec(`INSERT INTO payments.statements (provider, day, from_time, to_time, wanted, status, attempts, compared_at)
			VALUES ('sandbox', $1, $2, $3, $4, 'fetched', 1, CASE WHEN $5 THEN now() END)`, day, day, day.AddDate(0, 0, 1), back < 3, back > 0)
	}
	pgtest.Work(t, s.statements.Workers()[0].Run)
	s.until("all days are compared", func() bool {
		return read[int](s, `SELECT count(*) FROM payments.statements WHERE wanted AND status = 'fetched' AND compared_at IS NOT NULL AND NOT partial`) == 3
	})
}

// statedBank is the bank with statements of the test's own.
type statedBank struct {
	*sandbox.Client
	lines func(provider.Day) provider.Lines
}

func (b statedBank) Statement(_ context.Context, d provider.Day) provider.Lines { return b.lines(d) }

// TestStatementThatIsNotMadeIsAnAlarm: after half a day of attempts.
func TestStatementThatIsNotMadeIsAnAlarm(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	shop := s.instance(options{}, statedBank{s.clientOf("prompt", s.bankAt), func(provider.Day) provider.Lines {
		return provider.LinesOf(func(func(provider.Line) bool) error { return provider.ErrNotReady })
	}})
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	s.exec(`INSERT INTO payments.statements (provider, day, from_time, to_time, wanted, attempts) VALUES ('prompt', $1, $2, $3, true, 23)`, day, day, day.AddDate(0, 0, 1))
	pgtest.Work(t, shop.statements.Workers()[0].Run)
	s.until("the alarm is raised", func() bool { return s.alarms("statement-missing", "statement prompt "+day.Format(time.DateOnly)) == 1 })
	s.until("the other days are planned, and tried again later", func() bool {
		return read[int](s, `SELECT count(*) FROM payments.statements WHERE provider = 'prompt' AND attempts > 0 AND last_error <> '' AND next_try > now()`) == 4
	})
	require.Equal(t, "days wanted", read[int](s, `SELECT count(*) FROM payments.statements WHERE wanted`), 3)
}

// TestStatementIsComparedByKey: not by date, in pages, and with amounts that add up.
func TestStatementIsComparedByKey(t *testing.T) {
	t.Parallel()
	s := setup(t, options{})
	midnight := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	const strangers = 1600 // more than a batch, a page of differences and a report
	line := func(txn string, amount int64, at time.Time) provider.Line {
		return provider.Line{Kind: provider.PaidBack, PaymentNo: ids.NewFor(1), Transaction: txn, Amount: amount, Currency: "CNY", At: at}
	}
	var lost atomic.Bool // the statement of the day before
	bank := statedBank{s.clientOf("prompt", s.bankAt), func(d provider.Day) provider.Lines {
		return func(yield func(provider.Line, error) bool) {
			if d.To.Equal(midnight) {
				if lost.Load() {
					yield(provider.Line{}, errors.New("gone"))
					return
				}
				l := line("edge", 7, midnight.Add(-time.Second))
				l.Kind, l.PaymentNo = provider.Paid, ids.ID{}
				yield(l, nil)
				return
			}
			if !d.From.Equal(midnight) || !yield(line("taken back", 5, midnight), nil) {
				return
			}
			for i := range strangers {
				if !yield(line(fmt.Sprintf("s%04d", i), 2, midnight), nil) {
					return
				}
			}
			yield(line("taken back", -5, midnight), nil)
		}
	}}
	// It came before midnight and was recorded after it.
	s.exec(`INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency, at) VALUES ('prompt', 'capture', 'edge', $1, $2, 7, 'CNY', $3)`,
		ids.NewFor(1), ids.NewFor(1), midnight.Add(5*time.Second))
	// Our clock is behind the company's, so that it is a line of the next day.
	s.exec(`INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency, at) VALUES ('prompt', 'capture', 'early', $1, $2, 7, 'CNY', $3)`,
		ids.NewFor(1), ids.NewFor(1), midnight.AddDate(0, 0, 1).Add(-time.Second))
	shop := s.instance(options{}, bank)
	url := s.serve(shop)
	pgtest.Work(t, shop.statements.Workers()[0].Run)
	token := s.token(auth.Principal{UserID: 1, Role: auth.Operator})
	ask := func(day time.Time) statement.Statement {
		t.Helper()
		found, err := statement.Ask(t.Context(), url, token, day.Format(time.DateOnly), "", true)
		require.NoError(t, err)
		return found.Statements[0]
	}
	if st := ask(midnight.AddDate(0, 0, -1)); len(st.Sums) != 0 || st.Lines != 1 {
		t.Errorf("the day before: %+v", st)
	}
	st := ask(midnight)
	want := statement.UnmatchedSum{Class: "missing", Kind: "refund", Lines: strangers, Stated: orderevent.Money{Amount: 2 * strangers, Currency: "CNY"}, Recorded: orderevent.Money{Currency: "CNY"}}
	if st.Lines != strangers+2 || st.Partial || len(st.Sums) != 1 || st.Sums[0] != want || len(st.Differences) != 500 || st.Settled == nil || st.Settled.Count != 0 {
		t.Errorf("%d lines, partial %t, sums %+v, %d differences listed", st.Lines, st.Partial, st.Sums, len(st.Differences))
	}
	lost.Store(true)
	s.exec(`UPDATE payments.statements SET status = 'due', next_try = now() WHERE day = $1`, midnight.AddDate(0, 0, -1))
	s.exec(`DELETE FROM payments.statement_lines WHERE provider_txn = 'edge'`)
	if st := ask(midnight); !st.Partial || len(st.Sums) != 1 {
		t.Errorf("without the day before, rows of the first minutes are called extra: partial %t, %+v", st.Partial, st.Sums)
	}
}
