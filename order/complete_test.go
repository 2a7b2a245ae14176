package order

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"stampede/order/details"
	"stampede/order/orderevent"
	"stampede/platform/base/ids"
	"stampede/platform/workshop/require"
	"stampede/seckill/seckillevent"
)

// TestHousekeeping: by rule, orders are completed some time after their payment, or after they
// were sent, except for those to be picked up, and personal data is erased some time after the
// end of its order, or at once if the shopper deleted the account.
func TestHousekeeping(t *testing.T) {
	t.Parallel()
	e := setupEdge(t, func(cfg *Config, _ *Deps) { cfg.CompleteAfter, cfg.KeepDetails = 24*time.Hour, 72*time.Hour })
	m := grants(e.item(10), 1, 2, 3, 4, 5)
	e.deliver(m)
	no := numbers(m)
	due, picked, recent, forgotten, pending := no[0], no[1], no[2], no[3], no[4]
	e.exec(`INSERT INTO orders.stores (name, address) VALUES ('x', 'y')`)
	e.inTx(func(tx pgx.Tx) error {
		for i, n := range no {
			in := details.Choices{Way: seckillevent.Delivery, Name: "王小明", Phone: "+8613800138000", Address: "人民路"}
			if n == picked {
				in = details.Choices{Way: seckillevent.Pickup, StoreID: "1", Name: "王小明"}
			}
			if err := details.Put(t.Context(), tx, n, int64(i)+1, &in); err != nil {
				return err
			}
			if n == pending {
				continue
			}
			if _, _, err := e.MarkPaid(t.Context(), tx, n, orderevent.PaidBy{PaymentNo: ids.New()}, e.costs(n)); err != nil {
				return err
			}
		}
		return nil
	})
	e.exec(`UPDATE orders.orders SET handover = 'shipped' WHERE handover = 'to_ship'`)
	e.exec(`UPDATE orders.orders SET paid_at = paid_at - interval '25 hours' WHERE order_no = ANY($1)`, []ids.ID{due, picked, forgotten})
	e.keepsHouse()
	require.Equal(t, "after a day", e.statuses(no...), []string{"completed", "paid", "paid", "completed", "pending_payment"})
	require.Equal(t, "the events of one transaction", len(e.events()[orderevent.SubjectCompleted]), 2)
	require.Equal(t, "the history", e.count(`SELECT count(*) FROM orders.history WHERE order_no = $1 AND version = 3 AND status = 'completed' AND reason = 'time' AND actor = 'system'`, due), 1)

	e.exec(`INSERT INTO orders.disputes (bucket, dispute_no, order_no, user_id, reason, status, outcome, waiting_since, forget, updated_at)
		SELECT bucket, gen_random_uuid(), order_no, user_id, 'x', 'closed', 'no_refund', NULL, false, clock_timestamp() FROM orders.orders WHERE order_no IN ($1, $2)`, forgotten, due)
	e.exec(`INSERT INTO orders.disputes (bucket, dispute_no, order_no, user_id, reason) SELECT bucket, gen_random_uuid(), order_no, user_id, 'open' FROM orders.orders WHERE order_no = $1`, forgotten)
	e.exec(`INSERT INTO orders.dispute_texts (bucket, dispute_no, line, text) SELECT bucket, dispute_no, 1, 'x' FROM orders.disputes`)
	e.exec(`INSERT INTO orders.acts (bucket, order_no, act_no, user_id, operator, action, text, version, forget)
		SELECT bucket, order_no, gen_random_uuid(), user_id, 7, 'note', 'x', 2, false FROM orders.orders`)
	e.exec(`INSERT INTO orders.external_references (bucket, order_no, user_id, external_id, metadata)
		SELECT bucket, order_no, user_id, 'SO', '{"k": "v"}' FROM orders.orders`)
	references := func() int {
		return e.count(`SELECT count(*) FROM orders.external_references WHERE external_id = 'SO' AND (metadata = '{}') = (erased_at IS NOT NULL) AND erased_at IS NULL`)
	}
	e.inTx(func(tx pgx.Tx) error { return e.Forget(t.Context(), tx, 4) })
	e.keepsHouse()
	require.Equal(t, "references that are not erased", references(), 4)
	require.Equal(t, "actions whose words are not erased", e.count(`SELECT count(*) FROM orders.acts WHERE text <> ''`), 4)
	e.exec(`UPDATE orders.acts SET at = at - interval '73 hours' WHERE order_no <> $1`, picked)
	require.Equal(t, "disputes that are not erased", e.count(`SELECT count(*) FROM orders.disputes WHERE reason <> ''`), 2)
	require.Equal(t, "their texts", e.count(`SELECT count(*) FROM orders.dispute_texts`), 2)
	e.exec(`UPDATE orders.disputes SET updated_at = updated_at - interval '73 hours'`)
	require.Equal(t, "erased at once", e.count(`SELECT count(*) FROM orders.details WHERE order_no = $1 AND name || phone || address || pickup_code = ''`, forgotten), 1)
	require.Equal(t, "kept for three days", e.count(`SELECT count(*) FROM orders.details WHERE address <> '' OR way = 'pickup' AND pickup_code <> ''`), 4)
	e.exec(`UPDATE orders.orders SET updated_at = updated_at - interval '73 hours'`)
	e.exec(`UPDATE orders.details SET updated_at = updated_at - interval '73 hours'`)
	e.exec(`UPDATE orders.external_references SET updated_at = updated_at - interval '73 hours'`)
	e.keepsHouse()
	require.Equal(t, "references that are not erased after three days", references(), 3)
	// Written while the account was deleted: without the mark.
	e.exec(`UPDATE orders.external_references SET metadata = '{"k": "v"}', erased_at = NULL, forget = false, updated_at = clock_timestamp() WHERE order_no = $1`, forgotten)
	e.exec(`INSERT INTO orders.acts (bucket, order_no, act_no, user_id, operator, action, text, version, forget)
		SELECT bucket, order_no, gen_random_uuid(), user_id, 7, 'note', 'x', 2, false FROM orders.orders WHERE order_no = $1`, forgotten)
	e.keepsHouse()
	require.Equal(t, "references that are not erased after a write beside the deletion", references(), 3)
	require.Equal(t, "external ids after three days", e.count(`SELECT count(*) FROM orders.external_references WHERE external_id = 'SO'`), 5)
	require.Equal(t, "disputes that are not erased after three days", e.count(`SELECT count(*) FROM orders.disputes WHERE reason NOT IN ('', 'open')`), 0)
	require.Equal(t, "their texts after three days", e.count(`SELECT count(*) FROM orders.dispute_texts`), 1)
	require.Equal(t, "disputes that are still open", e.count(`SELECT count(*) FROM orders.disputes WHERE reason = 'open'`), 1)
	require.Equal(t, "actions whose words are not erased after three days", e.count(`SELECT count(*) FROM orders.acts WHERE text <> ''`), 3)
	require.Equal(t, "erased after three days", e.count(`SELECT count(*) FROM orders.details WHERE order_no = $1 AND address <> ''`, due), 0)
	require.Equal(t, "kept for orders that have not ended", e.count(`SELECT count(*) FROM orders.details WHERE order_no = ANY($1) AND name <> ''`, []ids.ID{picked, recent, pending}), 3)
}

func (e *edge) keepsHouse() {
	e.t.Helper()
	require.NoError(e.t, e.keepHouse(e.t.Context()))
}
