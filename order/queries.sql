-- name: LockOrder :one
-- Takes the order's row lock; the stock row, if needed, was taken before (lock order).
SELECT * FROM orders.orders WHERE order_no = @order_no AND bucket = @bucket FOR UPDATE;

-- name: ReadOrder :one
SELECT * FROM orders.orders WHERE order_no = @order_no AND bucket = @bucket;

-- name: ReadOrders :many
-- Reads many orders by number. OFFSET 0 keeps the planner from turning the lookups into a scan of the whole table.
SELECT o.* FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
CROSS JOIN LATERAL (SELECT * FROM orders.orders WHERE order_no = n.no AND bucket = n.b OFFSET 0) o;

-- name: ReadStatuses :many
-- The statuses of many numbers; those without a row are left out.
SELECT o.order_no, o.status FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
CROSS JOIN LATERAL (SELECT order_no, status FROM orders.orders WHERE order_no = n.no AND bucket = n.b OFFSET 0) o;

-- name: ChangedWithin :many
-- Of the index orders_by_change, which has no order that has not changed since its insert; clock_timestamp() would keep
-- Postgres from using it.
SELECT item_id, user_id FROM orders.orders
WHERE status <> 'pending_payment' AND updated_at > statement_timestamp() - @within::interval;

-- name: EndedWithin :many
-- Those of the orders that were closed, or refunded in full, that recently.
SELECT o.order_no FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
CROSS JOIN LATERAL (SELECT order_no, status, updated_at FROM orders.orders WHERE order_no = n.no AND bucket = n.b OFFSET 0) o
WHERE o.status IN ('closed', 'refunded') AND o.updated_at > clock_timestamp() - @within::interval;

-- name: MarkPaid :one
-- The payment or the closing, whichever comes first, changes the row; the other finds no pending order.
WITH paid AS (
    UPDATE orders.orders o SET status = 'paid', version = o.version + 1, closing_until = NULL,
        paid_at = clock_timestamp(), updated_at = clock_timestamp(), handover = orders.handover_of(o.order_no, o.bucket),
        payment_no = @payment_no::uuid, provider = @provider::text, method = @method::text, provider_txn = @provider_txn::text
    WHERE o.order_no = @order_no AND o.bucket = @bucket AND o.status = 'pending_payment'
      AND orders.amount(o.unit_price, o.quantity, o.freight, o.discount) = @amount
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, actor, at)
    SELECT paid.bucket, paid.order_no, paid.version, paid.status, @actor::text, paid.updated_at FROM paid
)
SELECT * FROM paid;

-- name: Amend :one
-- Changes the lines of a pending order whose row is locked.
WITH amended AS (
    UPDATE orders.orders o SET freight = @freight, discount = @discount, version = o.version + 1, updated_at = clock_timestamp()
    WHERE o.order_no = @order_no AND o.bucket = @bucket AND o.status = 'pending_payment'
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, reason, actor, at)
    SELECT amended.bucket, amended.order_no, amended.version, amended.status, @line::text, @actor::text, amended.updated_at FROM amended
)
SELECT * FROM amended;

-- name: MoveRefunding :one
-- Moves an order on the way of its refund, from one of the given states.
WITH moved AS (
    UPDATE orders.orders o SET status = @status, version = o.version + 1, updated_at = clock_timestamp()
    WHERE o.order_no = @order_no AND o.bucket = @bucket AND o.status = ANY(@from_statuses::text[])
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, actor, at)
    SELECT moved.bucket, moved.order_no, moved.version, moved.status, @actor::text, moved.updated_at FROM moved
)
SELECT * FROM moved;

-- name: NoteRefund :one
-- Notes of a refunded order whether a provider has taken its refund back, in the place of the reason that it was paid
-- with. That reason is in its history, and returns with the money.
WITH noted AS (
    UPDATE orders.orders o SET version = o.version + 1, updated_at = clock_timestamp(), reason = CASE WHEN @taken_back::boolean THEN 'taken-back'
        ELSE coalesce((SELECT h.reason FROM orders.history h WHERE h.order_no = o.order_no AND h.bucket = o.bucket AND h.status = 'paid'
        ORDER BY h.version LIMIT 1), '') END
    WHERE o.order_no = @order_no AND o.bucket = @bucket AND o.status = 'refunded' AND (o.reason = 'taken-back') <> @taken_back
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, reason, actor, at)
    SELECT noted.bucket, noted.order_no, noted.version, noted.status, noted.reason, @actor::text, noted.updated_at FROM noted
)
SELECT * FROM noted;

