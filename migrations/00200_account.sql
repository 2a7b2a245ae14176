-- +goose Up
CREATE SCHEMA account;

-- Who may log in. Ids begin above those that `stampede token` is usually asked for, so that a token which was minted
-- for a test never names a real shopper.
CREATE TABLE account.users (
    id         bigint      GENERATED ALWAYS AS IDENTITY (START WITH 1000000) PRIMARY KEY,
    phone      text        CHECK (phone ~ '^\+[1-9][0-9]{6,14}$'),
    name       text        NOT NULL DEFAULT '' CHECK (length(name) <= 64),
    -- A PHC string; NULL for those who log in by SMS code or WeChat only.
    password   text,
    role       text        NOT NULL DEFAULT 'shopper' CHECK (role IN ('shopper', 'viewer', 'operator', 'admin')),
    status     text        NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled', 'erased')),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT users_phone UNIQUE (phone),
    CONSTRAINT erased_is_anonymous CHECK (status <> 'erased' OR (phone IS NULL AND password IS NULL AND name = '' AND role = 'shopper'))
);
-- The few who operate the shop, for their list and for the rule that an admin remains.
CREATE INDEX users_staff ON account.users (role, id) WHERE role <> 'shopper';

-- Who a user is in a WeChat app. The openid is what a payment inside WeChat is made out to.
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

-- The newest code of each phone and purpose; sending another replaces it. The code itself is not here, only its HMAC
-- under a key that the database does not hold.
CREATE TABLE account.sms_codes (
    phone      text        NOT NULL,
    -- bind adds the phone to an account that has none.
    purpose    text        NOT NULL CHECK (purpose IN ('login', 'register', 'reset', 'erase', 'bind')),
    code_hash  bytea       NOT NULL,
    attempts   int         NOT NULL DEFAULT 0,
    sent_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    PRIMARY KEY (phone, purpose)
);
CREATE INDEX sms_codes_age ON account.sms_codes (expires_at);

-- One row per login of a user on a device. The refresh tokens of a login are numbered; which of them is the unused one
-- is a column, so that a login costs one row however often it is refreshed, and an old token is known as old for good.
CREATE TABLE account.logins (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint      NOT NULL REFERENCES account.users,
    device_kind  text        NOT NULL CHECK (device_kind IN ('web', 'ios', 'android', 'wechat', 'desktop', 'other')),
    device_id    text        NOT NULL DEFAULT '' CHECK (octet_length(device_id) <= 128),
    device_name  text        NOT NULL DEFAULT '' CHECK (length(device_name) <= 64),
    address      inet,
    how          text        NOT NULL CHECK (length(how) BETWEEN 1 AND 16),
    -- Half of what a refresh token is made of; the other half is the server's key.
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
CREATE INDEX logins_age ON account.logins (least(ended_at, expires_at));

-- +goose Down
DROP SCHEMA account CASCADE;
