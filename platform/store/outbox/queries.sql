-- name: AppendEvent :exec
INSERT INTO platform.outbox (id, subject, payload, trace) VALUES (@id, @subject, @payload, NULLIF(@trace::text, ''));

-- name: OldestUnsent :one
-- By id, the order of the index of unsent rows: ids rise with time.
SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 AS age, subject
FROM platform.outbox WHERE sent_at IS NULL ORDER BY id LIMIT 1;

-- name: Unsent :many
-- The oldest rows that are not set aside, bounded in number and in bytes, but at least one.
SELECT day, id, subject, payload, coalesce(trace, '') AS trace, extract(epoch FROM clock_timestamp() - created_at)::float8 AS age FROM (
    SELECT o.*, sum(octet_length(payload)) OVER (ORDER BY id) - octet_length(payload) AS before FROM (
        SELECT day, id, subject, payload, trace, created_at FROM platform.outbox
        WHERE sent_at IS NULL AND id <> ALL(@aside::uuid[]) ORDER BY id LIMIT @at_most
    ) o
) w WHERE before < @bytes::bigint ORDER BY id;

-- name: MarkSent :exec
-- The days let Postgres skip the other partitions.
UPDATE platform.outbox o SET sent_at = clock_timestamp()
FROM (SELECT unnest(@days::date[]) AS day, unnest(@ids::uuid[]) AS id) s
WHERE o.day = s.day AND o.id = s.id AND o.day BETWEEN @first_day AND @last_day;

-- name: Clock :one
SELECT clock_timestamp()::timestamptz;

-- name: UnmarkBetween :execrows
UPDATE platform.outbox SET sent_at = NULL WHERE day = @day AND sent_at >= @from_time::timestamptz AND sent_at < @to_time::timestamptz;

-- name: TryLockRelay :one
SELECT pg_try_advisory_xact_lock(@key);

-- name: EnsureDayPartitions :exec
SELECT platform.ensure_day_partitions(@days_ahead);

-- name: LockDayPartitions :exec
SELECT pg_advisory_xact_lock(hashtext('platform.ensure_day_partitions'));

-- name: EmptyOutboxDefault :exec
DELETE FROM platform.outbox_default WHERE day < (now() AT TIME ZONE 'UTC')::date - @days::int AND sent_at IS NOT NULL;

-- name: EmptyInboxDefault :exec
-- By the time it was seen: the day of a foreign id is arbitrary.
DELETE FROM platform.inbox_default WHERE seen_at < clock_timestamp() - make_interval(days => @days::int);

-- name: RemoveOldAlarms :execrows
DELETE FROM platform.alarms WHERE id IN (
    SELECT a.id FROM platform.alarms a WHERE a.last_seen < clock_timestamp() - @keep::interval LIMIT @at_most);

-- name: RemoveOldDeadLetters :execrows
DELETE FROM platform.dead_letters WHERE id IN (
    SELECT d.id FROM platform.dead_letters d WHERE d.created_at < clock_timestamp() - @keep::interval LIMIT @at_most);
