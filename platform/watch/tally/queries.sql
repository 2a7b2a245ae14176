-- name: StoreCounts :exec
-- A repetition of the same rows adds nothing: only what was inserted now goes into the totals.
WITH added AS (
    INSERT INTO platform.tally (subject, at, instance, counts)
    SELECT unnest(@subjects::bigint[]), @at::timestamptz, @instance::uuid, unnest(@counts::text[])::jsonb
    ON CONFLICT DO NOTHING
    RETURNING subject, counts
)
INSERT INTO platform.tally_totals AS t (subject, counts)
SELECT subject, counts FROM added ORDER BY subject
ON CONFLICT (subject) DO UPDATE SET counts = platform.add_counts(t.counts, EXCLUDED.counts);

-- name: StoreMoments :exec
INSERT INTO platform.tally_moments AS m (subject, name, first_at, last_at)
SELECT unnest(@subjects::bigint[]) AS subject, unnest(@names::text[]) AS name, unnest(@firsts::timestamptz[]), unnest(@lasts::timestamptz[])
ORDER BY subject, name
ON CONFLICT (subject, name) DO UPDATE SET first_at = LEAST(m.first_at, EXCLUDED.first_at), last_at = GREATEST(m.last_at, EXCLUDED.last_at);

-- name: Totals :many
SELECT subject, counts FROM platform.tally_totals WHERE subject = ANY(@subjects::bigint[]);

-- name: Moments :many
SELECT name, min(first_at)::timestamptz AS first_at, max(last_at)::timestamptz AS last_at
FROM platform.tally_moments WHERE subject = ANY(@subjects::bigint[]) GROUP BY name;

-- name: DeleteSeconds :exec
DELETE FROM platform.tally WHERE ctid = ANY(ARRAY(
    SELECT old.ctid FROM platform.tally AS old WHERE old.at < now() - @keep::interval LIMIT @at_most));

-- name: Busiest :one
-- The most that a stage counted in one second, over all subjects and instances; the age of rows is indexed.
SELECT coalesce(max(n), 0)::bigint AS most FROM (
    SELECT sum(code.value::bigint) AS n FROM platform.tally AS t, jsonb_each_text(t.counts -> @stage::text) AS code
    WHERE t.at > now() - @within::interval GROUP BY t.at
) AS seconds;

-- name: StageCurve :many
-- What a stage counted in each step, over all subjects and instances, by code. Steps begin as Go's Truncate has them.
SELECT date_bin(@step::interval, t.at, '1970-01-01 00:00:00+00'::timestamptz)::timestamptz AS at, code.key::text AS code, sum(code.value::bigint)::bigint AS n
FROM platform.tally AS t, jsonb_each_text(t.counts -> @stage::text) AS code
WHERE t.subject = ANY(@subjects::bigint[]) AND t.at >= @from_at::timestamptz AND t.at < @until_at::timestamptz
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: BusiestSecond :one
SELECT t.at, sum(code.value::bigint)::bigint AS n
FROM platform.tally AS t, jsonb_each_text(t.counts -> @stage::text) AS code
WHERE t.subject = ANY(@subjects::bigint[]) AND t.at >= @from_at::timestamptz AND t.at < @until_at::timestamptz
GROUP BY t.at ORDER BY n DESC, t.at LIMIT 1;

-- name: Since :many
-- The sums over all subjects and instances from a second on.
SELECT stage.key::text AS stage, code.key::text AS code, sum(code.value::bigint)::bigint AS n
FROM platform.tally AS t, jsonb_each(t.counts) AS stage, jsonb_each_text(stage.value) AS code
WHERE t.subject = ANY(@subjects::bigint[]) AND t.at >= @from_at::timestamptz
GROUP BY 1, 2;

-- name: StoreGauges :exec
INSERT INTO platform.tally_gauges AS g (instance, name, value, at)
SELECT @instance::uuid, unnest(@names::text[]), unnest(@numbers::bigint[]), clock_timestamp()
ON CONFLICT (instance, name) DO UPDATE SET value = EXCLUDED.value, at = EXCLUDED.at;

-- name: Gauges :many
-- The sums over the instances that have reported within a time, and how many these are.
SELECT name, sum(value)::bigint AS value, count(*)::bigint AS instances FROM platform.tally_gauges
WHERE at > statement_timestamp() - @within::interval GROUP BY name;

-- name: DeleteGauges :exec
-- Those of one instance, and those of instances that ended long ago.
DELETE FROM platform.tally_gauges WHERE instance = @instance OR at < clock_timestamp() - @keep::interval;
