-- +goose Up
-- Whose names an API key's users have (external_users.issuer): systems that count their users apart do not meet in one
-- account, and a key that takes another one's place names the same users. No issuer of tokens, a URL, looks like one.
ALTER TABLE account.api_keys
    ADD COLUMN namespace text NOT NULL DEFAULT 'backend',
    ADD CONSTRAINT api_key_namespace_is_a_word CHECK (namespace ~ '^[a-z0-9-]{1,32}$');
