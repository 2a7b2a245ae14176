-- Every change of a payment or a refund is one conditional UPDATE. A second attempt changes no row, and the caller reacts
-- by rule. Lock order: stock and order rows first (package order), then rows of this schema. The ledger key comes before both and
-- is never held while waiting for another ledger key.

-- name: OpenPayment :one
SELECT * FROM payments.payments WHERE order_no = @order_no AND bucket = @bucket AND status = 'created';

-- name: OpenPayments :many
-- The open payments of a set of orders, for closing; overdue are those whose provider has had its time. A payment
-- expires at its order's deadline.
SELECT sqlc.embed(p), (p.expires_at <= clock_timestamp() - @unanswered_after::interval)::boolean AS overdue
FROM payments.payments p
WHERE (p.order_no, p.bucket) IN (SELECT unnest(@order_nos::uuid[]), unnest(@buckets::smallint[])) AND p.status = 'created' ORDER BY p.payment_no;

-- name: Payment :one
SELECT * FROM payments.payments WHERE payment_no = @payment_no AND bucket = @bucket;

-- name: StartPayment :one
-- Opens a payment unless the order has an open one, or so little time is left that the provider would refuse it.
INSERT INTO payments.payments (bucket, payment_no, order_no, user_id, provider, method, amount, currency, status, expires_at, next_query)
SELECT @bucket, @payment_no, @order_no, @user_id, @provider, @method, @amount, @currency, 'created', @expires_at::timestamptz,
       clock_timestamp() + interval '1 millisecond' * @query_after_ms::bigint
WHERE @expires_at::timestamptz > clock_timestamp() + interval '1 millisecond' * @least_window_ms::bigint
ON CONFLICT (order_no, bucket) WHERE status = 'created' DO NOTHING
RETURNING *;

-- name: NoteHandoff :execrows
UPDATE payments.payments SET handoff = @handoff, updated_at = clock_timestamp()
WHERE payment_no = @payment_no AND bucket = @bucket AND status = 'created';

-- name: CapturePayment :execrows
-- The money has moved. A payment that we had closed becomes captured too.
UPDATE payments.payments SET status = 'captured', provider_txn = @provider_txn, version = version + 1, updated_at = clock_timestamp()
WHERE payment_no = @payment_no AND bucket = @bucket AND status <> 'captured';

-- name: ClosePayment :execrows
UPDATE payments.payments SET status = 'closed', version = version + 1, updated_at = clock_timestamp()
WHERE payment_no = @payment_no AND bucket = @bucket AND status = 'created';

-- name: ClaimQueries :many
-- Claims the open payments that are due for a query, and sets the next query: later each time, but not long after
-- the payment has expired, and never before the claim ends. Several instances share the work.
UPDATE payments.payments p
SET queries = p.queries + 1,
    next_query = clock_timestamp() + greatest(@claim::interval, least(
        interval '1 millisecond' * power(2, least(p.queries, 16)) * @base_ms::bigint,
        greatest(p.expires_at - clock_timestamp(), interval '0') + interval '1 millisecond' * @base_ms::bigint,
        interval '1 millisecond' * @most_ms::bigint))
WHERE (p.bucket, p.payment_no) IN (
    SELECT d.bucket, d.payment_no FROM payments.payments d WHERE d.status = 'created' AND d.next_query <= statement_timestamp()
    ORDER BY d.next_query LIMIT @at_most FOR UPDATE SKIP LOCKED)
RETURNING sqlc.embed(p), (p.expires_at <= clock_timestamp())::boolean AS expired;

-- name: RecordCapture :one
-- Reads a payment, and records a movement for it once: if it is what was charged at that provider, or has to be
-- believed. A second callback for it waits here for the first to commit, then records nothing.
WITH recorded AS (
    INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, amount, currency)
    SELECT p.provider, 'capture', @provider_txn::text, p.payment_no, p.order_no, @amount::bigint, @currency::text
    FROM payments.payments p
    WHERE p.payment_no = @payment_no AND p.bucket = @bucket AND p.provider = @provider AND @amount >= 0
      AND (@believed::boolean OR p.amount = @amount AND p.currency = @currency)
    ON CONFLICT (provider, kind, provider_txn) DO NOTHING
    RETURNING 1
)
SELECT sqlc.embed(p), EXISTS (SELECT FROM recorded) AS recorded FROM payments.payments p WHERE p.payment_no = @payment_no AND p.bucket = @bucket;

