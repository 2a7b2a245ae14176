-- name: Make :exec
-- Makes the messages that do not exist yet.
INSERT INTO notify.messages (id, kind, about, user_id, order_no, offer, facts, next_try, expires_at)
SELECT unnest(@ids::uuid[]), @kind, unnest(@abouts::text[]), unnest(@user_ids::bigint[]), unnest(@order_nos::uuid[]),
    @offer, unnest(@facts::jsonb[]), unnest(@next_tries::timestamptz[]), unnest(@expire::timestamptz[])
ON CONFLICT ON CONSTRAINT message_is_made_once DO NOTHING;

-- name: Claim :many
-- Claims the next due messages of one sort, each for one sender. A claim ends by itself when its process dies. The planner
-- assumes arrays to be short and finds the rows by their key.
WITH due AS MATERIALIZED (
    SELECT o.id, o.user_id FROM notify.messages o WHERE o.state = 'waiting' AND o.by_mail = @by_mail AND o.offer = @offer AND o.next_try <= statement_timestamp()
    ORDER BY o.next_try LIMIT @most FOR UPDATE SKIP LOCKED
)
UPDATE notify.messages m SET attempts = m.attempts + 1, next_try = clock_timestamp() + @claimed_for::interval
FROM (SELECT unnest(array_agg(id)) AS id, unnest(array_agg(user_id)) AS user_id FROM due) d
LEFT JOIN notify.message_preferences p ON p.user_id = d.user_id
WHERE m.id = d.id
RETURNING m.id, m.kind, m.about, m.user_id, m.order_no, m.facts, m.attempts, m.expires_at, m.others_away,
    coalesce(p.offers, true)::boolean AS wants_offers, coalesce(p.language, '')::text AS language;

-- name: Settle :exec
-- Notes what became of claimed messages, and counts what has ended, in one order for all who do. What no channel was asked
-- about keeps what the last attempt said. One that was dropped or forgotten meanwhile names no recipient. One that may have been sent
-- may be charged.
WITH s AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@states::text[]) AS state, unnest(@reasons::text[]) AS reason, unnest(@channels::text[]) AS channel,
        unnest(@recipients::text[]) AS recipient, unnest(@parts::int[]) AS parts, unnest(@next_tries::timestamptz[]) AS next_try, unnest(@tried::int[]) AS tried,
        unnest(@by_mails::boolean[]) AS by_mail, unnest(@others_aways::boolean[]) AS others_away
), settled AS (
    UPDATE notify.messages m SET state = CASE WHEN s.state = 'waiting' THEN m.state ELSE s.state END,
        reason = CASE WHEN s.state = 'waiting' AND s.channel = '' THEN m.reason ELSE s.reason END,
        channel = CASE WHEN s.state = 'waiting' AND s.channel = '' THEN m.channel ELSE s.channel END,
        recipient = CASE WHEN m.state <> 'waiting' THEN '' WHEN s.state = 'waiting' AND s.channel = '' THEN m.recipient ELSE s.recipient END,
        parts = s.parts, by_mail = s.by_mail, others_away = s.others_away, next_try = s.next_try, attempts = m.attempts - 1 + s.tried, updated_at = clock_timestamp()
    FROM s WHERE m.id = s.id AND m.state IN ('waiting', 'dropped')
    RETURNING m.kind, s.channel, s.state,
        CASE WHEN s.state = 'sent' OR s.state = 'dead' AND starts_with(s.reason, @unclear::text) THEN s.parts ELSE 0 END AS charged
)
INSERT INTO notify.message_days AS d (day, kind, channel, sent, parts, dead, dropped)
SELECT @day::date, kind, channel, count(*) FILTER (WHERE state = 'sent'), sum(charged),
    count(*) FILTER (WHERE state = 'dead'), count(*) FILTER (WHERE state = 'dropped')
FROM settled WHERE state <> 'waiting' GROUP BY kind, channel ORDER BY kind, channel
ON CONFLICT (day, kind, channel) DO UPDATE SET sent = d.sent + excluded.sent, parts = d.parts + excluded.parts,
    dead = d.dead + excluded.dead, dropped = d.dropped + excluded.dropped;

-- name: PartsSince :one
SELECT coalesce(sum(parts), 0)::bigint FROM notify.message_days WHERE day >= @since::date;

-- name: Days :many
SELECT day, kind, channel, sent, parts, dead, dropped FROM notify.message_days WHERE day >= @since::date ORDER BY day DESC, kind, channel;

-- name: Messages :many
-- The newest first.
SELECT * FROM notify.messages WHERE id < @before ORDER BY id DESC LIMIT @most;

-- name: MessagesIn :many
-- Those in a state. Ordered by the id alone, the planner would rather walk all messages by their number.
SELECT * FROM notify.messages WHERE state >= @state AND (state, id) < (@state, @before::uuid) ORDER BY state DESC, id DESC LIMIT @most;

-- name: MessagesOf :many
-- Those of a kind that are in these states: a page of each, as above.
SELECT m.* FROM unnest(@states::text[]) AS s
CROSS JOIN LATERAL (SELECT * FROM notify.messages WHERE (kind, state) >= (@kind, s) AND (kind, state, id) < (@kind, s, @before::uuid)
    ORDER BY kind DESC, state DESC, id DESC LIMIT @most) m
ORDER BY m.id DESC LIMIT @most;

-- name: MessagesOfOrder :many
SELECT * FROM notify.messages WHERE order_no = @order_no AND NOT offer AND id < @before ORDER BY id DESC LIMIT @most;

