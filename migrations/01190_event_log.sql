-- +goose Up
-- The outbox is also the log that the shop's own systems read: the relay gives each event its place when NATS has it, one
-- relay at a time, so that places become visible in their order and no reader of "what came after" skips one.
CREATE SEQUENCE platform.outbox_place;
ALTER TABLE platform.outbox ADD COLUMN place bigint;
CREATE INDEX outbox_by_place ON platform.outbox (place) WHERE place IS NOT NULL;

-- The last place that the housekeeping has deleted: a reader who has not come so far has missed events.
CREATE TABLE platform.outbox_dropped (place bigint NOT NULL);
INSERT INTO platform.outbox_dropped VALUES (0);

-- An instance of 0.10.0, which knows no places, may be the relay while an upgrade goes from one instance to the next.
-- +goose StatementBegin
CREATE FUNCTION platform.give_place() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.place := nextval('platform.outbox_place');
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER give_place BEFORE INSERT OR UPDATE ON platform.outbox
    FOR EACH ROW WHEN (NEW.sent_at IS NOT NULL AND NEW.place IS NULL) EXECUTE FUNCTION platform.give_place();

CREATE SCHEMA notify;

-- Where events are posted, and up to where they have been. The cursor is the last event that was delivered, given up, or
-- set aside in notify.webhook_waiting: a place in the outbox and the number of the event in that message.
CREATE TABLE notify.webhooks (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    url            text        NOT NULL,
    description    text        NOT NULL DEFAULT '',
    types          text[]      NOT NULL DEFAULT '{}', -- empty is every type
    enabled        boolean     NOT NULL DEFAULT true,
    secret         bytea       NOT NULL, -- sealed with the signing key
    former_secret  bytea,
    former_until   timestamptz,
    place          bigint      NOT NULL,
    number         int         NOT NULL,
    failures       int         NOT NULL DEFAULT 0, -- in a row
    failing_since  timestamptz,
    next_try       timestamptz,
    last_error     text        NOT NULL DEFAULT '',
    delivered_at   timestamptz,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Events that could not be delivered, and those about the same thing behind them.
CREATE TABLE notify.webhook_waiting (
    webhook_id bigint      NOT NULL REFERENCES notify.webhooks ON DELETE CASCADE,
    place      bigint      NOT NULL,
    number     int         NOT NULL,
    about      text        NOT NULL,
    attempts   int         NOT NULL,
    next_try   timestamptz NOT NULL,
    PRIMARY KEY (webhook_id, place, number)
);

-- The attempts of the last days, for operators.
CREATE TABLE notify.webhook_attempts (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id bigint      NOT NULL REFERENCES notify.webhooks ON DELETE CASCADE,
    event_id   text        NOT NULL,
    type       text        NOT NULL,
    about      text        NOT NULL,
    attempt    int         NOT NULL,
    status     int         NOT NULL, -- of HTTP; 0 without an answer
    error      text        NOT NULL,
    took_ms    int         NOT NULL,
    at         timestamptz NOT NULL
);
CREATE INDEX webhook_attempts_of ON notify.webhook_attempts (webhook_id, id DESC);