-- name: RecordMoney :execrows
-- Records a movement once. A second callback for it waits here for the first to commit, then writes nothing.
INSERT INTO payments.ledger (provider, kind, provider_txn, payment_no, order_no, refund_no, amount, currency)
VALUES (@provider, @kind, @provider_txn, @payment_no, @order_no, @refund_no, @amount, @currency)
ON CONFLICT (provider, kind, provider_txn) DO NOTHING;

-- name: Movement :one
SELECT * FROM payments.ledger WHERE provider = @provider AND kind = @kind AND provider_txn = @provider_txn;

-- name: RequestRefund :execrows
INSERT INTO payments.refunds (bucket, refund_no, payment_no, order_no, user_id, provider, capture_txn, amount, currency, reason, status)
VALUES (@bucket, @refund_no, @payment_no, @order_no, @user_id, @provider, @capture_txn, @amount, @currency, @reason, 'requested')
ON CONFLICT (bucket, payment_no, capture_txn) WHERE reason IN ('duplicate', 'late', 'mismatch') AND status <> 'replaced' DO NOTHING;

-- name: Refund :one
SELECT * FROM payments.refunds WHERE refund_no = @refund_no AND bucket = @bucket;

-- name: CaptureToRefund :one
-- The capture that a refund belongs to: the provider's reference of its payment, and all that it took.
SELECT p.handoff, l.amount AS captured
FROM payments.payments p JOIN payments.ledger l USING (payment_no)
WHERE p.payment_no = @payment_no AND p.bucket = @bucket AND l.provider = @provider AND l.kind = 'capture' AND l.provider_txn = @capture_txn;

-- name: ClaimRefunds :many
-- Claims refunds that are due to be requested or queried. NoteRefundAttempt ends the claim.
UPDATE payments.refunds r SET attempts = r.attempts + 1, next_try = clock_timestamp() + @claim::interval
WHERE (r.bucket, r.refund_no) IN (
    SELECT d.bucket, d.refund_no FROM payments.refunds d WHERE d.status = 'requested' AND d.next_try <= statement_timestamp()
    ORDER BY d.next_try LIMIT @at_most FOR UPDATE SKIP LOCKED)
RETURNING r.*;

-- name: NoteRefundAttempt :exec
-- What the last attempt ended with, empty if the provider is at it, and when the next one is due. Nothing if the refund
-- was claimed again since.
UPDATE payments.refunds SET last_error = @last_error, updated_at = CASE last_error WHEN @last_error THEN updated_at ELSE clock_timestamp() END,
    next_try = clock_timestamp() + least(interval '1 millisecond' * power(2, least(attempts - 1, 16)) * @base_ms::bigint,
                                         interval '1 millisecond' * @most_ms::bigint)
WHERE refund_no = @refund_no AND bucket = @bucket AND status = 'requested' AND attempts = @attempts;

-- name: SucceedRefund :execrows
-- A refund that the provider had reported as failed and then made becomes succeeded too, unless the money went back
-- in another way since.
UPDATE payments.refunds SET status = 'succeeded', last_error = '', updated_at = clock_timestamp()
WHERE refund_no = @refund_no AND bucket = @bucket AND status IN ('requested', 'failed');

-- name: FailRefund :execrows
UPDATE payments.refunds SET status = 'failed', last_error = @last_error, updated_at = clock_timestamp()
WHERE refund_no = @refund_no AND bucket = @bucket AND status = 'requested';

-- name: ReverseRefund :execrows
-- The provider has taken back what it had made: the money is with the shop again.
UPDATE payments.refunds SET status = 'failed', last_error = @last_error, updated_at = clock_timestamp()
WHERE refund_no = @refund_no AND bucket = @bucket AND status = 'succeeded';

-- name: RefundThatStands :one
-- The ledger's row of a refund that its provider has made and not taken back.
SELECT l.* FROM payments.ledger l
WHERE l.order_no = @order_no AND l.refund_no = @refund_no AND l.kind = 'refund' AND l.provider = @provider AND NOT EXISTS (
    SELECT FROM payments.ledger b WHERE b.provider = l.provider AND b.kind = 'refund_reversal' AND b.provider_txn = l.provider_txn);

