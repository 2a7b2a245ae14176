-- +goose Up
CREATE SCHEMA seckill;

CREATE TABLE seckill.activities (
    id                     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                   text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    status                 text        NOT NULL DEFAULT 'draft'
        CHECK (status IN ('draft', 'scheduled', 'running', 'ended', 'terminated')),
    starts_at              timestamptz NOT NULL,
    ends_at                timestamptz NOT NULL,
    limit_per_user         int         NOT NULL DEFAULT 1 CHECK (limit_per_user BETWEEN 1 AND 1000),
    one_item_per_user      boolean     NOT NULL DEFAULT false,
    payment_window_seconds int         NOT NULL DEFAULT 900 CHECK (payment_window_seconds BETWEEN 10 AND 604800),
    -- A share of the session's length replaces the duration where it is set.
    payment_window_share   double precision CHECK (payment_window_share > 0 AND payment_window_share <= 1),
    rebuy_after_close      boolean     NOT NULL DEFAULT true,
    paused                 boolean     NOT NULL DEFAULT false,
    -- Counts edits of this row: what an operator's edit is compared with.
    version                int         NOT NULL DEFAULT 1,
    -- Counts every change to the activity, its sessions or its items. Views in Redis carry it, so that an older
    -- one never replaces a newer, and instances compare it to see whether their catalogue is stale.
    revision               bigint      NOT NULL DEFAULT 1,
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT activity_has_a_span CHECK (ends_at > starts_at)
);
CREATE INDEX activities_alive ON seckill.activities (ends_at) WHERE status <> 'draft';

CREATE TABLE seckill.sessions (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    activity_id bigint      NOT NULL REFERENCES seckill.activities ON DELETE CASCADE,
    name        text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    opens_at    timestamptz NOT NULL,
    closes_at   timestamptz NOT NULL,
    version     int         NOT NULL DEFAULT 1,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT session_has_a_span CHECK (closes_at > opens_at)
);
CREATE INDEX sessions_of_activity ON seckill.sessions (activity_id, id);

CREATE TABLE seckill.items (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id     bigint      NOT NULL REFERENCES seckill.sessions ON DELETE CASCADE,
    activity_id    bigint      NOT NULL REFERENCES seckill.activities ON DELETE CASCADE,
    sku            text        NOT NULL CHECK (length(sku) BETWEEN 1 AND 64),
    title          text        NOT NULL CHECK (length(title) BETWEEN 1 AND 120),
    spec           text        NOT NULL DEFAULT '',
    image_url      text        NOT NULL DEFAULT '',
    list_price     bigint      NOT NULL CHECK (list_price >= 0),
    sale_price     bigint      NOT NULL CHECK (sale_price >= 0 AND sale_price <= list_price),
    currency       text        NOT NULL DEFAULT 'CNY' CHECK (currency ~ '^[A-Z]{3}$'),
    -- The planned stock; from publication on inventory.stock holds what counts.
    stock          int         NOT NULL CHECK (stock BETWEEN 0 AND 10000000),
    unlimited      boolean     NOT NULL DEFAULT false,
    -- NULL is the activity's limit; the smaller of the two holds.
    limit_per_user int         CHECK (limit_per_user BETWEEN 1 AND 1000),
    version        int         NOT NULL DEFAULT 1,
    -- An edit after the preheat asks for another Load by raising load_wanted; the preheat writes back which
    -- request its Load has answered. That a Load is owed so survives every crash.
    load_wanted    int         NOT NULL DEFAULT 1,
    load_done      int         NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (session_id, sku)
);
CREATE INDEX items_of_activity ON seckill.items (activity_id, id);

-- The answer to a creating request, kept with its effect in one transaction, so that the same key gives the
-- same answer and never a second effect. Rows live for 24 hours.
CREATE TABLE seckill.idempotency (
    actor      bigint      NOT NULL,
    key        text        NOT NULL,
    request    bytea       NOT NULL,
    response   jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (actor, key)
);
CREATE INDEX idempotency_age ON seckill.idempotency (created_at);

-- +goose Down
DROP SCHEMA seckill CASCADE;
