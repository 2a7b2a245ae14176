-- name: LockPaidOrder :one
-- The order, so that one handler at a time books its points. A refund of it waits too.
SELECT user_id, item_id, status, currency, orders.amount(unit_price, quantity, freight, discount)::bigint AS amount
FROM orders.orders WHERE order_no = @order_no AND bucket = @bucket AND paid_at IS NOT NULL FOR NO KEY UPDATE;

-- name: PointsOfOrder :one
SELECT count(*)::int AS lines, coalesce(sum(points) FILTER (WHERE kind = 'earned'), 0)::bigint AS earned, coalesce(sum(points), 0)::bigint AS balance
FROM orders.points WHERE order_no = @order_no AND bucket = @bucket;

-- name: Book :exec
INSERT INTO orders.points (bucket, entry_no, order_no, line, user_id, kind, points)
VALUES (@bucket, @entry_no, @order_no, @line, @user_id, @kind, @points);

-- name: Balance :one
-- The sum is not kept beside the entries: a shopper has few.
SELECT coalesce(sum(points), 0)::bigint AS balance FROM orders.points WHERE bucket = @bucket AND user_id = @user_id;

-- name: EntriesOfUser :many
-- A user's entries, newest first.
SELECT entry_no, order_no, kind, points, at FROM orders.points
WHERE bucket = @bucket AND user_id = @user_id AND entry_no < @before
ORDER BY entry_no DESC LIMIT @most;

-- name: OrdersWithOtherPoints :many
-- I4: orders whose points are not what their activity's rule makes of what was paid and what went back. Activities and
-- refunds are other modules', read for the check only.
WITH back AS (
    SELECT order_no, bucket, sum(amount) AS amount FROM payments.refunds
    WHERE reason IN ('shopper', 'operator', 'dispute') AND status IN ('succeeded', 'settled_by_hand') GROUP BY order_no, bucket
), booked AS (
    SELECT order_no, bucket, coalesce(sum(points) FILTER (WHERE kind = 'earned'), 0) AS earned, sum(points) AS balance
    FROM orders.points GROUP BY order_no, bucket
), due AS (
    SELECT o.order_no, o.bucket, p.amount, trunc(p.amount::numeric * a.points_rate / 100) AS earned,
        CASE o.status WHEN 'refunded' THEN p.amount ELSE least(coalesce(b.amount, 0), p.amount) END AS back
    FROM orders.orders o JOIN seckill.activities a ON a.id = o.activity_id
    LEFT JOIN back b ON b.order_no = o.order_no AND b.bucket = o.bucket
    CROSS JOIN LATERAL (SELECT orders.amount(o.unit_price, o.quantity, o.freight, o.discount) AS amount) p
    WHERE a.points_rate > 0 AND o.paid_at IS NOT NULL
)
SELECT d.order_no, d.earned::bigint AS should_earn, coalesce(k.earned, 0)::bigint AS earned,
    (d.earned - trunc(d.earned * d.back / greatest(d.amount, 1)))::bigint AS should_have, coalesce(k.balance, 0)::bigint AS has
FROM due d LEFT JOIN booked k ON k.order_no = d.order_no AND k.bucket = d.bucket
WHERE coalesce(k.earned, 0) <> d.earned OR coalesce(k.balance, 0) <> d.earned - trunc(d.earned * d.back / greatest(d.amount, 1))
ORDER BY d.order_no LIMIT @most;

-- name: StrayPoints :many
-- I4: entries of no paid order of their user in an activity with a rule.
SELECT p.entry_no, p.order_no, p.user_id FROM orders.points p
LEFT JOIN orders.orders o ON o.order_no = p.order_no AND o.bucket = p.bucket
LEFT JOIN seckill.activities a ON a.id = o.activity_id
WHERE o.user_id IS DISTINCT FROM p.user_id OR o.paid_at IS NULL OR coalesce(a.points_rate, 0) = 0
ORDER BY p.entry_no LIMIT @most;
