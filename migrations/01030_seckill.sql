-- +goose Up
-- Activities that 0.9 planned keep what they said about buying again.
ALTER TABLE seckill.activities
    ALTER COLUMN rebuy_after_close SET DEFAULT false,
    -- How long after paying a shopper may refund an order that is not completed; 0
    -- is never. A year is longer than a shop keeps goods for a buyer.
    ADD COLUMN refund_within_hours int   NOT NULL DEFAULT 0,
    -- What becomes of the units of a refunded order unless an operator says.
    ADD COLUMN refund_units        text  NOT NULL DEFAULT 'return',
    -- What is settled with the shopper between order and payment; see
    -- seckillevent.Checkout.
    ADD COLUMN checkout            jsonb NOT NULL DEFAULT '{}',
    ADD CONSTRAINT refund_time_is_bounded CHECK (refund_within_hours BETWEEN 0 AND 8760),
    ADD CONSTRAINT refund_units_are_known CHECK (refund_units IN ('return', 'write_off'));

ALTER TABLE seckill.items
    -- Units held back beside the stock, for payments that arrive after their order was closed; those that they took
    -- are included.
    ADD COLUMN backup    int     NOT NULL DEFAULT 0 CHECK (backup BETWEEN 0 AND 10000000),
    -- No attempt at this item is taken; a pause of its activity counts besides.
    ADD COLUMN paused    boolean NOT NULL DEFAULT false,
    -- Attempts a second that each instance admits to the item's line; NULL admits all.
    ADD COLUMN admission int     CHECK (admission BETWEEN 0 AND 1000000),
    ADD CONSTRAINT items_spec_check CHECK (length(spec) <= 500),
    ADD CONSTRAINT items_image_url_check CHECK (octet_length(image_url) <= 2048),
    ADD CONSTRAINT backup_needs_a_count CHECK (backup = 0 OR NOT unlimited),
    DROP CONSTRAINT on_sale_is_bounded;
-- The bound of inventory.stock's total, which has the backup too.
ALTER TABLE seckill.items
    ADD CONSTRAINT on_sale_is_bounded CHECK (stock + stock::bigint * oversell_percent / 100 + backup <= 10000000);
CREATE INDEX items_of_sku ON seckill.items (sku);

-- What shoppers read about an item on its page, in Markdown; beside the items, because every look at a plan reads those.
CREATE TABLE seckill.item_details (
    item_id     bigint      PRIMARY KEY REFERENCES seckill.items ON DELETE CASCADE,
    description text        NOT NULL DEFAULT '',
    images      text[]      NOT NULL DEFAULT '{}',
    version     int         NOT NULL DEFAULT 1,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT description_is_bounded CHECK (length(description) <= 10000),
    CONSTRAINT images_are_few CHECK (cardinality(images) <= 9)
);

-- An activity's rules in words, in Markdown.
CREATE TABLE seckill.activity_rules (
    activity_id bigint      PRIMARY KEY REFERENCES seckill.activities ON DELETE CASCADE,
    rules       text        NOT NULL DEFAULT '',
    version     int         NOT NULL DEFAULT 1,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT rules_are_bounded CHECK (length(rules) <= 10000)
);