-- name: UnpaidAfter :many
-- The unpaid orders behind a place, by their deadline.
SELECT * FROM orders.orders
WHERE status = 'pending_payment' AND (pay_deadline, order_no) > (@after_deadline::timestamptz, @after_no::uuid) AND pay_deadline <= @until
ORDER BY pay_deadline, order_no LIMIT @most;

-- name: ShipmentOf :one
SELECT carrier, tracking_no, at FROM orders.shipments WHERE order_no = @order_no AND bucket = @bucket;

-- name: ParcelsOf :many
-- How many orders are to reach their shoppers, and were sent.
SELECT n.no::uuid AS order_no, coalesce(d.way, '') AS way, coalesce(d.name, '') AS name, coalesce(d.phone, '') AS phone,
       coalesce(d.address, '') AS address, coalesce(d.note, '') AS note,
       coalesce(s.carrier, '') AS carrier, coalesce(s.tracking_no, '') AS tracking_no, coalesce(s.at, 'epoch')::timestamptz AS at
FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
LEFT JOIN LATERAL (SELECT way, name, phone, address, note FROM orders.details WHERE order_no = n.no AND bucket = n.b OFFSET 0) d ON true
LEFT JOIN LATERAL (SELECT carrier, tracking_no, at FROM orders.shipments WHERE order_no = n.no AND bucket = n.b OFFSET 0) s ON true;

-- name: ClaimOrder :one
-- Claims one order of a user for closing, unless another claim is in force.
UPDATE orders.orders SET closing_until = clock_timestamp() + make_interval(secs => @closing_seconds::float8)
WHERE order_no = @order_no AND bucket = @bucket AND user_id = @user_id AND status = 'pending_payment'
  AND (closing_until IS NULL OR closing_until < clock_timestamp())
RETURNING *;

-- name: GiveBackClaim :exec
-- Ends a claim, unless another one has followed it.
UPDATE orders.orders SET closing_until = NULL
WHERE order_no = @order_no AND bucket = @bucket AND status = 'pending_payment' AND closing_until = @claimed_until::timestamptz;

-- name: ClaimDue :many
-- Claims the due orders, oldest deadline first. A row that is locked (a payment being made, another sweeper) is
-- skipped and retried a second later. Joined through arrays, which the planner assumes to be short, the rows are
-- found by their key; joined to the rows themselves the plan reads every order there is.
WITH due AS MATERIALIZED (
    SELECT bucket, order_no FROM orders.orders
    WHERE status = 'pending_payment' AND pay_deadline <= statement_timestamp()
      AND (closing_until IS NULL OR closing_until < statement_timestamp())
    ORDER BY pay_deadline
    LIMIT @most FOR UPDATE SKIP LOCKED
)
UPDATE orders.orders o SET closing_until = clock_timestamp() + make_interval(secs => @closing_seconds::float8)
FROM (SELECT unnest(array_agg(order_no)) AS no, unnest(array_agg(bucket)) AS b FROM due) n
WHERE o.order_no = n.no AND o.bucket = n.b
RETURNING o.order_no;

-- name: StockOfOrders :many
-- Which stock rows the units of these orders return to, read before the rows are locked: an item never changes, and a
-- shard only when a Load gives the item more of them; then the units move at a row that is locked out of turn, and a
-- deadlock is tried again.
SELECT DISTINCT o.item_id, o.shard FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n
CROSS JOIN LATERAL (SELECT item_id, shard FROM orders.orders WHERE order_no = n.no AND bucket = n.b OFFSET 0) o
ORDER BY o.item_id, o.shard;

