-- name: InsertActivity :one
INSERT INTO seckill.activities (name, starts_at, ends_at, limit_per_user, one_item_per_user, payment_window_seconds,
    payment_window_share, rebuy_after_close)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING *;

-- name: Activity :one
SELECT * FROM seckill.activities WHERE id = $1;

-- Every change to an activity, its sessions or its items begins with this lock, so that they happen one after
-- the other and each sees the state that the rules are about.
-- name: LockActivity :one
SELECT sqlc.embed(a), now()::timestamptz AS at,
    coalesce((SELECT min(s.opens_at) FROM seckill.sessions s WHERE s.activity_id = a.id), a.ends_at)::timestamptz AS first_opening
FROM seckill.activities a WHERE a.id = $1 FOR UPDATE OF a;

-- name: Activities :many
SELECT * FROM seckill.activities
WHERE (@before::bigint = 0 OR id < @before) AND (@status::text = '' OR status = @status)
ORDER BY id DESC LIMIT @row_limit;

-- name: UpdateActivity :one
UPDATE seckill.activities SET name = $2, starts_at = $3, ends_at = $4, limit_per_user = $5, one_item_per_user = $6,
    payment_window_seconds = $7, payment_window_share = $8, rebuy_after_close = $9,
    version = version + 1, revision = revision + 1, updated_at = now()
WHERE id = $1 RETURNING *;

-- name: SetActivityStatus :one
UPDATE seckill.activities SET status = @status, revision = revision + 1, updated_at = now()
WHERE id = @id RETURNING *;

-- name: SetActivityPaused :one
UPDATE seckill.activities SET paused = @paused, revision = revision + 1, updated_at = now()
WHERE id = @id RETURNING *;

-- The sessions or items of the activity changed: views and catalogues are stale.
-- name: TouchActivity :exec
UPDATE seckill.activities SET revision = revision + 1, updated_at = now() WHERE id = $1;

-- name: DeleteActivity :exec
DELETE FROM seckill.activities WHERE id = $1;

-- Whoever moves the row first wins; the other instances' updates find nothing. An id of 0 is every activity.
-- name: StartDue :many
UPDATE seckill.activities a SET status = 'running', revision = revision + 1, updated_at = now()
WHERE a.status = 'scheduled' AND (@id::bigint = 0 OR a.id = @id)
    AND (SELECT min(s.opens_at) FROM seckill.sessions s WHERE s.activity_id = a.id) <= now()
RETURNING a.id;

-- name: EndDue :many
UPDATE seckill.activities SET status = 'ended', revision = revision + 1, updated_at = now()
WHERE status = 'running' AND ends_at <= now() AND (@id::bigint = 0 OR id = @id)
RETURNING id;

-- What is published and not long over, in one short text: equal texts mean that nothing changed.
-- name: CatalogueFingerprint :one
SELECT coalesce(md5(string_agg(id || ':' || revision, ',' ORDER BY id)), '')::text
FROM seckill.activities WHERE status <> 'draft' AND ends_at > now() - make_interval(secs => @kept_seconds);

-- name: PublishedActivities :many
SELECT * FROM seckill.activities
WHERE status <> 'draft' AND ends_at > now() - make_interval(secs => @kept_seconds) ORDER BY id;

-- name: InsertSession :one
INSERT INTO seckill.sessions (activity_id, name, opens_at, closes_at, repeat_of, repeat_day) VALUES ($1, $2, $3, $4, $5, $6)
RETURNING *;

-- name: Session :one
SELECT * FROM seckill.sessions WHERE id = $1;

-- name: Sessions :many
SELECT * FROM seckill.sessions
WHERE (@before::bigint = 0 OR id < @before) AND (@activity_id::bigint = 0 OR activity_id = @activity_id)
ORDER BY id DESC LIMIT @row_limit;

-- name: SessionsOf :many
SELECT * FROM seckill.sessions WHERE activity_id = ANY(@activity_ids::bigint[]) ORDER BY activity_id, id;

-- name: UpdateSession :one
UPDATE seckill.sessions SET name = $2, opens_at = $3, closes_at = $4, version = version + 1, updated_at = now()
WHERE id = $1 RETURNING *;

-- name: DeleteSession :exec
DELETE FROM seckill.sessions WHERE id = $1;

-- name: InsertItem :one
INSERT INTO seckill.items (session_id, activity_id, sku, title, spec, image_url, list_price, sale_price, currency,
    stock, unlimited, limit_per_user, oversell_percent, oversell_reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING *;

-- name: Item :one
SELECT * FROM seckill.items WHERE id = $1;

-- name: Items :many
SELECT * FROM seckill.items
WHERE (@before::bigint = 0 OR id < @before) AND (@activity_id::bigint = 0 OR activity_id = @activity_id)
    AND (@session_id::bigint = 0 OR session_id = @session_id)
ORDER BY id DESC LIMIT @row_limit;

-- name: ItemsOf :many
SELECT * FROM seckill.items WHERE activity_id = ANY(@activity_ids::bigint[]) ORDER BY activity_id, id;

-- name: UpdateItem :one
UPDATE seckill.items SET sku = $2, title = $3, spec = $4, image_url = $5, list_price = $6, sale_price = $7,
    currency = $8, stock = $9, unlimited = $10, limit_per_user = $11, version = version + 1, updated_at = now()
WHERE id = $1 RETURNING *;

-- name: AddItemStock :one
UPDATE seckill.items SET stock = stock + @added, version = version + 1, updated_at = now() WHERE id = @id RETURNING *;

-- name: SetOversell :one
UPDATE seckill.items SET oversell_percent = @percent, oversell_reason = @reason, version = version + 1, updated_at = now()
WHERE id = @id RETURNING *;

-- name: DeleteItem :exec
DELETE FROM seckill.items WHERE id = $1;

-- name: WantLoad :exec
UPDATE seckill.items SET load_wanted = load_wanted + 1 WHERE id = ANY(@ids::bigint[]);

-- name: LoadWanted :one
SELECT load_wanted, load_done FROM seckill.items WHERE id = $1;

-- name: LoadsOwed :many
SELECT id FROM seckill.items WHERE id = ANY(@ids::bigint[]) AND load_wanted > load_done;

-- An older request never takes the place of a newer one that was answered meanwhile.
-- name: LoadDone :exec
UPDATE seckill.items SET load_done = greatest(load_done, @answered) WHERE id = @id;

-- One request per key at a time; the lock ends with the transaction.
-- name: TryIdempotencyLock :one
SELECT pg_try_advisory_xact_lock(hashtextextended('seckill.idempotency ' || @actor::text || ' ' || @key::text, 0));

-- name: IdempotentAnswer :one
SELECT request, response FROM seckill.idempotency
WHERE actor = $1 AND key = $2 AND created_at > now() - make_interval(secs => @kept_seconds);

-- name: KeepIdempotentAnswer :exec
INSERT INTO seckill.idempotency (actor, key, request, response) VALUES ($1, $2, $3, $4)
ON CONFLICT (actor, key) DO UPDATE SET request = excluded.request, response = excluded.response, created_at = now();

-- name: ForgetIdempotentAnswers :execrows
DELETE FROM seckill.idempotency WHERE created_at <= now() - make_interval(secs => @kept_seconds);

-- What every published item should have on sale. It is counted here and not by the program, whose count it proves.
-- name: PlannedStock :many
SELECT i.id, i.unlimited, (i.stock + i.stock::bigint * i.oversell_percent / 100)::bigint AS on_sale
FROM seckill.items i JOIN seckill.activities a ON a.id = i.activity_id
WHERE a.status <> 'draft' ORDER BY i.id;
