-- +goose Up
CREATE SCHEMA payments;

CREATE TABLE payments.payments (
    bucket       smallint    NOT NULL,
    payment_no   uuid        NOT NULL,
    order_no     uuid        NOT NULL,
    user_id      bigint      NOT NULL,
    -- 'free' is no provider: an order of zero amount is paid by itself.
    provider     text        NOT NULL,
    amount       bigint      NOT NULL CHECK (amount >= 0),
    currency     text        NOT NULL,
    -- created → captured | closed. closed → captured happens when a provider took money for a payment that it had
    -- called closed: the money is real, so the row follows it and the money goes back.
    status       text        NOT NULL CHECK (status IN ('created', 'captured', 'closed')),
    provider_txn text        NOT NULL DEFAULT '',
    -- Empty until the provider has answered the creation.
    pay_url      text        NOT NULL DEFAULT '',
    -- Never later than the order's pay_deadline, so that the provider refuses money for a dead order by itself.
    expires_at   timestamptz NOT NULL,
    -- When the provider is asked next about an open payment whose callback has not come.
    next_query   timestamptz NOT NULL DEFAULT clock_timestamp() + interval '30 seconds',
    queries      int         NOT NULL DEFAULT 0,
    version      int         NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket, payment_no),
    CONSTRAINT captured_with_a_transaction CHECK (status <> 'captured' OR provider_txn <> '')
);
CREATE UNIQUE INDEX one_open_payment_per_order ON payments.payments (order_no, bucket) WHERE status = 'created';
CREATE INDEX payments_of_order ON payments.payments (order_no);
CREATE INDEX payments_to_query ON payments.payments (next_query) WHERE status = 'created';

CREATE TABLE payments.refunds (
    bucket      smallint    NOT NULL,
    refund_no   uuid        NOT NULL,
    payment_no  uuid        NOT NULL,
    order_no    uuid        NOT NULL,
    user_id     bigint      NOT NULL,
    provider    text        NOT NULL,
    -- The capture that goes back; a provider that took money twice for one payment is paid back twice.
    capture_txn text        NOT NULL,
    amount      bigint      NOT NULL CHECK (amount > 0),
    currency    text        NOT NULL,
    -- late: the order was no longer pending; duplicate: it was paid already; mismatch: another sum than asked for.
    reason      text        NOT NULL CHECK (reason IN ('duplicate', 'late', 'mismatch')),
    status      text        NOT NULL CHECK (status IN ('requested', 'succeeded', 'failed')),
    attempts    int         NOT NULL DEFAULT 0,
    next_try    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error  text        NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket, refund_no),
    -- A capture is given back at most once, however often its callback comes.
    CONSTRAINT one_refund_per_capture UNIQUE (bucket, payment_no, capture_txn)
);
CREATE INDEX refunds_due ON payments.refunds (next_try) WHERE status = 'requested';
CREATE INDEX refunds_of_order ON payments.refunds (order_no);

-- Money that really moved: one row per provider transaction, never changed. Its key is what makes a callback
-- that comes twice, to two instances at once, take effect once.
CREATE TABLE payments.ledger (
    provider     text        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('capture', 'refund')),
    provider_txn text        NOT NULL CHECK (provider_txn <> ''),
    payment_no   uuid        NOT NULL,
    order_no     uuid        NOT NULL,
    refund_no    uuid,
    amount       bigint      NOT NULL CHECK (amount >= 0),
    currency     text        NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider, kind, provider_txn),
    CONSTRAINT refunds_name_their_number CHECK ((kind = 'refund') = (refund_no IS NOT NULL))
);
CREATE INDEX ledger_of_order ON payments.ledger (order_no);
CREATE INDEX ledger_of_payment ON payments.ledger (payment_no);
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payments.ledger
    FOR EACH STATEMENT EXECUTE FUNCTION platform.refuse_change();

-- +goose Down
DROP SCHEMA payments CASCADE;