-- name: CloseClaimed :many
-- Closes what is still pending and still claimed. The rows are locked by number first; the update then changes only
-- rows that this transaction has locked. They share one time, so that their event states it once. Arrays as in
-- ClaimDue.
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS at), locked AS MATERIALIZED (
    SELECT o.order_no, o.bucket
    FROM (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b ORDER BY no) n
    CROSS JOIN LATERAL (SELECT order_no, bucket FROM orders.orders WHERE order_no = n.no AND bucket = n.b FOR UPDATE) o
), closed AS (
    UPDATE orders.orders o
    SET status = 'closed', reason = @reason, version = o.version + 1, closing_until = NULL, updated_at = t.at
    FROM (SELECT unnest(array_agg(order_no)) AS no, unnest(array_agg(bucket)) AS b FROM locked) n, t
    WHERE o.order_no = n.no AND o.bucket = n.b
      AND o.status = 'pending_payment' AND o.closing_until > clock_timestamp()
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, reason, actor, at)
    SELECT closed.bucket, closed.order_no, closed.version, closed.status, closed.reason, @actor::text, closed.updated_at FROM closed
)
SELECT * FROM closed ORDER BY order_no;

-- name: LiveOrdersOfUsers :many
-- The users' live orders of the items they were granted, and of these items' activities where the rule spans
-- them.
SELECT o.item_id, o.activity_id, o.user_id, o.one_per_activity
FROM (SELECT unnest(@buckets::smallint[]) AS b, unnest(@user_ids::bigint[]) AS usr,
             unnest(@item_ids::bigint[]) AS item, unnest(@activity_ids::bigint[]) AS activity) n
CROSS JOIN LATERAL (
    SELECT item_id, activity_id, user_id, one_per_activity FROM orders.orders
    WHERE item_id = n.item AND user_id = n.usr AND bucket = n.b
      AND status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')
    UNION ALL
    SELECT item_id, activity_id, user_id, one_per_activity FROM orders.orders
    WHERE activity_id = n.activity AND user_id = n.usr AND bucket = n.b AND one_per_activity
      AND status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')
) o;

-- name: LiveOrdersOfItem :many
SELECT order_no, user_id, quantity, status FROM orders.orders
WHERE item_id = @item_id AND status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed');

-- name: RehomeOrders :exec
-- Moves an item's orders to the shards of their users, when it has another number of them. Refused ones never had units.
UPDATE orders.orders SET shard = bucket % @shards::smallint
WHERE item_id = @item_id AND shard <> bucket % @shards::smallint AND (status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')
  OR status IN ('closed', 'refunded'));

-- name: LiveUnitsByShard :many
SELECT shard, sum(quantity)::bigint AS units FROM orders.orders
WHERE item_id = @item_id AND status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed') GROUP BY shard;

-- name: EndedOrdersOfItem :many
-- The item's numbers that ended recently: their rush paths may still be sent again.
SELECT order_no, updated_at FROM orders.orders
WHERE item_id = @item_id AND status IN ('closed', 'refused', 'refunded')
  AND updated_at > statement_timestamp() - make_interval(secs => @within_seconds::float8);

