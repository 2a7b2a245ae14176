-- +goose Up
ALTER TABLE risk.holds
    ADD COLUMN activity_id bigint,
    -- When the row was written, which may be long after the closing: instances
    -- read what was written since their last read.
    ADD COLUMN noted_at    timestamptz;
UPDATE risk.holds h SET noted_at = h.closed_at,
    activity_id = coalesce((SELECT o.activity_id FROM orders.orders o WHERE o.order_no = h.order_no),
                           (SELECT i.activity_id FROM seckill.items i WHERE i.id = h.item_id), 0);
ALTER TABLE risk.holds
    ALTER COLUMN activity_id SET NOT NULL,
    ALTER COLUMN noted_at SET NOT NULL,
    ALTER COLUMN noted_at SET DEFAULT clock_timestamp();
CREATE INDEX holds_noted ON risk.holds (noted_at);

-- Until then the rule restricts no user; its decisions are recorded as a dry run.
ALTER TABLE risk.rules ADD COLUMN dry_run_until timestamptz;

-- The rules that a shop without rules of its own begins with. For a week they only record whom they would restrict.
INSERT INTO risk.rules (kind, threshold, window_seconds, action, amount, note, dry_run_until)
SELECT d.kind, d.threshold, d.window_seconds, d.action, d.amount, d.note, clock_timestamp() + interval '7 days'
FROM (VALUES
    ('unpaid_holds', 3, 2592000, 'short_window', 180, 'Default: three unpaid orders in 30 days, three minutes to pay.'),
    ('unpaid_holds', 8, 2592000, 'later', 10000, 'Default: eight unpaid orders in 30 days, admitted 10 s after the opening.')
) AS d (kind, threshold, window_seconds, action, amount, note)
WHERE NOT EXISTS (SELECT FROM risk.rules);
