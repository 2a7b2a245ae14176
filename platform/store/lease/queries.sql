-- name: AcquireLease :one
-- No row is returned while another holder's lease runs.
INSERT INTO platform.leases AS l (name, holder, token, expires_at)
VALUES (@name, @holder, 1, clock_timestamp() + @life::interval)
ON CONFLICT (name) DO UPDATE
    SET holder = excluded.holder, token = l.token + 1, expires_at = excluded.expires_at
    WHERE l.expires_at <= clock_timestamp()
RETURNING token;

-- name: RenewLease :execrows
UPDATE platform.leases SET expires_at = clock_timestamp() + @life::interval WHERE name = @name AND token = @token;

-- name: ReleaseLease :exec
-- The row stays, so that the next holder's token is higher.
UPDATE platform.leases SET expires_at = '-infinity' WHERE name = @name AND token = @token;
