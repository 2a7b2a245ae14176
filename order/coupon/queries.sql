-- name: InsertKind :one
INSERT INTO orders.coupon_kinds (name, currency, amount_off, percent_off, max_off, threshold, activity_ids, item_ids,
    valid_from, valid_until, valid_days, total, per_user, claim_from, claim_until, issue_on, reserved_activity_ids, reserved_item_ids)
VALUES (@name, @currency, @amount_off, @percent_off, @max_off, @threshold, @activity_ids, @item_ids,
    @valid_from, @valid_until, @valid_days, @total, @per_user, @claim_from, @claim_until,
    @issue_on, @reserved_activity_ids, @reserved_item_ids)
RETURNING *;

-- name: LockKind :one
-- Every issue of the kind's coupons waits here for the one before, so that what it reads next is exact.
SELECT sqlc.embed(k), clock_timestamp()::timestamptz AS at FROM orders.coupon_kinds k WHERE id = @id FOR UPDATE OF k;

-- name: UpdateKind :one
UPDATE orders.coupon_kinds
SET name = @name, status = @status, currency = @currency, amount_off = @amount_off, percent_off = @percent_off, max_off = @max_off,
    threshold = @threshold, activity_ids = @activity_ids, item_ids = @item_ids, valid_from = @valid_from, valid_until = @valid_until,
    valid_days = @valid_days, total = @total, per_user = @per_user, claim_from = @claim_from, claim_until = @claim_until,
    issue_on = @issue_on, reserved_activity_ids = @reserved_activity_ids, reserved_item_ids = @reserved_item_ids,
    version = version + 1, updated_at = clock_timestamp()
WHERE id = @id
RETURNING *;

-- name: KindsOnRule :many
-- The kinds that a rule issues now, oldest first.
SELECT * FROM orders.coupon_kinds
WHERE status = 'active' AND issue_on = @issue_on AND issued < total AND (valid_until IS NULL OR valid_until > clock_timestamp())
ORDER BY id;

-- name: KindsUsedUp :many
-- The kinds whose rule would issue more than their total.
SELECT id, total FROM orders.coupon_kinds
WHERE status = 'active' AND issue_on <> '' AND issued >= total AND (valid_until IS NULL OR valid_until > clock_timestamp())
ORDER BY id LIMIT @most;

-- name: ProgressOf :many
SELECT * FROM orders.coupon_progress WHERE kind_id = @kind_id;

-- name: SaveProgress :exec
INSERT INTO orders.coupon_progress (kind_id, item_id, closed_at, after_user, done) VALUES (@kind_id, @item_id, @closed_at, @after_user, @done)
ON CONFLICT (kind_id, item_id) DO UPDATE SET closed_at = excluded.closed_at, after_user = excluded.after_user, done = excluded.done;

-- name: RecallKind :one
-- No coupon is issued meanwhile: the kind's row is locked.
UPDATE orders.coupon_kinds SET recalled_at = clock_timestamp(), status = 'stopped', version = version + 1, updated_at = clock_timestamp() WHERE id = @id
RETURNING *;

-- name: RecallCoupon :execrows
UPDATE orders.coupons SET recalled_at = clock_timestamp()
WHERE coupon_no = @coupon_no AND bucket = @bucket AND kind_id = @kind_id AND recalled_at IS NULL;

-- name: OwnerOf :one
SELECT user_id FROM orders.coupons WHERE coupon_no = @coupon_no AND bucket = @bucket AND kind_id = @kind_id;

-- name: DeleteKind :exec
DELETE FROM orders.coupon_kinds WHERE id = @id;

-- name: Kind :one
SELECT * FROM orders.coupon_kinds WHERE id = @id;

-- name: Kinds :many
-- Kinds with their figures, newest first; the one kind if id is not 0. The figures cost as much as the kinds have uses, which
-- the index alone answers.
SELECT sqlc.embed(k), coalesce(f.locked, 0)::bigint AS locked, coalesce(f.used, 0)::bigint AS used,
       coalesce(f.borne, 0)::bigint AS borne, coalesce(f.discount, 0)::bigint AS discount
FROM orders.coupon_kinds k
LEFT JOIN LATERAL (
    SELECT count(*) FILTER (WHERE u.status = 'locked') AS locked, count(*) FILTER (WHERE u.status = 'used') AS used,
           count(*) FILTER (WHERE u.status = 'borne') AS borne, sum(u.discount) FILTER (WHERE u.status <> 'locked') AS discount
    FROM orders.coupon_uses u WHERE u.kind_id = k.id AND u.status <> 'returned'
) f ON true
WHERE (@id::bigint = 0 OR k.id = @id) AND (@before::bigint = 0 OR k.id < @before) AND (@status::text = '' OR k.status = @status)
ORDER BY k.id DESC LIMIT @most;

