-- name: RemoveEndedClaims :exec
DELETE FROM risk.claims WHERE user_id IN (
    SELECT c.user_id FROM risk.claims c WHERE c.until < statement_timestamp() AND (c.ends_at < statement_timestamp() OR NOT EXISTS (
        SELECT FROM risk.claim_orders o WHERE o.user_id = c.user_id AND o.activity_id = c.activity_id AND o.live))
    ORDER BY c.until LIMIT @at_most FOR UPDATE SKIP LOCKED) AND until < statement_timestamp();

-- name: RemoveEndedClaimOrders :exec
DELETE FROM risk.claim_orders WHERE order_no IN (
    SELECT o.order_no FROM risk.claim_orders o WHERE o.ends_at < statement_timestamp() ORDER BY o.ends_at LIMIT @at_most);

-- name: RemoveOldHolds :exec
DELETE FROM risk.holds WHERE order_no IN (
    SELECT h.order_no FROM risk.holds h WHERE h.noted_at < statement_timestamp() - @keep::interval ORDER BY h.noted_at LIMIT @at_most);

-- name: RemoveEndedMarks :exec
DELETE FROM risk.marks WHERE (rule_id, user_id) IN (
    SELECT m.rule_id, m.user_id FROM risk.marks m WHERE m.until < statement_timestamp() ORDER BY m.until LIMIT @at_most);

-- name: RemoveOldDecisions :exec
DELETE FROM risk.decisions WHERE id IN (
    SELECT d.id FROM risk.decisions d WHERE d.at < statement_timestamp() - @keep::interval ORDER BY d.at LIMIT @at_most);

-- name: InsertDecisions :exec
INSERT INTO risk.decisions (at, user_id, item_id, activity_id, order_no, rule_id, rule, inputs, result)
SELECT unnest(@at::timestamptz[]), unnest(@users::bigint[]), unnest(@items::bigint[]), unnest(@activities::bigint[]),
    unnest(@order_nos::uuid[]), unnest(@rule_ids::bigint[]), unnest(@rules::text[])::jsonb, unnest(@inputs::text[])::jsonb, unnest(@results::text[]);

-- name: Decisions :many
-- Newest first; a parameter of 0 does not filter.
SELECT * FROM risk.decisions
WHERE (@user_id::bigint = 0 OR user_id = @user_id) AND (@rule_id::bigint = 0 OR rule_id = @rule_id) AND (@before::bigint = 0 OR id < @before)
ORDER BY id DESC LIMIT @at_most;

-- name: UnpaidHits :many
-- The rule applies until the closing that completes the threshold leaves the window. No users means all.
SELECT user_id, count(*) AS count, ((array_agg(closed_at ORDER BY closed_at DESC))[@threshold::int] + @window_length::interval)::timestamptz AS until
FROM risk.holds
WHERE closed_at > statement_timestamp() - @window_length::interval AND (@users::bigint[] IS NULL OR user_id = ANY (@users))
GROUP BY user_id HAVING count(*) >= @threshold
ORDER BY 2 DESC, 1 LIMIT @at_most;

-- name: PutMarks :execrows
-- An end that moves by seconds does not count as a change: every instance would reread all marks for it.
-- Nothing is stored for a rule that was removed meanwhile.
INSERT INTO risk.marks AS m (rule_id, user_id, count, until)
SELECT r.id, h.usr, h.n, h.until FROM risk.rules r,
    (SELECT unnest(@users::bigint[]) AS usr, unnest(@counts::bigint[]) AS n, unnest(@until::timestamptz[]) AS until) h
WHERE r.id = @rule_id
ORDER BY h.usr
ON CONFLICT (rule_id, user_id) DO UPDATE SET count = excluded.count, until = excluded.until
    WHERE m.count <> excluded.count OR m.until NOT BETWEEN excluded.until - interval '10 s' AND excluded.until + interval '10 s';

-- name: RemoveMarksOfOthers :execrows
DELETE FROM risk.marks WHERE rule_id = @rule_id AND user_id <> ALL (@users::bigint[]);

-- name: WorstMarks :many
SELECT rule_id, user_id, count, until FROM risk.marks WHERE until > statement_timestamp() ORDER BY count DESC, user_id LIMIT @at_most;

-- name: PutClaimOrders :exec
INSERT INTO risk.claim_orders AS o (order_no, user_id, activity_id, live, version, ends_at)
SELECT e.no, e.usr, e.activity, e.live, e.version, a.ends_at + @keep::interval
FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@users::bigint[]) AS usr, unnest(@activities::bigint[]) AS activity,
             unnest(@live::boolean[]) AS live, unnest(@versions::int[]) AS version) e
JOIN seckill.activities a ON a.id = e.activity
ORDER BY e.no
ON CONFLICT (order_no) DO UPDATE SET live = excluded.live, version = excluded.version WHERE o.version < excluded.version;

-- name: GiveClaimsBack :exec
-- A claim under which a second path was issued stays until that path has ended.
DELETE FROM risk.claims c USING risk.claim_orders e
WHERE e.order_no = ANY (@order_nos::uuid[]) AND NOT e.live
  AND c.user_id = e.user_id AND c.activity_id = e.activity_id AND c.order_no = e.order_no AND c.paths = 1;

