package payment

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"stampede/platform/ids"
	"stampede/platform/proof"
)

// maxViolations bounds what one statement reports: nobody reads a longer list,
// and the first hundred show what is wrong.
const maxViolations = 100

// Checks proves the money (I4, I5). Both compare the ledger with the orders in
// one statement, which reads order's table: two calls would see two moments,
// and a payment between them would look like a violation.
func (s *Service) Checks() []proof.Check {
	return []proof.Check{
		{ID: "I4", Name: "captures less refunds are what paid orders say, one ledger row per transaction", Run: func(ctx context.Context) ([]proof.Violation, error) { return checkMoney(ctx, s.deps.DB) }},
		{ID: "I5", Name: "money on an order that is not paid goes back in time", Run: func(ctx context.Context) ([]proof.Violation, error) { return s.checkReturned(ctx, s.deps.DB) }},
	}
}

// checkMoney is I4. A capture that has to go back counts as gone from the
// moment its refund is requested, which is the transaction of the capture;
// whether it really goes is I5's question. Nothing is in flight here: money,
// order and refund change in one transaction.
func checkMoney(ctx context.Context, db reader) ([]proof.Violation, error) {
	return violations(ctx, db,
		query{
			`
			WITH moved AS (
				SELECT order_no, currency, sum(CASE kind WHEN 'capture' THEN amount ELSE -amount END) AS net
				FROM payments.ledger GROUP BY order_no, currency
			), promised AS (
				SELECT order_no, currency, sum(amount) AS back
				FROM payments.refunds WHERE status <> 'succeeded' GROUP BY order_no, currency
			), owed AS (
				SELECT order_no, currency, unit_price * quantity AS amount
				FROM orders.orders WHERE status IN ('paid', 'completed', 'refunding', 'refund_failed')
			)
			SELECT order_no, coalesce(owed.amount, 0), coalesce(net, 0)::bigint, coalesce(back, 0)::bigint, currency
			FROM moved FULL JOIN promised USING (order_no, currency) FULL JOIN owed USING (order_no, currency)
			WHERE coalesce(net, 0) - coalesce(back, 0) <> coalesce(owed.amount, 0)
			ORDER BY order_no LIMIT $1`, nil,
			func(row pgx.CollectableRow) (proof.Violation, error) {
				var no ids.ID
				var owed, net, back int64
				var currency string
				err := row.Scan(&no, &owed, &net, &back, &currency)
				return proof.Violation{Subject: "order " + no.String(), Detail: fmt.Sprintf(
					"the order says %s, the ledger holds %s of which %s is to go back", money(owed, currency), money(net, currency), money(back, currency))}, err
			},
		},
		query{
			`
			SELECT coalesce(l.payment_no, p.payment_no), p.payment_no IS NULL, l.payment_no IS NULL
			FROM (SELECT * FROM payments.payments WHERE status = 'captured') p
			FULL JOIN (SELECT * FROM payments.ledger WHERE kind = 'capture') l USING (payment_no)
			WHERE p.payment_no IS NULL OR l.payment_no IS NULL OR p.provider <> l.provider OR p.order_no <> l.order_no
			ORDER BY 1 LIMIT $1`, nil,
			func(row pgx.CollectableRow) (proof.Violation, error) {
				var no ids.ID
				var noRow, noMoney bool
				err := row.Scan(&no, &noRow, &noMoney)
				detail := "its ledger row names another provider or order"
				switch {
				case noRow:
					detail = "the ledger holds a capture for it, but it is not captured"
				case noMoney:
					detail = "it is captured, but the ledger holds no capture for it"
				}
				return proof.Violation{Subject: "payment " + no.String(), Detail: detail}, err
			},
		},
		query{
			`
			SELECT coalesce(l.refund_no, r.refund_no), coalesce(l.amount, 0), coalesce(r.amount, 0), coalesce(l.currency, r.currency), count(l.provider_txn)
			FROM (SELECT * FROM payments.refunds WHERE status = 'succeeded') r
			FULL JOIN (SELECT * FROM payments.ledger WHERE kind = 'refund') l USING (refund_no)
			GROUP BY coalesce(l.refund_no, r.refund_no), l.amount, r.amount, l.currency, r.currency, l.payment_no, r.payment_no
			HAVING count(l.provider_txn) <> 1 OR r.amount IS DISTINCT FROM l.amount OR r.payment_no IS DISTINCT FROM l.payment_no
			ORDER BY 1 LIMIT $1`, nil,
			func(row pgx.CollectableRow) (proof.Violation, error) {
				var no ids.ID
				var moved, says, n int64
				var currency string
				err := row.Scan(&no, &moved, &says, &currency, &n)
				return proof.Violation{Subject: "refund " + no.String(), Detail: fmt.Sprintf(
					"%d ledger rows of %s for a succeeded refund of %s", n, money(moved, currency), money(says, currency))}, err
			},
		},
	)
}

