-- +goose NO TRANSACTION
-- +goose Up
RESET lock_timeout; -- a run that failed half-way has left the one below
-- What a kind's coupons were used for is counted from the index alone; the index before it, which served nothing else, goes
-- after it. Both concurrently, because shoppers choose coupons meanwhile; see 01277.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('orders.coupon_uses_by_kind') AND NOT indisvalid) THEN
        DROP INDEX orders.coupon_uses_by_kind; -- a run that failed half-way has left it
    END IF;
END $$;
-- +goose StatementEnd
SET lock_timeout = '20s';
CREATE INDEX CONCURRENTLY IF NOT EXISTS coupon_uses_by_kind ON orders.coupon_uses (kind_id) INCLUDE (status, discount) WHERE status <> 'returned';
DROP INDEX CONCURRENTLY IF EXISTS orders.coupon_uses_of_kind;
RESET lock_timeout;
