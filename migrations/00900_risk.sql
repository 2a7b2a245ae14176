-- +goose Up
CREATE SCHEMA risk;

-- The one exclusive activity that a user takes part in. The primary key is the rule.
CREATE TABLE risk.claims (
    user_id     bigint      PRIMARY KEY,
    activity_id bigint      NOT NULL,
    -- The newest path's number, and how many paths were issued under this claim. While it is one, the end of its
    -- number is the end of the claim.
    order_no    uuid        NOT NULL,
    paths       int         NOT NULL DEFAULT 1,
    -- Until then a path may still become an order.
    until       timestamptz NOT NULL,
    -- From then on the claim has ended, whatever was bought.
    ends_at     timestamptz NOT NULL,
    claimed_at  timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 80);
CREATE INDEX claims_over ON risk.claims (until);

-- The orders of exclusive activities as the order module told of them.
CREATE TABLE risk.claim_orders (
    order_no    uuid        PRIMARY KEY,
    user_id     bigint      NOT NULL,
    activity_id bigint      NOT NULL,
    live        boolean     NOT NULL,
    version     int         NOT NULL,
    ends_at     timestamptz NOT NULL
);
CREATE INDEX claim_orders_of_user ON risk.claim_orders (user_id, activity_id) WHERE live;
CREATE INDEX claim_orders_over ON risk.claim_orders (ends_at);

-- Orders that were closed without having been paid.
CREATE TABLE risk.holds (
    order_no  uuid        PRIMARY KEY,
    user_id   bigint      NOT NULL,
    item_id   bigint      NOT NULL,
    reason    text        NOT NULL,
    closed_at timestamptz NOT NULL
);
CREATE INDEX holds_of_user ON risk.holds (user_id, closed_at);
CREATE INDEX holds_age ON risk.holds (closed_at);

CREATE TABLE risk.rules (
    id             bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind           text             NOT NULL CHECK (kind IN ('unpaid_holds', 'open_unpaid', 'refusals_per_minute')),
    threshold      int              NOT NULL CHECK (threshold BETWEEN 1 AND 100000),
    window_seconds bigint           NOT NULL CHECK (window_seconds BETWEEN 60 AND 7776000),
    action         text             NOT NULL CHECK (action IN ('short_window', 'later', 'chance', 'none')),
    -- Seconds to pay, milliseconds after the opening, or the chance; 0 for none.
    amount         double precision NOT NULL DEFAULT 0,
    note           text             NOT NULL DEFAULT '' CHECK (length(note) <= 500),
    expires_at     timestamptz,
    created_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT amount_fits_action CHECK (CASE action
        WHEN 'short_window' THEN amount BETWEEN 10 AND 65535
        WHEN 'later'        THEN amount BETWEEN 1 AND 600000
        WHEN 'chance'       THEN amount > 0 AND amount < 1
        ELSE amount = 0 END)
);

-- Whom a rule hits: the few above its threshold, which every instance keeps in memory.
CREATE TABLE risk.marks (
    rule_id bigint      NOT NULL REFERENCES risk.rules ON DELETE CASCADE,
    user_id bigint      NOT NULL,
    count   bigint      NOT NULL,
    -- When the user falls below the threshold if nothing more happens.
    until   timestamptz NOT NULL,
    PRIMARY KEY (rule_id, user_id)
);
CREATE INDEX marks_over ON risk.marks (until);

-- As platform.blacklist_revision, for rules and marks.
CREATE TABLE risk.revision (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    revision bigint  NOT NULL DEFAULT 0
);
INSERT INTO risk.revision DEFAULT VALUES;

-- Every decision that restricted a user, with the rule as it was then.
CREATE TABLE risk.decisions (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL,
    user_id     bigint      NOT NULL,
    item_id     bigint      NOT NULL,
    activity_id bigint      NOT NULL,
    order_no    uuid        NOT NULL,
    -- 0 for an entry of the blacklist.
    rule_id     bigint      NOT NULL,
    rule        jsonb       NOT NULL,
    inputs      jsonb       NOT NULL,
    result      text        NOT NULL
);
CREATE INDEX decisions_of_user ON risk.decisions (user_id, id);
CREATE INDEX decisions_of_rule ON risk.decisions (rule_id, id);
CREATE INDEX decisions_age ON risk.decisions (at);

-- +goose Down
DROP SCHEMA risk CASCADE;
