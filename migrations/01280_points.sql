-- +goose Up
-- What a shopper earns with a paid order: so many points for each 100 minor units, 0 is none.
ALTER TABLE seckill.activities
    ADD COLUMN points_rate int NOT NULL DEFAULT 0,
    ADD CONSTRAINT points_rate_is_bounded CHECK (points_rate BETWEEN 0 AND 10000);

-- The points of shoppers, only ever added to: what an order earned, what its refunds took back, and what came back again with
-- a refund that the provider undid. A user's balance is the sum, which may lie below zero.
CREATE TABLE orders.points (
    bucket   smallint    NOT NULL,
    entry_no uuid        NOT NULL,
    order_no uuid        NOT NULL,
    line     int         NOT NULL, -- of the order, from 1
    user_id  bigint      NOT NULL,
    kind     text        NOT NULL CHECK (kind IN ('earned', 'taken_back', 'given_back')),
    points   bigint      NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (entry_no, bucket),
    -- Two handlers of one order cannot both add to what they have read.
    CONSTRAINT points_are_booked_once UNIQUE (order_no, bucket, line),
    CONSTRAINT points_begin_with_what_was_earned CHECK ((line = 1) = (kind = 'earned')),
    CONSTRAINT only_points_taken_back_are_negative CHECK (CASE kind WHEN 'taken_back' THEN points < 0 ELSE points > 0 END)
);
CREATE INDEX points_of_user ON orders.points (user_id, entry_no) INCLUDE (bucket, points);
