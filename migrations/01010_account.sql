-- +goose Up
CREATE INDEX users_disabled ON account.users (id) WHERE status = 'disabled';

ALTER TABLE account.sms_codes
    -- Wrong attempts from the address that requested the code, and from others.
    ADD COLUMN asker          text,
    ADD COLUMN other_attempts int  NOT NULL DEFAULT 0;
-- No address is called that: attempts at a code that 0.9 sent count as those of others.
UPDATE account.sms_codes SET asker = 'unknown';
ALTER TABLE account.sms_codes
    ALTER COLUMN asker SET NOT NULL,
    ADD CONSTRAINT sms_codes_asker_check CHECK (length(asker) BETWEEN 1 AND 64),
    ADD CONSTRAINT sms_codes_phone_check CHECK (phone ~ '^\+[1-9][0-9]{6,14}$');

ALTER TABLE account.logins
    -- What the device's signed cookie proves; the id and the name are only stated.
    ADD COLUMN browser   bytea  CHECK (octet_length(browser) = 16),
    -- The login that confirmed this one, which ends with it.
    ADD COLUMN parent_id bigint REFERENCES account.logins ON DELETE SET NULL;
CREATE INDEX logins_of_parent ON account.logins (parent_id) WHERE parent_id IS NOT NULL;

-- The second factor of a user: codes by time (RFC 6238), computed by an authenticator app.
CREATE TABLE account.totp (
    user_id      bigint      PRIMARY KEY REFERENCES account.users,
    -- Sealed with a key that is not in the database.
    secret       bytea       NOT NULL CHECK (octet_length(secret) BETWEEN 32 AND 128),
    -- The step of 30 s whose code was used last: no code is valid twice.
    last_step    bigint      NOT NULL DEFAULT 0,
    -- NULL until the user has shown a code; before that it protects nothing.
    confirmed_at timestamptz,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Messages to users about their accounts, and codes for staff above the SMS ceiling, until they are sent.
CREATE TABLE account.notes (
    -- The message's id at the gateway, which sends a repeated one once.
    id         uuid        PRIMARY KEY,
    user_id    bigint      NOT NULL REFERENCES account.users,
    about      text        NOT NULL CHECK (about IN ('device', 'password', 'access', 'role', 'factor', 'code')),
    attempts   int         NOT NULL DEFAULT 0,
    next_try   timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX notes_due ON account.notes (next_try);
CREATE INDEX notes_of_user ON account.notes (user_id);

-- The same for the user to read, also one without a phone.
CREATE TABLE account.notices (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id    bigint      NOT NULL REFERENCES account.users,
    about      text        NOT NULL CHECK (about IN ('device', 'password', 'access', 'role', 'factor')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX notices_of_user ON account.notices (user_id, id);
CREATE INDEX notices_age ON account.notices (created_at);