-- name: RestoreClaims :exec
-- Orders that were closed and then paid late: their users take part again, unless they have taken part in another
-- activity since. No path is at large.
INSERT INTO risk.claims (user_id, activity_id, order_no, until, ends_at)
SELECT o.user_id, o.activity_id, o.order_no, clock_timestamp(), o.ends_at FROM risk.claim_orders o
WHERE o.order_no = ANY (@order_nos::uuid[]) AND o.live
ORDER BY o.order_no ON CONFLICT (user_id) DO NOTHING;

-- name: PutHolds :exec
-- Of two times of a number the earlier one stays: that of an order that was paid after all is outside every window,
-- also if the event of its closing comes later.
INSERT INTO risk.holds (order_no, user_id, item_id, activity_id, reason, closed_at)
SELECT DISTINCT ON (e.no) e.no, e.usr, e.item, e.activity, e.reason, e.at
FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@users::bigint[]) AS usr, unnest(@items::bigint[]) AS item,
             unnest(@activities::bigint[]) AS activity, unnest(@reasons::text[]) AS reason, unnest(@at::timestamptz[]) AS at) e
ORDER BY e.no, e.at ON CONFLICT (order_no) DO UPDATE SET closed_at = excluded.closed_at WHERE excluded.closed_at < holds.closed_at;

-- name: Unpaid :many
-- Per user and activity, the unpaid closings of the last period, for the users of whom something was written
-- since; the latest first.
SELECT h.user_id, h.activity_id, count(*) AS closings, max(h.closed_at)::timestamptz AS latest FROM risk.holds h
WHERE h.closed_at > statement_timestamp() - @period::interval
  AND (h.user_id, h.activity_id) IN (SELECT n.user_id, n.activity_id FROM risk.holds n WHERE n.noted_at > statement_timestamp() - @since::interval)
GROUP BY 1, 2 ORDER BY 4 DESC LIMIT @at_most;

-- name: TakeClaim :one
-- Takes or prolongs a user's claim in one statement, whose row lock decides between concurrent ones. It
-- replaces a claim on another activity only if that no longer binds: it has ended, or no path of it can still
-- become an order and none has become a live one. It returns no row while the other claim binds.
INSERT INTO risk.claims AS c (user_id, activity_id, order_no, until, ends_at)
SELECT @user_id, a.id, @order_no, clock_timestamp() + @bound::interval, a.ends_at + @keep::interval FROM seckill.activities a WHERE a.id = @activity_id
ON CONFLICT (user_id) DO UPDATE SET
    activity_id = excluded.activity_id, order_no = excluded.order_no, ends_at = excluded.ends_at,
    paths      = CASE WHEN c.activity_id = excluded.activity_id THEN c.paths + 1 ELSE 1 END,
    until      = CASE WHEN c.activity_id = excluded.activity_id THEN GREATEST(c.until, excluded.until) ELSE excluded.until END,
    claimed_at = CASE WHEN c.activity_id = excluded.activity_id THEN c.claimed_at ELSE excluded.claimed_at END
WHERE c.activity_id = excluded.activity_id
   OR c.ends_at <= clock_timestamp()
   OR EXISTS (SELECT FROM seckill.activities a WHERE a.id = c.activity_id AND a.status = 'terminated')
   OR c.until <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM risk.claim_orders o WHERE o.user_id = c.user_id AND o.activity_id = c.activity_id AND o.live)
RETURNING c.activity_id;

-- name: ClaimOf :one
SELECT c.activity_id, a.name FROM risk.claims c JOIN seckill.activities a ON a.id = c.activity_id WHERE c.user_id = @user_id;

-- name: ActiveRules :many
SELECT * FROM risk.rules WHERE expires_at IS NULL OR expires_at > clock_timestamp() ORDER BY id LIMIT @at_most;

-- name: Rules :many
SELECT * FROM risk.rules WHERE @before::bigint = 0 OR id < @before ORDER BY id DESC LIMIT @at_most;

-- name: PutRule :one
-- Writes a rule, a new one if its id is 0; of a rule that exists all but the kind. Returns no row if there are too many rules.
INSERT INTO risk.rules (id, kind, threshold, window_seconds, action, amount, note, expires_at, dry_run_until) OVERRIDING SYSTEM VALUE
SELECT coalesce(nullif(@id::bigint, 0), nextval('risk.rules_id_seq')), @kind, @threshold, @window_seconds, @action, @amount, @note,
    sqlc.narg('expires_at'), sqlc.narg('dry_run_until')
WHERE @id <> 0 OR (SELECT count(*) FROM risk.rules WHERE expires_at IS NULL OR expires_at > clock_timestamp()) < @at_most::int
ON CONFLICT (id) DO UPDATE SET threshold = excluded.threshold, window_seconds = excluded.window_seconds, action = excluded.action,
    amount = excluded.amount, note = excluded.note, expires_at = excluded.expires_at, dry_run_until = excluded.dry_run_until,
    updated_at = clock_timestamp()
RETURNING *;

-- name: RemoveRule :one
-- Its marks are deleted with it.
DELETE FROM risk.rules WHERE id = @id RETURNING *;

-- name: LockRule :one
SELECT * FROM risk.rules WHERE id = @id FOR UPDATE;