-- name: ClosedOrdersOfItem :many
-- The users without a live order of the item whose order of it was closed unpaid or refunded, with the last one of
-- each, for items that a user may buy only once.
SELECT DISTINCT ON (c.user_id) c.user_id, c.order_no FROM orders.orders c
WHERE c.item_id = @item_id AND c.status IN ('closed', 'refunded') AND NOT EXISTS (
    SELECT FROM orders.orders o WHERE o.item_id = c.item_id AND o.user_id = c.user_id AND o.bucket = c.bucket
      AND o.status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed'))
ORDER BY c.user_id, c.order_no DESC;

-- name: LiveUnits :many
-- The units of every item's live orders, unpaid and paid.
SELECT item_id,
       coalesce(sum(quantity) FILTER (WHERE status = 'pending_payment'), 0)::bigint AS held,
       coalesce(sum(quantity) FILTER (WHERE status <> 'pending_payment'), 0)::bigint AS sold
FROM orders.orders
WHERE status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')
GROUP BY item_id;

-- name: OrdersOfUser :many
-- A shopper's orders, newest first; the bucket prunes to the one partition they lie in.
SELECT * FROM orders.orders
WHERE bucket = @bucket AND user_id = @user_id AND order_no < @before
ORDER BY order_no DESC LIMIT @most;

-- name: HistoryOfOrder :many
SELECT version, status, reason, actor, at FROM orders.history
WHERE bucket = @bucket AND order_no = @order_no ORDER BY version;

-- name: UsersWithSeveralLiveOrders :many
-- I3: checks the rows themselves for what the unique indexes forbid. Only a broken index lets a row through.
SELECT item_id, user_id, count(*) AS live FROM orders.orders
WHERE status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')
GROUP BY item_id, user_id HAVING count(*) > 1 ORDER BY item_id, user_id LIMIT @most;

-- name: UsersWithSeveralItems :many
SELECT activity_id, user_id, count(*) AS live FROM orders.orders
WHERE one_per_activity AND status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')
GROUP BY activity_id, user_id HAVING count(*) > 1 ORDER BY activity_id, user_id LIMIT @most;

-- name: ItemsAboveLimit :many
-- I3: the largest live order of each item that has one above its limit for a user. The limit cannot change once the item is on sale.
SELECT o.item_id, max(o.quantity)::int AS quantity, s.user_limit
FROM orders.orders o JOIN inventory.stock s ON s.item_id = o.item_id AND s.shard = o.shard
WHERE o.quantity > s.user_limit AND o.status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed')
GROUP BY o.item_id, s.user_limit ORDER BY o.item_id LIMIT @most;

-- name: UsersWhoBoughtAgain :many
-- I3: users with a further order, placed after the closing or refund of one that still counts as bought. The rule cannot change
-- once the item is on sale. An order that the system refused never counts.
SELECT o.item_id, o.user_id, min(o.order_no::text)::text AS order_no
FROM orders.orders c
JOIN inventory.stock s ON s.item_id = c.item_id AND s.shard = c.shard AND NOT s.rebuy
JOIN orders.orders o ON o.bucket = c.bucket AND o.user_id = c.user_id AND o.activity_id = c.activity_id
     AND (o.item_id = c.item_id OR c.one_per_activity AND o.one_per_activity)
WHERE c.status IN ('closed', 'refunded') AND o.status <> 'refused' AND o.created_at > c.updated_at
GROUP BY o.item_id, o.user_id ORDER BY o.item_id, o.user_id LIMIT @most;

-- name: ItemsWithStock :many
-- Every item, read for the checks only. The table is inventory's; nothing here depends on its figures.
SELECT item_id, shard, activity_id, per_activity FROM inventory.stock ORDER BY item_id, shard;

-- name: OpenUnpaid :many
-- Users with many unpaid orders, those with the most first.
SELECT user_id, count(*) AS orders FROM orders.orders WHERE status = 'pending_payment'
GROUP BY user_id HAVING count(*) >= @at_least::bigint ORDER BY 2 DESC, 1 LIMIT @at_most;

-- name: Retake :one
-- A closed order becomes paid, with units of the backup. A refused one never does: it has never held any.
WITH paid AS (
    UPDATE orders.orders o SET status = 'paid', reason = 'backup', version = o.version + 1,
        paid_at = clock_timestamp(), updated_at = clock_timestamp(), handover = orders.handover_of(o.order_no, o.bucket),
        payment_no = @payment_no::uuid, provider = @provider::text, method = @method::text, provider_txn = @provider_txn::text
    WHERE o.order_no = @order_no AND o.bucket = @bucket AND o.status = 'closed'
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, reason, actor, at)
    SELECT paid.bucket, paid.order_no, paid.version, paid.status, paid.reason, @actor::text, paid.updated_at FROM paid
)
SELECT * FROM paid;

-- name: CompleteOrder :one
WITH done AS (
    UPDATE orders.orders o SET status = 'completed', version = o.version + 1, updated_at = clock_timestamp(),
        handover = CASE WHEN @sent::bool THEN 'shipped' ELSE o.handover END
    WHERE o.order_no = @order_no AND o.bucket = @bucket AND o.status = 'paid'
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, reason, actor, at)
    SELECT done.bucket, done.order_no, done.version, done.status, @reason::text, @actor::text, done.updated_at FROM done
)
SELECT * FROM done;

