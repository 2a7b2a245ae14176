-- +goose Up
-- Users who have deleted their accounts: what another system writes about their orders afterwards is to be erased with the
-- rest. Their number names no person. Rows that were marked before are known by them.
CREATE TABLE orders.forgotten_users (
    user_id bigint      PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX forgotten_users_lately ON orders.forgotten_users (at);
INSERT INTO orders.forgotten_users (user_id)
SELECT user_id FROM orders.details WHERE forget
UNION SELECT user_id FROM orders.acts WHERE forget
UNION SELECT user_id FROM orders.external_references WHERE forget
UNION SELECT user_id FROM orders.disputes WHERE forget;
