-- name: Put :exec
INSERT INTO orders.acts (bucket, order_no, act_no, user_id, operator, action, text, version)
VALUES (@bucket, @order_no, @act_no, @user_id, @operator, @action, @text, @version);

-- name: OfOrder :many
SELECT operator, action, text, version, at FROM orders.acts
WHERE order_no = @order_no AND bucket = @bucket ORDER BY act_no;
