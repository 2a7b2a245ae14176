-- +goose Up
-- The sandbox bank's own books. No other module reads them: the bank is a foreign company that happens to live in
-- the same database while Stampede is tried out.
CREATE SCHEMA sandbox;

CREATE TABLE sandbox.payments (
    ref             uuid        PRIMARY KEY,
    merchant        text        NOT NULL,
    payment_no      text        NOT NULL CHECK (length(payment_no) BETWEEN 1 AND 64),
    title           text        NOT NULL DEFAULT '',
    -- Zero only for a number that was closed before it was ever created.
    amount          bigint      NOT NULL CHECK (amount >= 0),
    currency        text        NOT NULL,
    status          text        NOT NULL CHECK (status IN ('open', 'captured', 'closed')),
    behaviour       text        NOT NULL DEFAULT 'normal',
    delay_seconds   int         NOT NULL DEFAULT 0 CHECK (delay_seconds >= 0),
    notify_url      text        NOT NULL DEFAULT '',
    return_url      text        NOT NULL DEFAULT '',
    expires_at      timestamptz NOT NULL,
    failed_attempts int         NOT NULL DEFAULT 0,
    txn             text        UNIQUE,
    captured_amount bigint      NOT NULL DEFAULT 0,
    captured_at     timestamptz,
    refunded        bigint      NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (merchant, payment_no),
    CONSTRAINT captured_with_a_transaction CHECK ((status = 'captured') = (txn IS NOT NULL)),
    CONSTRAINT never_refunded_beyond_the_capture CHECK (refunded BETWEEN 0 AND captured_amount)
);

CREATE TABLE sandbox.refunds (
    ref         uuid        PRIMARY KEY,
    merchant    text        NOT NULL,
    refund_no   text        NOT NULL CHECK (length(refund_no) BETWEEN 1 AND 64),
    payment_ref uuid        NOT NULL REFERENCES sandbox.payments,
    payment_no  text        NOT NULL,
    amount      bigint      NOT NULL CHECK (amount > 0),
    currency    text        NOT NULL,
    reason      text        NOT NULL DEFAULT '',
    status      text        NOT NULL CHECK (status IN ('processing', 'succeeded', 'failed')),
    fails       boolean     NOT NULL DEFAULT false,
    notify_url  text        NOT NULL DEFAULT '',
    ready_at    timestamptz NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (merchant, refund_no)
);
CREATE INDEX refunds_to_settle ON sandbox.refunds (ready_at) WHERE status = 'processing';

-- What the merchant has to be told, with the schedule of the next attempt: a restart forgets nothing.
CREATE TABLE sandbox.callbacks (
    id         uuid        PRIMARY KEY,
    url        text        NOT NULL,
    body       bytea       NOT NULL,
    status     text        NOT NULL CHECK (status IN ('pending', 'acknowledged', 'given_up')),
    attempts   int         NOT NULL DEFAULT 0,
    next_try   timestamptz NOT NULL,
    last_error text        NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX callbacks_due ON sandbox.callbacks (next_try) WHERE status = 'pending';
CREATE INDEX callbacks_done ON sandbox.callbacks (created_at) WHERE status <> 'pending';

-- +goose Down
DROP SCHEMA sandbox CASCADE;
