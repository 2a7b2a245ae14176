-- +goose Up
CREATE SCHEMA auth;

-- Tokens that ended before their time: all of one login, or all of a user that were issued until a moment. A row is
-- kept for as long as such a token could be valid.
CREATE TABLE auth.revocations (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    login_id      bigint      CHECK (login_id > 0),
    user_id       bigint      CHECK (user_id > 0),
    issued_before timestamptz,
    why           text        NOT NULL CHECK (length(why) BETWEEN 1 AND 64),
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at    timestamptz NOT NULL,
    -- A reader of what is new cannot go by id or time: a transaction may commit after one that began later. Everything
    -- that a snapshot does not show has a number from its xmin on.
    xact          xid8        NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT a_login_or_a_user CHECK ((login_id IS NULL) <> (user_id IS NULL)),
    CONSTRAINT a_user_until_a_moment CHECK ((user_id IS NULL) = (issued_before IS NULL))
);
CREATE INDEX revocations_new ON auth.revocations (xact);
CREATE INDEX revocations_age ON auth.revocations (expires_at);

-- Logins that a device asks for by showing a QR code. Expiry is not written down: every change demands that
-- expires_at is still ahead, by the database's clock.
CREATE TABLE auth.qr_logins (
    id             uuid        PRIMARY KEY,
    -- SHA-256 of what only the asking device, and later only the phone that scanned, was told.
    poll_hash      bytea       NOT NULL CHECK (octet_length(poll_hash) = 32),
    scan_hash      bytea       CHECK (octet_length(scan_hash) = 32),
    status         text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'scanned', 'confirmed', 'denied', 'claimed')),
    device_kind    text        NOT NULL,
    device_id      text        NOT NULL,
    device_name    text        NOT NULL,
    address        inet,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    -- Who scanned it: user, login, and when that login's token was issued.
    user_id        bigint,
    login_id       bigint,
    token_issued   timestamptz,
    CONSTRAINT no_confirm_without_a_scan CHECK (status = 'pending' OR (scan_hash IS NOT NULL AND user_id IS NOT NULL AND login_id IS NOT NULL AND token_issued IS NOT NULL))
);
CREATE INDEX qr_logins_age ON auth.qr_logins (expires_at);

-- +goose Down
DROP SCHEMA auth CASCADE;