-- name: CompleteDue :many
-- Completes what was paid, and sent if it is to be, that long ago, the first paid first, and what was never noted as sent
-- after a longer time; what is to be picked up waits for its shopper. A row that is locked (a refund) is skipped until the
-- next round. Each half walks an index of its own. They share one time, so that their event states it once. Arrays as in
-- ClaimDue.
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS at), sent AS MATERIALIZED (
    SELECT o.bucket, o.order_no FROM orders.orders o
    WHERE o.status = 'paid' AND o.handover IS DISTINCT FROM 'to_ship' AND o.handover IS DISTINCT FROM 'to_pick_up'
      AND o.paid_at < statement_timestamp() - @after::interval
      AND NOT EXISTS (SELECT FROM orders.shipments s WHERE s.order_no = o.order_no AND s.bucket = o.bucket AND s.at > statement_timestamp() - @after::interval)
    ORDER BY o.paid_at
    LIMIT @most FOR UPDATE SKIP LOCKED
), unsent AS MATERIALIZED (
    SELECT o.bucket, o.order_no FROM orders.orders o
    WHERE o.status = 'paid' AND o.handover = 'to_ship' AND o.paid_at < statement_timestamp() - @unsent_after::interval
    ORDER BY o.paid_at, o.order_no
    LIMIT @most FOR UPDATE SKIP LOCKED
), due AS (
    SELECT bucket, order_no FROM sent UNION ALL SELECT bucket, order_no FROM unsent
), done AS (
    UPDATE orders.orders o SET status = 'completed', version = o.version + 1, updated_at = t.at
    FROM (SELECT unnest(array_agg(order_no)) AS no, unnest(array_agg(bucket)) AS b FROM due) n, t
    WHERE o.order_no = n.no AND o.bucket = n.b AND o.status = 'paid'
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, reason, at)
    SELECT done.bucket, done.order_no, done.version, done.status, @reason::text, done.updated_at FROM done
)
SELECT * FROM done ORDER BY order_no;

-- name: PutShipment :execrows
-- Notes how an order was sent, or corrects it, unless its shopper is to pick it up.
INSERT INTO orders.shipments (bucket, order_no, carrier, tracking_no)
SELECT @bucket, @order_no, @carrier, @tracking_no
WHERE NOT EXISTS (SELECT FROM orders.details d WHERE d.order_no = @order_no AND d.bucket = @bucket AND d.way = 'pickup')
ON CONFLICT (order_no, bucket) DO UPDATE SET carrier = excluded.carrier, tracking_no = excluded.tracking_no;

-- name: MarkShipped :one
-- Tells readers of an order whose row is locked that its shipment was noted.
WITH sent AS (
    UPDATE orders.orders o SET handover = 'shipped', version = o.version + 1, updated_at = clock_timestamp()
    WHERE o.order_no = @order_no AND o.bucket = @bucket AND o.status IN ('paid', 'completed')
    RETURNING o.*
), recorded AS (
    INSERT INTO orders.history (bucket, order_no, version, status, reason, actor, at)
    SELECT sent.bucket, sent.order_no, sent.version, sent.status, @reason::text, @actor::text, sent.updated_at FROM sent
)
SELECT * FROM sent;

-- name: ForgetUsers :exec
-- What was written about the users' orders is erased as soon as they have ended.
WITH d AS (UPDATE orders.details d SET forget = true WHERE d.user_id = ANY(@user_ids::bigint[]) AND d.erased_at IS NULL AND NOT d.forget),
     a AS (UPDATE orders.acts a SET forget = true WHERE a.user_id = ANY(@user_ids::bigint[]) AND a.erased_at IS NULL AND NOT a.forget),
     x AS (UPDATE orders.external_references x SET forget = true WHERE x.user_id = ANY(@user_ids::bigint[]) AND x.erased_at IS NULL AND NOT x.forget),
     u AS (INSERT INTO orders.forgotten_users (user_id) SELECT unnest(@user_ids::bigint[]) ON CONFLICT DO NOTHING)
UPDATE orders.disputes p SET forget = true WHERE p.user_id = ANY(@user_ids::bigint[]) AND p.erased_at IS NULL AND NOT p.forget;

-- name: LatelyForgotten :many
-- The users who have deleted their accounts within a day.
SELECT user_id FROM orders.forgotten_users WHERE at > statement_timestamp() - interval '1 day';

