-- name: TryLockInstance :one
SELECT pg_try_advisory_lock(@key);

-- name: UnlockInstance :exec
SELECT pg_advisory_unlock(@key);

-- name: EndLeases :exec
UPDATE platform.leases SET expires_at = now() WHERE expires_at > now();
