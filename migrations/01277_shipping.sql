-- +goose Up
-- What the shop has to send, in the order in which it was paid. With orders_to_complete it takes the place of one index of
-- all paid orders: a payment enters one of the two, so that it costs no more.
CREATE INDEX orders_to_ship ON orders.orders (paid_at, order_no) WHERE status = 'paid' AND handover = 'to_ship';
-- Paid orders that time may complete. Until a parcel left the shop, no time completes its order: a shop that is late would
-- lose sight of it.
CREATE INDEX orders_to_complete ON orders.orders (paid_at) WHERE status = 'paid' AND handover IS DISTINCT FROM 'to_ship';
DROP INDEX orders.orders_paid;

-- Operators search by the recipient, see package order/search; erased details are in neither.
CREATE INDEX details_by_name ON orders.details (name, order_no) WHERE name <> '';
CREATE INDEX details_by_phone_tail ON orders.details (right(phone, 4), order_no) WHERE phone <> '';