-- name: ClaimableKinds :many
-- What shoppers may claim now or soon, the window that ends first leading.
SELECT * FROM orders.coupon_kinds
WHERE status = 'active' AND claim_until > clock_timestamp() AND (valid_until IS NULL OR valid_until > clock_timestamp())
ORDER BY claim_until, id LIMIT @most;

-- name: LastOfUser :one
-- How many coupons of the kind the user was issued; read under the kind's lock.
SELECT coalesce(max(nth), 0)::smallint AS last FROM orders.coupons WHERE bucket = @bucket AND user_id = @user_id AND kind_id = @kind_id;

-- name: Issue :one
-- Issues coupons that do not exist yet, set-wise, and counts them on the kind, whose CHECK keeps to the total. Returns
-- their numbers.
WITH made AS (
    INSERT INTO orders.coupons (bucket, coupon_no, kind_id, user_id, nth, valid_from, valid_until)
    SELECT unnest(@buckets::smallint[]), unnest(@coupon_nos::uuid[]), @kind_id, unnest(@user_ids::bigint[]), unnest(@nths::smallint[]),
           @valid_from::timestamptz, @valid_until::timestamptz
    ON CONFLICT ON CONSTRAINT coupon_is_issued_once DO NOTHING
    RETURNING coupon_no
)
UPDATE orders.coupon_kinds g SET issued = g.issued + (SELECT count(*) FROM made) WHERE g.id = @kind_id
RETURNING (SELECT coalesce(array_agg(coupon_no), '{}') FROM made)::uuid[] AS made;

-- name: CouponsOfUser :many
-- A user's coupons, newest first. One that is locked for the order named by for_order counts as available, to that order.
SELECT sqlc.embed(c), sqlc.embed(k), coalesce(u.order_no, '00000000-0000-0000-0000-000000000000')::uuid AS used_by,
       coalesce(u.discount, 0)::bigint AS discount, s.status::text AS status,
       GREATEST(c.issued_at, c.recalled_at, k.updated_at,
           (SELECT max(e.updated_at) FROM orders.coupon_uses e WHERE e.coupon_no = c.coupon_no AND e.bucket = c.bucket))::timestamptz AS changed_at
FROM orders.coupons c
JOIN orders.coupon_kinds k ON k.id = c.kind_id
LEFT JOIN orders.coupon_uses u ON u.coupon_no = c.coupon_no AND u.bucket = c.bucket AND u.status IN ('locked', 'used')
CROSS JOIN LATERAL (SELECT CASE WHEN u.status = 'used' OR u.order_no <> @for_order THEN u.status
    WHEN u.order_no IS NULL AND (c.recalled_at IS NOT NULL OR c.issued_at <= k.recalled_at) THEN 'recalled'
    WHEN u.order_no IS NULL AND c.valid_until <= clock_timestamp() THEN 'expired' ELSE 'available' END AS status) s
WHERE c.bucket = @bucket AND c.user_id = @user_id AND c.coupon_no < @before AND (@kind_id::bigint = 0 OR c.kind_id = @kind_id)
    AND (@single::uuid = '00000000-0000-0000-0000-000000000000' OR c.coupon_no = @single) AND (@status::text = '' OR s.status = @status)
ORDER BY c.coupon_no DESC LIMIT @most;

-- name: LockCoupon :one
-- One choice of the coupon at a time: what is read next of its uses is exact.
SELECT sqlc.embed(c), sqlc.embed(k) FROM orders.coupons c JOIN orders.coupon_kinds k ON k.id = c.kind_id
WHERE c.coupon_no = @coupon_no AND c.bucket = @bucket AND c.user_id = @user_id FOR UPDATE OF c;

-- name: CouponInUse :one
SELECT EXISTS (SELECT FROM orders.coupon_uses u WHERE u.coupon_no = @coupon_no AND u.bucket = @bucket AND u.status IN ('locked', 'used')) AS in_use,
       clock_timestamp()::timestamptz AS at;

-- name: CouponOf :one
-- The coupon of an order, whose row is locked.
SELECT * FROM orders.coupon_uses WHERE order_no = @order_no AND bucket = @bucket;

-- name: LockFor :exec
INSERT INTO orders.coupon_uses (bucket, order_no, coupon_no, kind_id, discount, status)
VALUES (@bucket, @order_no, @coupon_no, @kind_id, @discount, 'locked')
ON CONFLICT (order_no, bucket) DO UPDATE
SET coupon_no = excluded.coupon_no, kind_id = excluded.kind_id, discount = excluded.discount, status = 'locked', updated_at = clock_timestamp();

-- name: Unlock :exec
DELETE FROM orders.coupon_uses WHERE order_no = @order_no AND bucket = @bucket AND status = 'locked';

