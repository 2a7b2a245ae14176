-- name: Stores :many
SELECT * FROM orders.stores WHERE (@only_open::boolean IS FALSE OR open) AND id > @after ORDER BY id LIMIT @most;

-- name: Store :one
SELECT * FROM orders.stores WHERE id = @id;

-- name: LockStore :one
SELECT * FROM orders.stores WHERE id = @id FOR UPDATE;

-- name: CreateStore :one
INSERT INTO orders.stores (name, address, phone, hours) VALUES (@name, @address, @phone, @hours) RETURNING *;

-- name: UpdateStore :one
UPDATE orders.stores SET name = @name, address = @address, phone = @phone, hours = @hours, open = @open,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = @id RETURNING *;

-- name: DeleteStore :exec
DELETE FROM orders.stores WHERE id = @id;
