-- Writes an activity as it is to be, a new one if its id is 0; one that exists keeps its state.
-- name: PutActivity :one
INSERT INTO seckill.activities AS a (id, name, status, starts_at, ends_at, limit_per_user, one_item_per_user, payment_window_seconds,
    payment_window_share, rebuy_after_close, paused, version, human_check, human_check_rate, exclusive, refund_within_hours, refund_units, checkout,
    external_id, metadata, points_rate)
OVERRIDING SYSTEM VALUE
VALUES (coalesce(nullif(@id::bigint, 0), nextval('seckill.activities_id_seq')), @name, @status, @starts_at, @ends_at, @limit_per_user,
    @one_item_per_user, @payment_window_seconds, @payment_window_share, @rebuy_after_close, @paused, @version, @human_check, @human_check_rate,
    @exclusive, @refund_within_hours, @refund_units, @checkout, @external_id, @metadata, @points_rate)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, starts_at = excluded.starts_at, ends_at = excluded.ends_at,
    limit_per_user = excluded.limit_per_user, one_item_per_user = excluded.one_item_per_user,
    payment_window_seconds = excluded.payment_window_seconds, payment_window_share = excluded.payment_window_share,
    rebuy_after_close = excluded.rebuy_after_close, version = excluded.version,
    human_check = excluded.human_check, human_check_rate = excluded.human_check_rate, exclusive = excluded.exclusive,
    refund_within_hours = excluded.refund_within_hours, refund_units = excluded.refund_units, checkout = excluded.checkout,
    external_id = excluded.external_id, metadata = excluded.metadata, points_rate = excluded.points_rate,
    revision = a.revision + 1, updated_at = now()
RETURNING *;

-- Only the state: a transition must not write back a checkout of which this version may not know every member.
-- name: SetActivityState :one
UPDATE seckill.activities SET status = @status, paused = @paused, revision = revision + 1, updated_at = now()
WHERE id = @id RETURNING *;

-- name: Activity :one
SELECT * FROM seckill.activities WHERE id = $1;

-- name: ActivityByExternalID :one
SELECT * FROM seckill.activities WHERE external_id = @external_id::text;

-- Every change to an activity, its sessions or its items begins with this lock, so that changes are
-- serialized and each sees the state that the rules apply to.
-- name: LockActivity :one
SELECT now()::timestamptz AS at,
    coalesce((SELECT min(s.opens_at) FROM seckill.sessions s WHERE s.activity_id = a.id), a.ends_at)::timestamptz AS first_opening
FROM seckill.activities a WHERE a.id = $1 FOR UPDATE OF a;

-- name: Activities :many
SELECT * FROM seckill.activities
WHERE (@before::bigint = 0 OR id < @before) AND (@status::text = '' OR status = @status)
ORDER BY id DESC LIMIT @row_limit;

-- The sessions or items of the activity changed: views and catalogues are stale. A terminated activity keeps the time of
-- its last change, which is when it was terminated: its sessions ended then.
-- name: TouchActivity :exec
UPDATE seckill.activities SET revision = revision + 1, updated_at = CASE status WHEN 'terminated' THEN updated_at ELSE now() END WHERE id = $1;

-- name: DeleteActivity :exec
DELETE FROM seckill.activities WHERE id = $1;

-- The first instance to update the row wins; the other instances' updates match nothing. An id of 0 means
-- every activity.
-- name: StartDue :many
UPDATE seckill.activities a SET status = 'running', revision = revision + 1, updated_at = now()
WHERE a.status = 'scheduled' AND (@id::bigint = 0 OR a.id = @id)
    AND (SELECT min(s.opens_at) FROM seckill.sessions s WHERE s.activity_id = a.id) <= now()
RETURNING a.id;

-- name: EndDue :many
UPDATE seckill.activities SET status = 'ended', revision = revision + 1, updated_at = now()
WHERE status = 'running' AND ends_at <= now() AND (@id::bigint = 0 OR id = @id)
RETURNING id;

-- Published activities that are not long over, as one short text: equal texts mean that nothing
-- changed.
-- name: CatalogueFingerprint :one
SELECT coalesce(md5(string_agg(id || ':' || revision, ',' ORDER BY id)), '')::text
FROM seckill.activities WHERE status <> 'draft' AND ends_at > now() - make_interval(secs => @kept_seconds);

