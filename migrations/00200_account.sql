-- +goose Up
CREATE SCHEMA account;

-- Who may log in. Ids begin above those usually minted with `stampede token`,
-- so that a test's token never names a real shopper.
CREATE TABLE account.users (
    id         bigint      GENERATED ALWAYS AS IDENTITY (START WITH 1000000) PRIMARY KEY,
    phone      text        CHECK (phone ~ '^\+[1-9][0-9]{6,14}$'),
    name       text        NOT NULL DEFAULT '' CHECK (length(name) <= 64),
    -- A PHC string; NULL for users who log in only by SMS code or WeChat.
    password   text,
    role       text        NOT NULL DEFAULT 'shopper' CHECK (role IN ('shopper', 'viewer', 'operator', 'admin')),
    status     text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled', 'erased')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT users_phone UNIQUE (phone),
    CONSTRAINT erased_is_anonymous CHECK (status <> 'erased' OR (phone IS NULL AND password IS NULL AND name = '' AND role = 'shopper'))
);
-- The shop's staff, for their list and for the rule that one admin must remain.
CREATE INDEX users_staff ON account.users (role, id) WHERE role <> 'shopper';

CREATE INDEX users_disabled ON account.users (id) WHERE status = 'disabled';

-- A user's identity in a WeChat app. A payment inside WeChat is made out to the openid.
CREATE TABLE account.wechat_identities (
    app_id     text        NOT NULL CHECK (length(app_id) BETWEEN 1 AND 64),
    open_id    text        NOT NULL CHECK (length(open_id) BETWEEN 1 AND 128),
    union_id   text        CHECK (length(union_id) BETWEEN 1 AND 128),
    user_id    bigint      NOT NULL REFERENCES account.users,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (app_id, open_id),
    CONSTRAINT one_identity_per_app UNIQUE (user_id, app_id)
);
CREATE INDEX wechat_union ON account.wechat_identities (union_id) WHERE union_id IS NOT NULL;

-- The newest code of each phone and purpose; sending another replaces it. The
-- code itself is not here, only its HMAC under a key that is not in the
-- database.
CREATE TABLE account.sms_codes (
    phone          text        NOT NULL CHECK (phone ~ '^\+[1-9][0-9]{6,14}$'),
    -- bind adds the phone to an account that has none.
    purpose        text        NOT NULL CHECK (purpose IN ('login', 'register', 'reset', 'erase', 'bind')),
    code_hash      bytea       NOT NULL,
    -- Wrong attempts from the address that requested the code, and from others.
    asker          text        NOT NULL CHECK (length(asker) BETWEEN 1 AND 64),
    attempts       int         NOT NULL DEFAULT 0,
    other_attempts int         NOT NULL DEFAULT 0,
    sent_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    used_at        timestamptz,
    PRIMARY KEY (phone, purpose)
);
CREATE INDEX sms_codes_age ON account.sms_codes (expires_at);

-- One row per login of a user on a device. The refresh tokens of a login are numbered; which of them is the unused one
-- is a column, so that a login costs one row however often it is refreshed, and
-- an old token is permanently known as old.
CREATE TABLE account.logins (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint      NOT NULL REFERENCES account.users,
    device_kind  text        NOT NULL CHECK (device_kind IN ('web', 'ios', 'android', 'wechat', 'desktop', 'other')),
    device_id    text        NOT NULL DEFAULT '' CHECK (octet_length(device_id) <= 128),
    device_name  text        NOT NULL DEFAULT '' CHECK (length(device_name) <= 64),
    -- What the device's signed cookie proves; the id and the name are only stated.
    browser      bytea       CHECK (octet_length(browser) = 16),
    address      inet,
    how          text        NOT NULL CHECK (length(how) BETWEEN 1 AND 16),
    -- The login that confirmed this one, which ends with it.
    parent_id    bigint      REFERENCES account.logins ON DELETE SET NULL,
    -- Half of a refresh token's secret; the other half is the server's key.
    salt         bytea       NOT NULL CHECK (octet_length(salt) = 16),
    generation   int         NOT NULL DEFAULT 1 CHECK (generation >= 1),
    rotated_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    ended_why    text,
    CONSTRAINT an_end_has_a_reason CHECK ((ended_at IS NULL) = (ended_why IS NULL))
);
CREATE INDEX logins_of_user ON account.logins (user_id, id);
CREATE INDEX logins_of_parent ON account.logins (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX logins_age ON account.logins (least(ended_at, expires_at));

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

-- +goose Down
DROP SCHEMA account CASCADE;
