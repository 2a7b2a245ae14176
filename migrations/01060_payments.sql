-- +goose Up
ALTER TABLE payments.payments
    -- The way to pay, in the provider's word; empty for 'free'.
    ADD COLUMN method  text  NOT NULL DEFAULT '',
    -- What the shopper needs to pay (provider.Handoff), and the provider's own
    -- reference, which later calls need. Empty until the creation is answered.
    ADD COLUMN handoff jsonb NOT NULL DEFAULT '{}';
-- 0.9 knew no way to pay but the sandbox's page.
UPDATE payments.payments SET method = 'page', handoff = CASE pay_url WHEN '' THEN '{}' ELSE jsonb_build_object('url', pay_url) END
WHERE provider <> 'free';
ALTER TABLE payments.payments DROP COLUMN pay_url;

ALTER TABLE payments.refunds
    -- Why, in the words of who asked; of an automatic one empty.
    ADD COLUMN note         text        NOT NULL DEFAULT '',
    -- Users; 0 is the system.
    ADD COLUMN requested_by bigint      NOT NULL DEFAULT 0,
    ADD COLUMN decided_by   bigint      NOT NULL DEFAULT 0,
    ADD COLUMN decided_at   timestamptz,
    ADD COLUMN settled_by   bigint      NOT NULL DEFAULT 0,
    -- Of money that was paid back by hand: the number on its receipt.
    ADD COLUMN receipt      text        NOT NULL DEFAULT '',
    -- What becomes of the order's units if this refund completes its refunding.
    ADD COLUMN units        text        NOT NULL DEFAULT '' CHECK (units IN ('', 'return', 'write_off')),
    DROP CONSTRAINT one_refund_per_capture,
    DROP CONSTRAINT refunds_amount_check,
    DROP CONSTRAINT refunds_reason_check,
    DROP CONSTRAINT refunds_status_check;
ALTER TABLE payments.refunds
    -- Automatic, of a capture that pays no order: late, the order was no longer
    -- pending; duplicate, it was already paid; mismatch, the amount differs from
    -- the requested one. Asked for, of the capture that paid the order: by its
    -- shopper, an operator, or a dispute.
    ADD CONSTRAINT refunds_reason_check CHECK (reason IN ('duplicate', 'late', 'mismatch', 'shopper', 'operator', 'dispute')),
    -- awaiting_approval → requested | rejected; requested → succeeded | failed;
    -- succeeded → failed (the provider took it back);
    -- failed → succeeded (the provider made it after all) | settled_by_hand |
    -- replaced (by a new refund of the same money: providers keep the answer to
    -- a number that they failed).
    ADD CONSTRAINT refunds_status_check CHECK (status IN ('awaiting_approval', 'rejected', 'requested', 'succeeded', 'failed', 'settled_by_hand', 'replaced')),
    -- Only an order that cost nothing is refunded by nothing.
    ADD CONSTRAINT refunds_move_money CHECK (amount > 0 OR amount = 0 AND provider = 'free'),
    ADD CONSTRAINT asked_refunds_decide_on_units CHECK ((units = '') = (reason IN ('duplicate', 'late', 'mismatch'))),
    ADD CONSTRAINT settled_with_a_receipt CHECK ((status = 'settled_by_hand') = (receipt <> '' AND settled_by <> 0));
-- A capture that pays no order is refunded once, however often its callback arrives.
CREATE UNIQUE INDEX one_automatic_refund_per_capture ON payments.refunds (bucket, payment_no, capture_txn)
    WHERE reason IN ('duplicate', 'late', 'mismatch') AND status <> 'replaced';
-- The operators' list, and in it the worklist.
CREATE INDEX refunds_by_number ON payments.refunds (refund_no);
CREATE INDEX refunds_by_status ON payments.refunds (status, refund_no);

-- What an operator paid back by hand has provider 'by-hand' and the refund's own
-- number: it is in no provider's statement. A reversal takes back the refund or
-- the chargeback with the same provider_txn.
ALTER TABLE payments.ledger
    DROP CONSTRAINT ledger_kind_check,
    DROP CONSTRAINT refunds_name_their_number;
ALTER TABLE payments.ledger
    ADD CONSTRAINT ledger_kind_check CHECK (kind IN ('capture', 'refund', 'refund_reversal', 'chargeback', 'chargeback_reversal')),
    ADD CONSTRAINT refunds_name_their_number CHECK ((kind IN ('refund', 'refund_reversal')) = (refund_no IS NOT NULL));
-- For the comparison of a day with the provider's statement: an index of a few pages, because rows are written in the order
-- of their time.
CREATE INDEX ledger_by_time ON payments.ledger USING brin (at);

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
