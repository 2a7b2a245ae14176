-- +goose Up
ALTER TABLE inventory.stock
    -- Units of the backup that paid late orders took, ever: the sum of inventory.retaken. They were never on sale.
    ADD COLUMN retaken int NOT NULL DEFAULT 0,
    DROP CONSTRAINT parts_not_negative;
ALTER TABLE inventory.stock
    ADD CONSTRAINT parts_not_negative CHECK (total >= 0 AND backup >= 0 AND written_off >= 0 AND retaken >= 0);

-- Closed orders whose money arrived late and was accepted: their units came from the backup. An order is taken up
-- again once; the row stays if it is refunded later.
CREATE TABLE inventory.retaken (
    order_no uuid        PRIMARY KEY,
    item_id  bigint      NOT NULL,
    shard    smallint    NOT NULL,
    user_id  bigint      NOT NULL,
    quantity int         NOT NULL CHECK (quantity > 0),
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX retaken_of_item ON inventory.retaken (item_id);
