-- name: Read :one
SELECT d.*, coalesce(s.name, '')::text AS store_name, coalesce(s.address, '')::text AS store_address,
       coalesce(s.phone, '')::text AS store_phone, coalesce(s.hours, '')::text AS store_hours
FROM orders.details d LEFT JOIN orders.stores s ON s.id = d.store_id
WHERE d.order_no = @order_no AND d.bucket = @bucket;

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
