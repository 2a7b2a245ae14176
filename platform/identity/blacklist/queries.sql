-- name: EntriesInForce :many
SELECT * FROM platform.blacklist WHERE expires_at IS NULL OR expires_at > statement_timestamp();

-- name: Entries :many
-- Newest first; an empty parameter does not filter.
SELECT * FROM platform.blacklist
WHERE (@kind::text = '' OR kind = @kind) AND (@value::text = '' OR value = @value)
  AND (NOT @active::boolean OR expires_at IS NULL OR expires_at > statement_timestamp()) AND (@before::bigint = 0 OR id < @before)
ORDER BY id DESC LIMIT @at_most;

-- name: PutEntry :one
-- Adds an entry, or replaces the reason and the end of the existing one.
INSERT INTO platform.blacklist AS b (kind, value, owner, reason, expires_at, created_by)
VALUES (@kind, @value, @owner, @reason, @expires_at, @created_by)
ON CONFLICT (kind, value) DO UPDATE SET owner = GREATEST(b.owner, excluded.owner),
    reason = excluded.reason, expires_at = excluded.expires_at, created_by = excluded.created_by,
    updated_at = clock_timestamp()
RETURNING *;

-- name: KeepPhone :exec
-- Lists the phone of a listed user who deletes the account, as the user was, and lets a listed phone find its next user.
WITH changed AS (
    INSERT INTO platform.blacklist AS b (kind, value, reason, expires_at, created_by)
    SELECT 'phone', @phone::text, l.reason, l.expires_at, l.created_by FROM platform.blacklist l
    WHERE (l.kind = 'user' AND l.value = @listed::text OR l.kind = 'phone' AND l.value = @phone)
      AND (l.expires_at IS NULL OR l.expires_at > statement_timestamp())
    ORDER BY l.expires_at DESC NULLS FIRST LIMIT 1
    ON CONFLICT (kind, value) DO UPDATE SET owner = 0, reason = excluded.reason, expires_at = excluded.expires_at,
        created_by = excluded.created_by, updated_at = clock_timestamp()
    RETURNING id
)
UPDATE platform.blacklist_revision SET revision = revision + 1 WHERE EXISTS (SELECT FROM changed);

-- name: LockEntries :exec
-- Serializes the changes that count the entries.
SELECT FROM platform.blacklist_revision FOR UPDATE;

-- name: CountEntries :one
SELECT count(*) FROM platform.blacklist;

-- name: RemoveEntry :one
DELETE FROM platform.blacklist WHERE id = @id RETURNING *;

-- name: RemoveEndedEntries :exec
DELETE FROM platform.blacklist WHERE id IN (
    SELECT b.id FROM platform.blacklist b WHERE b.expires_at < statement_timestamp() - @keep::interval ORDER BY b.expires_at LIMIT @at_most);

-- name: PhonesWithoutOwner :many
-- Returns a random sample if there are more than one run processes.
SELECT value FROM platform.blacklist WHERE kind = 'phone' AND owner = 0 AND (expires_at IS NULL OR expires_at > statement_timestamp())
ORDER BY random() LIMIT @at_most;

-- name: SetOwner :exec
UPDATE platform.blacklist SET owner = @owner, updated_at = clock_timestamp() WHERE kind = 'phone' AND value = @phone;
