-- name: Put :exec
INSERT INTO orders.acts (bucket, order_no, act_no, user_id, operator, action, text, version)
VALUES (@bucket, @order_no, @act_no, @user_id, @operator, @action, @text, @version);

-- name: OfOrder :many
SELECT operator, action, text, version, at FROM orders.acts
WHERE order_no = @order_no AND bucket = @bucket ORDER BY act_no;

-- name: Forget :exec
UPDATE orders.acts SET forget = true WHERE user_id = @user_id AND erased_at IS NULL;

-- name: Erase :execrows
-- That an operator acted stays, without the words. OFFSET 0 keeps Postgres from beginning with the orders.
UPDATE orders.acts a SET text = '', erased_at = clock_timestamp()
WHERE (a.order_no, a.bucket, a.act_no) IN (
    SELECT x.order_no, x.bucket, x.act_no FROM orders.acts x
    CROSS JOIN LATERAL (SELECT status, updated_at FROM orders.orders WHERE order_no = x.order_no AND bucket = x.bucket OFFSET 0) o
    WHERE x.erased_at IS NULL AND o.status IN ('completed', 'closed', 'refused', 'refunded')
      AND (x.forget OR greatest(o.updated_at, x.at) < clock_timestamp() - @keep::interval)
    LIMIT @at_most FOR UPDATE OF x SKIP LOCKED);