-- name: EraseDetails :execrows
-- The digest stays: a code of an order that was picked up is still known as such. Details are older than their order's end,
-- so that their own age leaves few to look at, by index; OFFSET 0 keeps Postgres from beginning with the orders. Arrays,
-- which the planner assumes to be short, keep it from reading all details to join those it found.
WITH due AS MATERIALIZED (
    SELECT x.order_no, x.bucket FROM orders.details x
    CROSS JOIN LATERAL (SELECT status, updated_at FROM orders.orders WHERE order_no = x.order_no AND bucket = x.bucket OFFSET 0) o
    WHERE x.erased_at IS NULL AND o.status IN ('completed', 'closed', 'refused', 'refunded')
      AND (x.forget OR x.updated_at < now() - @keep::interval) AND (x.forget OR o.updated_at < now() - @keep::interval)
    LIMIT @at_most FOR UPDATE OF x SKIP LOCKED
)
UPDATE orders.details d SET name = '', phone = '', address = '', note = '', pickup_code = '', erased_at = clock_timestamp()
FROM (SELECT unnest(array_agg(order_no)) AS no, unnest(array_agg(bucket)) AS b FROM due) n
WHERE d.order_no = n.no AND d.bucket = n.b;

-- name: EraseDisputes :execrows
WITH gone AS (
    UPDATE orders.disputes d SET reason = '', erased_at = clock_timestamp()
    WHERE (d.dispute_no, d.bucket) IN (
        SELECT x.dispute_no, x.bucket FROM orders.disputes x
        WHERE x.erased_at IS NULL AND x.status = 'closed' AND (x.forget OR x.updated_at < clock_timestamp() - @keep::interval)
        LIMIT @at_most FOR UPDATE OF x SKIP LOCKED)
    RETURNING d.dispute_no, d.bucket
), texts AS (DELETE FROM orders.dispute_texts t USING gone WHERE t.dispute_no = gone.dispute_no AND t.bucket = gone.bucket)
SELECT FROM gone;

-- name: EraseActs :execrows
-- As details are erased. That an operator acted stays, without the words.
WITH due AS MATERIALIZED (
    SELECT x.order_no, x.bucket, x.act_no FROM orders.acts x
    CROSS JOIN LATERAL (SELECT status, updated_at FROM orders.orders WHERE order_no = x.order_no AND bucket = x.bucket OFFSET 0) o
    WHERE x.erased_at IS NULL AND o.status IN ('completed', 'closed', 'refused', 'refunded')
      AND (x.forget OR x.at < now() - @keep::interval) AND (x.forget OR o.updated_at < now() - @keep::interval)
    LIMIT @at_most FOR UPDATE OF x SKIP LOCKED
)
UPDATE orders.acts a SET text = '', erased_at = clock_timestamp()
FROM (SELECT unnest(array_agg(order_no)) AS no, unnest(array_agg(bucket)) AS b, unnest(array_agg(act_no)) AS act FROM due) n
WHERE a.order_no = n.no AND a.bucket = n.b AND a.act_no = n.act;

-- name: PutExternalReference :exec
-- What was erased and is put again is erased again in its time: at once, if the user has deleted the account.
INSERT INTO orders.external_references AS x (bucket, order_no, user_id, external_id, metadata, forget)
VALUES (@bucket, @order_no, @user_id, @external_id, @metadata, EXISTS (SELECT FROM orders.forgotten_users f WHERE f.user_id = @user_id))
ON CONFLICT (order_no, bucket) DO UPDATE
SET external_id = excluded.external_id, metadata = excluded.metadata, forget = x.forget OR excluded.forget, erased_at = NULL, updated_at = clock_timestamp();

-- name: ExternalReferenceOf :one
SELECT external_id, metadata FROM orders.external_references WHERE order_no = @order_no AND bucket = @bucket;

-- name: EraseExternalReferences :execrows
-- As details are erased. The external id, a number, stays.
WITH due AS MATERIALIZED (
    SELECT x.order_no, x.bucket FROM orders.external_references x
    CROSS JOIN LATERAL (SELECT status, updated_at FROM orders.orders WHERE order_no = x.order_no AND bucket = x.bucket OFFSET 0) o
    WHERE x.erased_at IS NULL AND o.status IN ('completed', 'closed', 'refused', 'refunded')
      AND (x.forget OR x.updated_at < now() - @keep::interval) AND (x.forget OR o.updated_at < now() - @keep::interval)
    LIMIT @at_most FOR UPDATE OF x SKIP LOCKED
)
UPDATE orders.external_references e SET metadata = '{}', erased_at = clock_timestamp()
FROM (SELECT unnest(array_agg(order_no)) AS no, unnest(array_agg(bucket)) AS b FROM due) n
WHERE e.order_no = n.no AND e.bucket = n.b;
