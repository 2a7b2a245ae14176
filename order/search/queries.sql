-- Each query walks one index of orders from a place on, newest first, and filters nothing else: its plan depends on no
-- filter, and what it reads on its limit alone.

-- name: ByNumber :many
SELECT * FROM orders.orders
WHERE order_no < @before AND order_no >= @since
ORDER BY order_no DESC LIMIT @most;

-- name: ByUser :many
-- The bucket prunes to the one partition that a user's orders lie in.
SELECT * FROM orders.orders
WHERE bucket = @bucket AND user_id = @user_id AND order_no < @before AND order_no >= @since
ORDER BY order_no DESC LIMIT @most;

-- name: ByStatus :many
-- The second condition is the index's own.
SELECT * FROM orders.orders
WHERE status = @status AND status <> 'pending_payment' AND order_no < @before AND order_no >= @since
ORDER BY order_no DESC LIMIT @most;

-- name: ByDeadline :many
-- Orders that wait for their payment. Those of one transaction of the writer share a deadline.
SELECT * FROM orders.orders
WHERE status = 'pending_payment' AND pay_deadline <= @before_at::timestamptz AND (pay_deadline, order_no) < (@before_at::timestamptz, @before::uuid)
ORDER BY pay_deadline DESC, order_no DESC LIMIT @most;

-- name: ByChange :many
-- Orders that no longer wait for their payment.
SELECT * FROM orders.orders
WHERE (updated_at, order_no) < (@before_at::timestamptz, @before::uuid) AND updated_at >= @since_at::timestamptz AND status <> 'pending_payment'
ORDER BY updated_at DESC, order_no DESC LIMIT @most;

-- name: ByPayment :many
SELECT * FROM orders.orders
WHERE (paid_at, order_no) < (@before_at::timestamptz, @before::uuid) AND paid_at >= @since_at::timestamptz
ORDER BY paid_at DESC, order_no DESC LIMIT @most;

-- name: ToShip :many
-- The other way round: what was paid first is sent first.
SELECT * FROM orders.orders
WHERE status = 'paid' AND handover = 'to_ship' AND (paid_at, order_no) > (@after_at::timestamptz, @after::uuid)
ORDER BY paid_at, order_no LIMIT @most;

-- name: ByDispute :many
-- Orders with a dispute that is not closed. OFFSET 0 keeps the planner from scanning orders.
SELECT o.* FROM (
    SELECT d.order_no, d.bucket FROM orders.disputes d
    WHERE d.status <> 'closed' AND d.order_no < @before AND d.order_no >= @since ORDER BY d.order_no DESC LIMIT @most) n
CROSS JOIN LATERAL (SELECT * FROM orders.orders WHERE order_no = n.order_no AND bucket = n.bucket OFFSET 0) o
ORDER BY o.order_no DESC;

-- name: Numbered :many
SELECT o.* FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
CROSS JOIN LATERAL (SELECT * FROM orders.orders WHERE order_no = n.no AND bucket = n.b OFFSET 0) o
ORDER BY o.order_no DESC;

-- name: ByExternalID :many
SELECT order_no FROM orders.external_references WHERE external_id = @external_id::text ORDER BY order_no DESC LIMIT @most;

-- name: ExternalIDs :many
-- Of the orders of a page. OFFSET 0 keeps the planner from scanning the table.
SELECT x.order_no, x.external_id::text AS external_id FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
CROSS JOIN LATERAL (SELECT order_no, external_id FROM orders.external_references WHERE order_no = n.no AND bucket = n.b OFFSET 0) x
WHERE x.external_id IS NOT NULL;

-- name: ByRecipient :many
SELECT order_no FROM orders.details WHERE name = @name::text AND name <> '' ORDER BY order_no DESC LIMIT @most;

-- name: ByPhoneTail :many
-- The second condition is the index's own.
SELECT order_no FROM orders.details WHERE right(phone, 4) = @tail::text AND phone <> '' ORDER BY order_no DESC LIMIT @most;
