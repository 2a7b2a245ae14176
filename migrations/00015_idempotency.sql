-- +goose Up

-- Answers to creating requests are kept for every module in one place. A row without an answer is a request that is
-- being carried out: it is nobody else's until claimed_until, after which its process must have died.
ALTER TABLE seckill.idempotency SET SCHEMA platform;
ALTER TABLE platform.idempotency
    ADD COLUMN claimed_until timestamptz,
    ALTER COLUMN response DROP NOT NULL,
    ADD CONSTRAINT answered_or_claimed CHECK (response IS NOT NULL OR claimed_until IS NOT NULL);

-- Instances of the version before look for them here while they are being replaced.
CREATE VIEW seckill.idempotency AS
    SELECT actor, key, request, response, created_at FROM platform.idempotency WHERE response IS NOT NULL;

-- +goose Down
DROP VIEW seckill.idempotency;
DELETE FROM platform.idempotency WHERE response IS NULL;
ALTER TABLE platform.idempotency
    DROP CONSTRAINT answered_or_claimed,
    DROP COLUMN claimed_until,
    ALTER COLUMN response SET NOT NULL;
ALTER TABLE platform.idempotency SET SCHEMA seckill;
