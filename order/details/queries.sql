-- name: Read :one
SELECT d.*, coalesce(s.name, '')::text AS store_name, coalesce(s.address, '')::text AS store_address,
       coalesce(s.phone, '')::text AS store_phone, coalesce(s.hours, '')::text AS store_hours
FROM orders.details d LEFT JOIN orders.stores s ON s.id = d.store_id
WHERE d.order_no = @order_no AND d.bucket = @bucket;

-- name: Exists :one
SELECT EXISTS (SELECT FROM orders.details WHERE order_no = @order_no AND bucket = @bucket);

-- name: Put :exec
-- A pickup code that was given stays.
INSERT INTO orders.details AS d (bucket, order_no, user_id, way, store_id, name, phone, address, note, pickup_code, pickup_digest)
VALUES (@bucket, @order_no, @user_id, @way, @store_id, @name, @phone, @address, @note, @pickup_code, @pickup_digest)
ON CONFLICT (order_no, bucket) DO UPDATE
SET way = excluded.way, store_id = excluded.store_id, name = excluded.name, phone = excluded.phone, address = excluded.address,
    note = excluded.note, updated_at = clock_timestamp(),
    pickup_code = CASE WHEN excluded.way <> 'pickup' THEN '' WHEN d.way = 'pickup' THEN d.pickup_code ELSE excluded.pickup_code END,
    pickup_digest = CASE WHEN excluded.way <> 'pickup' THEN NULL WHEN d.way = 'pickup' THEN d.pickup_digest ELSE excluded.pickup_digest END;

-- name: StoreIsOpen :one
-- The row stays until the details that name it are committed.
SELECT open FROM orders.stores WHERE id = @id FOR KEY SHARE;

-- name: OrderOfCode :one
SELECT order_no FROM orders.details WHERE pickup_digest = @pickup_digest;

-- name: Forget :exec
UPDATE orders.details SET forget = true WHERE user_id = @user_id AND erased_at IS NULL;

-- name: Erase :execrows
-- The digest stays: a code of an order that was picked up is still known as such. Details are older than their order's end,
-- so that their own age leaves few to look at, by index; OFFSET 0 keeps Postgres from beginning with the orders. Arrays,
-- which the planner assumes to be short, keep it from reading all details to join those it found.
WITH due AS MATERIALIZED (
    SELECT x.order_no, x.bucket FROM orders.details x
    CROSS JOIN LATERAL (SELECT status, updated_at FROM orders.orders WHERE order_no = x.order_no AND bucket = x.bucket OFFSET 0) o
    WHERE x.erased_at IS NULL AND o.status IN ('completed', 'closed', 'refused', 'refunded')
      AND (x.forget OR x.updated_at < now() - @keep::interval) AND (x.forget OR o.updated_at < now() - @keep::interval)
    LIMIT @at_most FOR UPDATE OF x SKIP LOCKED
)
UPDATE orders.details d SET name = '', phone = '', address = '', note = '', pickup_code = '', erased_at = clock_timestamp()
FROM (SELECT unnest(array_agg(order_no)) AS no, unnest(array_agg(bucket)) AS b FROM due) n
WHERE d.order_no = n.no AND d.bucket = n.b;
