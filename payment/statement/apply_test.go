package statement

import (
	"context"
	"fmt"
	"testing"
	"time"

	"stampede/payment/provider"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/pgtest"
	"stampede/platform/workshop/require"
)

// bank is a provider of which nothing but its name is asked.
type bank struct{ provider.Provider }

func (bank) Profile() provider.Profile { return provider.Profile{Name: "bank"} }

// TestApplyWhoseTimeIsOver settles three missing refunds in requests with time for one each, or for less:
// each says that more remains, and compares, so that the next one begins with what does. A
// refund that has succeeded is a person's to look at.
func TestApplyWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	db := pgtest.DB(t)
	day := provider.DayOf(time.Now().AddDate(0, 0, -1), time.UTC)
	pgtest.Exec(t, db, `INSERT INTO payments.statements (provider, day, from_time, to_time, wanted, status)
		VALUES ('bank', $1, $2, $3, true, 'fetched')`, civil(day), day.From, day.To)
	for i, status := range []string{"requested", "requested", "requested", "succeeded"} {
		no := ids.NewFor(1)
		pgtest.Exec(t, db, `INSERT INTO payments.refunds (bucket, refund_no, payment_no, order_no, user_id, provider, capture_txn, amount, currency, reason, status)
			VALUES ($1, $2, $2, $2, 1, 'bank', 'c', 5, 'CNY', 'late', $3)`, no.Bucket(), no, status)
		pgtest.Exec(t, db, `INSERT INTO payments.statement_lines (provider, day, kind, provider_txn, payment_no, refund_no, amount, fee, currency, at)
			VALUES ('bank', $1, 'refund', $2, $3, $3, 5, 0, 'CNY', $4)`, civil(day), fmt.Sprint("t", i), no, day.From)
	}
	var over context.CancelFunc
	got, cut := "", false
	s := New(Deps{DB: db, Providers: []provider.Provider{bank{}}, SettleRefund: func(_ context.Context, name string, r provider.RefundStatus) error {
		if r.Transaction == "t2" && !cut {
			cut = true
			over()
			return context.Canceled
		}
		//nolint:contextcheck // the test's context, because the request's is over
		pgtest.Exec(t, db, `WITH done AS (UPDATE payments.refunds SET status = 'succeeded' WHERE refund_no = $3)
			INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, refund_no, amount, currency)
			VALUES ($1, 'refund', $2, $3, $3, $3, $4, $5)`, name, r.Transaction, r.RefundNo, r.Amount, r.Currency)
		got += r.Transaction
		over()
		return nil
	}})
	of := target{"bank", day}
	require.NoError(t, s.compare(t.Context(), of.name, civil(day)))
	for i, want := range []string{"t0 1 true 3", "t0t1 1 true 2", "t0t1 0 true 2", "t0t1t2 1 false 1", "t0t1t2 0 false 1"} {
		var settling context.Context
		settling, over = context.WithCancel(t.Context())
		done, err := s.apply(t.Context(), settling, of)
		over()
		require.NoError(t, err)
		left, err := differences(t.Context(), s.q, of, Unmatched{})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("settled, more, left after request ", i), fmt.Sprint(got, " ", done.Count, " ", done.More, " ", len(left)), want)
	}
}
