-- +goose Up
CREATE SCHEMA payments;

CREATE TABLE payments.payments (
    bucket       smallint    NOT NULL,
    payment_no   uuid        NOT NULL,
    order_no     uuid        NOT NULL,
    user_id      bigint      NOT NULL,
    -- 'free' is not a provider: an order of zero amount is paid automatically.
    provider     text        NOT NULL,
    amount       bigint      NOT NULL CHECK (amount >= 0),
    currency     text        NOT NULL,
    -- created → captured | closed. closed → captured happens when a provider
    -- took money for a payment that it had reported as closed: the money is
    -- real, so the row follows it and the money is refunded.
    status       text        NOT NULL CHECK (status IN ('created', 'captured', 'closed')),
    provider_txn text        NOT NULL DEFAULT '',
    -- The way to pay, in the provider's word; empty for 'free'.
    method       text        NOT NULL DEFAULT '',
    -- What the shopper needs to pay (provider.Handoff), and the provider's own
    -- reference, which later calls need. Empty until the creation is answered.
    handoff      jsonb       NOT NULL DEFAULT '{}',
    -- Never later than the order's pay_deadline, so that the provider itself
    -- refuses money for a dead order.
    expires_at   timestamptz NOT NULL,
    -- When to query the provider next about an open payment whose callback has
    -- not arrived.
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
    -- The capture to refund; if a provider took money twice for one payment, it
    -- is refunded twice.
    capture_txn text        NOT NULL,
    amount      bigint      NOT NULL,
    currency    text        NOT NULL,
    -- Automatic, of a capture that pays no order: late, the order was no longer
    -- pending; duplicate, it was already paid; mismatch, the amount differs from
    -- the requested one. Asked for, of the capture that paid the order: by its
    -- shopper, an operator, or a dispute.
    reason      text        NOT NULL CHECK (reason IN ('duplicate', 'late', 'mismatch', 'shopper', 'operator', 'dispute')),
    -- awaiting_approval → requested | rejected; requested → succeeded | failed;
    -- succeeded → failed (the provider took it back);
    -- failed → succeeded (the provider made it after all) | settled_by_hand |
    -- replaced (by a new refund of the same money: providers keep the answer to
    -- a number that they failed).
    status      text        NOT NULL CHECK (status IN ('awaiting_approval', 'rejected', 'requested', 'succeeded', 'failed', 'settled_by_hand', 'replaced')),
    -- Why, in the words of who asked; of an automatic one empty.
    note        text        NOT NULL DEFAULT '',
    -- Users; 0 is the system.
    requested_by bigint     NOT NULL DEFAULT 0,
    decided_by  bigint      NOT NULL DEFAULT 0,
    decided_at  timestamptz,
    settled_by  bigint      NOT NULL DEFAULT 0,
    -- Of money that was paid back by hand: the number on its receipt.
    receipt     text        NOT NULL DEFAULT '',
    -- What becomes of the order's units if this refund completes its refunding.
    units       text        NOT NULL DEFAULT '' CHECK (units IN ('', 'return', 'write_off')),
    attempts    int         NOT NULL DEFAULT 0,
    next_try    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error  text        NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket, refund_no),
    -- Only an order that cost nothing is refunded by nothing.
    CONSTRAINT refunds_move_money CHECK (amount > 0 OR amount = 0 AND provider = 'free'),
    CONSTRAINT asked_refunds_decide_on_units CHECK ((units = '') = (reason IN ('duplicate', 'late', 'mismatch'))),
    CONSTRAINT settled_with_a_receipt CHECK ((status = 'settled_by_hand') = (receipt <> '' AND settled_by <> 0))
);
-- A capture that pays no order is refunded once, however often its callback arrives.
CREATE UNIQUE INDEX one_automatic_refund_per_capture ON payments.refunds (bucket, payment_no, capture_txn)
    WHERE reason IN ('duplicate', 'late', 'mismatch') AND status <> 'replaced';
CREATE INDEX refunds_due ON payments.refunds (next_try) WHERE status = 'requested';
-- The operators' list, and in it the worklist.
CREATE INDEX refunds_by_number ON payments.refunds (refund_no);
CREATE INDEX refunds_by_status ON payments.refunds (status, refund_no);
CREATE INDEX refunds_of_order ON payments.refunds (order_no);

