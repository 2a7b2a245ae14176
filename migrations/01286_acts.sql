-- +goose Up
-- The erasure of operators' words reads those that are old or whose shopper has deleted the account, not all that are kept.
CREATE INDEX acts_by_age ON orders.acts (at) WHERE erased_at IS NULL;
CREATE INDEX acts_forgotten ON orders.acts (order_no) WHERE forget AND erased_at IS NULL;