-- name: PaymentsOfOrder :many
SELECT * FROM payments.payments WHERE order_no = @order_no AND bucket = @bucket ORDER BY payment_no;

-- name: RefundsOfOrder :many
SELECT * FROM payments.refunds WHERE order_no = @order_no AND bucket = @bucket ORDER BY refund_no;

-- name: OrdersThatDiffer :many
-- Money that has to be refunded counts as gone from the moment its refund is requested, and so does what a chargeback
-- took in place of a refund; an order that is refunded in part costs that much less.
WITH moved AS (
    SELECT order_no, currency, sum(CASE kind WHEN 'refund' THEN -amount ELSE amount END) AS net
    FROM payments.ledger WHERE kind IN ('capture', 'refund', 'refund_reversal') GROUP BY order_no, currency
), promised AS (
    SELECT order_no, currency, sum(amount) AS back
    FROM payments.refunds WHERE status IN ('requested', 'failed', 'charged_back') GROUP BY order_no, currency
), granted AS (
    SELECT order_no, currency, sum(amount) AS amount
    FROM payments.refunds
    WHERE reason IN ('shopper', 'operator', 'dispute') AND status IN ('requested', 'failed', 'succeeded', 'settled_by_hand', 'charged_back')
    GROUP BY order_no, currency
), owed AS (
    SELECT o.order_no, o.currency, orders.amount(o.unit_price, o.quantity, o.freight, o.discount) - coalesce(g.amount, 0) AS amount
    FROM orders.orders o LEFT JOIN granted g USING (order_no, currency)
    WHERE o.status IN ('paid', 'completed', 'refunding', 'refund_failed')
)
SELECT order_no::uuid AS order_no, coalesce(owed.amount, 0)::bigint AS owed, coalesce(net, 0)::bigint AS net, coalesce(back, 0)::bigint AS back,
    currency::text AS currency
FROM moved FULL JOIN promised USING (order_no, currency) FULL JOIN owed USING (order_no, currency)
WHERE coalesce(net, 0) - coalesce(back, 0) <> coalesce(owed.amount, 0)
ORDER BY 1 LIMIT @at_most;

-- name: OrdersNamingOtherMoney :many
-- Orders whose row names no capture of theirs, though they were paid, or the other way round.
SELECT o.order_no FROM orders.orders o
LEFT JOIN payments.ledger l ON l.provider = o.provider AND l.kind = 'capture' AND l.provider_txn = o.provider_txn
    AND l.order_no = o.order_no AND l.payment_no = o.payment_no
WHERE (o.paid_at IS NOT NULL OR o.payment_no IS NOT NULL) AND (o.paid_at IS NULL OR l.payment_no IS NULL)
ORDER BY 1 LIMIT @at_most;

-- name: CapturesThatDiffer :many
SELECT coalesce(l.payment_no, p.payment_no)::uuid AS payment_no, (p.payment_no IS NULL)::boolean AS not_captured, (l.payment_no IS NULL)::boolean AS not_in_ledger
FROM (SELECT * FROM payments.payments WHERE status = 'captured') p
FULL JOIN (SELECT * FROM payments.ledger WHERE kind = 'capture') l ON l.payment_no = p.payment_no
WHERE p.payment_no IS NULL OR l.payment_no IS NULL OR p.provider <> l.provider OR p.order_no <> l.order_no
ORDER BY 1 LIMIT @at_most;

-- name: RefundsThatDiffer :many
-- A refund that was made stands once in the ledger, and any other not at all: each of its rows was taken back.
SELECT coalesce(l.refund_no, r.refund_no)::uuid AS refund_no, coalesce(l.amount, 0)::bigint AS moved, coalesce(r.amount, 0)::bigint AS says,
    coalesce(l.currency, r.currency)::text AS currency, coalesce(l.stand, 0)::bigint AS ledger_rows
