-- +goose Up
-- SHA-256 of the codes that log in once each in place of the authenticator app's. They are 128 random bits, so that no
-- guessing finds one, and a slow hash would protect nothing.
ALTER TABLE account.totp ADD COLUMN recovery_hashes bytea[] NOT NULL DEFAULT '{}';
