-- +goose Up
-- Messages to shoppers outside the page: one row for each, until it was sent or given up, and then for the list.
CREATE TABLE notify.messages (
    -- A gateway, and WeChat's official account, know a repetition by it.
    id         uuid        PRIMARY KEY,
    kind       text        NOT NULL CHECK (kind IN ('reminder', 'won', 'deadline', 'paid', 'shipped', 'refunded', 'units_back', 'dispute')),
    -- What happened: an order, a refund, a session with its opening. A user gets one message of a kind about it.
    about      text        NOT NULL,
    user_id    bigint      NOT NULL,
    order_no   uuid        NOT NULL, -- zero for an offer
    -- Not about an order: it waits behind those that are, and shoppers may do without it.
    offer      boolean     NOT NULL,
    facts      jsonb       NOT NULL, -- what the text is filled with; no name, phone or address
    state      text        NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'sent', 'dead', 'dropped')),
    reason     text        NOT NULL DEFAULT '', -- of the last failed attempt, or why it was dropped
    channel    text        NOT NULL DEFAULT '', -- of the last attempt
    recipient  text        NOT NULL DEFAULT '', -- a phone, masked
    parts      int         NOT NULL DEFAULT 0,  -- SMS that it is charged as
    attempts   int         NOT NULL DEFAULT 0,
    next_try   timestamptz NOT NULL,
    expires_at timestamptz NOT NULL, -- from then on it is worth nothing
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT message_is_made_once UNIQUE (about, kind, user_id)
);
CREATE INDEX messages_due ON notify.messages (offer, next_try) WHERE state = 'waiting';
CREATE INDEX messages_of_order ON notify.messages (order_no) WHERE NOT offer;
CREATE INDEX messages_of_user ON notify.messages (user_id);
CREATE INDEX messages_by_state ON notify.messages (state, id);
CREATE INDEX messages_dead ON notify.messages (updated_at) WHERE state = 'dead';

-- What became of messages, by the shop's days.
CREATE TABLE notify.message_days (
    day     date   NOT NULL,
    kind    text   NOT NULL,
    channel text   NOT NULL, -- empty for what no channel took
    sent    bigint NOT NULL DEFAULT 0,
    parts   bigint NOT NULL DEFAULT 0,
    dead    bigint NOT NULL DEFAULT 0,
    dropped bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (day, kind, channel)
);

-- What the shop has set in the back office; without the row, the defaults.
CREATE TABLE notify.message_rules (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    rules jsonb   NOT NULL
);

-- Texts of the shop in place of the built-in ones.
CREATE TABLE notify.message_texts (
    kind       text        NOT NULL,
    channel    text        NOT NULL CHECK (channel IN ('wechat', 'wechat-mini', 'sms')),
    language   text        NOT NULL CHECK (language IN ('en', 'zh')),
    body       text        NOT NULL,
    template   text        NOT NULL DEFAULT '', -- the provider's or WeChat's name of the approved text
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, channel, language)
);

-- What shoppers want; without a row, everything in the shop's language.
CREATE TABLE notify.message_preferences (
    user_id    bigint      PRIMARY KEY,
    offers     boolean     NOT NULL DEFAULT true,
    language   text        NOT NULL DEFAULT '' CHECK (language IN ('', 'en', 'zh')),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Shoppers who asked for a message when units of an item come back. The message removes the row.
CREATE TABLE notify.units_back_asks (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id    bigint      NOT NULL,
    user_id    bigint      NOT NULL,
    title      text        NOT NULL,
    until      timestamptz NOT NULL, -- the item's sale ends
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT one_ask_per_item UNIQUE (user_id, item_id)
);
CREATE INDEX units_back_asks_of ON notify.units_back_asks (item_id, id);
CREATE INDEX units_back_asks_age ON notify.units_back_asks (until);

-- How far the walks over reservations and over unpaid orders have come.
CREATE TABLE notify.message_walks (
    name       text        PRIMARY KEY,
    at         timestamptz NOT NULL, -- the opening of the reserved item; the deadline of the last order
    after_user bigint      NOT NULL DEFAULT 0,
    after_no   uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    done       boolean     NOT NULL DEFAULT false
);