FROM (SELECT * FROM payments.refunds WHERE status IN ('succeeded', 'settled_by_hand')) r
FULL JOIN (
    SELECT refund_no, payment_no, currency, sum(CASE kind WHEN 'refund' THEN 1 ELSE -1 END) AS stand, sum(CASE kind WHEN 'refund' THEN amount ELSE -amount END) AS amount
    FROM payments.ledger WHERE kind IN ('refund', 'refund_reversal') GROUP BY refund_no, payment_no, currency
    HAVING sum(CASE kind WHEN 'refund' THEN 1 ELSE -1 END) <> 0 OR sum(CASE kind WHEN 'refund' THEN amount ELSE -amount END) <> 0
) l ON l.refund_no = r.refund_no
WHERE l.stand IS DISTINCT FROM 1 OR r.amount IS DISTINCT FROM l.amount OR r.payment_no IS DISTINCT FROM l.payment_no
ORDER BY 1 LIMIT @at_most;

-- name: RefundsNotBack :many
-- Money that waits for its refund for too long: a provider that has taken the request on without an error may need
-- days.
SELECT refund_no, status, amount, currency, extract(epoch FROM clock_timestamp() - coalesce(decided_at, created_at))::bigint AS seconds, last_error
FROM payments.refunds
WHERE status = 'failed'
   OR status = 'requested' AND coalesce(decided_at, created_at) < clock_timestamp()
      - CASE WHEN attempts > 0 AND last_error = '' THEN @provider_takes::interval ELSE @in_flight::interval END
ORDER BY refund_no LIMIT @at_most;

-- name: CapturesNotPromisedBack :many
SELECT l.provider_txn, l.amount, l.currency, l.order_no, coalesce(o.status, 'unknown')::text AS status
FROM payments.ledger l
LEFT JOIN orders.orders o USING (order_no)
WHERE l.kind = 'capture' AND l.amount > 0 AND l.at < statement_timestamp() - @in_flight::interval
  AND coalesce(o.status, 'unknown') NOT IN ('paid', 'completed', 'refunding', 'refund_failed', 'refunded')
  AND NOT EXISTS (SELECT FROM payments.refunds r WHERE r.payment_no = l.payment_no AND r.capture_txn = l.provider_txn)
ORDER BY l.order_no LIMIT @at_most;

-- name: PayingCapture :one
-- The capture that paid an order: of all its captures the one that brought what was charged and is not refunded
-- automatically. paid_at is when we recorded it.
SELECT p.bucket, p.user_id, l.payment_no, l.provider, l.provider_txn, l.amount, l.currency, l.at AS paid_at, clock_timestamp()::timestamptz AS now
FROM payments.ledger l JOIN payments.payments p ON p.payment_no = l.payment_no AND p.bucket = @bucket
WHERE l.order_no = @order_no AND l.kind = 'capture' AND l.amount = p.amount AND l.currency = p.currency AND NOT EXISTS (
    SELECT FROM payments.refunds r
    WHERE r.payment_no = l.payment_no AND r.bucket = p.bucket AND r.capture_txn = l.provider_txn AND r.reason IN ('duplicate', 'late', 'mismatch'))
ORDER BY l.at LIMIT 1;

-- name: AskedRefunds :many
-- An order's refunds that were asked for, oldest first.
SELECT * FROM payments.refunds
WHERE order_no = @order_no AND bucket = @bucket AND reason IN ('shopper', 'operator', 'dispute') ORDER BY refund_no;

-- name: RefundsOfOrders :many
-- What went back of many orders' money, and whether more of it may: a refund waits for a decision, a provider or an operator.
SELECT n.no::uuid AS order_no, coalesce(sum(r.amount) FILTER (WHERE r.status IN ('succeeded', 'settled_by_hand')), 0)::bigint AS refunded,
       bool_or(r.status IN ('awaiting_approval', 'requested', 'failed')) AS open
FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
CROSS JOIN LATERAL (SELECT amount, status FROM payments.refunds
                    WHERE order_no = n.no AND bucket = n.b AND reason IN ('shopper', 'operator', 'dispute') OFFSET 0) r
GROUP BY n.no;

-- name: AskRefund :one
INSERT INTO payments.refunds (bucket, refund_no, payment_no, order_no, user_id, provider, capture_txn, amount, currency, reason, status, note, requested_by, decided_by, units)
VALUES (@bucket, @refund_no, @payment_no, @order_no, @user_id, @provider, @capture_txn, @amount, @currency, @reason, @status, @note, @requested_by, @decided_by, @units)
RETURNING *;

