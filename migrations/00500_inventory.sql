-- +goose Up
CREATE SCHEMA inventory;

-- One row per item and shard. Held and sold are no columns: they are sums over live orders, so that no counter
-- can drift from the orders it counts. The CHECKs make overselling impossible even for a wrong program.
CREATE TABLE inventory.stock (
    item_id      bigint      NOT NULL,
    shard        smallint    NOT NULL DEFAULT 0,
    activity_id  bigint      NOT NULL,
    per_activity boolean     NOT NULL DEFAULT false,
    total        int         NOT NULL,
    available    int         NOT NULL,
    backup       int         NOT NULL DEFAULT 0,
    written_off  int         NOT NULL DEFAULT 0,
    unlimited    boolean     NOT NULL DEFAULT false,
    user_limit   int         NOT NULL,
    -- Whether a user whose unpaid order was closed may have units of the item again.
    rebuy        boolean     NOT NULL DEFAULT true,
    opens_at     timestamptz NOT NULL,
    closes_at    timestamptz NOT NULL,
    paused       boolean     NOT NULL DEFAULT false,
    -- Counts Loads; an order writer refuses grants of an older one.
    epoch        bigint      NOT NULL DEFAULT 0,
    -- Counts operator changes.
    rev          bigint      NOT NULL DEFAULT 1,
    version      bigint      NOT NULL DEFAULT 1,
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (item_id, shard),
    CONSTRAINT never_oversold CHECK (available >= 0 OR unlimited),
    CONSTRAINT never_over_total CHECK (available + backup + written_off <= total OR unlimited),
    CONSTRAINT parts_not_negative CHECK (total >= 0 AND backup >= 0 AND written_off >= 0),
    -- Ten million is far above any sale and keeps sums over an activity's items inside an int.
    CONSTRAINT total_is_bounded CHECK (total <= 10000000),
    CONSTRAINT limit_is_positive CHECK (user_limit > 0),
    CONSTRAINT sale_has_a_span CHECK (closes_at > opens_at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);

-- Items whose sale is over and whose keys were removed from Redis. The epoch is the Load whose keys they were: an
-- item that was loaded again has keys again.
CREATE TABLE inventory.settled (
    item_id    bigint      PRIMARY KEY,
    epoch      bigint      NOT NULL,
    settled_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- +goose Down
DROP SCHEMA inventory CASCADE;
