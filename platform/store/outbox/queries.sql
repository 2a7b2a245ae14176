-- name: AppendEvent :exec
INSERT INTO platform.outbox (id, subject, payload, trace) VALUES (@id, @subject, @payload, NULLIF(@trace::text, ''));

-- name: OldestUnsent :one
-- By id, the order of the index of unsent rows: ids rise with time.
SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 AS age, subject
FROM platform.outbox WHERE sent_at IS NULL ORDER BY id LIMIT 1;

-- name: Unsent :many
-- The oldest rows from an id on, bounded in number and in bytes, but at least one.
SELECT day, id, subject, payload, coalesce(trace, '') AS trace, extract(epoch FROM clock_timestamp() - created_at)::float8 AS age FROM (
    SELECT o.*, sum(octet_length(payload)) OVER (ORDER BY id) - octet_length(payload) AS before FROM (
        SELECT day, id, subject, payload, trace, created_at FROM platform.outbox
        WHERE sent_at IS NULL AND id >= @since ORDER BY id LIMIT @at_most
    ) o
) w WHERE before < @bytes::bigint ORDER BY id;

-- name: UnsentBefore :many
-- The newest rows before an id, bounded in number and in bytes, but at least one.
SELECT day, id, subject, payload, coalesce(trace, '') AS trace, extract(epoch FROM clock_timestamp() - created_at)::float8 AS age FROM (
    SELECT o.*, sum(octet_length(payload)) OVER (ORDER BY id DESC) - octet_length(payload) AS before FROM (
        SELECT day, id, subject, payload, trace, created_at FROM platform.outbox
        WHERE sent_at IS NULL AND id < @since ORDER BY id DESC LIMIT @at_most
    ) o
) w WHERE before < @bytes::bigint ORDER BY id DESC;

-- name: MarkSent :exec
-- The days let Postgres skip the other partitions. An event that is sent again keeps its place in the log.
UPDATE platform.outbox o SET sent_at = clock_timestamp(), place = coalesce(o.place, s.place)
FROM (SELECT unnest(@days::date[]) AS day, unnest(@ids::uuid[]) AS id, nextval('platform.outbox_place') AS place) s
WHERE o.day = s.day AND o.id = s.id AND o.day BETWEEN @first_day AND @last_day;

-- name: Recalled :one
SELECT EXISTS (SELECT FROM platform.outbox_recalls WHERE events_created = @events_created)::boolean;

-- name: NoteRecalled :exec
INSERT INTO platform.outbox_recalls (events_created) VALUES (@events_created) ON CONFLICT DO NOTHING;

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

-- name: NoteOldDropped :exec
-- Before the rows are deleted from the default partition.
UPDATE platform.outbox_dropped d SET place = o.place
FROM (SELECT max(place) AS place FROM platform.outbox WHERE day < (now() AT TIME ZONE 'UTC')::date - @days::int AND sent_at IS NOT NULL) o WHERE o.place > d.place;

-- name: EmptyInboxDefault :exec
-- By the time it was seen: the day of a foreign id is arbitrary.
DELETE FROM platform.inbox_default WHERE seen_at < statement_timestamp() - make_interval(days => @days::int);

-- name: RemoveOldAlarms :execrows
DELETE FROM platform.alarms WHERE id IN (
    SELECT a.id FROM platform.alarms a WHERE a.last_seen < statement_timestamp() - @keep::interval LIMIT @at_most);

-- name: RemoveOldDeadLetters :execrows
DELETE FROM platform.dead_letters WHERE id IN (
    SELECT d.id FROM platform.dead_letters d WHERE d.created_at < statement_timestamp() - @keep::interval LIMIT @at_most);

-- name: RemoveOldRefused :execrows
DELETE FROM platform.outbox_refused WHERE id IN (
    SELECT r.id FROM platform.outbox_refused r WHERE r.failed_at < statement_timestamp() - @keep::interval LIMIT @at_most);

-- name: MoveRefused :exec
WITH gone AS (DELETE FROM platform.outbox o WHERE o.day = @day AND o.id = @id RETURNING o.id, o.subject, o.payload, o.created_at, o.trace)
INSERT INTO platform.outbox_refused (id, subject, payload, created_at, trace, error, next_try)
SELECT gone.id, gone.subject, gone.payload, gone.created_at, gone.trace, @error::text, clock_timestamp() + @pause::interval FROM gone;

-- name: DueRefused :many
SELECT id, subject, payload, coalesce(trace, '') AS trace, attempts FROM platform.outbox_refused
WHERE next_try <= statement_timestamp() ORDER BY next_try LIMIT @at_most;

