-- +goose Up
CREATE SCHEMA auth;

-- Revoked tokens: all of one login, or all of a user issued up to a moment. A
-- row is kept for as long as such a token could be valid.
CREATE TABLE auth.revocations (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    login_id      bigint      CHECK (login_id > 0),
    user_id       bigint      CHECK (user_id > 0),
    issued_before timestamptz,
    why           text        NOT NULL CHECK (length(why) BETWEEN 1 AND 64),
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz NOT NULL,
    -- A reader of new rows cannot go by id or time: a transaction may commit
    -- after one that began later. Every row that a snapshot does not see has a
    -- transaction id of at least the snapshot's xmin.
    xact          xid8        NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT a_login_or_a_user CHECK ((login_id IS NULL) <> (user_id IS NULL)),
    CONSTRAINT a_user_until_a_moment CHECK ((user_id IS NULL) = (issued_before IS NULL))
);
CREATE INDEX revocations_new ON auth.revocations (xact);
CREATE INDEX revocations_age ON auth.revocations (expires_at);

-- Logins that a device requests by showing a QR code. Expiry is not stored as a
-- state: every change requires that expires_at is in the future, by the
-- database's clock.
CREATE TABLE auth.qr_logins (
    id             uuid        PRIMARY KEY,
    -- SHA-256 of the secret known only to the requesting device, and later of
    -- the one known only to the phone that scanned.
    poll_hash      bytea       NOT NULL CHECK (octet_length(poll_hash) = 32),
    scan_hash      bytea       CHECK (octet_length(scan_hash) = 32),
    status         text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'scanned', 'confirmed', 'denied', 'claimed')),
    -- As in account.logins.
    device_kind    text        NOT NULL CHECK (device_kind IN ('web', 'ios', 'android', 'wechat', 'desktop', 'other')),
    device_id      text        NOT NULL CHECK (octet_length(device_id) <= 128),
    device_name    text        NOT NULL CHECK (length(device_name) <= 64),
    address        inet,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    -- The user who scanned it, the login, and when that login's token was issued.
    user_id        bigint,
    login_id       bigint,
    token_issued   timestamptz,
    -- The requesting device shows it from the scan on, and the phone has to name it.
    number         smallint    CHECK (number BETWEEN 10 AND 99),
    CONSTRAINT no_confirm_without_a_scan CHECK (status = 'pending' OR (scan_hash IS NOT NULL AND user_id IS NOT NULL AND login_id IS NOT NULL AND token_issued IS NOT NULL))
);
CREATE INDEX qr_logins_age ON auth.qr_logins (expires_at);

-- +goose Down
DROP SCHEMA auth CASCADE;
