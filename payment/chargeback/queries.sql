-- name: Put :execrows
-- Writes how a chargeback stands, and changes no row that says so already. It goes only from an inquiry on, which may be
-- about another amount, and one that has ended stays as it is, because reports overtake each other. Only a lost one is
-- won after all, once its money is back.
INSERT INTO payments.chargebacks AS c (provider, chargeback_no, payment_no, order_no, capture_txn, amount, currency, reason, status, respond_by)
VALUES (@provider, @chargeback_no, @payment_no, @order_no, @capture_txn, @amount, @currency, @reason, @status, @respond_by)
ON CONFLICT (provider, chargeback_no) DO UPDATE SET status = EXCLUDED.status, respond_by = coalesce(EXCLUDED.respond_by, c.respond_by), updated_at = clock_timestamp(),
    capture_txn = EXCLUDED.capture_txn, amount = CASE c.status WHEN 'inquiry' THEN EXCLUDED.amount ELSE c.amount END, reason = CASE c.status WHEN 'inquiry' THEN EXCLUDED.reason ELSE c.reason END
WHERE c.status = 'inquiry' AND EXCLUDED.status <> 'inquiry' OR c.status = 'open' AND EXCLUDED.status NOT IN ('inquiry', 'open')
   OR c.status = 'lost' AND @reinstated::boolean;

-- name: OfOrder :many
SELECT c.*, EXISTS (SELECT FROM payments.ledger l WHERE l.provider = c.provider AND l.kind = 'chargeback' AND l.provider_txn = c.chargeback_no) AS withdrawn,
    EXISTS (SELECT FROM payments.ledger l WHERE l.provider = c.provider AND l.kind = 'chargeback_reversal' AND l.provider_txn = c.chargeback_no) AS reinstated
FROM payments.chargebacks c WHERE c.order_no = @order_no ORDER BY c.created_at, c.chargeback_no;

-- name: ThatDiffer :many
-- Chargebacks of which the ledger says something else: money without a chargeback, in another amount or of another
-- payment, returned before it was taken, or not as the outcome says after the time that a provider takes.
SELECT coalesce(c.provider, l.provider)::text AS provider, coalesce(c.chargeback_no, l.provider_txn)::text AS chargeback_no, coalesce(c.status, 'unknown')::text AS status,
    coalesce(c.amount, 0)::bigint AS amount, coalesce(l.net, 0)::bigint AS net, coalesce(c.currency, l.currency)::text AS currency
FROM payments.chargebacks c
FULL JOIN (
    SELECT provider, provider_txn, payment_no, currency, sum(CASE kind WHEN 'chargeback' THEN amount ELSE -amount END) AS net
    FROM payments.ledger WHERE kind IN ('chargeback', 'chargeback_reversal') GROUP BY provider, provider_txn, payment_no, currency
) l ON l.provider = c.provider AND l.provider_txn = c.chargeback_no
WHERE c.provider IS NULL OR l.net NOT IN (0, c.amount) OR l.payment_no <> c.payment_no OR l.currency <> c.currency
   OR c.updated_at < clock_timestamp() - @provider_takes::interval
      AND (c.status = 'lost' AND coalesce(l.net, 0) = 0 OR c.status IN ('won', 'closed') AND coalesce(l.net, 0) <> 0)
ORDER BY 1, 2 LIMIT @at_most;
