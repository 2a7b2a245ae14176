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
    -- A share of the session's length replaces the duration if set.
    payment_window_share   double precision CHECK (payment_window_share > 0 AND payment_window_share <= 1),
    rebuy_after_close      boolean     NOT NULL DEFAULT false,
    paused                 boolean     NOT NULL DEFAULT false,
    -- Counts edits of this row, for the version check of an operator's edit.
    version                int         NOT NULL DEFAULT 1,
    -- Counts every change to the activity, its sessions or its items. Views in
    -- Redis carry it, so that an older one never replaces a newer one, and
    -- instances compare it to detect a stale catalogue.
    revision               bigint      NOT NULL DEFAULT 1,
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- What the activity requires at its door.
    human_check            text        NOT NULL DEFAULT 'none',
    -- A user who requests more paths a minute than this must pass a second
    -- check; 0 means none.
    human_check_rate       int         NOT NULL DEFAULT 0,
    -- A user takes part in one exclusive activity at a time.
    exclusive              boolean     NOT NULL DEFAULT false,
    -- How long after paying a shopper may refund an order that is not completed; 0
    -- is never. A year is longer than a shop keeps goods for a buyer.
    refund_within_hours    int         NOT NULL DEFAULT 0,
    -- What becomes of the units of a refunded order unless an operator says.
    refund_units           text        NOT NULL DEFAULT 'return',
    -- What is settled with the shopper between order and payment; see
    -- seckillevent.Checkout.
    checkout               jsonb       NOT NULL DEFAULT '{}',
    CONSTRAINT refund_time_is_bounded CHECK (refund_within_hours BETWEEN 0 AND 8760),
    CONSTRAINT refund_units_are_known CHECK (refund_units IN ('return', 'write_off')),
    CONSTRAINT activity_has_a_span CHECK (ends_at > starts_at),
    CONSTRAINT human_check_is_known CHECK (human_check IN ('none', 'pow', 'slide', 'verifier')),
    CONSTRAINT human_check_rate_is_bounded CHECK (human_check_rate BETWEEN 0 AND 1000)
);
CREATE INDEX activities_alive ON seckill.activities (ends_at) WHERE status <> 'draft';

CREATE TABLE seckill.sessions (
    id                    bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    activity_id           bigint           NOT NULL REFERENCES seckill.activities ON DELETE CASCADE,
    name                  text             NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    opens_at              timestamptz      NOT NULL,
    closes_at             timestamptz      NOT NULL,
    version               int              NOT NULL DEFAULT 1,
    created_at            timestamptz      NOT NULL DEFAULT clock_timestamp(),
    updated_at            timestamptz      NOT NULL DEFAULT clock_timestamp(),
    -- A session created by repeating another one daily records that session and
    -- its own day, so that repeating again skips that day, however the session
    -- was edited since. repeat_of is not a foreign key: the days stay one
    -- series when the session they began with is deleted.
    repeat_of             bigint,
    repeat_day            date,
    reservation_opens_at  timestamptz,
    reservation_closes_at timestamptz,
    -- At most this multiple of an item's stock may be reserved; 0 means no cap.
    reservation_cap       double precision NOT NULL DEFAULT 0,
    CONSTRAINT session_has_a_span CHECK (closes_at > opens_at),
    CONSTRAINT repeat_names_its_day CHECK ((repeat_of IS NULL) = (repeat_day IS NULL)),
    CONSTRAINT reservation_has_both_ends CHECK ((reservation_opens_at IS NULL) = (reservation_closes_at IS NULL)),
    CONSTRAINT reservation_ends_before_the_opening
        CHECK (reservation_opens_at < reservation_closes_at AND reservation_closes_at <= opens_at),
    CONSTRAINT reservation_cap_is_bounded CHECK (reservation_cap = 0 OR reservation_cap BETWEEN 1 AND 1000),
    CONSTRAINT reservation_cap_needs_a_reservation CHECK (reservation_cap = 0 OR reservation_opens_at IS NOT NULL)
);
CREATE INDEX sessions_of_activity ON seckill.sessions (activity_id, id);
CREATE UNIQUE INDEX sessions_once_a_day ON seckill.sessions (repeat_of, repeat_day);