// checkReturned is I5. Until Config.InFlight has passed, money that waits for
// its refund is in flight.
func (s *Service) checkReturned(ctx context.Context, db reader) ([]proof.Violation, error) {
	return violations(ctx, db,
		query{
			`
			SELECT refund_no, status, amount, currency, extract(epoch FROM clock_timestamp() - created_at)::bigint, last_error
			FROM payments.refunds
			WHERE status = 'failed' OR status = 'requested' AND created_at < clock_timestamp() - interval '1 millisecond' * $2
			ORDER BY refund_no LIMIT $1`,
			[]any{s.cfg.InFlight.Milliseconds()},
			func(row pgx.CollectableRow) (proof.Violation, error) {
				var no ids.ID
				var status, currency, why string
				var amount, seconds int64
				err := row.Scan(&no, &status, &amount, &currency, &seconds, &why)
				return proof.Violation{Subject: "refund " + no.String(), Detail: fmt.Sprintf(
					"%s is %s for %d s and not back with the shopper: %s", money(amount, currency), status, seconds, why)}, err
			},
		},
		query{
			`
			SELECT l.provider_txn, l.amount, l.currency, l.order_no, coalesce(o.status, 'unknown')
			FROM payments.ledger l
			LEFT JOIN orders.orders o USING (order_no)
			WHERE l.kind = 'capture' AND l.amount > 0 AND l.at < clock_timestamp() - interval '1 millisecond' * $2
			  AND coalesce(o.status, 'unknown') NOT IN ('paid', 'completed', 'refunding', 'refund_failed', 'refunded')
			  AND NOT EXISTS (SELECT FROM payments.refunds r WHERE r.payment_no = l.payment_no AND r.capture_txn = l.provider_txn)
			ORDER BY l.order_no LIMIT $1`,
			[]any{s.cfg.InFlight.Milliseconds()},
			func(row pgx.CollectableRow) (proof.Violation, error) {
				var txn, currency, status string
				var amount int64
				var no ids.ID
				err := row.Scan(&txn, &amount, &currency, &no, &status)
				return proof.Violation{Subject: "order " + no.String(), Detail: fmt.Sprintf(
					"capture %s of %s lies on an order that is %s, and no refund was requested", txn, money(amount, currency), status)}, err
			},
		},
	)
}

// reader is a pool, or the transaction in which a test plants what is wrong.
type reader interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// query is one statement that finds violations. Its first argument is the
// limit, args follow.
type query struct {
	sql  string
	args []any
	read func(pgx.CollectableRow) (proof.Violation, error)
}

func violations(ctx context.Context, db reader, queries ...query) ([]proof.Violation, error) {
	var all []proof.Violation
	for _, q := range queries {
		rows, err := db.Query(ctx, q.sql, append([]any{maxViolations}, q.args...)...)
		if err != nil {
			return nil, fmt.Errorf("payment: check: %w", err)
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (proof.Violation, error) { return q.read(row) })
		if err != nil {
			return nil, fmt.Errorf("payment: check: %w", err)
		}
		all = append(all, found...)
	}
	return all, nil
}
