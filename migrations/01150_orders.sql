-- +goose Up
-- What is to happen with the goods of a paid order, or has: to_ship, to_pick_up, shipped. Empty of orders that wait for
-- their payment, where it costs the writer no byte, and of goods that are not handed over.
ALTER TABLE orders.orders ADD COLUMN handover text;
ALTER TABLE orders.archive ADD COLUMN handover text;
CREATE OR REPLACE VIEW orders.with_archive AS SELECT * FROM orders.orders UNION ALL SELECT * FROM orders.archive;

CREATE FUNCTION orders.handover_of(no uuid, b smallint) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (SELECT CASE d.way WHEN 'delivery' THEN 'to_ship' WHEN 'pickup' THEN 'to_pick_up' END
            FROM orders.details d WHERE d.order_no = no AND d.bucket = b);

UPDATE orders.orders o SET handover =
    CASE WHEN EXISTS (SELECT FROM orders.shipments s WHERE s.order_no = o.order_no AND s.bucket = o.bucket) THEN 'shipped'
         ELSE orders.handover_of(o.order_no, o.bucket) END
WHERE o.status = 'paid';
