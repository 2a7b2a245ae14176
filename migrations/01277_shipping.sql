-- +goose NO TRANSACTION
-- +goose Up
RESET lock_timeout; -- a run that failed half-way has left the one below
-- Shoppers settle and pay while these indexes are built, so each is built concurrently, those of orders.orders partition by
-- partition, because Postgres builds none of a partitioned table so.

-- What a run that failed half-way has left is no index, although it has the name of one.
-- +goose StatementBegin
DO $$
DECLARE
    half regclass;
BEGIN
    FOR half IN SELECT indexrelid::regclass FROM pg_index JOIN pg_class c ON c.oid = indexrelid
        WHERE NOT indisvalid AND relkind = 'i' AND relnamespace = 'orders'::regnamespace
          AND relname ~ '^(orders_[0-9]+_to_(ship|complete)|details_by_(name|phone_tail))$'
    LOOP
        EXECUTE format('DROP INDEX %s', half);
        COMMIT; -- two locks at once would deadlock with shoppers
    END LOOP;
END $$;
-- +goose StatementEnd

-- A build waits for the transactions that began before it, and lets all others pass meanwhile: longer than Postgres lets a
-- client of this program be idle in a transaction.
SET lock_timeout = '20s';

-- What the shop has to send, in the order in which it was paid. With orders_to_complete it takes the place of orders_paid,
-- which the release before reads and which goes a release later: a payment enters one of the two.
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_0_to_ship ON orders.orders_0 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_1_to_ship ON orders.orders_1 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_2_to_ship ON orders.orders_2 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_3_to_ship ON orders.orders_3 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_4_to_ship ON orders.orders_4 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_5_to_ship ON orders.orders_5 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_6_to_ship ON orders.orders_6 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_7_to_ship ON orders.orders_7 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_8_to_ship ON orders.orders_8 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_9_to_ship ON orders.orders_9 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_10_to_ship ON orders.orders_10 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_11_to_ship ON orders.orders_11 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_12_to_ship ON orders.orders_12 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_13_to_ship ON orders.orders_13 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_14_to_ship ON orders.orders_14 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_15_to_ship ON orders.orders_15 (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';

-- Paid orders that time completes first. Those that are to be sent it completes months later, walking the index above: a
-- shop that is late would lose sight of them.
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_0_to_complete ON orders.orders_0 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_1_to_complete ON orders.orders_1 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_2_to_complete ON orders.orders_2 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_3_to_complete ON orders.orders_3 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_4_to_complete ON orders.orders_4 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_5_to_complete ON orders.orders_5 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_6_to_complete ON orders.orders_6 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_7_to_complete ON orders.orders_7 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_8_to_complete ON orders.orders_8 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_9_to_complete ON orders.orders_9 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_10_to_complete ON orders.orders_10 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_11_to_complete ON orders.orders_11 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_12_to_complete ON orders.orders_12 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_13_to_complete ON orders.orders_13 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_14_to_complete ON orders.orders_14 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
CREATE INDEX CONCURRENTLY IF NOT EXISTS orders_15_to_complete ON orders.orders_15 (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';

-- Operators search by the recipient, see package order/search; erased details are in neither.
CREATE INDEX CONCURRENTLY IF NOT EXISTS details_by_name ON orders.details (name, order_no) WHERE name <> '';
CREATE INDEX CONCURRENTLY IF NOT EXISTS details_by_phone_tail ON orders.details (right(phone, 4), order_no) WHERE phone <> '';

-- The rest reads no row, but every statement on the table queues behind its locks: as short as pg.Migrate has it.
RESET lock_timeout;
CREATE INDEX IF NOT EXISTS orders_to_ship ON ONLY orders.orders (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
CREATE INDEX IF NOT EXISTS orders_to_complete ON ONLY orders.orders (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
-- +goose StatementBegin
DO $$
DECLARE
    part text;
BEGIN
    FOREACH part IN ARRAY ARRAY ['to_ship', 'to_complete'] LOOP
        FOR i IN 0..15 LOOP
            EXECUTE format('ALTER INDEX orders.orders_%s ATTACH PARTITION orders.orders_%s_%1$s', part, i);
            COMMIT;
        END LOOP;
    END LOOP;
END $$;
-- +goose StatementEnd
