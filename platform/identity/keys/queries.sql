-- name: KeysInForce :many
SELECT id, user_id, hash, scopes, namespace, expires_at FROM account.api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp());

-- name: Keys :many
SELECT * FROM account.api_keys WHERE @before::bigint = 0 OR id < @before ORDER BY id DESC LIMIT @at_most;

-- name: LockKey :one
SELECT * FROM account.api_keys WHERE id = @id FOR UPDATE;

-- name: LockKeys :exec
-- Serializes additions, which count the keys.
SELECT FROM account.api_keys_revision FOR UPDATE;

-- name: CountKeys :one
SELECT count(*) FROM account.api_keys WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp());

-- name: MakerOf :one
SELECT created_by FROM account.api_keys WHERE user_id = @user_id;

-- name: AddKey :one
INSERT INTO account.api_keys (user_id, name, hash, hint, scopes, namespace, created_by, expires_at)
VALUES (@user_id, @name, @hash, @hint, @scopes::text[], @namespace, @created_by, @expires_at) RETURNING *;

-- name: AddService :one
-- The user that a key acts as.
INSERT INTO account.users (name) VALUES (@name) RETURNING id;

-- name: ChangeKey :one
UPDATE account.api_keys SET name = @name, scopes = @scopes::text[], expires_at = @expires_at, updated_at = clock_timestamp() WHERE id = @id RETURNING *;

-- name: NameService :exec
UPDATE account.users SET name = @name, updated_at = clock_timestamp() WHERE id = @id;

-- name: RevokeKey :one
UPDATE account.api_keys SET updated_at = CASE WHEN revoked_at IS NULL THEN clock_timestamp() ELSE updated_at END, revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = @id RETURNING *;

-- name: NoteUse :exec
UPDATE account.api_keys k SET last_used_at = u.at
FROM (SELECT unnest(@ids::bigint[]) AS id, unnest(@ats::timestamptz[]) AS at) u WHERE k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at < u.at);
