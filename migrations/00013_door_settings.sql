-- +goose Up
-- What an activity asks for at its door, and who holds a reservation.
ALTER TABLE seckill.activities
    ADD COLUMN human_check      text    NOT NULL DEFAULT 'none',
    -- Whoever asks for more paths a minute than this passes a second check; 0 asks nobody.
    ADD COLUMN human_check_rate int     NOT NULL DEFAULT 0,
    -- A user takes part in one exclusive activity at a time.
    ADD COLUMN exclusive        boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT human_check_is_known CHECK (human_check IN ('none', 'pow', 'slide', 'verifier')),
    ADD CONSTRAINT human_check_rate_is_bounded CHECK (human_check_rate BETWEEN 0 AND 1000);

ALTER TABLE seckill.sessions
    ADD COLUMN reservation_opens_at  timestamptz,
    ADD COLUMN reservation_closes_at timestamptz,
    -- At most this multiple of an item's stock is given out; 0 is no cap.
    ADD COLUMN reservation_cap       double precision NOT NULL DEFAULT 0,
    ADD CONSTRAINT reservation_has_both_ends CHECK ((reservation_opens_at IS NULL) = (reservation_closes_at IS NULL)),
    ADD CONSTRAINT reservation_ends_before_the_opening
        CHECK (reservation_opens_at < reservation_closes_at AND reservation_closes_at <= opens_at),
    ADD CONSTRAINT reservation_cap_is_bounded CHECK (reservation_cap = 0 OR reservation_cap BETWEEN 1 AND 1000),
    ADD CONSTRAINT reservation_cap_needs_a_reservation CHECK (reservation_cap = 0 OR reservation_opens_at IS NOT NULL);

-- A user's qualification for an item; this row is the truth about it. item_id is no foreign key: its check would
-- lock the one row of the item for everybody who reserves it. Deleting an item takes its reservations along.
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
DROP TRIGGER items_take_reservations_along ON seckill.items;
DROP FUNCTION seckill.forget_reservations;
DROP TABLE seckill.reservation_counts, seckill.reservations;
ALTER TABLE seckill.sessions DROP COLUMN reservation_opens_at, DROP COLUMN reservation_closes_at, DROP COLUMN reservation_cap;
ALTER TABLE seckill.activities DROP COLUMN human_check, DROP COLUMN human_check_rate, DROP COLUMN exclusive;