-- name: DecideRefund :one
UPDATE payments.refunds SET status = @status, units = @units, decided_by = @decided_by, decided_at = clock_timestamp(), next_try = clock_timestamp(), updated_at = clock_timestamp()
WHERE refund_no = @refund_no AND bucket = @bucket AND status = 'awaiting_approval'
RETURNING *;

-- name: ReplaceRefund :one
UPDATE payments.refunds SET status = 'replaced', updated_at = clock_timestamp()
WHERE refund_no = @refund_no AND bucket = @bucket AND status = 'failed'
RETURNING *;

-- name: SettleRefundByHand :one
UPDATE payments.refunds SET status = 'settled_by_hand', receipt = @receipt, settled_by = @settled_by, updated_at = clock_timestamp()
WHERE refund_no = @refund_no AND bucket = @bucket AND status = 'failed'
RETURNING *;

-- name: ChargedBack :one
-- What the shopper's bank has taken back of a capture beyond the refunds that ended by that: in all, and for good. rest is
-- what neither the bank nor a refund takes.
SELECT (m.held - r.ended)::bigint AS held, (m.lost - r.ended)::bigint AS lost, (l.amount - r.asked - greatest(m.held - r.ended, 0))::bigint AS rest
FROM payments.ledger l CROSS JOIN LATERAL (
    SELECT coalesce(sum(v.amount), 0) AS held, coalesce(sum(v.amount) FILTER (WHERE v.status = 'lost'), 0) AS lost FROM (
        SELECT CASE b.kind WHEN 'chargeback' THEN b.amount ELSE -b.amount END AS amount, c.status
        FROM payments.ledger b LEFT JOIN payments.chargebacks c ON c.provider = b.provider AND c.chargeback_no = b.provider_txn
        WHERE b.payment_no = l.payment_no AND b.kind IN ('chargeback', 'chargeback_reversal') AND coalesce(c.capture_txn, l.provider_txn) = l.provider_txn) v
) m CROSS JOIN LATERAL (
    SELECT coalesce(sum(f.amount) FILTER (WHERE f.status NOT IN ('rejected', 'replaced')), 0) AS asked,
        coalesce(sum(f.amount) FILTER (WHERE f.status = 'charged_back'), 0) AS ended
    FROM payments.refunds f WHERE f.order_no = l.order_no AND f.bucket = @bucket AND f.provider = l.provider AND f.capture_txn = l.provider_txn
) r
WHERE l.provider = @provider AND l.kind = 'capture' AND l.provider_txn = @capture_txn;

-- name: EndRefundByChargeback :one
UPDATE payments.refunds SET status = 'charged_back', updated_at = clock_timestamp()
WHERE refund_no = @refund_no AND bucket = @bucket AND status = 'failed'
RETURNING *;

-- name: ReopenRefunds :many
-- Puts back to failed, the newest first, as many refunds of a capture that ended by a chargeback as @beyond needs.
UPDATE payments.refunds r SET status = 'failed', last_error = @last_error, updated_at = clock_timestamp()
FROM (SELECT f.bucket, f.refund_no, sum(f.amount) OVER (ORDER BY f.refund_no DESC) - f.amount AS newer
      FROM payments.refunds f WHERE f.order_no = @order_no AND f.bucket = @bucket AND f.provider = @provider AND f.capture_txn = @capture_txn AND f.status = 'charged_back') e
WHERE r.refund_no = e.refund_no AND r.bucket = e.bucket AND e.newer < @beyond::bigint
RETURNING r.*;

-- name: RefundsBeyondChargebacks :many
-- Captures of which more refunds ended by a chargeback than banks have taken back.
SELECT r.payment_no, r.ended::bigint AS ended, l.taken::bigint AS taken, r.currency
FROM (SELECT payment_no, capture_txn, currency, sum(amount) AS ended FROM payments.refunds WHERE status = 'charged_back' GROUP BY payment_no, capture_txn, currency) r
CROSS JOIN LATERAL (
    SELECT coalesce(sum(CASE b.kind WHEN 'chargeback' THEN b.amount ELSE -b.amount END), 0) AS taken
    FROM payments.ledger b LEFT JOIN payments.chargebacks c ON c.provider = b.provider AND c.chargeback_no = b.provider_txn
    WHERE b.payment_no = r.payment_no AND b.currency = r.currency AND b.kind IN ('chargeback', 'chargeback_reversal')
      AND coalesce(c.capture_txn, r.capture_txn) = r.capture_txn) l
