-- The state machine of the bank. Every change is one conditional statement on the clock of the database: a second attempt changes
-- no row. The clock is clock_timestamp(), not now(), because a statement that waited for a lock must see the time after the wait.

-- name: CreatePayment :one
-- Opens a payment unless the number is known already, in any state, or less than the least time to pay is left.
INSERT INTO sandbox.payments (ref, merchant, payment_no, title, amount, currency, status, notify_url, return_url, expires_at)
SELECT @ref, @merchant, @payment_no, @title, @amount, @currency, 'open', @notify_url, @return_url, @expires_at::timestamptz
WHERE @expires_at::timestamptz >= clock_timestamp() + interval '1 millisecond' * @least_window_ms::bigint
ON CONFLICT (merchant, payment_no) DO NOTHING
RETURNING *;

-- name: Expire :one
-- Records the expiry of a payment when it is next read.
UPDATE sandbox.payments SET status = 'closed', updated_at = clock_timestamp()
WHERE ref = @ref AND status = 'open' AND expires_at <= clock_timestamp()
RETURNING *;

-- name: PaymentByNumber :one
SELECT * FROM sandbox.payments WHERE merchant = @merchant AND payment_no = @payment_no;

-- name: PaymentByRef :one
SELECT * FROM sandbox.payments WHERE ref = @ref;

-- name: ClosePayment :exec
-- Closes an open payment. An unknown number is recorded as closed, so that a creation still in transit fails.
INSERT INTO sandbox.payments AS p (ref, merchant, payment_no, amount, currency, status, expires_at)
VALUES (@ref, @merchant, @payment_no, 0, '', 'closed', clock_timestamp())
ON CONFLICT (merchant, payment_no) DO UPDATE SET status = 'closed', updated_at = clock_timestamp() WHERE p.status = 'open';

-- name: Capture :one
-- Takes the money once: of several payers, a close and the expiry, one wins. A bank that underpays withholds one, and
-- takes at least one, or it would not be a capture.
UPDATE sandbox.payments p
SET status = 'captured', txn = @txn, captured_at = clock_timestamp(),
    captured_amount = amount - (coalesce(nullif(@behaviour::text, ''), p.behaviour) = 'underpaid' AND amount > 1)::int,
    behaviour = coalesce(nullif(@behaviour::text, ''), p.behaviour), delay_seconds = coalesce(sqlc.narg(delay_seconds), p.delay_seconds),
    silent_until = CASE WHEN coalesce(nullif(@behaviour::text, ''), p.behaviour) = 'silent'
        THEN clock_timestamp() + interval '1 second' * coalesce(sqlc.narg(delay_seconds), p.delay_seconds) END,
    updated_at = clock_timestamp()
WHERE ref = @ref AND status = 'open' AND expires_at > clock_timestamp()
RETURNING *;

-- name: SetAsideRefund :one
-- Reserves the money of a refund. The transaction must be that of the payment, and the amount still
-- available.
UPDATE sandbox.payments SET refunded = refunded + @amount, updated_at = clock_timestamp()
WHERE merchant = @merchant AND payment_no = @payment_no AND status = 'captured' AND txn = @txn::text AND currency = @currency
  AND refunded + @amount <= captured_amount
RETURNING *;

-- name: CreateRefund :exec
INSERT INTO sandbox.refunds (ref, merchant, refund_no, payment_ref, payment_no, amount, currency, status, fails, bounces_ms, notify_url, ready_at)
VALUES (@ref, @merchant, @refund_no, @payment_ref, @payment_no, @amount, @currency, 'processing', @fails, @bounces_ms, @notify_url,
        clock_timestamp() + interval '1 millisecond' * @delay_ms::bigint);

-- name: RefundByNumber :one
SELECT * FROM sandbox.refunds WHERE merchant = @merchant AND refund_no = @refund_no;

-- name: SettleDueRefunds :many
-- Settles the refunds that are due; several processes share them.
UPDATE sandbox.refunds r
SET status = CASE WHEN r.fails THEN 'failed' ELSE 'succeeded' END, updated_at = clock_timestamp(),
    ready_at = clock_timestamp() + interval '1 millisecond' * coalesce(r.bounces_ms, 0)
WHERE r.ref IN (SELECT d.ref FROM sandbox.refunds d WHERE d.status = 'processing' AND d.ready_at <= statement_timestamp()
                ORDER BY d.ready_at LIMIT @at_most FOR UPDATE SKIP LOCKED)
RETURNING r.*;

-- name: BounceDueRefunds :many
-- Takes back refunds that succeeded: the shopper's own bank did not accept the money.
UPDATE sandbox.refunds r SET status = 'failed', bounced_at = clock_timestamp()
WHERE r.ref IN (SELECT d.ref FROM sandbox.refunds d WHERE d.status = 'succeeded' AND d.bounces_ms IS NOT NULL AND d.ready_at <= statement_timestamp()
                ORDER BY d.ready_at LIMIT @at_most FOR UPDATE SKIP LOCKED)
RETURNING r.*;

-- name: AdvanceDisputes :many
-- Begins the chargebacks that are due, and ends those that have lasted as long as their payment did before.
UPDATE sandbox.payments p
SET dispute_ended_at = CASE WHEN p.disputed_at IS NOT NULL THEN clock_timestamp() END, disputed_at = coalesce(p.disputed_at, clock_timestamp())
WHERE p.ref IN (
    SELECT d.ref FROM sandbox.payments d
    WHERE d.status = 'captured' AND d.behaviour IN ('chargeback_won', 'chargeback_lost') AND d.dispute_ended_at IS NULL
      AND coalesce(d.disputed_at, d.captured_at) + interval '1 second' * d.delay_seconds <= statement_timestamp()
    ORDER BY d.captured_at LIMIT @at_most FOR UPDATE SKIP LOCKED)
