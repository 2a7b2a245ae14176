-- name: CreateStock :exec
-- The first stock of an item: everything is available, except for the backup beside it.
INSERT INTO inventory.stock (item_id, shard, activity_id, per_activity, total, available, backup, unlimited, user_limit, rebuy, opens_at, closes_at, paused)
VALUES (@item_id, @shard, @activity_id, @per_activity, @total, @available, @backup, @unlimited, @user_limit, @rebuy, @opens_at, @closes_at, @paused);

-- name: ChangeStock :execrows
-- An operator's change; rev tells Redis that there is a change to apply. Added units spread evenly over the
-- item's shards, the first ones take the remainder.
UPDATE inventory.stock s SET
    total      = s.total + a.units,
    available  = s.available + a.units,
    paused     = coalesce(sqlc.narg('paused')::boolean, s.paused),
    opens_at   = coalesce(sqlc.narg('opens_at')::timestamptz, s.opens_at),
    closes_at  = coalesce(sqlc.narg('closes_at')::timestamptz, s.closes_at),
    user_limit = coalesce(sqlc.narg('user_limit')::int, s.user_limit),
    rebuy      = coalesce(sqlc.narg('rebuy')::boolean, s.rebuy),
    rev        = s.rev + 1,
    version    = s.version + 1,
    updated_at = clock_timestamp()
FROM (
    SELECT shard, (sqlc.arg('add_stock')::int / count(*) OVER () + (row_number() OVER (ORDER BY shard) <= sqlc.arg('add_stock')::int % count(*) OVER ())::int)::int AS units
    FROM (SELECT shard FROM inventory.stock WHERE item_id = @item_id ORDER BY shard FOR UPDATE) locked
) a
WHERE s.item_id = @item_id AND s.shard = a.shard;

-- name: DeleteStock :exec
DELETE FROM inventory.stock WHERE item_id = ANY(@item_ids::bigint[]);

-- name: AllStock :many
SELECT * FROM inventory.stock ORDER BY item_id, shard;

-- name: LockStockOfItem :many
SELECT * FROM inventory.stock WHERE item_id = @item_id ORDER BY shard FOR UPDATE;

-- name: LockStock :many
-- Every transaction that touches stock locks its rows in this order, so that no two can wait for each other.
SELECT * FROM inventory.stock s
WHERE (s.item_id, s.shard) IN (SELECT unnest(@item_ids::bigint[]), unnest(@shards::smallint[]))
ORDER BY s.item_id, s.shard FOR UPDATE;

-- name: MoveStock :execrows
-- Takes units out of (negative) or returns them to (positive) what is available. CHECK never_oversold aborts the
-- whole statement rather than leave a row out: an order must not commit without its units.
UPDATE inventory.stock s SET available = s.available + m.units, version = s.version + 1, updated_at = clock_timestamp()
FROM (SELECT item_id, shard, sum(units)::int AS units
      FROM (SELECT unnest(@item_ids::bigint[]) AS item_id, unnest(@shards::smallint[]) AS shard, unnest(@units::int[]) AS units) moved
      GROUP BY item_id, shard) m
WHERE s.item_id = m.item_id AND s.shard = m.shard;

-- name: WriteOffStock :execrows
-- Units that come back from an order and are not sold again. Fewer units are on offer, which rev tells Redis; see
-- WriteOff in package ledger.
UPDATE inventory.stock SET written_off = written_off + @units, rev = rev + 1, version = version + 1, updated_at = clock_timestamp()
WHERE item_id = @item_id AND shard = @shard;

-- name: RaiseEpoch :execrows
UPDATE inventory.stock SET epoch = @epoch, version = version + 1, updated_at = clock_timestamp()
WHERE item_id = @item_id AND shard = @shard AND epoch < @epoch;

-- name: SaleIsOver :one
-- Whether nothing will write the item into Redis any more: its sale has ended, and no Load is under way that may
-- have read its books before.
SELECT (s.closes_at <= clock_timestamp() AND NOT EXISTS (
    SELECT FROM platform.leases l WHERE l.name = @load_lease AND l.expires_at > clock_timestamp()
))::boolean AS over FROM inventory.stock s WHERE s.item_id = @item_id AND s.shard = @shard;

-- name: StockOfItems :many
SELECT * FROM inventory.stock WHERE item_id = ANY(@item_ids::bigint[]) ORDER BY item_id, shard;

-- name: LoadedStock :many
-- The stock of items that Redis may have keys of: loaded, and not settled since.
SELECT s.* FROM inventory.stock s LEFT JOIN inventory.settled d USING (item_id)
WHERE s.epoch > coalesce(d.epoch, 0) ORDER BY s.item_id, s.shard;

-- name: DueForSettling :many
-- Items that ended long enough ago and whose keys may still be in Redis. Items under one rule of an activity are due
-- when the last of them is: until then the others must know a buyer of one.
SELECT s.item_id FROM inventory.stock s LEFT JOIN inventory.settled d USING (item_id)
GROUP BY s.item_id, d.epoch
HAVING max(s.closes_at) < clock_timestamp() - @settle_after::interval AND coalesce(d.epoch, -1) < max(s.epoch)
   AND NOT (bool_or(s.per_activity) AND EXISTS (
    SELECT FROM inventory.stock o WHERE o.activity_id = max(s.activity_id) AND o.per_activity
      AND o.closes_at >= clock_timestamp() - @settle_after::interval))
ORDER BY max(s.closes_at), s.item_id LIMIT @at_most;