-- name: RefusedAgain :one
-- An event that was refused for as long as the bound has failed.
UPDATE platform.outbox_refused r SET attempts = r.attempts + 1, error = @error,
    next_try = CASE WHEN f.failed THEN NULL ELSE clock_timestamp() + @pause::interval END,
    failed_at = CASE WHEN f.failed THEN clock_timestamp() END
FROM (SELECT o.id, o.refused_at <= clock_timestamp() - @bound::interval AS failed
    FROM platform.outbox_refused o WHERE o.id = @id FOR UPDATE) f
WHERE r.id = f.id RETURNING f.failed::boolean;

-- name: RefusedSent :exec
-- The event is in the outbox again, as sent, so that a recall finds it.
WITH gone AS (DELETE FROM platform.outbox_refused r WHERE r.id = ANY(@ids::uuid[]) RETURNING r.id, r.subject, r.payload, r.created_at, r.trace)
INSERT INTO platform.outbox (id, subject, payload, created_at, trace, sent_at, place)
SELECT gone.id, gone.subject, gone.payload, gone.created_at, gone.trace, clock_timestamp(), nextval('platform.outbox_place') FROM gone;

-- name: Redrive :many
-- The oldest failed events, or the one with the id, also while it is still tried.
UPDATE platform.outbox_refused u SET refused_at = clock_timestamp(), next_try = clock_timestamp(), failed_at = NULL
FROM (
    SELECT r.id, r.failed_at IS NOT NULL AS failed FROM platform.outbox_refused r
    WHERE CASE WHEN @one::boolean THEN r.id = @id ELSE r.failed_at IS NOT NULL END AND (@subject::text = '' OR r.subject = @subject)
    ORDER BY r.id LIMIT @at_most FOR UPDATE) old
WHERE u.id = old.id
RETURNING u.id, u.subject, u.attempts, old.failed::boolean AS failed;

-- name: CountFailed :one
SELECT count(*) FROM platform.outbox_refused WHERE failed_at IS NOT NULL AND (@subject::text = '' OR subject = @subject);

-- name: UnsentMessages :many
SELECT id, subject, octet_length(payload) AS bytes, created_at FROM platform.outbox
WHERE sent_at IS NULL AND id < @before AND (@subject::text = '' OR subject = @subject) AND created_at >= @since AND created_at < @until
ORDER BY id DESC LIMIT @at_most;

-- name: SentMessages :many
-- By day first, so that Postgres reads the newest partition and no further than the page needs.
SELECT id, day, subject, octet_length(payload) AS bytes, created_at, sent_at FROM platform.outbox
WHERE sent_at IS NOT NULL AND (day, id) < (@before_day::date, @before::uuid) AND (@subject::text = '' OR subject = @subject)
    AND created_at >= @since AND created_at < @until AND day BETWEEN @first_day AND @last_day
ORDER BY day DESC, id DESC LIMIT @at_most;

-- name: RefusedMessages :many
SELECT id, subject, octet_length(payload) AS bytes, created_at, attempts, error, next_try, failed_at FROM platform.outbox_refused
WHERE (failed_at IS NOT NULL) = @failed::boolean AND id < @before AND (@subject::text = '' OR subject = @subject)
    AND created_at >= @since AND created_at < @until
ORDER BY id DESC LIMIT @at_most;

-- name: Message :one
-- The days are those that have partitions, so that each is one look at the primary key.
SELECT id, day, subject, payload, created_at, sent_at FROM platform.outbox WHERE day = ANY(@days::date[]) AND id = @id LIMIT 1;

-- name: RefusedMessage :one
SELECT * FROM platform.outbox_refused WHERE id = @id;

-- name: LogFrom :many
-- Bounded in number and in bytes, but at least one.
SELECT place, id, subject, payload, created_at FROM (
    SELECT o.*, sum(octet_length(payload)) OVER (ORDER BY place) - octet_length(payload) AS before FROM (
        SELECT coalesce(place, 0)::bigint AS place, id, subject, payload, created_at FROM platform.outbox
        WHERE place >= @place AND place IS NOT NULL ORDER BY place LIMIT @at_most
    ) o
) w WHERE before < @bytes::bigint ORDER BY place;

-- name: LogAt :many
SELECT coalesce(place, 0)::bigint AS place, id, subject, payload, created_at FROM platform.outbox WHERE place = ANY(@places::bigint[]) AND place IS NOT NULL;

-- name: DroppedPlace :one
SELECT place FROM platform.outbox_dropped;

-- name: NoteDropped :exec
UPDATE platform.outbox_dropped SET place = @place WHERE place < @place;
