-- name: RecordAlarm :exec
-- An occurrence that ended long ago does not replace a newer detail. One that begins within an hour of the last continues
-- the same incident: an hour is longer than the slowest sampling pauses, so that one long problem is one incident. Any
-- other begins a new one, which loses its acknowledgement and is posted again.
INSERT INTO platform.alarms AS a (code, subject, severity, next_action, detail, count, first_seen, opened_at, last_seen)
SELECT @code, @subject, @severity, @next_action, @detail, @count, n.first, n.first, n.last
FROM (SELECT clock_timestamp() - @began::interval AS first, clock_timestamp() - @ended::interval AS last) n
ON CONFLICT (code, subject) DO UPDATE SET
    severity = excluded.severity, next_action = excluded.next_action,
    detail = CASE WHEN excluded.last_seen >= a.last_seen THEN excluded.detail ELSE a.detail END,
    last_seen = greatest(a.last_seen, excluded.last_seen), count = a.count + excluded.count,
    (acknowledged_by, acknowledged_at, incident, opened_at, tell_attempts, tell_after) = (SELECT
        CASE WHEN n.same THEN a.acknowledged_by END, CASE WHEN n.same THEN a.acknowledged_at END,
        CASE WHEN n.same THEN a.incident ELSE a.incident + 1 END, CASE WHEN n.same THEN a.opened_at ELSE excluded.opened_at END,
        CASE WHEN n.same THEN a.tell_attempts ELSE 0 END, CASE WHEN n.same THEN a.tell_after ELSE clock_timestamp() END
        FROM (SELECT a.last_seen > excluded.first_seen - interval '1 hour' AS same) n);

-- name: ClaimIncident :one
-- Claims the incident that has waited longest, until the claim expires: a process that dies leaves it to the others.
-- Incidents older than a day are skipped, so that they do not flood a webhook that is set up today.
UPDATE platform.alarms SET tell_attempts = tell_attempts + 1, tell_after = clock_timestamp() + @claim_for::interval
WHERE id = (
    SELECT w.id FROM platform.alarms w
    WHERE w.told_incident < w.incident AND w.acknowledged_at IS NULL AND w.tell_after <= clock_timestamp()
      AND w.opened_at > clock_timestamp() - interval '24 hours'
    ORDER BY w.tell_after, w.id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *;

-- name: IncidentAccepted :exec
-- A newer incident that began meanwhile is posted as well.
UPDATE platform.alarms SET told_incident = @incident, tell_attempts = 0 WHERE id = @id AND told_incident < @incident;

-- name: IncidentRefused :exec
UPDATE platform.alarms SET tell_after = clock_timestamp() + @pause::interval WHERE id = @id AND incident = @incident;

-- name: CountOpenAlarms :many
SELECT code, severity, count(*)::float8 AS alarms FROM platform.alarms WHERE acknowledged_at IS NULL GROUP BY code, severity;

-- name: Alarms :many
-- The newest incident first; an empty parameter does not filter.
SELECT * FROM platform.alarms
WHERE (NOT @open::boolean OR acknowledged_at IS NULL) AND (@severity::text = '' OR severity = @severity) AND (@code::text = '' OR code = @code)
  AND (sqlc.narg('before')::timestamptz IS NULL OR (opened_at, id) < (sqlc.narg('before'), @before_id::bigint))
ORDER BY opened_at DESC, id DESC LIMIT NULLIF(@at_most::int, 0);

-- name: AcknowledgeAlarm :one
-- Returns no row if the alarm is already acknowledged.
UPDATE platform.alarms SET acknowledged_by = @acknowledged_by::text, acknowledged_at = clock_timestamp()
WHERE id = @id AND acknowledged_at IS NULL RETURNING *;

-- name: Alarm :one
SELECT * FROM platform.alarms WHERE id = @id;

-- name: PublishIncidents :many
-- Takes the incidents that have no event yet. Several instances share them; one that is just being raised waits.
UPDATE platform.alarms a SET published_incident = a.incident
FROM (SELECT u.id FROM platform.alarms u WHERE u.published_incident < u.incident ORDER BY u.id LIMIT @at_most FOR UPDATE SKIP LOCKED) due
WHERE a.id = due.id
RETURNING a.*;
