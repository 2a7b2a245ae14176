-- name: RecordAlarm :exec
-- An occurrence that ended long ago does not replace a newer detail, nor the end of the problem. One that begins within an
-- hour of the last continues the same incident: an hour is longer than the slowest sampling pauses, so that one long
-- problem is one incident. Any other begins a new one, which loses its acknowledgement and is sent again.
INSERT INTO platform.alarms AS a (code, subject, severity, next_action, detail, count, first_seen, opened_at, last_seen, over_at)
SELECT @code, @subject, @severity, @next_action, @detail, @count, n.first, n.first, n.last, CASE WHEN @over::boolean THEN n.last END
FROM (SELECT clock_timestamp() - @began::interval AS first, clock_timestamp() - @ended::interval AS last) n
ON CONFLICT (code, subject) DO UPDATE SET
    severity = excluded.severity, next_action = excluded.next_action,
    (detail, over_at) = (SELECT CASE WHEN n.newer THEN excluded.detail ELSE a.detail END, CASE WHEN n.newer THEN excluded.over_at ELSE a.over_at END
        FROM (SELECT excluded.last_seen >= a.last_seen AS newer) n),
    last_seen = greatest(a.last_seen, excluded.last_seen), count = a.count + excluded.count,
    (acknowledged_by, acknowledged_at, incident, opened_at) = (SELECT
        CASE WHEN n.same THEN a.acknowledged_by END, CASE WHEN n.same THEN a.acknowledged_at END,
        CASE WHEN n.same THEN a.incident ELSE a.incident + 1 END, CASE WHEN n.same THEN a.opened_at ELSE excluded.opened_at END
        FROM (SELECT a.last_seen > excluded.first_seen - interval '1 hour' AS same) n);

-- name: EndAbandoned :exec
-- One that a single check found says nothing of its end. A problem that is found again is open again.
UPDATE platform.alarms SET over_at = last_seen
WHERE code = @code AND over_at IS NULL AND last_seen > opened_at
  AND last_seen BETWEEN statement_timestamp() - interval '1 day' AND statement_timestamp() - @quiet::interval;

-- name: ClaimIncidents :many
-- Claims what is due for an address, until the claim expires: a process that dies leaves it to the others. An address
-- gets an incident, then that it is over, and one that returns within the hour again. Incidents older than a day
-- are skipped, so that they do not flood an address that is set up today. A second address waits until the first had its
-- time. Of two instances that see the same, the second finds the row claimed and skips it.
WITH due AS (
    SELECT a.id, a.incident, a.opened_at, CASE WHEN a.over_at IS NULL THEN 'open' ELSE 'over' END AS saying
    FROM platform.alarms a LEFT JOIN platform.alarm_messages m ON m.alarm_id = a.id AND m.incident = a.incident AND m.address = @address
    WHERE a.last_seen > statement_timestamp() - interval '24 hours' AND a.severity = ANY(@severities::text[])
      AND (m.due_at IS NULL OR m.due_at <= clock_timestamp())
      AND CASE coalesce(m.said, '')
          WHEN 'open' THEN @says_over::boolean AND a.over_at <= clock_timestamp() - @settled::interval
          WHEN 'over' THEN @says_over AND a.over_at IS NULL AND a.acknowledged_at IS NULL
          ELSE a.acknowledged_at IS NULL AND a.opened_at > statement_timestamp() - interval '24 hours'
              AND (@after::interval = '0' OR a.over_at IS NULL AND EXISTS (
                  SELECT FROM platform.alarm_messages f WHERE f.alarm_id = a.id AND f.incident = a.incident AND f.address <> @address
                    AND f.created_at <= clock_timestamp() - @after))
          END
      AND NOT EXISTS (SELECT FROM platform.alarm_messages g WHERE g.address = @address AND g.tried_at > clock_timestamp() - @gap::interval)
    ORDER BY a.severity <> 'critical', a.opened_at, a.id LIMIT @at_most FOR UPDATE OF a SKIP LOCKED),
claimed AS (
    INSERT INTO platform.alarm_messages AS m (alarm_id, incident, address, saying, claim, due_at, tried_at)
    SELECT id, incident, @address, saying, @claim, clock_timestamp() + @claim_for::interval, clock_timestamp() FROM due
    ON CONFLICT (alarm_id, incident, address) DO UPDATE SET
        saying = excluded.saying, claim = excluded.claim, attempts = m.attempts + 1, due_at = excluded.due_at, tried_at = excluded.tried_at
    WHERE m.due_at <= clock_timestamp()
    RETURNING m.alarm_id, m.attempts, m.said)
SELECT c.attempts, c.said, sqlc.embed(a) FROM claimed c JOIN platform.alarms a ON a.id = c.alarm_id
ORDER BY a.severity <> 'critical', a.opened_at, a.id;

-- name: ClaimTold :exec
UPDATE platform.alarm_messages SET said = saying, attempts = 0 WHERE address = @address AND tried_at > clock_timestamp() - interval '1 hour' AND claim = @claim;

-- name: ClaimFailed :exec
UPDATE platform.alarm_messages SET due_at = clock_timestamp() + @pause::interval
WHERE address = @address AND tried_at > clock_timestamp() - interval '1 hour' AND claim = @claim;

-- name: CountOpenAlarms :many
SELECT code, severity, count(*)::float8 AS alarms FROM platform.alarms WHERE acknowledged_at IS NULL AND severity <> 'info' GROUP BY code, severity;

-- name: Alarms :many
-- The newest incident first; an empty parameter does not filter.
SELECT * FROM platform.alarms
WHERE (NOT @open::boolean OR acknowledged_at IS NULL AND severity <> 'info') AND (@severity::text = '' OR severity = @severity) AND (@code::text = '' OR code = @code)
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
