-- +goose Up
CREATE SCHEMA orders;

-- The order row is the hold. Every unique key carries bucket, so that the table can be distributed by it.
-- Numbers lead the primary key because they rise with time: inserts go to the index's end, and the newest orders
-- of all buckets can be listed without a sort.
CREATE TABLE orders.orders (
    bucket           smallint    NOT NULL,
    order_no         uuid        NOT NULL,
    user_id          bigint      NOT NULL,
    item_id          bigint      NOT NULL,
    activity_id      bigint      NOT NULL,
    session_id       bigint      NOT NULL,
    shard            smallint    NOT NULL DEFAULT 0,
    epoch            bigint      NOT NULL,
    quantity         int         NOT NULL CHECK (quantity > 0),
    unit_price       bigint      NOT NULL CHECK (unit_price >= 0),
    currency         text        NOT NULL,
    title            text        NOT NULL,
    one_per_activity boolean     NOT NULL DEFAULT false,
    status           text        NOT NULL CHECK (status IN ('pending_payment', 'paid', 'completed', 'closed',
                                     'refused', 'refunding', 'refunded', 'refund_failed')),
    -- Why it was refused or closed: duplicate, shortfall, interrupted | timeout, canceled.
    reason           text        NOT NULL DEFAULT '',
    version          int         NOT NULL DEFAULT 1,
    pay_deadline     timestamptz NOT NULL,
    closing_until    timestamptz,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (order_no, bucket)
) PARTITION BY HASH (bucket);

-- +goose StatementBegin
DO $$
BEGIN
    FOR i IN 0..15 LOOP
        EXECUTE format('CREATE TABLE orders.orders_%s PARTITION OF orders.orders FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i);
    END LOOP;
END $$;
-- +goose StatementEnd

-- item_id leads so that the same index answers "the live orders of an item" for Load and verify.
CREATE UNIQUE INDEX one_live_order_per_item ON orders.orders (item_id, user_id, bucket)
    WHERE status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed');
CREATE UNIQUE INDEX one_live_order_per_activity ON orders.orders (activity_id, user_id, bucket)
    WHERE one_per_activity AND status IN ('pending_payment', 'paid', 'completed', 'refunding', 'refund_failed');
CREATE INDEX orders_of_user ON orders.orders (user_id, order_no);
CREATE INDEX orders_due ON orders.orders (pay_deadline) WHERE status = 'pending_payment';
-- The numbers of an item that ended, for Load's tombstones; costs the insert of a live order nothing.
CREATE INDEX orders_ended ON orders.orders (item_id, updated_at) WHERE status IN ('closed', 'refused', 'refunded');

-- Every change after the insert; the first state is the order row's own created_at.
CREATE TABLE orders.history (
    bucket   smallint    NOT NULL,
    order_no uuid        NOT NULL,
    version  int         NOT NULL,
    status   text        NOT NULL,
    reason   text        NOT NULL DEFAULT '',
    actor    text        NOT NULL DEFAULT 'system',
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket, order_no, version)
);

-- +goose Down
DROP SCHEMA orders CASCADE;