-- name: NoteSettled :exec
INSERT INTO inventory.settled (item_id, epoch) VALUES (@item_id, @epoch)
ON CONFLICT (item_id) DO UPDATE SET epoch = excluded.epoch, settled_at = clock_timestamp();

-- name: OtherItemsUnsettled :one
SELECT EXISTS (SELECT FROM inventory.stock s LEFT JOIN inventory.settled d USING (item_id)
    WHERE s.activity_id = @activity_id AND s.per_activity AND s.item_id <> @item_id AND coalesce(d.epoch, -1) < s.epoch);

-- name: SettledItems :many
SELECT item_id, epoch FROM inventory.settled;

-- name: StockOnSale :many
-- The items on sale now, those that close first first, each with all its shards. The table is small: a row for each item
-- and shard.
SELECT * FROM inventory.stock WHERE item_id IN (SELECT f.item_id FROM inventory.stock f WHERE f.shard = 0 AND f.opens_at <= clock_timestamp() AND f.closes_at > clock_timestamp()
    ORDER BY f.closes_at, f.item_id LIMIT @at_most)
ORDER BY closes_at, item_id, shard;

-- name: Retake :execrows
-- Takes an order's units from the backup, if it has that many, and records whose they are. The caller holds the stock
-- row's lock.
WITH taken AS (
    UPDATE inventory.stock SET backup = backup - @quantity, retaken = retaken + @quantity, version = version + 1, updated_at = clock_timestamp()
    WHERE item_id = @item_id AND shard = @shard AND backup >= @quantity AND NOT unlimited RETURNING 1
)
INSERT INTO inventory.retaken (order_no, item_id, shard, user_id, quantity)
SELECT @order_no, @item_id, @shard, @user_id, @quantity FROM taken;

-- name: GatherBackup :exec
-- Brings the backup of an item's other shards to this one. Redis does not count it.
WITH others AS (
    SELECT shard, backup FROM inventory.stock s WHERE s.item_id = @item_id AND s.shard <> @shard AND s.backup > 0 ORDER BY shard FOR UPDATE
), given AS (
    UPDATE inventory.stock s SET total = s.total - o.backup, backup = 0, version = s.version + 1, updated_at = clock_timestamp()
    FROM others o WHERE s.item_id = @item_id AND s.shard = o.shard
)
UPDATE inventory.stock s SET total = s.total + o.units, backup = s.backup + o.units, version = s.version + 1, updated_at = clock_timestamp()
FROM (SELECT coalesce(sum(backup), 0)::int AS units FROM others) o WHERE s.item_id = @item_id AND s.shard = @shard;

-- name: RetakenOfItem :many
-- The table has no more rows for an item than its backup had units.
SELECT order_no, shard, user_id, quantity FROM inventory.retaken WHERE item_id = @item_id;

-- name: MoveUnits :exec
-- Units leave the sale for the backup, as written off or for good (gone); negative ones come back. rev tells Redis.
UPDATE inventory.stock SET available = available - @units::int,
    backup = backup + CASE @whither::text WHEN 'backup' THEN @units::int ELSE 0 END,
    written_off = written_off + CASE @whither::text WHEN 'written off' THEN @units::int ELSE 0 END,
    total = total - CASE @whither::text WHEN 'gone' THEN @units::int ELSE 0 END,
    rev = rev + 1, version = version + 1, updated_at = clock_timestamp()
WHERE item_id = @item_id AND shard = @shard;

-- name: SaleStands :one
-- Whether Redis grants no units of the item now and no grant waits for its order: before the opening, once settled,
-- and if the sale ended without ever being loaded.
SELECT (s.opens_at > clock_timestamp() OR coalesce(d.epoch, -1) = s.epoch
    OR s.epoch = 0 AND s.closes_at <= clock_timestamp())::boolean AS stands
FROM inventory.stock s LEFT JOIN inventory.settled d USING (item_id) WHERE s.item_id = @item_id AND s.shard = @shard;

-- name: PutShards :exec
-- Gives an item its shards, with the units that each has then. The backup and what is written off stay with the first,
-- see GatherBackup; what else a row says is the same in all of them.
INSERT INTO inventory.stock AS s (item_id, shard, activity_id, per_activity, total, available, backup, written_off, retaken,
    unlimited, user_limit, rebuy, opens_at, closes_at, paused, epoch, rev, version)
SELECT o.item_id, n.shard, o.activity_id, o.per_activity, n.total, n.available, CASE n.shard WHEN 0 THEN @backup::int ELSE 0 END,
    CASE n.shard WHEN 0 THEN @written_off::int ELSE 0 END, n.retaken, o.unlimited, o.user_limit, o.rebuy, o.opens_at,
    o.closes_at, o.paused, @epoch::bigint, @rev::bigint, @version::bigint
FROM inventory.stock o CROSS JOIN (SELECT unnest(@shards::smallint[]) AS shard, unnest(@totals::int[]) AS total,
    unnest(@availables::int[]) AS available, unnest(@retakens::int[]) AS retaken) n
WHERE o.item_id = @item_id AND o.shard = 0
ON CONFLICT (item_id, shard) DO UPDATE SET total = excluded.total, available = excluded.available, backup = excluded.backup,
    written_off = excluded.written_off, retaken = excluded.retaken, epoch = excluded.epoch, rev = excluded.rev,
    version = excluded.version, updated_at = clock_timestamp();

-- name: PutRetaken :exec
-- Moves orders that were taken up again to the shards of their users.
UPDATE inventory.retaken r SET shard = n.shard
FROM (SELECT unnest(@order_nos::uuid[]) AS order_no, unnest(@shards::smallint[]) AS shard) n WHERE r.order_no = n.order_no;