-- name: PublishedActivities :many
SELECT * FROM seckill.activities
WHERE status <> 'draft' AND ends_at > now() - make_interval(secs => @kept_seconds) ORDER BY id;

-- name: PutSession :one
INSERT INTO seckill.sessions (id, activity_id, name, opens_at, closes_at, version, repeat_of, repeat_day,
    reservation_opens_at, reservation_closes_at, reservation_cap, external_id, metadata)
OVERRIDING SYSTEM VALUE
VALUES (coalesce(nullif(@id::bigint, 0), nextval('seckill.sessions_id_seq')), @activity_id, @name, @opens_at, @closes_at, @version, @repeat_of,
    @repeat_day, @reservation_opens_at, @reservation_closes_at, @reservation_cap, @external_id, @metadata)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, opens_at = excluded.opens_at, closes_at = excluded.closes_at, version = excluded.version,
    reservation_opens_at = excluded.reservation_opens_at, reservation_closes_at = excluded.reservation_closes_at,
    reservation_cap = excluded.reservation_cap, external_id = excluded.external_id, metadata = excluded.metadata, updated_at = now()
RETURNING *;

-- name: Session :one
SELECT * FROM seckill.sessions WHERE id = $1;

-- name: Sessions :many
SELECT * FROM seckill.sessions
WHERE (@before::bigint = 0 OR id < @before) AND (@activity_id::bigint = 0 OR activity_id = @activity_id)
ORDER BY id DESC LIMIT @row_limit;

-- name: SessionsOf :many
SELECT * FROM seckill.sessions WHERE activity_id = ANY(@activity_ids::bigint[]) ORDER BY activity_id, id;

-- name: DeleteSession :exec
DELETE FROM seckill.sessions WHERE id = $1;

-- name: PutItem :one
INSERT INTO seckill.items (id, session_id, activity_id, sku, title, spec, image_url, list_price, sale_price, currency,
    stock, unlimited, limit_per_user, version, oversell_percent, oversell_reason, backup, paused, admission,
    external_id, metadata)
OVERRIDING SYSTEM VALUE
VALUES (coalesce(nullif(@id::bigint, 0), nextval('seckill.items_id_seq')), @session_id, @activity_id, @sku, @title, @spec, @image_url,
    @list_price, @sale_price, @currency, @stock, @unlimited, @limit_per_user, @version, @oversell_percent, @oversell_reason, @backup,
    @paused, @admission, @external_id, @metadata)
ON CONFLICT (id) DO UPDATE SET sku = excluded.sku, title = excluded.title, spec = excluded.spec, image_url = excluded.image_url,
    list_price = excluded.list_price, sale_price = excluded.sale_price, currency = excluded.currency, stock = excluded.stock,
    unlimited = excluded.unlimited, limit_per_user = excluded.limit_per_user, version = excluded.version,
    oversell_percent = excluded.oversell_percent, oversell_reason = excluded.oversell_reason, backup = excluded.backup,
    paused = excluded.paused, admission = excluded.admission, external_id = excluded.external_id, metadata = excluded.metadata, updated_at = now()
RETURNING *;

-- name: Item :one
SELECT * FROM seckill.items WHERE id = $1;

-- name: Items :many
SELECT * FROM seckill.items
WHERE (@before::bigint = 0 OR id < @before) AND (@activity_id::bigint = 0 OR activity_id = @activity_id)
    AND (@session_id::bigint = 0 OR session_id = @session_id)
ORDER BY id DESC LIMIT @row_limit;

-- name: ItemsOf :many
SELECT * FROM seckill.items WHERE activity_id = ANY(@activity_ids::bigint[]) ORDER BY activity_id, id;

-- name: DeleteItem :exec
DELETE FROM seckill.items WHERE id = $1;

-- name: WantLoad :exec
UPDATE seckill.items SET load_wanted = load_wanted + 1 WHERE id = ANY(@ids::bigint[]);

-- name: LoadWanted :one
SELECT load_wanted, load_done FROM seckill.items WHERE id = $1;

-- name: LoadsOwed :many
SELECT id, load_done FROM seckill.items WHERE id = ANY(@ids::bigint[]) AND load_wanted > load_done;

