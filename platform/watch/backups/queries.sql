-- name: LastGood :one
-- The last one at a place. A clock that was ahead may have dated one later than now: it says nothing about tonight.
SELECT * FROM platform.backups WHERE name <> '' AND place = @place AND began_at <= @until ORDER BY began_at DESC LIMIT 1;

-- name: Latest :many
SELECT * FROM platform.backups ORDER BY id DESC LIMIT @at_most;

-- name: Begin :one
INSERT INTO platform.backups (place, began_at) VALUES (@place, @began_at) RETURNING id;

-- name: End :exec
UPDATE platform.backups SET ended_at = @ended_at::timestamptz, name = @name, bytes = @bytes, error = @error WHERE id = @id;