CREATE TABLE seckill.items (
    id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id       bigint      NOT NULL REFERENCES seckill.sessions ON DELETE CASCADE,
    activity_id      bigint      NOT NULL REFERENCES seckill.activities ON DELETE CASCADE,
    sku              text        NOT NULL CHECK (length(sku) BETWEEN 1 AND 64),
    title            text        NOT NULL CHECK (length(title) BETWEEN 1 AND 120),
    spec             text        NOT NULL DEFAULT '' CHECK (length(spec) <= 500),
    image_url        text        NOT NULL DEFAULT '' CHECK (octet_length(image_url) <= 2048),
    list_price       bigint      NOT NULL CHECK (list_price >= 0),
    sale_price       bigint      NOT NULL CHECK (sale_price >= 0 AND sale_price <= list_price),
    currency         text        NOT NULL DEFAULT 'CNY' CHECK (currency ~ '^[A-Z]{3}$'),
    -- The planned stock; from publication on inventory.stock is authoritative.
    stock            int         NOT NULL CHECK (stock BETWEEN 0 AND 10000000),
    -- Units held back beside the stock, for payments that arrive after their order was closed; those that they took
    -- are included.
    backup           int         NOT NULL DEFAULT 0 CHECK (backup BETWEEN 0 AND 10000000),
    unlimited        boolean     NOT NULL DEFAULT false,
    -- No attempt at this item is taken; a pause of its activity counts besides.
    paused           boolean     NOT NULL DEFAULT false,
    -- Attempts a second that each instance admits to the item's line; NULL admits all.
    admission        int         CHECK (admission BETWEEN 0 AND 1000000),
    -- NULL means the activity's limit; the smaller of the two applies.
    limit_per_user   int         CHECK (limit_per_user BETWEEN 1 AND 1000),
    version          int         NOT NULL DEFAULT 1,
    -- An edit after the preheat requests another Load by raising load_wanted;
    -- the preheat records which request its Load has served. So a pending Load
    -- survives every crash.
    load_wanted      int         NOT NULL DEFAULT 1,
    load_done        int         NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- An operator may agree to sell more units than are in stock, for example because the supplier has promised them.
    -- The agreement is a percentage of the stock, so that it grows with added
    -- stock, and it records its reason. The units on sale are stock
    -- + floor(stock × percent / 100); inventory.stock's total has the backup too.
    oversell_percent smallint    NOT NULL DEFAULT 0,
    oversell_reason  text        NOT NULL DEFAULT '',
    UNIQUE (session_id, sku),
    CONSTRAINT oversell_is_bounded CHECK (oversell_percent BETWEEN 0 AND 100),
    CONSTRAINT oversell_has_a_reason CHECK ((oversell_percent = 0) = (oversell_reason = '')),
    CONSTRAINT oversell_needs_a_count CHECK (oversell_percent = 0 OR NOT unlimited),
    -- The bound of inventory.stock's total.
    CONSTRAINT on_sale_is_bounded CHECK (stock + stock::bigint * oversell_percent / 100 + backup <= 10000000),
    CONSTRAINT backup_needs_a_count CHECK (backup = 0 OR NOT unlimited)
);
CREATE INDEX items_of_activity ON seckill.items (activity_id, id);
CREATE INDEX items_of_sku ON seckill.items (sku);

-- What shoppers read about an item on its page, in Markdown; beside the items, because every look at a plan reads those.
CREATE TABLE seckill.item_details (
    item_id     bigint      PRIMARY KEY REFERENCES seckill.items ON DELETE CASCADE,
    description text        NOT NULL DEFAULT '',
    images      text[]      NOT NULL DEFAULT '{}',
    version     int         NOT NULL DEFAULT 1,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT description_is_bounded CHECK (length(description) <= 10000),
    CONSTRAINT images_are_few CHECK (cardinality(images) <= 9)
);

-- An activity's rules in words, in Markdown.
CREATE TABLE seckill.activity_rules (
    activity_id bigint      PRIMARY KEY REFERENCES seckill.activities ON DELETE CASCADE,
    rules       text        NOT NULL DEFAULT '',
    version     int         NOT NULL DEFAULT 1,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT rules_are_bounded CHECK (length(rules) <= 10000)
);

-- A user's reservation of an item; this row is the source of truth. item_id is
-- not a foreign key: its check would lock the item's single row for everyone
-- who reserves it. Deleting an item also deletes its reservations.
CREATE TABLE seckill.reservations (
    item_id     bigint      NOT NULL,
    user_id     bigint      NOT NULL,
    reserved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The user passed the human check when reserving, and needs none for a path.
    human_ok    boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (item_id, user_id)
);

-- The number of reservations of an item with a cap. Items without a cap have no
-- row here, so that shoppers who reserve them never wait for each other. The
-- CHECK refuses the reservation that would exceed the cap, and with it the
-- reservation's row.
CREATE TABLE seckill.reservation_counts (
    item_id bigint PRIMARY KEY,
    taken   bigint NOT NULL CHECK (taken >= 0),
    places  bigint NOT NULL,
    CONSTRAINT reservations_keep_to_the_cap CHECK (taken <= places)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_scale_factor = 0);

-- +goose StatementBegin
CREATE FUNCTION seckill.forget_reservations() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM seckill.reservations WHERE item_id = OLD.id;
    DELETE FROM seckill.reservation_counts WHERE item_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER items_take_reservations_along AFTER DELETE ON seckill.items
    FOR EACH ROW EXECUTE FUNCTION seckill.forget_reservations();

-- +goose Down
DROP SCHEMA seckill CASCADE;
