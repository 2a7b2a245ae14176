-- +goose Up
-- API keys of services. Each acts as a user without a login, so that the audit log, idempotency keys and names work as for
-- people. A key is 256 random bits, so that no guessing finds one, and a slow hash would protect nothing.
CREATE TABLE account.api_keys (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint      NOT NULL REFERENCES account.users,
    name         text        NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
    hash         bytea       NOT NULL UNIQUE, -- SHA-256
    hint         text        NOT NULL,        -- its last characters
    scopes       text[]      NOT NULL CHECK (cardinality(scopes) > 0),
    created_by   bigint      NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
-- As platform.blacklist_revision.
CREATE TABLE account.api_keys_revision (revision bigint NOT NULL DEFAULT 1);
INSERT INTO account.api_keys_revision DEFAULT VALUES;