RETURNING p.*;

-- name: GiveBackSetAside :exec
-- A failed refund returns the reserved money.
UPDATE sandbox.payments SET refunded = refunded - @amount, updated_at = clock_timestamp() WHERE ref = @ref;

-- name: CreateCallback :exec
INSERT INTO sandbox.callbacks (id, merchant, url, body, status, next_try)
VALUES (@id, @merchant, @url, @body, 'pending', clock_timestamp() + interval '1 millisecond' * @delay_ms::bigint);

-- name: ClaimCallbacks :many
-- Claims the due callbacks and postpones them for as long as one delivery may take: if the process dies with a
-- callback, it becomes due again.
UPDATE sandbox.callbacks c
SET attempts = c.attempts + 1, next_try = clock_timestamp() + interval '1 millisecond' * @lease_ms::bigint
WHERE c.id IN (SELECT d.id FROM sandbox.callbacks d WHERE d.status = 'pending' AND d.next_try <= statement_timestamp()
               ORDER BY d.next_try LIMIT @at_most FOR UPDATE SKIP LOCKED)
RETURNING c.id, c.merchant, c.url, c.body, c.attempts;

-- name: Acknowledge :exec
UPDATE sandbox.callbacks SET status = 'acknowledged', last_error = '' WHERE id = @id;

-- name: TryAgain :exec
UPDATE sandbox.callbacks SET next_try = clock_timestamp() + interval '1 millisecond' * @delay_ms::bigint, last_error = @last_error
WHERE id = @id AND status = 'pending';

-- name: GiveUp :exec
UPDATE sandbox.callbacks SET status = 'given_up', last_error = @last_error WHERE id = @id AND status = 'pending';

-- name: ForgetCallbacks :execrows
-- Deletes callbacks that ended long ago, oldest first, a bounded number at a time.
DELETE FROM sandbox.callbacks
WHERE id IN (SELECT d.id FROM sandbox.callbacks d WHERE d.status <> 'pending' AND d.created_at < statement_timestamp() - interval '1 day'
             ORDER BY d.created_at LIMIT @at_most);

-- name: RefundsOfPayment :many
SELECT * FROM sandbox.refunds WHERE payment_ref = @payment_ref ORDER BY ref DESC LIMIT @at_most;

-- name: PaymentsOpened :many
-- A page of the payments that were opened in a span of time, newest first.
SELECT * FROM sandbox.payments
WHERE merchant = @merchant AND created_at >= @from_time AND ref < @before
ORDER BY ref DESC LIMIT @at_most;

-- name: Movements :many
-- A page of what moved in a span of time, oldest first.
SELECT m.ref, m.payment_ref, m.payment_no, m.refund_no::text AS refund_no,
    (CASE m.kind WHEN 'refund' THEN 'sbr-' || replace(m.ref::text, '-', '') ELSE m.txn END)::text AS transaction, m.amount, m.currency,
    m.at::timestamptz AS at, m.bounced::boolean AS bounced, (m.kind = 'chargeback')::boolean AS charged_back
FROM (
    SELECT 'capture' AS kind, p.ref, p.ref AS payment_ref, p.payment_no, '' AS refund_no, p.txn, p.captured_amount AS amount, p.currency, p.captured_at AS at, false AS bounced
    FROM sandbox.payments p WHERE p.merchant = @merchant AND p.captured_at >= @from_time::timestamptz AND p.captured_at < @to_time::timestamptz
    UNION ALL
    SELECT 'refund', r.ref, r.payment_ref, r.payment_no, r.refund_no, '', r.amount, r.currency, r.updated_at, r.bounced_at IS NOT NULL
    FROM sandbox.refunds r WHERE r.merchant = @merchant AND (r.status = 'succeeded' OR r.bounced_at IS NOT NULL) AND r.updated_at >= @from_time::timestamptz AND r.updated_at < @to_time::timestamptz
    UNION ALL
    SELECT 'refund', r.ref, r.payment_ref, r.payment_no, r.refund_no, '', -r.amount, r.currency, r.bounced_at, true
    FROM sandbox.refunds r WHERE r.merchant = @merchant AND r.bounced_at >= @from_time::timestamptz AND r.bounced_at < @to_time::timestamptz
    UNION ALL
    SELECT 'chargeback', p.ref, p.ref, p.payment_no, '', '', p.captured_amount, p.currency, p.disputed_at, false
    FROM sandbox.payments p WHERE p.merchant = @merchant AND p.disputed_at >= @from_time::timestamptz AND p.disputed_at < @to_time::timestamptz
    UNION ALL
    SELECT 'chargeback', p.ref, p.ref, p.payment_no, '', '', -p.captured_amount, p.currency, p.dispute_ended_at, false
    FROM sandbox.payments p WHERE p.merchant = @merchant AND p.behaviour = 'chargeback_won'
      AND p.dispute_ended_at >= @from_time::timestamptz AND p.dispute_ended_at < @to_time::timestamptz
) m
WHERE (m.at, m.ref) > (@after_time::timestamptz, @after_ref::uuid)
ORDER BY m.at, m.ref LIMIT @at_most;