WHERE r.ended > l.taken ORDER BY 1 LIMIT @at_most;

-- name: ListRefunds :many
-- Refunds for an operator, newest first.
SELECT * FROM payments.refunds WHERE refund_no < @before ORDER BY refund_no DESC LIMIT @at_most;

-- name: RefundsWithStatus :many
SELECT * FROM payments.refunds WHERE status = @status AND refund_no < @before ORDER BY refund_no DESC LIMIT @at_most;

-- name: RefundsBeyondCaptures :many
-- Captures of which more is to be refunded than they brought.
SELECT r.payment_no, r.capture_txn, sum(r.amount)::bigint AS back, coalesce(max(l.amount), 0)::bigint AS captured, r.currency
FROM payments.refunds r
LEFT JOIN payments.ledger l ON l.provider = r.provider AND l.kind = 'capture' AND l.provider_txn = r.capture_txn AND l.currency = r.currency
WHERE r.status NOT IN ('rejected', 'replaced')
GROUP BY r.payment_no, r.capture_txn, r.currency HAVING sum(r.amount) > coalesce(max(l.amount), 0)
ORDER BY 1, 2 LIMIT @at_most;

-- name: OrdersBehindTheirRefunds :many
-- Orders whose status is not what their refunds make of it.
WITH asked AS (
    SELECT order_no, bucket, sum(amount) FILTER (WHERE status IN ('requested', 'failed', 'succeeded', 'settled_by_hand', 'charged_back')) AS granted,
        bool_or(status = 'failed') AS failed, bool_or(status = 'requested') AS open
    FROM payments.refunds WHERE reason IN ('shopper', 'operator', 'dispute') GROUP BY order_no, bucket
), expected AS (
    SELECT o.order_no, o.status || CASE WHEN o.status = 'refunded' AND o.reason = 'taken-back' THEN ' but taken back' ELSE '' END AS status, CASE
        WHEN a.granted IS NULL OR a.granted < orders.amount(o.unit_price, o.quantity, o.freight, o.discount) THEN 'paid'
        WHEN o.status = 'refunded' AND (a.failed OR a.open) THEN 'refunded but taken back'
        WHEN a.failed THEN 'refund_failed' WHEN a.open THEN 'refunding' ELSE 'refunded' END AS by_refunds
    FROM orders.orders o LEFT JOIN asked a USING (order_no, bucket)
    WHERE a.order_no IS NOT NULL OR o.status IN ('refunding', 'refund_failed', 'refunded')
)
SELECT order_no, status::text AS status, by_refunds::text AS by_refunds FROM expected
WHERE status <> by_refunds AND NOT (status = 'completed' AND by_refunds = 'paid')
ORDER BY order_no LIMIT @at_most;

-- name: ForgetNotes :exec
-- What a shopper wrote, and read as the end of a dispute; why operators refunded stays in the books.
UPDATE payments.refunds SET note = '' WHERE bucket = @bucket AND user_id = @user_id AND reason IN ('shopper', 'dispute') AND note <> '';

-- name: OrdersOfTransaction :many
-- The orders of a provider's transaction, whichever provider's and kind it is: these are few and found one after the other.
WITH RECURSIVE kinds AS (
    (SELECT l.provider, l.kind FROM payments.ledger l ORDER BY l.provider, l.kind LIMIT 1)
    UNION ALL
    SELECT n.provider, n.kind FROM kinds k CROSS JOIN LATERAL (
        SELECT l.provider, l.kind FROM payments.ledger l WHERE (l.provider, l.kind) > (k.provider, k.kind)
        ORDER BY l.provider, l.kind LIMIT 1) n
)
SELECT DISTINCT l.order_no FROM kinds k
JOIN payments.ledger l ON l.provider = k.provider AND l.kind = k.kind AND l.provider_txn = @provider_txn::text;