-- An older request never replaces a newer one that was answered meanwhile.
-- name: LoadDone :exec
UPDATE seckill.items SET load_done = greatest(load_done, @answered) WHERE id = @id;

-- The units that every published item should have on sale and in its backup, and whether it should be paused. Computed
-- here and not by the program, whose result it checks.
-- name: PlannedStock :many
SELECT i.id, i.unlimited, (i.stock + i.stock::bigint * i.oversell_percent / 100)::bigint AS on_sale, i.backup,
    (a.paused OR i.paused)::boolean AS paused, (a.status IN ('scheduled', 'running'))::boolean AS alive
FROM seckill.items i JOIN seckill.activities a ON a.id = i.activity_id
WHERE a.status <> 'draft' ORDER BY i.id;

-- Decides many reservations together, by this statement's own time. A reservation is granted when its window
-- is open, the user has none yet and, if there is a cap, a place is left; a user who appears twice gets one.
-- If another statement fills a counter meanwhile, the CHECK aborts this one and nothing has happened. An item
-- without a counter gets one that starts with the reservations that exist. Rows are inserted in key order and
-- counters in item order, so that no two statements deadlock. If a reservation was neither made nor held
-- although the window is open and the item not full, a concurrent request was faster: repeat the request. An
-- item that does not exist has no row.
-- name: Reserve :many
WITH asked AS (
    SELECT row_number() OVER () AS ord, t.* FROM (
        SELECT unnest(@item_ids::bigint[]) AS item_id, unnest(@user_ids::bigint[]) AS user_id, unnest(@human_oks::boolean[]) AS human_ok
    ) t
), plan AS (
    SELECT i.id, a.status, s.reservation_opens_at, s.reservation_closes_at, s.reservation_cap > 0 AS capped,
        CASE WHEN i.unlimited THEN 9223372036854775807 ELSE floor(s.reservation_cap::numeric * i.stock)::bigint END AS places,
        CASE WHEN s.reservation_cap > 0 THEN coalesce(
            (SELECT c.taken FROM seckill.reservation_counts c WHERE c.item_id = i.id),
            (SELECT count(*) FROM seckill.reservations r WHERE r.item_id = i.id)) ELSE 0 END AS taken,
        EXISTS (SELECT 1 FROM seckill.reservation_counts c WHERE c.item_id = i.id) AS counting
    FROM seckill.items i
        JOIN seckill.sessions s ON s.id = i.session_id
        JOIN seckill.activities a ON a.id = i.activity_id
    WHERE i.id = ANY(@item_ids::bigint[])
), known AS (
    SELECT a.ord, a.item_id, a.user_id, a.human_ok, r.reserved_at
    FROM asked a LEFT JOIN LATERAL (
        SELECT h.reserved_at FROM seckill.reservations h WHERE h.item_id = a.item_id AND h.user_id = a.user_id OFFSET 0
    ) r ON true
), fresh AS (
    SELECT k.item_id, k.user_id, k.human_ok, row_number() OVER (PARTITION BY k.item_id ORDER BY k.ord) AS nth
    FROM known k WHERE k.reserved_at IS NULL
), made AS (
    INSERT INTO seckill.reservations (item_id, user_id, reserved_at, human_ok)
    SELECT f.item_id, f.user_id, now(), f.human_ok FROM fresh f JOIN plan p ON p.id = f.item_id
    WHERE p.status IN ('scheduled', 'running') AND now() >= p.reservation_opens_at AND now() < p.reservation_closes_at
        AND (NOT p.capped OR f.nth <= p.places - p.taken)
    ORDER BY f.item_id, f.user_id
    ON CONFLICT DO NOTHING
    RETURNING item_id, user_id, reserved_at
), counted AS (
    INSERT INTO seckill.reservation_counts AS c (item_id, taken, places)
    SELECT p.id, CASE WHEN p.counting THEN 0 ELSE p.taken END + count(*), p.places
    FROM made m JOIN plan p ON p.id = m.item_id WHERE p.capped
    GROUP BY p.id, p.counting, p.taken, p.places ORDER BY p.id
    ON CONFLICT (item_id) DO UPDATE SET taken = c.taken + (SELECT count(*) FROM made m WHERE m.item_id = c.item_id), places = excluded.places
)
SELECT k.ord, p.status, p.reservation_opens_at, p.reservation_closes_at, now()::timestamptz AS at,
    (m.item_id IS NOT NULL)::boolean AS made, (k.reserved_at IS NOT NULL)::boolean AS held,
    coalesce(m.reserved_at, k.reserved_at, now())::timestamptz AS reserved_at,
    (p.capped AND p.taken >= p.places)::boolean AS is_full
