-- name: Webhooks :many
SELECT * FROM notify.webhooks ORDER BY id;

-- name: Webhook :one
SELECT * FROM notify.webhooks WHERE id = @id;

-- name: LockWebhook :one
SELECT * FROM notify.webhooks WHERE id = @id FOR UPDATE;

-- name: LockWebhooks :exec
-- Serializes additions, which count the rows.
LOCK TABLE notify.webhooks IN SHARE ROW EXCLUSIVE MODE;

-- name: CountWebhooks :one
SELECT count(*) FROM notify.webhooks;

-- name: AddWebhook :one
INSERT INTO notify.webhooks (url, description, types, enabled, secret, place, number)
VALUES (@url, @description, @types::text[], @enabled, @secret, @place, @number) RETURNING *;

-- name: ChangeWebhook :one
-- What is enabled or has another address is tried at once.
UPDATE notify.webhooks SET url = @url, description = @description, types = @types::text[], enabled = @enabled,
    next_try = CASE WHEN @enabled AND (NOT enabled OR url <> @url) THEN NULL ELSE next_try END, updated_at = clock_timestamp()
WHERE id = @id RETURNING *;

-- name: RemoveWebhook :exec
DELETE FROM notify.webhooks WHERE id = @id;

-- name: RotateSecret :one
UPDATE notify.webhooks SET secret = @secret, former_secret = secret, former_until = @former_until, updated_at = clock_timestamp()
WHERE id = @id RETURNING *;

-- name: Reseal :exec
-- Unless an admin has renewed the secret meanwhile. The same secrets change nothing that couriers look at.
UPDATE notify.webhooks SET secret = @secret, former_secret = @former WHERE id = @id AND secret = @had;

-- name: Disable :exec
UPDATE notify.webhooks SET enabled = false, last_error = @last_error, updated_at = clock_timestamp() WHERE id = @id;

-- name: Advance :execrows
-- Nothing if another process has moved the cursor, or an operator has disabled the webhook or changed its address.
UPDATE notify.webhooks SET place = @to_place, number = @to_number, failures = @failures, failing_since = @failing_since, next_try = @next_try,
    last_error = @last_error, delivered_at = coalesce(@delivered_at, delivered_at)
WHERE id = @id AND place = @place AND number = @number AND enabled AND url = @url;

-- name: Waiting :many
SELECT * FROM notify.webhook_waiting WHERE webhook_id = @webhook_id ORDER BY place, number;

-- name: CountWaiting :many
SELECT webhook_id, count(*) AS waiting FROM notify.webhook_waiting GROUP BY webhook_id;

-- name: SetAside :exec
INSERT INTO notify.webhook_waiting (webhook_id, place, number, about, attempts, next_try)
SELECT @webhook_id, unnest(@places::bigint[]), unnest(@numbers::int[]), unnest(@abouts::text[]), unnest(@attempts::int[]), unnest(@next_tries::timestamptz[])
ON CONFLICT DO NOTHING;

-- name: Retry :exec
UPDATE notify.webhook_waiting w SET attempts = s.attempts, next_try = s.next_try
FROM (SELECT unnest(@places::bigint[]) AS place, unnest(@numbers::int[]) AS number, unnest(@attempts::int[]) AS attempts,
    unnest(@next_tries::timestamptz[]) AS next_try) s
WHERE w.webhook_id = @webhook_id AND w.place = s.place AND w.number = s.number;

-- name: Settle :exec
DELETE FROM notify.webhook_waiting w USING (SELECT unnest(@places::bigint[]) AS place, unnest(@numbers::int[]) AS number) s
WHERE w.webhook_id = @webhook_id AND w.place = s.place AND w.number = s.number;

-- name: NoteAttempts :exec
INSERT INTO notify.webhook_attempts (webhook_id, event_id, type, about, attempt, status, error, took_ms, at)
SELECT @webhook_id, unnest(@event_ids::text[]), unnest(@types::text[]), unnest(@abouts::text[]), unnest(@attempts::int[]), unnest(@statuses::int[]),
    unnest(@errors::text[]), unnest(@took_ms::int[]), unnest(@ats::timestamptz[]);

-- name: Attempts :many
SELECT * FROM notify.webhook_attempts
WHERE webhook_id = @webhook_id AND (@before::bigint = 0 OR id < @before) AND (NOT @failed::boolean OR status NOT BETWEEN 200 AND 299)
ORDER BY id DESC LIMIT @at_most;

-- name: ForgetAttempts :exec
DELETE FROM notify.webhook_attempts a WHERE a.webhook_id = @webhook_id AND a.id <= (
    SELECT b.id FROM notify.webhook_attempts b WHERE b.webhook_id = @webhook_id ORDER BY b.id DESC OFFSET @keep LIMIT 1);

-- name: Failing :many
-- Those that have taken no event for a while, and what they said last.
SELECT id, url, last_error, failures, failing_since FROM notify.webhooks
WHERE enabled AND failing_since < clock_timestamp() - @after::interval ORDER BY id;
