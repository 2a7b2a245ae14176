-- name: Stores :many
SELECT * FROM orders.stores WHERE (@only_open::boolean IS FALSE OR open) AND id > @after ORDER BY id LIMIT @most;

-- name: Store :one
SELECT * FROM orders.stores WHERE id = @id;

-- name: CreateStore :one
INSERT INTO orders.stores (name, address, phone, hours) VALUES (@name, @address, @phone, @hours) RETURNING *;

-- name: UpdateStore :one
UPDATE orders.stores SET name = @name, address = @address, phone = @phone, hours = @hours, open = @open,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = @id AND version = @version RETURNING *;

-- name: DeleteStore :execrows
DELETE FROM orders.stores WHERE id = @id;