-- name: Redrive :many
-- Dead messages are tried again, for a while from now on if their own time is over; the one, or all of a kind but those
-- that may have been sent.
WITH dead AS MATERIALIZED (
    SELECT o.id FROM notify.messages o
    WHERE o.state = 'dead' AND NOT o.offer AND CASE WHEN @kind::text = '' THEN o.id = @id ELSE o.kind = @kind AND NOT starts_with(o.reason, @unclear::text) END
        AND (o.kind NOT IN ('won', 'deadline') OR o.expires_at > clock_timestamp())
    ORDER BY o.id LIMIT @most FOR UPDATE SKIP LOCKED
)
UPDATE notify.messages m SET state = 'waiting', by_mail = false, attempts = 0, next_try = clock_timestamp(), updated_at = clock_timestamp(),
    expires_at = CASE WHEN m.kind IN ('won', 'deadline') THEN m.expires_at ELSE greatest(m.expires_at, clock_timestamp() + @again_for::interval) END
FROM (SELECT unnest(array_agg(id)) AS id FROM dead) d WHERE m.id = d.id
RETURNING m.id;

-- name: Dead :many
-- Those that died lately, whenever they were made.
SELECT kind, count(*) AS messages, max(reason)::text AS reason FROM notify.messages
WHERE state = 'dead' AND updated_at >= @since GROUP BY kind ORDER BY kind;

-- name: Waiting :one
SELECT count(*) FROM notify.messages WHERE state = 'waiting';

-- name: ForgetOld :exec
DELETE FROM notify.messages m WHERE m.id IN (SELECT o.id FROM notify.messages o WHERE o.id < @before::uuid ORDER BY o.id LIMIT @most);

-- name: Forget :exec
-- An erased user gets no further message, and no row names the recipient.
WITH preferences AS (DELETE FROM notify.message_preferences p WHERE p.user_id = @user_id), asks AS (DELETE FROM notify.units_back_asks a WHERE a.user_id = @user_id)
UPDATE notify.messages m SET recipient = '', state = CASE WHEN m.state = 'waiting' THEN 'dropped' ELSE m.state END,
    reason = CASE WHEN m.state = 'waiting' THEN 'erased' ELSE m.reason END
WHERE m.user_id = @user_id;

-- name: Rules :one
SELECT rules FROM notify.message_rules;

-- name: LockRules :one
-- The row, which is made of the defaults where there is none; one change at a time.
INSERT INTO notify.message_rules AS r (rules) VALUES (@defaults) ON CONFLICT (one) DO UPDATE SET rules = r.rules RETURNING rules;

-- name: PutRules :exec
UPDATE notify.message_rules SET rules = @rules;

-- name: Texts :many
SELECT * FROM notify.message_texts;

-- name: PutText :exec
INSERT INTO notify.message_texts (kind, channel, language, body, template) VALUES (@kind, @channel, @language, @body, @template)
ON CONFLICT (kind, channel, language) DO UPDATE SET body = excluded.body, template = excluded.template, updated_at = clock_timestamp();

-- name: RemoveText :exec
DELETE FROM notify.message_texts WHERE kind = @kind AND channel = @channel AND language = @language;

-- name: Preferences :one
SELECT offers, language FROM notify.message_preferences WHERE user_id = @user_id;

-- name: PutPreferences :exec
INSERT INTO notify.message_preferences (user_id, offers, language) VALUES (@user_id, @offers, @language)
ON CONFLICT (user_id) DO UPDATE SET offers = excluded.offers, language = excluded.language, updated_at = clock_timestamp();

-- name: Unsubscribe :exec
INSERT INTO notify.message_preferences (user_id, offers) VALUES (@user_id, false)
ON CONFLICT (user_id) DO UPDATE SET offers = false, updated_at = clock_timestamp();

-- name: Ask :exec
INSERT INTO notify.units_back_asks (item_id, user_id, title, until) VALUES (@item_id, @user_id, @title, @until)
ON CONFLICT ON CONSTRAINT one_ask_per_item DO NOTHING;

-- name: Asked :one
SELECT EXISTS (SELECT FROM notify.units_back_asks WHERE user_id = @user_id AND item_id = @item_id);

-- name: TakeBack :exec
DELETE FROM notify.units_back_asks WHERE user_id = @user_id AND item_id = @item_id;

-- name: TakeAsks :many
-- The first who asked for an item; their asks end with this.
DELETE FROM notify.units_back_asks a WHERE a.id IN (SELECT o.id FROM notify.units_back_asks o WHERE o.item_id = @item_id ORDER BY o.id LIMIT @most)
RETURNING a.id, a.user_id, a.title, a.until;

-- name: ForgetAsks :exec
DELETE FROM notify.units_back_asks a WHERE a.id IN (SELECT o.id FROM notify.units_back_asks o WHERE o.until < statement_timestamp() ORDER BY o.until LIMIT @most);

-- name: Walks :many
SELECT * FROM notify.message_walks WHERE name = ANY(@names::text[]);

-- name: SaveWalk :exec
INSERT INTO notify.message_walks (name, at, after_user, after_no, done) VALUES (@name, @at, @after_user, @after_no, @done)
ON CONFLICT (name) DO UPDATE SET at = excluded.at, after_user = excluded.after_user, after_no = excluded.after_no, done = excluded.done;

-- name: ForgetWalks :exec
DELETE FROM notify.message_walks WHERE at < clock_timestamp() - interval '2 days' AND done;
