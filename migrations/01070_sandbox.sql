-- +goose Up
ALTER TABLE sandbox.payments
    -- The bank answers no call about the payment until then.
    ADD COLUMN silent_until     timestamptz,
    ADD COLUMN disputed_at      timestamptz,
    ADD COLUMN dispute_ended_at timestamptz;
CREATE INDEX payments_to_dispute ON sandbox.payments (captured_at)
    WHERE status = 'captured' AND behaviour IN ('chargeback_won', 'chargeback_lost') AND dispute_ended_at IS NULL;

ALTER TABLE sandbox.refunds
    -- It succeeds, and this long afterwards the money comes back to the merchant.
    ADD COLUMN bounces_ms bigint,
    ADD COLUMN bounced_at timestamptz;
CREATE INDEX refunds_to_bounce ON sandbox.refunds (ready_at) WHERE status = 'succeeded' AND bounces_ms IS NOT NULL;

ALTER TABLE sandbox.callbacks ADD COLUMN merchant text;
UPDATE sandbox.callbacks SET merchant = convert_from(body, 'UTF8')::jsonb ->> 'merchant';
ALTER TABLE sandbox.callbacks ALTER COLUMN merchant SET NOT NULL;