FROM known k
    JOIN plan p ON p.id = k.item_id
    LEFT JOIN made m ON m.item_id = k.item_id AND m.user_id = k.user_id;

-- name: Reservation :one
SELECT r.reserved_at, r.human_ok FROM seckill.reservations r WHERE r.item_id = @item_id AND r.user_id = @user_id;

-- Cancels a reservation before the window closes and frees its place; not within @lead of the opening, because the
-- user may have a path already, and the next user of the place would get another one.
-- name: GiveUpReservation :one
WITH gone AS (
    DELETE FROM seckill.reservations r USING seckill.items i, seckill.sessions s
    WHERE r.item_id = @item_id AND r.user_id = @user_id AND i.id = r.item_id AND s.id = i.session_id
        AND now() < s.reservation_closes_at AND now() < s.opens_at - @lead::interval
    RETURNING r.item_id
), freed AS (
    UPDATE seckill.reservation_counts c SET taken = c.taken - 1 FROM gone g WHERE c.item_id = g.item_id
)
SELECT coalesce(now() >= s.reservation_closes_at OR now() >= s.opens_at - @lead::interval, false)::boolean AS closed,
    EXISTS (SELECT 1 FROM gone) AS gone
FROM seckill.items i JOIN seckill.sessions s ON s.id = i.session_id WHERE i.id = @item_id;

-- Which of many pairs of item and user are reservations. OFFSET 0 keeps the planner from turning the lookups
-- into a scan of the whole table.
-- name: ReservationsAmong :many
SELECT r.item_id, r.user_id, r.human_ok, now()::timestamptz AS at
FROM (SELECT unnest(@item_ids::bigint[]) AS item, unnest(@user_ids::bigint[]) AS usr) n
CROSS JOIN LATERAL (SELECT * FROM seckill.reservations WHERE item_id = n.item AND user_id = n.usr OFFSET 0) r;

-- name: CountReservations :many
SELECT item_id, count(*) AS reservations FROM seckill.reservations WHERE item_id = ANY(@item_ids::bigint[]) GROUP BY item_id;

-- name: ReservationsOf :many
SELECT * FROM seckill.reservations WHERE item_id = @item_id AND user_id > @after ORDER BY user_id LIMIT @row_limit;

-- name: ReservationsClosed :many
-- When the reservation of items closed, of those that can get no reservation any more: a statement that began before
-- the closing has ended, or was given up, within @settle.
SELECT i.id, s.reservation_closes_at::timestamptz AS closed_at
FROM seckill.items i JOIN seckill.sessions s ON s.id = i.session_id JOIN seckill.activities a ON a.id = s.activity_id
WHERE (i.id = ANY(@item_ids::bigint[]) OR a.id = ANY(@activity_ids::bigint[]))
  AND a.status IN ('scheduled', 'running', 'ended') AND s.reservation_closes_at < now() - @settle::interval;

-- A cap that is set on a session starts counting with the existing reservations when its next
-- reservation is made.
-- name: ForgetReservationCounts :exec
DELETE FROM seckill.reservation_counts WHERE item_id IN (SELECT id FROM seckill.items WHERE session_id = @session_id);

-- Items whose reservations are no longer needed. It steps from item to item along the key, so that it costs a
-- step per item with reservations and not a row for each of them.
-- name: LongReservedItems :many
WITH RECURSIVE reserved AS (
    (SELECT r.item_id FROM seckill.reservations r ORDER BY r.item_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.item_id FROM seckill.reservations r WHERE r.item_id > p.item_id ORDER BY r.item_id LIMIT 1)
    FROM reserved p WHERE p.item_id IS NOT NULL
)
SELECT i.id FROM reserved p JOIN seckill.items i ON i.id = p.item_id JOIN seckill.sessions s ON s.id = i.session_id
WHERE s.closes_at < now() - make_interval(secs => @kept_seconds::float8) ORDER BY i.id;

