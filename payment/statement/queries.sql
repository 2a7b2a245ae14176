-- name: WantStatement :exec
-- Plans the fetching of a day's statement once.
INSERT INTO payments.statements AS s (provider, day, from_time, to_time, wanted)
VALUES (@provider, @day, @from_time, @to_time, @wanted)
ON CONFLICT (provider, day) DO UPDATE SET wanted = true, status = 'due', attempts = 0, next_try = clock_timestamp(), last_error = '' WHERE EXCLUDED.wanted AND NOT s.wanted;

-- name: FetchAgain :exec
-- An operator wants it now, also if it was fetched before. One that is being fetched is left alone.
UPDATE payments.statements SET status = 'due', next_try = clock_timestamp(), attempts = 0, last_error = '', compared_at = NULL
WHERE provider = @provider AND day = @day AND (status = 'fetched' OR last_error <> '' OR attempts = 0);

-- name: ClaimStatement :many
-- Claims the oldest statement that is due, for as long as fetching it may take; several instances share the work. One
-- that was fetched, and whose comparison never happened or failed, is fetched again.
UPDATE payments.statements s SET status = 'due', attempts = s.attempts + 1, last_error = '', next_try = clock_timestamp() + @lease::interval
WHERE (s.provider, s.day) IN (
    SELECT d.provider, d.day FROM payments.statements d
    WHERE (d.status = 'due' OR d.compared_at IS NULL AND (d.wanted OR d.last_error <> '')) AND d.next_try <= statement_timestamp() AND d.provider = ANY(@providers::text[])
    ORDER BY d.day LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING s.*;

-- name: DropLines :exec
DELETE FROM payments.statement_lines WHERE provider = @provider AND day = @day;

-- name: AddLines :exec
-- Adds lines; those with one key add up. Nothing reads what a provider keeps, its fee.
INSERT INTO payments.statement_lines AS l (provider, day, kind, provider_txn, payment_no, refund_no, amount, fee, currency, at)
SELECT @provider, @day, x.kind, x.txn, nullif((array_agg(x.payment_no))[1], '00000000-0000-0000-0000-000000000000'),
       nullif((array_agg(x.refund_no))[1], '00000000-0000-0000-0000-000000000000'), sum(x.amount), 0, (array_agg(x.currency))[1], (array_agg(x.at))[1]
FROM (SELECT unnest(@kinds::text[]) AS kind, unnest(@txns::text[]) AS txn, unnest(@payment_nos::uuid[]) AS payment_no, unnest(@refund_nos::uuid[]) AS refund_no,
             unnest(@amounts::bigint[]) AS amount, unnest(@currencies::text[]) AS currency, unnest(@times::timestamptz[]) AS at) x
GROUP BY x.kind, x.txn
ON CONFLICT (provider, kind, provider_txn, day) DO UPDATE SET amount = l.amount + EXCLUDED.amount;

-- name: Fetched :exec
UPDATE payments.statements SET status = 'fetched', lines = @lines, last_error = '' WHERE provider = @provider AND day = @day;

-- name: NotFetched :exec
UPDATE payments.statements SET last_error = @last_error, compared_at = NULL, next_try = clock_timestamp() + @retry::interval WHERE provider = @provider AND day = @day;

-- name: DropDifferences :exec
DELETE FROM payments.statement_differences WHERE provider = @provider AND day = @day;

-- name: Compare :exec
-- Compares by key, not by date: a line is looked up in the whole ledger, and a row of the ledger in the lines of all days.
-- A row that was recorded after midnight may be the day before's line, so that extra rows are known once that day is
-- fetched too. A reversal is a line of its movement with a negative amount, and one of a later day leaves this day's line
-- as it is; or the statement leaves both out.
INSERT INTO payments.statement_differences (provider, day, class, kind, provider_txn, payment_no, refund_no, stated, booked, currency, at)
SELECT @provider::text AS provider, @day::date AS day, CASE WHEN g.provider_txn IS NULL THEN 'missing' ELSE 'different' END AS class, l.kind, l.provider_txn,
       coalesce(l.payment_no, g.payment_no) AS payment_no, coalesce(l.refund_no, g.refund_no) AS refund_no, l.stated,
       coalesce(g.amount, 0) - coalesce(b.amount, 0) AS booked, l.currency, l.at
FROM (
    SELECT d.*, (SELECT sum(a.amount) FROM payments.statement_lines a
                 WHERE a.provider = d.provider AND a.kind = d.kind AND a.provider_txn = d.provider_txn)::bigint AS stated
    FROM payments.statement_lines d WHERE d.provider = @provider AND d.day = @day
) l
LEFT JOIN payments.ledger g ON g.provider = l.provider AND g.kind = l.kind AND g.provider_txn = l.provider_txn
LEFT JOIN payments.ledger b ON b.provider = l.provider AND b.kind = l.kind || '_reversal' AND b.provider_txn = l.provider_txn
WHERE coalesce(g.amount, 0) - coalesce(b.amount, 0) <> l.stated AND NOT coalesce(b.at >= @to_time AND g.amount = l.stated, false)
   OR g.currency <> l.currency OR g.payment_no <> l.payment_no OR g.refund_no <> l.refund_no
UNION ALL
SELECT @provider, @day, 'extra', g.kind, g.provider_txn, g.payment_no, g.refund_no, 0, g.amount, g.currency, g.at
FROM payments.ledger g
WHERE g.provider = @provider AND g.at >= @from_time AND g.at < @to_time AND NOT @partial::boolean
  AND CASE WHEN g.kind LIKE '%\_reversal' THEN (
        SELECT sum(a.amount) <> 0 AND NOT bool_or(a.day = @day) FROM payments.statement_lines a
        WHERE a.provider = g.provider AND a.provider_txn = g.provider_txn AND a.kind = replace(g.kind, '_reversal', ''))
      ELSE NOT EXISTS (SELECT FROM payments.statement_lines a WHERE a.provider = g.provider AND a.kind = g.kind AND a.provider_txn = g.provider_txn)
        AND NOT EXISTS (SELECT FROM payments.ledger b WHERE b.provider = g.provider AND b.kind = g.kind || '_reversal' AND b.provider_txn = g.provider_txn)
      END;

-- name: Compared :exec
UPDATE payments.statements SET compared_at = clock_timestamp(), partial = @partial WHERE provider = @provider AND day = @day;

-- name: IsFetched :one
SELECT EXISTS (SELECT FROM payments.statements WHERE provider = @provider AND day = @day AND status = 'fetched');

-- name: Statement :many
SELECT * FROM payments.statements WHERE provider = @provider AND day = @day;

-- name: LockStatement :many
SELECT * FROM payments.statements WHERE provider = @provider AND day = @day FOR UPDATE;

-- name: Sums :many
SELECT class, kind, currency, count(*) AS lines, sum(stated)::bigint AS stated, sum(booked)::bigint AS booked
FROM payments.statement_differences WHERE provider = @provider AND day = @day
GROUP BY class, kind, currency ORDER BY class, kind, currency;

-- name: Differences :many
-- A page, in the order of the keys.
SELECT class, kind, provider_txn, coalesce(payment_no, '00000000-0000-0000-0000-000000000000')::uuid AS payment_no,
       coalesce(refund_no, '00000000-0000-0000-0000-000000000000')::uuid AS refund_no, stated, booked, currency, at
FROM payments.statement_differences
WHERE provider = @provider AND day = @day AND (class, kind, provider_txn) > (@after_class::text, @after_kind::text, @after_txn::text)
ORDER BY class, kind, provider_txn LIMIT @at_most;

-- name: Known :many
-- The payments and refunds of ours that may be settled. One that has succeeded may only be taken back. A second capture of
-- a payment is a person's to look at: it would go back as a duplicate, and companies that refund by the payment's number
-- would pay back the first, which paid the order.
SELECT p.payment_no AS no FROM payments.payments p
JOIN (SELECT unnest(@payment_buckets::smallint[]) AS bucket, unnest(@payment_nos::uuid[]) AS payment_no) x ON x.bucket = p.bucket AND x.payment_no = p.payment_no
WHERE p.provider = @provider AND p.status <> 'captured'
UNION ALL
SELECT r.refund_no FROM payments.refunds r
JOIN (SELECT unnest(@refund_buckets::smallint[]) AS bucket, unnest(@refund_nos::uuid[]) AS refund_no, unnest(@stated::bigint[]) AS stated) y
    ON y.bucket = r.bucket AND y.refund_no = r.refund_no
WHERE r.provider = @provider AND (r.status <> 'succeeded' OR y.stated = 0);

-- name: ForgetLines :execrows
-- Deletes the lines of statements that are long compared, a bounded number at a time.
DELETE FROM payments.statement_lines
WHERE (provider, kind, provider_txn, day) IN (
    SELECT d.provider, d.kind, d.provider_txn, d.day FROM payments.statement_lines d WHERE d.day < @before LIMIT @at_most);

-- name: NotCompared :many
-- Days of which money is in the ledger and the statement was not compared in time: it failed, or nothing asked for it, which
-- is said of the shop's day. What the join says of to_time follows from the rest, and spares it all days long over.
SELECT coalesce(s.provider, l.provider)::text AS provider, coalesce(s.day, (l.at AT TIME ZONE @zone::text)::date)::date AS day,
    coalesce(max(s.last_error), 'nothing has asked for it')::text AS why
FROM payments.ledger l
LEFT JOIN payments.statements s ON s.provider = l.provider AND l.at >= s.from_time AND l.at < s.to_time
    AND s.to_time > statement_timestamp() - @since::interval
WHERE l.at > statement_timestamp() - @since::interval AND l.at < statement_timestamp() - @grace::interval AND l.provider <> ALL(@without::text[])
  AND (s.provider IS NULL OR s.compared_at IS NULL AND s.to_time < statement_timestamp() - @late::interval)
GROUP BY 1, 2 ORDER BY 1, 2 LIMIT @at_most;
