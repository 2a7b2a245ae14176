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
    -- What the activity asks for at its door.
    human_check            text        NOT NULL DEFAULT 'none',
    -- A user who asks for more paths a minute than this passes a second check; 0 asks for none.
    human_check_rate       int         NOT NULL DEFAULT 0,
    -- A user takes part in one exclusive activity at a time.
    exclusive              boolean     NOT NULL DEFAULT false,
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
    -- A session that was made by repeating another one daily knows which one that was and for which day it was made,
    -- so that repeating again leaves that day alone, however the session was edited since. repeat_of is no foreign
    -- key: the days stay one series when the session they began with is deleted.
    repeat_of             bigint,
    repeat_day            date,
    reservation_opens_at  timestamptz,
    reservation_closes_at timestamptz,
    -- At most this multiple of an item's stock is given out; 0 is no cap.
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
    spec             text        NOT NULL DEFAULT '',
    image_url        text        NOT NULL DEFAULT '',
    list_price       bigint      NOT NULL CHECK (list_price >= 0),
    sale_price       bigint      NOT NULL CHECK (sale_price >= 0 AND sale_price <= list_price),
    currency         text        NOT NULL DEFAULT 'CNY' CHECK (currency ~ '^[A-Z]{3}$'),
    -- The planned stock; from publication on inventory.stock holds what counts.
    stock            int         NOT NULL CHECK (stock BETWEEN 0 AND 10000000),
    unlimited        boolean     NOT NULL DEFAULT false,
    -- NULL is the activity's limit; the smaller of the two holds.
    limit_per_user   int         CHECK (limit_per_user BETWEEN 1 AND 1000),
    version          int         NOT NULL DEFAULT 1,
    -- An edit after the preheat asks for another Load by raising load_wanted; the preheat writes back which
    -- request its Load has answered. That a Load is owed so survives every crash.
    load_wanted      int         NOT NULL DEFAULT 1,
    load_done        int         NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- An operator may agree to sell more units than are in stock, for example because the supplier has promised them.
    -- The agreement is a share of the stock, so that it grows with what is added, and it names its reason. What is on
    -- sale, and what inventory.stock has as its total, is stock + floor(stock × percent / 100).
    oversell_percent smallint    NOT NULL DEFAULT 0,
    oversell_reason  text        NOT NULL DEFAULT '',
    UNIQUE (session_id, sku),
    CONSTRAINT oversell_is_bounded CHECK (oversell_percent BETWEEN 0 AND 100),
    CONSTRAINT oversell_has_a_reason CHECK ((oversell_percent = 0) = (oversell_reason = '')),
    CONSTRAINT oversell_needs_a_count CHECK (oversell_percent = 0 OR NOT unlimited),
    -- The bound of inventory.stock's total.
    CONSTRAINT on_sale_is_bounded CHECK (stock + stock::bigint * oversell_percent / 100 <= 10000000)
);
CREATE INDEX items_of_activity ON seckill.items (activity_id, id);

-- A user's qualification for an item; this row is the truth about it. item_id is no foreign key: its check would
-- lock the one row of the item for all who reserve it. Deleting an item takes its reservations along.
CREATE TABLE seckill.reservations (
    item_id     bigint      NOT NULL,
    user_id     bigint      NOT NULL,
    reserved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The user proved to be a person when reserving, and is not asked again for a path.
    human_ok    boolean     NOT NULL DEFAULT false,
    PRIMARY KEY (item_id, user_id)
);

-- How many reservations of an item with a cap there are. Items without a cap have no row here, so that those who
-- reserve them never wait for each other. The CHECK refuses the reservation that would be one too many, together
-- with its own row.
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
