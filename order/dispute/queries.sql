-- name: OrderToDispute :one
SELECT user_id, status FROM orders.orders WHERE order_no = @order_no AND bucket = @bucket;

-- name: CountDisputes :one
SELECT count(*) FROM orders.disputes WHERE order_no = @order_no;

-- name: OpenDispute :one
INSERT INTO orders.disputes (bucket, dispute_no, order_no, user_id, reason, minted)
VALUES (@bucket, @dispute_no, @order_no, @user_id, @reason, @minted)
ON CONFLICT (order_no, bucket) WHERE status <> 'closed' DO NOTHING RETURNING *;

-- name: LockDispute :one
SELECT * FROM orders.disputes WHERE dispute_no = @dispute_no AND bucket = @bucket FOR UPDATE;

-- name: Dispute :one
SELECT * FROM orders.disputes WHERE dispute_no = @dispute_no AND bucket = @bucket;

-- name: AddText :one
-- Returns the line's number, from 1.
INSERT INTO orders.dispute_texts (bucket, dispute_no, line, operator, minted, text)
SELECT @bucket, @dispute_no, count(*) + 1, sqlc.narg(operator)::bigint, @minted, @text FROM orders.dispute_texts t WHERE t.dispute_no = @dispute_no AND t.bucket = @bucket
RETURNING line;

-- name: MoveDispute :one
-- To open or answered. An open one keeps the time since when it waits.
UPDATE orders.disputes SET status = @status, version = version + 1, updated_at = clock_timestamp(),
    waiting_since = CASE WHEN @status::text = 'open' THEN coalesce(waiting_since, clock_timestamp()) END
WHERE dispute_no = @dispute_no AND bucket = @bucket RETURNING *;

-- name: CloseDispute :one
UPDATE orders.disputes SET status = 'closed', outcome = @outcome, refund_no = sqlc.narg(refund_no), closed_by = @operator, waiting_since = NULL,
    version = version + 1, updated_at = clock_timestamp()
WHERE dispute_no = @dispute_no AND bucket = @bucket RETURNING *;

-- name: DisputesOfOrder :many
SELECT * FROM orders.disputes WHERE order_no = @order_no ORDER BY dispute_no;

-- name: TextsOf :many
SELECT * FROM orders.dispute_texts WHERE dispute_no = ANY(@dispute_nos::uuid[]) ORDER BY dispute_no, line;

-- name: ListDisputes :many
SELECT * FROM orders.disputes
WHERE dispute_no < @before AND (@status::text = '' OR status = @status)
ORDER BY dispute_no DESC LIMIT @at_most;

-- name: Unanswered :one
-- The disputes that have waited for the shop for that long; bounded, a few say enough.
SELECT count(*) AS disputes, coalesce(min(waiting_since), clock_timestamp())::timestamptz AS since FROM (
    SELECT d.waiting_since FROM orders.disputes d WHERE d.status = 'open' AND d.waiting_since < statement_timestamp() - @wait::interval
    ORDER BY d.waiting_since LIMIT 1000) w;
