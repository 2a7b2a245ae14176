-- +goose Up
-- Addresses of e-mail that the shop's own login has verified. Messages go to them; an account is never found by one.
ALTER TABLE account.users ADD COLUMN email text CHECK (length(email) BETWEEN 3 AND 254);

-- Also where an older version erases the account, which knows no address.
-- +goose StatementBegin
CREATE FUNCTION account.forget_email() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.email := NULL;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER erasure_takes_the_email BEFORE UPDATE ON account.users
    FOR EACH ROW WHEN (NEW.status = 'erased' AND NEW.email IS NOT NULL) EXECUTE FUNCTION account.forget_email();

ALTER TABLE notify.message_texts
    DROP CONSTRAINT message_texts_channel_check,
    ADD CONSTRAINT message_texts_channel_check CHECK (channel IN ('wechat', 'wechat-mini', 'sms', 'email'));
