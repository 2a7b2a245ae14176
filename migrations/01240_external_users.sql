-- +goose Up
-- Who a user is in the shop's own system: a subject of its issuer, or of a backend with an API key.
CREATE TABLE account.external_users (
    issuer     text        NOT NULL CHECK (length(issuer) BETWEEN 1 AND 500),
    subject    text        NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
    user_id    bigint      NOT NULL REFERENCES account.users,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX external_users_of ON account.external_users (user_id);