-- name: SetUse :one
UPDATE orders.coupon_uses u SET status = @status, updated_at = clock_timestamp()
WHERE u.order_no = @order_no AND u.bucket = @bucket AND u.status = @was
RETURNING u.coupon_no, u.kind_id, u.discount, coalesce((SELECT k.currency FROM orders.coupon_kinds k WHERE k.id = u.kind_id), '')::text AS currency,
    coalesce((SELECT c.user_id FROM orders.coupons c WHERE c.coupon_no = u.coupon_no AND c.bucket = u.bucket), 0)::bigint AS user_id;

-- name: ReturnUses :many
-- Gives the coupons of ended orders back, of all in one statement. The orders' rows are locked, so that no use changes
-- meanwhile.
UPDATE orders.coupon_uses u SET status = 'returned', updated_at = clock_timestamp()
FROM (SELECT o.order_no, o.bucket, o.status AS was FROM orders.coupon_uses o
      JOIN (SELECT unnest(@order_nos::uuid[]) AS no, unnest(@buckets::smallint[]) AS b) n ON o.order_no = n.no AND o.bucket = n.b) w
WHERE u.order_no = w.order_no AND u.bucket = w.bucket AND u.status <> 'returned'
RETURNING u.order_no, u.coupon_no, u.kind_id, u.discount, (w.was = 'used')::boolean AS used,
    coalesce((SELECT k.currency FROM orders.coupon_kinds k WHERE k.id = u.kind_id), '')::text AS currency,
    coalesce((SELECT c.user_id FROM orders.coupons c WHERE c.coupon_no = u.coupon_no AND c.bucket = u.bucket), 0)::bigint AS user_id;

-- name: KindsThatDiffer :many
-- I4: kinds that issued more than they may, or not what their coupons say.
SELECT k.id, k.issued, k.total, k.per_user, coalesce(c.coupons, 0)::bigint AS coupons, coalesce(c.most, 0)::smallint AS most
FROM orders.coupon_kinds k
LEFT JOIN (SELECT kind_id, count(*) AS coupons, max(nth) AS most FROM orders.coupons GROUP BY kind_id) c ON c.kind_id = k.id
WHERE k.issued > k.total OR k.issued <> coalesce(c.coupons, 0) OR c.most > k.per_user
ORDER BY k.id LIMIT @most_rows;

-- name: CouponsInUseTwice :many
-- I4: only a broken index lets one through.
SELECT coupon_no, count(*) AS orders FROM orders.coupon_uses WHERE status IN ('locked', 'used')
GROUP BY coupon_no HAVING count(*) > 1 ORDER BY coupon_no LIMIT @most;

-- name: StrayUses :many
-- I4: uses of a coupon that the user was never issued.
SELECT u.order_no, u.coupon_no FROM orders.coupon_uses u
LEFT JOIN orders.orders o ON o.order_no = u.order_no AND o.bucket = u.bucket
LEFT JOIN orders.coupons c ON c.coupon_no = u.coupon_no AND c.bucket = u.bucket AND c.kind_id = u.kind_id
WHERE c.user_id IS DISTINCT FROM o.user_id OR c.user_id IS NULL
ORDER BY u.order_no LIMIT @most;

-- name: DiscountsThatDiffer :many
-- I4: orders whose discount is not what their coupon takes off, or whose coupon is not where the order is.
SELECT coalesce(o.order_no, u.order_no)::uuid AS order_no, coalesce(o.status, 'unknown')::text AS order_status, coalesce(o.discount, 0)::bigint AS discount,
       coalesce(u.status, 'missing')::text AS use_status, coalesce(u.discount, 0)::bigint AS coupon
FROM (SELECT order_no, bucket, status, discount, currency FROM orders.orders WHERE discount > 0) o
FULL JOIN (SELECT order_no, bucket, status, discount FROM orders.coupon_uses WHERE status <> 'returned') u USING (order_no, bucket)
WHERE o.order_no IS NULL OR u.discount <> o.discount
   OR coalesce(u.status, 'missing') <> ALL (CASE
        WHEN o.status = 'pending_payment' THEN '{locked}'
        WHEN o.status IN ('paid', 'completed', 'refunding', 'refund_failed') THEN '{used,borne}'
        ELSE '{missing}' END::text[])
ORDER BY 1 LIMIT @most;

-- name: RecalledInUse :many
-- I4: recalled coupons that were chosen more than a minute later; a choice that began before the recall may end after it.
SELECT u.order_no, u.coupon_no FROM orders.coupon_uses u
JOIN orders.coupons c ON c.coupon_no = u.coupon_no AND c.bucket = u.bucket JOIN orders.coupon_kinds k ON k.id = c.kind_id
WHERE u.status = 'locked' AND (u.updated_at > c.recalled_at + interval '1 minute' OR c.issued_at <= k.recalled_at AND u.updated_at > k.recalled_at + interval '1 minute')
ORDER BY u.order_no LIMIT @most;