-- Some of an item's reservations; rows that another instance is deleting right now are skipped.
-- name: ForgetReservations :execrows
DELETE FROM seckill.reservations d USING (
    SELECT r.item_id, r.user_id FROM seckill.reservations r WHERE r.item_id = @item_id
    ORDER BY r.user_id LIMIT @row_limit FOR UPDATE SKIP LOCKED
) old WHERE d.item_id = old.item_id AND d.user_id = old.user_id;

-- name: ForgetReservationCount :exec
DELETE FROM seckill.reservation_counts WHERE item_id = @item_id;

-- name: WhenOnSale :one
-- When the matching sessions were on sale.
SELECT min(s.opens_at)::timestamptz AS opens_at, max(s.closes_at)::timestamptz AS closes_at FROM seckill.sessions s
WHERE (sqlc.narg('session_id')::bigint IS NULL OR s.id = sqlc.narg('session_id'))
  AND (sqlc.narg('activity_id')::bigint IS NULL OR s.activity_id = sqlc.narg('activity_id'))
  AND (sqlc.narg('item_id')::bigint IS NULL OR s.id = (SELECT i.session_id FROM seckill.items i WHERE i.id = sqlc.narg('item_id')))
HAVING count(*) > 0;

-- name: ItemsOfSKU :many
-- What was ever on sale under a SKU, the latest first, and when.
SELECT i.id, s.opens_at, s.closes_at FROM seckill.items i JOIN seckill.sessions s ON s.id = i.session_id
WHERE i.sku = @sku ORDER BY s.opens_at DESC, i.id DESC LIMIT @most;

-- name: RefundRule :one
SELECT refund_within_hours, refund_units FROM seckill.activities WHERE id = $1;

-- name: SaleOf :one
SELECT i.sku, i.spec, i.image_url, a.name AS activity, s.name AS session, a.starts_at, a.ends_at, s.opens_at, s.closes_at, a.checkout, a.points_rate
FROM seckill.items i JOIN seckill.sessions s ON s.id = i.session_id JOIN seckill.activities a ON a.id = i.activity_id
WHERE i.id = @item_id;

-- name: UsersInSeveralExclusiveActivities :many
-- I3: users with live orders of two exclusive activities at the same time. An activity binds its users until its end, and
-- a terminated one has ended when it was terminated; an order of the other one that was placed later is no violation. Nor
-- is an order that was paid late from the backup: its user was free to take part in another activity while it was closed.
-- The orders are the order module's, read for the check only.
WITH span AS (
    SELECT id, starts_at,
           CASE status WHEN 'terminated' THEN least(ends_at, updated_at) ELSE ends_at END AS ends_at
    FROM seckill.activities WHERE exclusive AND status IN ('running', 'ended', 'terminated')
)
SELECT x.user_id, a.id AS one, b.id AS other
FROM span a
JOIN span b ON b.id > a.id AND b.starts_at < a.ends_at AND a.starts_at < b.ends_at
JOIN orders.orders x ON x.activity_id = a.id AND x.created_at < b.ends_at
     AND x.status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed') AND x.reason <> 'backup'
JOIN orders.orders y ON y.activity_id = b.id AND y.user_id = x.user_id AND y.bucket = x.bucket
     AND y.created_at < a.ends_at
     AND y.status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed') AND y.reason <> 'backup'
GROUP BY x.user_id, a.id, b.id ORDER BY x.user_id, a.id, b.id LIMIT @most;

-- name: ItemDetail :one
SELECT description, images, version FROM seckill.item_details WHERE item_id = @item_id;

-- name: ItemDetails :many
SELECT d.item_id, d.description, d.images, d.version FROM seckill.item_details d JOIN seckill.items i ON i.id = d.item_id
WHERE i.activity_id = @activity_id;

-- name: PutItemDetail :exec
INSERT INTO seckill.item_details (item_id, description, images) VALUES (@item_id, @description, @images)
ON CONFLICT (item_id) DO UPDATE SET description = excluded.description, images = excluded.images, version = item_details.version + 1,
    updated_at = clock_timestamp();

