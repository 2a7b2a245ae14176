-- +goose Up
-- A code may also add its phone to an account that has none.
ALTER TABLE account.sms_codes DROP CONSTRAINT sms_codes_purpose_check;
ALTER TABLE account.sms_codes ADD CONSTRAINT sms_codes_purpose_check CHECK (purpose IN ('login', 'register', 'reset', 'erase', 'bind'));

-- +goose Down
DELETE FROM account.sms_codes WHERE purpose = 'bind';
ALTER TABLE account.sms_codes DROP CONSTRAINT sms_codes_purpose_check;
ALTER TABLE account.sms_codes ADD CONSTRAINT sms_codes_purpose_check CHECK (purpose IN ('login', 'register', 'reset', 'erase'));
