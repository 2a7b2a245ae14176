-- +goose Up
-- An operator may agree to sell more units than are in stock, for example because the supplier has promised
-- them. The agreement is a share of the stock, so that it grows with what is added, and it names its reason.
-- What is on sale, and what inventory.stock has as its total, is stock + floor(stock × percent / 100).
ALTER TABLE seckill.items
    ADD COLUMN oversell_percent smallint NOT NULL DEFAULT 0,
    ADD COLUMN oversell_reason  text     NOT NULL DEFAULT '',
    ADD CONSTRAINT oversell_is_bounded CHECK (oversell_percent BETWEEN 0 AND 100),
    ADD CONSTRAINT oversell_has_a_reason CHECK ((oversell_percent = 0) = (oversell_reason = '')),
    ADD CONSTRAINT oversell_needs_a_count CHECK (oversell_percent = 0 OR NOT unlimited),
    -- The bound of inventory.stock's total.
    ADD CONSTRAINT on_sale_is_bounded CHECK (stock + stock::bigint * oversell_percent / 100 <= 10000000);

-- A session that was made by repeating another one daily knows which one that was and for which day it was made,
-- so that repeating again leaves that day alone, however the session was edited since. repeat_of is no foreign
-- key: the days stay one series when the session they began with is deleted.
ALTER TABLE seckill.sessions
    ADD COLUMN repeat_of  bigint,
    ADD COLUMN repeat_day date,
    ADD CONSTRAINT repeat_names_its_day CHECK ((repeat_of IS NULL) = (repeat_day IS NULL));
CREATE UNIQUE INDEX sessions_once_a_day ON seckill.sessions (repeat_of, repeat_day);

-- +goose Down
DROP INDEX seckill.sessions_once_a_day;
ALTER TABLE seckill.sessions DROP COLUMN repeat_of, DROP COLUMN repeat_day;
ALTER TABLE seckill.items DROP CONSTRAINT on_sale_is_bounded, DROP CONSTRAINT oversell_needs_a_count,
    DROP COLUMN oversell_percent, DROP COLUMN oversell_reason;
