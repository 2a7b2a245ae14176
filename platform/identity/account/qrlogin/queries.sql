-- Every change requires its initial status and a code that has not expired by the
-- database's clock. The second of two concurrent changes gets no row.

-- name: Ask :one
INSERT INTO auth.qr_logins (id, poll_hash, device_kind, device_id, device_name, address, expires_at)
VALUES (@id, @poll_hash, @device_kind, @device_id, @device_name, @address, clock_timestamp() + make_interval(secs => @lifetime_seconds::float8))
RETURNING expires_at;

-- name: State :one
SELECT id, poll_hash, scan_hash, status, expires_at, expires_at <= clock_timestamp() AS expired, user_id, login_id, number
FROM auth.qr_logins WHERE id = @id;

-- name: Scan :one
UPDATE auth.qr_logins SET status = 'scanned', scan_hash = @scan_hash, user_id = @user_id, login_id = @login_id, token_issued = @token_issued, number = @number
WHERE id = @id AND status = 'pending' AND expires_at > clock_timestamp()
RETURNING device_kind, device_name, address, created_at, expires_at;

-- name: Confirm :execrows
-- The asking device has time to fetch its tokens even if the code was about to expire.
UPDATE auth.qr_logins SET status = 'confirmed', expires_at = greatest(expires_at, clock_timestamp() + make_interval(secs => @claim_seconds::float8))
WHERE id = @id AND status = 'scanned' AND user_id = @user_id AND login_id = @login_id AND expires_at > clock_timestamp();

-- name: Deny :execrows
UPDATE auth.qr_logins SET status = 'denied'
WHERE id = @id AND status = 'scanned' AND user_id = @user_id AND login_id = @login_id AND expires_at > clock_timestamp();

-- name: Claim :one
UPDATE auth.qr_logins SET status = 'claimed'
WHERE id = @id AND status = 'confirmed' AND expires_at > clock_timestamp()
RETURNING device_kind, device_id, device_name, address, user_id, login_id, token_issued;

-- name: Forget :execrows
DELETE FROM auth.qr_logins WHERE id IN (
    SELECT q.id FROM auth.qr_logins q
    WHERE q.expires_at < statement_timestamp() - make_interval(secs => @keep_seconds::float8) ORDER BY q.expires_at LIMIT @at_most);
