-- +goose Up
-- The longest migration from 0.9: it checks every order, rewrites every paid one and creates indexes, in two and a half
-- minutes for a million paid orders on two cores with other work. No instance of 0.9 runs meanwhile.

-- What the shopper pays for an order: the one sum in SQL, as orderevent.Order.Amount is in Go. It is no column,
-- because the writer would compute and store eight bytes more for each order of a rush.
CREATE FUNCTION orders.amount(unit_price bigint, quantity int, freight bigint, discount bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN unit_price * quantity + freight - discount;

ALTER TABLE orders.orders
    ADD COLUMN freight      bigint NOT NULL DEFAULT 0,
    ADD COLUMN discount     bigint NOT NULL DEFAULT 0,
    ADD COLUMN paid_at      timestamptz,
    -- The capture that paid the order, for lists and exports; NULL until then, which costs the writer no byte.
    ADD COLUMN payment_no   uuid,
    ADD COLUMN provider     text,
    ADD COLUMN method       text,
    ADD COLUMN provider_txn text;

-- The capture of a paid order is the one that was not refunded. 0.9 knew no way to pay but the sandbox's page.
UPDATE orders.orders o
SET paid_at = coalesce(
        (SELECT min(h.at) FROM orders.history h WHERE h.order_no = o.order_no AND h.bucket = o.bucket AND h.status = 'paid'),
        p.updated_at),
    payment_no = p.payment_no, provider = p.provider, provider_txn = p.provider_txn,
    method = CASE p.provider WHEN 'free' THEN '' ELSE 'page' END
FROM payments.payments p
WHERE p.order_no = o.order_no AND p.bucket = o.bucket AND p.status = 'captured'
  AND o.status IN ('paid', 'completed', 'refunding', 'refunded', 'refund_failed')
  AND NOT EXISTS (SELECT FROM payments.refunds r
                  WHERE r.payment_no = p.payment_no AND r.bucket = p.bucket AND r.capture_txn = p.provider_txn);

-- One constraint, because each costs every order of a rush its evaluation.
ALTER TABLE orders.orders
    ADD CONSTRAINT never_owes_the_shopper CHECK (freight >= 0 AND discount >= 0
                                                 AND orders.amount(unit_price, quantity, freight, discount) >= 0);

-- Paid orders that are not completed yet, the oldest first; an order enters it with its payment.
CREATE INDEX orders_paid ON orders.orders (paid_at) WHERE status = 'paid';
-- The operators' lists, see package order/search. None of them has an entry for an order that waits for its payment: the
-- writer pays for none.
CREATE INDEX orders_by_status ON orders.orders (status, order_no) WHERE status <> 'pending_payment';
CREATE INDEX orders_by_payment ON orders.orders (paid_at, order_no) WHERE paid_at IS NOT NULL;
CREATE INDEX orders_by_change ON orders.orders (updated_at, order_no) WHERE status <> 'pending_payment';

-- Orders that ended long ago, moved here so that the table that sales write and its indexes stay small. A month of orders is
-- a range of numbers, because these begin with the time they were minted at.
CREATE TABLE orders.archive (
    LIKE orders.orders INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
    CONSTRAINT archived_orders_have_ended CHECK (status IN ('completed', 'closed', 'refused', 'refunded')),
    PRIMARY KEY (order_no, bucket)
) PARTITION BY RANGE (order_no);
CREATE INDEX archive_of_user ON orders.archive (user_id, order_no);
CREATE INDEX archive_by_status ON orders.archive (status, order_no);
CREATE INDEX archive_by_payment ON orders.archive (paid_at, order_no) WHERE paid_at IS NOT NULL;
CREATE INDEX archive_by_change ON orders.archive (updated_at, order_no);

-- Every order, wherever it lies. Moving one is one statement, so that a statement finds it once.
CREATE VIEW orders.with_archive AS SELECT * FROM orders.orders UNION ALL SELECT * FROM orders.archive;

-- Sorts before every number that is minted at that time or later.
CREATE FUNCTION orders.first_number(at timestamptz) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Creates the archive's partition for the month that a number was minted in. It is created alone and then attached, which,
-- unlike PARTITION OF, lets readers and writers of the archive pass.
-- +goose StatementBegin
CREATE FUNCTION orders.ensure_archive(no uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    month timestamptz := date_trunc('month', to_timestamp(('x' || left(replace(no::text, '-', ''), 12))::bit(48)::bigint / 1000.0), 'UTC');
    part  text := 'archive_' || to_char(month AT TIME ZONE 'UTC', 'YYYYMM');
BEGIN
    IF to_regclass(format('orders.%I', part)) IS NULL THEN
        PERFORM pg_advisory_xact_lock(hashtext('orders.ensure_archive'));
        IF to_regclass(format('orders.%I', part)) IS NULL THEN
            EXECUTE format('CREATE TABLE orders.%I (LIKE orders.archive INCLUDING ALL)', part);
            EXECUTE format('ALTER TABLE orders.archive ATTACH PARTITION orders.%I FOR VALUES FROM (%L) TO (%L)',
                part, orders.first_number(month), orders.first_number((month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC'));
        END IF;
    END IF;
END $$;
-- +goose StatementEnd

-- What a shopper disputes about a paid order. open: it waits for the shop; answered: for the shopper.
CREATE TABLE orders.disputes (
    bucket        smallint    NOT NULL,
    dispute_no    uuid        NOT NULL,
    order_no      uuid        NOT NULL,
    user_id       bigint      NOT NULL,
    reason        text        NOT NULL CHECK (length(reason) <= 500),
    -- The reason came with a token that was minted for the shopper.
    minted        boolean     NOT NULL DEFAULT false,
    status        text        NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'answered', 'closed')),
    outcome       text        NOT NULL DEFAULT '' CHECK (outcome IN ('', 'refund', 'no_refund')),
    refund_no     uuid,
    version       int         NOT NULL DEFAULT 1,
    -- Since when it waits for the shop.
    waiting_since timestamptz DEFAULT clock_timestamp(),
    closed_by     bigint,
    -- The shopper has deleted the account; what was written is erased once it is closed.
    forget        boolean     NOT NULL DEFAULT false,
    erased_at     timestamptz,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (dispute_no, bucket),
    CONSTRAINT waits_while_open CHECK ((waiting_since IS NOT NULL) = (status = 'open')),
    CONSTRAINT closed_has_an_outcome CHECK ((outcome <> '') = (status = 'closed')),
    CONSTRAINT refund_is_an_outcome CHECK ((refund_no IS NOT NULL) = (outcome = 'refund'))
);
CREATE UNIQUE INDEX one_open_dispute_per_order ON orders.disputes (order_no, bucket) WHERE status <> 'closed';
CREATE INDEX disputes_by_status ON orders.disputes (status, dispute_no);
CREATE INDEX disputes_of_order ON orders.disputes (order_no, dispute_no);
CREATE INDEX disputes_to_erase ON orders.disputes (user_id) WHERE erased_at IS NULL;
CREATE INDEX disputes_waiting ON orders.disputes (waiting_since) WHERE status = 'open';

-- What was written after the reason, by the shopper (operator is NULL), with a token that was minted for the shopper (then
-- minted is true), or by an operator.
CREATE TABLE orders.dispute_texts (
    bucket     smallint    NOT NULL,
    dispute_no uuid        NOT NULL,
    line       int         NOT NULL,
    operator   bigint,
    minted     boolean     NOT NULL DEFAULT false,
    text       text        NOT NULL CHECK (length(text) BETWEEN 1 AND 500),
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (dispute_no, bucket, line)
);

-- Where orders are picked up. A store that closes is offered no more; one that orders name cannot be deleted.
CREATE TABLE orders.stores (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    address    text        NOT NULL CHECK (length(address) BETWEEN 1 AND 300),
    phone      text        NOT NULL DEFAULT '' CHECK (length(phone) <= 32),
    hours      text        NOT NULL DEFAULT '' CHECK (length(hours) <= 120),
    open       boolean     NOT NULL DEFAULT true,
    version    int         NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What the shopper settled before the payment; personal data, see package order/details.
CREATE TABLE orders.details (
    bucket        smallint    NOT NULL,
    order_no      uuid        NOT NULL,
    user_id       bigint      NOT NULL,
    way           text        NOT NULL DEFAULT '' CHECK (way IN ('', 'delivery', 'pickup')),
    store_id      bigint      REFERENCES orders.stores,
    name          text        NOT NULL DEFAULT '',
    phone         text        NOT NULL DEFAULT '',
    address       text        NOT NULL DEFAULT '',
    note          text        NOT NULL DEFAULT '',
    pickup_code   text        NOT NULL DEFAULT '',
    pickup_digest bytea,
    -- The shopper has deleted the account.
    forget        boolean     NOT NULL DEFAULT false,
    erased_at     timestamptz,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (order_no, bucket),
    CONSTRAINT pickup_has_a_store_and_a_code CHECK ((way = 'pickup') = (store_id IS NOT NULL) AND (way = 'pickup') = (pickup_digest IS NOT NULL))
);
CREATE INDEX details_by_pickup ON orders.details (pickup_digest) WHERE pickup_digest IS NOT NULL;
CREATE INDEX details_to_erase ON orders.details (user_id) WHERE erased_at IS NULL;
CREATE INDEX details_by_age ON orders.details (updated_at) WHERE erased_at IS NULL;
CREATE INDEX details_forgotten ON orders.details (order_no) WHERE forget AND erased_at IS NULL;
CREATE INDEX details_of_store ON orders.details (store_id) WHERE store_id IS NOT NULL; -- for the deletion of a store

-- What left the shop with a carrier.
CREATE TABLE orders.shipments (
    bucket      smallint    NOT NULL,
    order_no    uuid        NOT NULL,
    carrier     text        NOT NULL CHECK (length(carrier) BETWEEN 1 AND 60),
    tracking_no text        NOT NULL CHECK (length(tracking_no) BETWEEN 1 AND 64),
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (order_no, bucket)
);

-- What an operator did with an order and why, or noted about it; shoppers do not read it. See package order/acts.
CREATE TABLE orders.acts (
    bucket    smallint    NOT NULL,
    order_no  uuid        NOT NULL,
    act_no    uuid        NOT NULL,
    user_id   bigint      NOT NULL,
    operator  bigint      NOT NULL,
    action    text        NOT NULL CHECK (action IN ('cancel', 'refund', 'complete', 'ship', 'note')),
    text      text        NOT NULL CHECK (length(text) <= 500),
    -- The order's version after it.
    version   int         NOT NULL,
    -- The shopper has deleted the account.
    forget    boolean     NOT NULL DEFAULT false,
    erased_at timestamptz,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (order_no, bucket, act_no)
);
CREATE INDEX acts_to_erase ON orders.acts (user_id) WHERE erased_at IS NULL;

-- What an operator offers: so much off, for which goods, how often. Its terms no longer change once it is active,
-- because coupons that were issued rely on them.
CREATE TABLE orders.coupon_kinds (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text        NOT NULL CHECK (length(name) BETWEEN 1 AND 120),
    status       text        NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'active', 'stopped')),
    currency     text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    -- Either an amount in minor units, or a percentage of the goods, at most max_off unless that is 0.
    amount_off   bigint      NOT NULL CHECK (amount_off >= 0),
    percent_off  smallint    NOT NULL CHECK (percent_off BETWEEN 0 AND 100),
    max_off      bigint      NOT NULL CHECK (max_off >= 0),
    threshold    bigint      NOT NULL CHECK (threshold >= 0),
    -- The orders it is for; all where both are empty.
    activity_ids bigint[]    NOT NULL,
    item_ids     bigint[]    NOT NULL,
    -- Either a span of time or days from the issue.
    valid_from   timestamptz,
    valid_until  timestamptz,
    valid_days   int         NOT NULL CHECK (valid_days >= 0),
    total        bigint      NOT NULL,
    per_user     smallint    NOT NULL CHECK (per_user > 0),
    issued       bigint      NOT NULL DEFAULT 0,
    -- When shoppers may take one themselves; NULL is never.
    claim_from   timestamptz,
    claim_until  timestamptz,
    -- What gets a user one without asking; '' is nothing. Who registers gets one at once, who has reserved one of the
    -- items or an item of the activities gets it when the reservation has closed.
    issue_on     text        NOT NULL DEFAULT '' CHECK (issue_on IN ('', 'registration', 'reservation')),
    reserved_activity_ids bigint[] NOT NULL DEFAULT '{}',
    reserved_item_ids     bigint[] NOT NULL DEFAULT '{}',
    recalled_at  timestamptz, -- coupons that were issued until then serve no further order
    version      int         NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT coupons_keep_to_the_total CHECK (issued BETWEEN 0 AND total),
    CONSTRAINT coupon_takes_an_amount_or_a_percentage CHECK ((amount_off > 0) <> (percent_off > 0)),
    CONSTRAINT coupon_is_valid_for_a_span_or_for_days
        CHECK (valid_days > 0 AND valid_from IS NULL AND valid_until IS NULL OR valid_days = 0 AND valid_from < valid_until),
    CONSTRAINT coupon_rule_names_what_is_reserved CHECK ((issue_on = 'reservation') = (cardinality(reserved_activity_ids) + cardinality(reserved_item_ids) > 0)),
    CONSTRAINT coupon_claims_have_both_ends CHECK ((claim_from IS NULL) = (claim_until IS NULL) AND coalesce(claim_from < claim_until, true))
);

-- A user's coupon; never changed but by its recall. It expires by the clock.
CREATE TABLE orders.coupons (
    bucket      smallint    NOT NULL,
    coupon_no   uuid        NOT NULL,
    kind_id     bigint      NOT NULL,
    user_id     bigint      NOT NULL,
    nth         smallint    NOT NULL, -- the user's first, second … of the kind
    valid_from  timestamptz NOT NULL,
    valid_until timestamptz NOT NULL,
    issued_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    recalled_at timestamptz, -- serves no further order
    PRIMARY KEY (bucket, coupon_no),
    CONSTRAINT coupon_is_issued_once UNIQUE (bucket, user_id, kind_id, nth)
);

-- How far an item's reservations have got their coupons of a kind, in the order of users. A reservation that was
-- extended closes later, and starts again.
CREATE TABLE orders.coupon_progress (
    kind_id    bigint      NOT NULL,
    item_id    bigint      NOT NULL,
    closed_at  timestamptz NOT NULL,
    after_user bigint      NOT NULL,
    done       boolean     NOT NULL,
    PRIMARY KEY (kind_id, item_id)
);

-- The coupon of an order, and with it the reason of the order's discount. locked → used with the payment, locked →
-- returned with the closing, used → returned with the full refund, returned → used if money that came late still pays
-- the order; borne instead, by the shop, if the coupon serves another order by then.
CREATE TABLE orders.coupon_uses (
    bucket     smallint    NOT NULL,
    order_no   uuid        NOT NULL,
    coupon_no  uuid        NOT NULL,
    kind_id    bigint      NOT NULL,
    discount   bigint      NOT NULL CHECK (discount > 0),
    status     text        NOT NULL CHECK (status IN ('locked', 'used', 'returned', 'borne')),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (order_no, bucket)
);
CREATE UNIQUE INDEX one_order_per_coupon ON orders.coupon_uses (coupon_no, bucket) WHERE status IN ('locked', 'used');
CREATE INDEX coupon_uses_of_coupon ON orders.coupon_uses (coupon_no);
CREATE INDEX coupon_uses_of_kind ON orders.coupon_uses (kind_id) WHERE status <> 'returned';
