-- +goose Up
-- charged_back: a failed refund whose money the shopper's bank has taken, in a chargeback that the shop lost.
ALTER TABLE payments.refunds DROP CONSTRAINT refunds_status_check;
ALTER TABLE payments.refunds ADD CONSTRAINT refunds_status_check CHECK (status IN
    ('awaiting_approval', 'rejected', 'requested', 'succeeded', 'failed', 'settled_by_hand', 'charged_back', 'replaced'));
-- inquiry: the bank only asks; inquiry → open | closed.
ALTER TABLE payments.chargebacks DROP CONSTRAINT chargebacks_status_check;
ALTER TABLE payments.chargebacks ADD CONSTRAINT chargebacks_status_check CHECK (status IN ('inquiry', 'open', 'won', 'lost', 'closed'));
