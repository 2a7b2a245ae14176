-- +goose Up
-- The capture that a chargeback takes back, by its provider_txn: a payment can have several. NULL of a chargeback that an
-- earlier release wrote, which counts for the whole payment.
ALTER TABLE payments.chargebacks ADD COLUMN capture_txn text;
