-- +goose NO TRANSACTION
-- +goose Up
-- Each index commits by itself: in one transaction the lock of the first table, waiting for that of the second, would
-- deadlock with shoppers, who settle and pay meanwhile. What was done before a failure is found when it is run again.

-- What the shop has to send, in the order in which it was paid. With orders_to_complete it takes the place of orders_paid,
-- which the release before reads and which goes a release later: a payment enters one of the two.
CREATE INDEX IF NOT EXISTS orders_to_ship ON orders.orders (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
-- Paid orders that time completes first. Those that are to be sent it completes months later, walking the index above: a
-- shop that is late would lose sight of them.
CREATE INDEX IF NOT EXISTS orders_to_complete ON orders.orders (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';

-- Operators search by the recipient, see package order/search; erased details are in neither.
CREATE INDEX IF NOT EXISTS details_by_name ON orders.details (name, order_no) WHERE name <> '';
CREATE INDEX IF NOT EXISTS details_by_phone_tail ON orders.details (right(phone, 4), order_no) WHERE phone <> '';
