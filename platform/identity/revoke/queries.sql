-- name: RevokeLogins :exec
INSERT INTO auth.revocations (login_id, why, expires_at)
SELECT login, @why::text, clock_timestamp() + @keep::interval FROM unnest(@logins::bigint[]) AS login;

-- name: RevokeUser :exec
INSERT INTO auth.revocations (user_id, issued_before, why, expires_at)
VALUES (@user_id::bigint, @issued_before::timestamptz, @why, clock_timestamp() + @keep::interval);

-- name: UserRevoked :one
SELECT EXISTS (SELECT FROM auth.revocations WHERE user_id = @user_id::bigint AND issued_before >= @issued::timestamptz);

-- name: RevocationsSince :many
-- The rows that no earlier read returned, and a few that one did. The join returns one row even if there is nothing new,
-- for the horizon.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS horizon, r.login_id, r.user_id, r.issued_before, r.expires_at
FROM (VALUES (1)) always
LEFT JOIN auth.revocations r ON r.xact >= (@horizon::text)::xid8 AND r.expires_at > statement_timestamp();

-- name: RemoveExpired :exec
DELETE FROM auth.revocations WHERE id IN (
    SELECT r.id FROM auth.revocations r WHERE r.expires_at < statement_timestamp() ORDER BY r.expires_at LIMIT @at_most);