-- Money that really moved: one row per provider transaction, never changed.
-- What an operator paid back by hand has provider 'by-hand' and the refund's own
-- number: it is in no provider's statement. A reversal takes back the refund or
-- the chargeback with the same provider_txn. Its
-- key makes a callback that arrives twice, even at two instances at the same
-- time, take effect once.
CREATE TABLE payments.ledger (
    provider     text        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('capture', 'refund', 'refund_reversal', 'chargeback', 'chargeback_reversal')),
    provider_txn text        NOT NULL CHECK (provider_txn <> ''),
    payment_no   uuid        NOT NULL,
    order_no     uuid        NOT NULL,
    refund_no    uuid,
    amount       bigint      NOT NULL CHECK (amount >= 0),
    currency     text        NOT NULL,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider, kind, provider_txn),
    CONSTRAINT refunds_name_their_number CHECK ((kind IN ('refund', 'refund_reversal')) = (refund_no IS NOT NULL))
);
-- Payments that their shoppers' banks take back. The ledger has what moved; here is how it stands.
CREATE TABLE payments.chargebacks (
    provider      text        NOT NULL,
    chargeback_no text        NOT NULL, -- the provider's number, also in the ledger
    payment_no    uuid        NOT NULL,
    order_no      uuid        NOT NULL,
    amount        bigint      NOT NULL CHECK (amount > 0),
    currency      text        NOT NULL,
    reason        text        NOT NULL,
    -- open → won | lost | closed (it ended before money moved)
    status        text        NOT NULL CHECK (status IN ('open', 'won', 'lost', 'closed')),
    respond_by    timestamptz,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider, chargeback_no)
);
CREATE INDEX chargebacks_of_order ON payments.chargebacks (order_no);

CREATE INDEX ledger_of_order ON payments.ledger (order_no);
CREATE INDEX ledger_of_payment ON payments.ledger (payment_no);
CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payments.ledger
    FOR EACH STATEMENT EXECUTE FUNCTION platform.refuse_change();
-- For the comparison of a day with the provider's statement: an index of a few pages, because rows are written in the order
-- of their time.
CREATE INDEX ledger_by_time ON payments.ledger USING brin (at);

-- Statements of providers: one row for each day of each provider, in its own zone, that an operator or the daily job
-- wants, or that is needed for the day after it.
CREATE TABLE payments.statements (
    provider    text        NOT NULL,
    day         date        NOT NULL,
    from_time   timestamptz NOT NULL,
    to_time     timestamptz NOT NULL CHECK (to_time > from_time),
    wanted      boolean     NOT NULL,
    status      text        NOT NULL DEFAULT 'due' CHECK (status IN ('due', 'fetched')),
    lines       bigint      NOT NULL DEFAULT 0,
    attempts    int         NOT NULL DEFAULT 0,
    next_try    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error  text        NOT NULL DEFAULT '',
    -- The day before has to be fetched too, or extra rows are not known.
    partial     boolean     NOT NULL DEFAULT false,
    compared_at timestamptz,
    PRIMARY KEY (provider, day)
);

-- Their lines. One transaction may have several, on one day or on several: their amounts add up.
CREATE TABLE payments.statement_lines (
    provider     text        NOT NULL,
    day          date        NOT NULL,
    kind         text        NOT NULL CHECK (kind IN ('capture', 'refund', 'chargeback')),
    provider_txn text        NOT NULL CHECK (provider_txn <> ''),
    payment_no   uuid,
    refund_no    uuid,
    amount       bigint      NOT NULL,
    fee          bigint      NOT NULL,
    currency     text        NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (provider, kind, provider_txn, day)
);
CREATE INDEX statement_lines_of_day ON payments.statement_lines (provider, day);

-- What differs between a statement and the ledger, as of the last comparison. missing: the provider has it, we do not;
-- extra: we have it, the provider does not; different: both have it.
CREATE TABLE payments.statement_differences (
    provider     text        NOT NULL,
    day          date        NOT NULL,
    class        text        NOT NULL CHECK (class IN ('missing', 'extra', 'different')),
    kind         text        NOT NULL,
    provider_txn text        NOT NULL,
    payment_no   uuid,
    refund_no    uuid,
    stated       bigint      NOT NULL,
    booked       bigint      NOT NULL,
    currency     text        NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (provider, day, class, kind, provider_txn)
);

-- +goose Down
DROP SCHEMA payments CASCADE;
