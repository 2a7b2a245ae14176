-- +goose Up
-- Messages that only e-mail is left for are sent by a loop of their own: a mail server that hangs delays no SMS.
-- others_away: another channel could not be asked, so that one which the mail server refuses is not dead.
ALTER TABLE notify.messages
    ADD COLUMN by_mail     boolean NOT NULL DEFAULT false,
    ADD COLUMN others_away boolean NOT NULL DEFAULT false;
DROP INDEX notify.messages_due;
CREATE INDEX messages_due ON notify.messages (by_mail, offer, next_try) WHERE state = 'waiting';