-- name: PicturesOf :many
SELECT d.item_id, d.images FROM seckill.item_details d JOIN seckill.items i ON i.id = d.item_id
WHERE i.activity_id = @activity_id ORDER BY d.item_id;

-- name: CopyItemDetail :exec
INSERT INTO seckill.item_details (item_id, description, images)
SELECT @copy_id, d.description, d.images FROM seckill.item_details d WHERE d.item_id = @original_id;

-- name: ActivityRules :one
SELECT rules, version FROM seckill.activity_rules WHERE activity_id = @activity_id;

-- name: PutActivityRules :exec
INSERT INTO seckill.activity_rules (activity_id, rules) VALUES (@activity_id, @rules)
ON CONFLICT (activity_id) DO UPDATE SET rules = excluded.rules, version = activity_rules.version + 1, updated_at = clock_timestamp();

-- name: CopyActivityRules :exec
INSERT INTO seckill.activity_rules (activity_id, rules)
SELECT @copy_id, r.rules FROM seckill.activity_rules r WHERE r.activity_id = @original_id;

-- name: ShownDetail :one
-- What shoppers may read about an item; no row for an item of a draft.
SELECT coalesce(d.description, '')::text AS description, coalesce(d.images, '{}')::text[] AS images, coalesce(r.rules, '')::text AS rules,
    (s.reservation_opens_at IS NOT NULL)::boolean AS by_reservation,
    (CASE WHEN s.reservation_opens_at IS NULL THEN 0 ELSE coalesce(
        (SELECT c.taken FROM seckill.reservation_counts c WHERE c.item_id = i.id),
        (SELECT count(*) FROM seckill.reservations h WHERE h.item_id = i.id)) END)::bigint AS reserved
FROM seckill.items i JOIN seckill.activities a ON a.id = i.activity_id JOIN seckill.sessions s ON s.id = i.session_id
    LEFT JOIN seckill.item_details d ON d.item_id = i.id LEFT JOIN seckill.activity_rules r ON r.activity_id = a.id
WHERE i.id = @item_id AND a.status <> 'draft';

-- Sessions of which the last event does not say whether they are open now: writes down that it does, and returns them. A
-- session that was over before any instance saw it open opens here first and ends in the next round, unless its
-- activity was terminated, perhaps before it opened.
-- name: TellSessions :many
WITH due AS (
    SELECT s.id, s.activity_id, s.external_id, a.external_id AS activity_external_id, s.opens_at, s.closes_at,
        n.open OR t.session_id IS NULL AS opens, a.status = 'terminated' AS terminated
    FROM seckill.activities a JOIN seckill.sessions s ON s.activity_id = a.id
    LEFT JOIN seckill.told_sessions t ON t.session_id = s.id
    CROSS JOIN LATERAL (SELECT a.status IN ('scheduled', 'running') AND s.closes_at > clock_timestamp() AS open) n
    WHERE a.status <> 'draft' AND a.ends_at > statement_timestamp() - interval '7 days' AND s.opens_at <= statement_timestamp()
        AND CASE WHEN t.session_id IS NULL THEN a.status <> 'terminated' ELSE t.open <> n.open END
    ORDER BY s.opens_at, s.id LIMIT @at_most
), told AS (
    INSERT INTO seckill.told_sessions AS t (session_id, open) SELECT d.id, d.opens FROM due d
    ON CONFLICT (session_id) DO UPDATE SET open = excluded.open, told_at = clock_timestamp() WHERE t.open <> excluded.open
    RETURNING t.session_id
)
SELECT d.id, d.activity_id, coalesce(d.external_id, '')::text AS external_id, coalesce(d.activity_external_id, '')::text AS activity_external_id,
    d.opens_at, d.closes_at, d.opens::boolean AS opens, d.terminated::boolean AS terminated
FROM due d JOIN told ON told.session_id = d.id ORDER BY d.opens_at, d.id;

