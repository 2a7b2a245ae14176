-- name: Put :exec
-- The words about an order of a user who has deleted the account are to be erased with the rest.
INSERT INTO orders.acts (bucket, order_no, act_no, user_id, operator, action, text, version, forget)
VALUES (@bucket, @order_no, @act_no, @user_id, @operator, @action, @text, @version, EXISTS (SELECT FROM orders.forgotten_users f WHERE f.user_id = @user_id));

-- name: OfOrder :many
SELECT operator, action, text, version, at FROM orders.acts
WHERE order_no = @order_no AND bucket = @bucket ORDER BY act_no;
