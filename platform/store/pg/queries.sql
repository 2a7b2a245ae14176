-- name: TryLockInstance :one
SELECT CASE WHEN @shared::boolean THEN pg_try_advisory_lock_shared(@key) ELSE pg_try_advisory_lock(@key) END::boolean;

-- name: UnlockInstance :exec
SELECT pg_advisory_unlock_all();

-- name: Now :one
SELECT clock_timestamp()::timestamptz;

-- name: EndLeases :exec
UPDATE platform.leases SET expires_at = now() WHERE expires_at > now();
