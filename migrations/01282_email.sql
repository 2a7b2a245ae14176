-- +goose Up
-- Addresses of e-mail that the shop's own login has verified. Messages go to them; an account is never found by one.
ALTER TABLE account.users ADD COLUMN email text CHECK (length(email) BETWEEN 3 AND 254);

ALTER TABLE notify.message_texts
    DROP CONSTRAINT message_texts_channel_check,
    ADD CONSTRAINT message_texts_channel_check CHECK (channel IN ('wechat', 'wechat-mini', 'sms', 'email'));
