-- +goose Up
-- The archive of 0.10.0 is given up, see ADR 0044: its orders go back among the others, about a minute for a million. An
-- instance of 0.10.0 beside this version still reads the table and fails to move orders into it, which it only logs.
-- +goose StatementBegin
CREATE FUNCTION orders.archive_is_closed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'orders are not archived on a database that a newer version of Stampede uses';
END $$;
-- +goose StatementEnd
CREATE TRIGGER archive_is_closed BEFORE INSERT ON orders.archive FOR EACH ROW EXECUTE FUNCTION orders.archive_is_closed();

-- An order that another one has taken the unique key of cannot go back, and must not keep the program from starting.
WITH back AS (INSERT INTO orders.orders SELECT * FROM orders.archive ON CONFLICT DO NOTHING RETURNING order_no, bucket)
DELETE FROM orders.archive a USING back WHERE a.order_no = back.order_no AND a.bucket = back.bucket;