-- The same for items of open sessions, of which the caller says whether units are left. An item opens first; what is
-- said afterwards waits for a pause since the last time.
-- name: TellItems :many
WITH due AS (
    SELECT i.id, i.sku, i.external_id, i.session_id, s.external_id AS session_external_id, i.activity_id,
        a.external_id AS activity_external_id, t.item_id IS NULL AS opens, t.item_id IS NOT NULL AND x.sold_out AS sold_out
    FROM (SELECT unnest(@item_ids::bigint[]) AS id, unnest(@sold_out::boolean[]) AS sold_out) x
    JOIN seckill.items i ON i.id = x.id JOIN seckill.sessions s ON s.id = i.session_id JOIN seckill.activities a ON a.id = i.activity_id
    JOIN seckill.told_sessions o ON o.session_id = i.session_id AND o.open
    LEFT JOIN seckill.told_items t ON t.item_id = i.id
    WHERE a.status IN ('scheduled', 'running') AND s.closes_at > clock_timestamp() AND (t.item_id IS NULL
        OR t.sold_out <> x.sold_out AND (t.told_at IS NULL OR t.told_at <= clock_timestamp() - @pause::interval))
    ORDER BY i.id LIMIT @at_most
), told AS (
    INSERT INTO seckill.told_items AS t (item_id, sold_out) SELECT d.id, d.sold_out FROM due d
    ON CONFLICT (item_id) DO UPDATE SET sold_out = excluded.sold_out, told_at = clock_timestamp() WHERE t.sold_out <> excluded.sold_out
    RETURNING t.item_id
)
SELECT d.id, d.sku, coalesce(d.external_id, '')::text AS external_id, d.session_id, coalesce(d.session_external_id, '')::text AS session_external_id,
    d.activity_id, coalesce(d.activity_external_id, '')::text AS activity_external_id, d.opens::boolean AS opens, d.sold_out::boolean AS sold_out
FROM due d JOIN told ON told.item_id = d.id ORDER BY d.id;

-- name: OverSessions :many
-- Sessions that closed in the last days and were not settled since, in case they were extended; a terminated activity ended with its last change.
SELECT sqlc.embed(a), sqlc.embed(s), ARRAY(SELECT i.id FROM seckill.items i WHERE i.session_id = s.id ORDER BY i.id)::bigint[] AS items
FROM seckill.activities a JOIN seckill.sessions s ON s.activity_id = a.id
WHERE a.status <> 'draft' AND a.ends_at > @since::timestamptz
  AND CASE a.status WHEN 'terminated' THEN least(s.closes_at, a.updated_at) ELSE s.closes_at END BETWEEN @since::timestamptz AND @now::timestamptz
  AND NOT EXISTS (SELECT FROM seckill.settlements t WHERE t.session_id = s.id AND t.begun_at
    > CASE a.status WHEN 'terminated' THEN least(s.closes_at, a.updated_at) ELSE s.closes_at END)
ORDER BY s.closes_at, s.id;

-- name: BeginSettlements :exec
INSERT INTO seckill.settlements (session_id, proof_run, begun_at) SELECT unnest(@sessions::bigint[]), @proof_run, @now
ON CONFLICT (session_id) DO UPDATE SET proof_run = excluded.proof_run, begun_at = excluded.begun_at, settled_at = NULL, status = '', report = '', sha256 = '';

-- name: BegunSettlements :many
-- What was begun and not extended since: an extended session is begun again when it is over.
SELECT t.session_id, t.proof_run
FROM seckill.settlements t JOIN seckill.sessions s ON s.id = t.session_id JOIN seckill.activities a ON a.id = s.activity_id
WHERE t.settled_at IS NULL AND t.begun_at > CASE a.status WHEN 'terminated' THEN least(s.closes_at, a.updated_at) ELSE s.closes_at END
ORDER BY t.session_id;

-- name: Settle :execrows
UPDATE seckill.settlements SET settled_at = @now::timestamptz, status = @status, report = @report, sha256 = @sha256
WHERE session_id = @session_id AND proof_run = @proof_run AND settled_at IS NULL;

-- name: KeptReport :one
SELECT report FROM seckill.settlements WHERE session_id = $1 AND settled_at IS NOT NULL;

-- name: SettlementsOf :many
SELECT t.* FROM seckill.settlements t JOIN seckill.sessions s ON s.id = t.session_id
WHERE s.activity_id = @activity_id AND t.settled_at IS NOT NULL ORDER BY t.session_id;
