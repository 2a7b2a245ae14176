-- +goose Up
CREATE SCHEMA platform;

-- The outbox carries events from the transaction of their effect to the bus. A row is marked only
-- after the broker's acknowledgement, so a crash repeats an event and never loses one.
CREATE TABLE platform.outbox (
    id         uuid        NOT NULL,
    day        date        NOT NULL DEFAULT (now() AT TIME ZONE 'UTC')::date,
    subject    text        NOT NULL,
    payload    bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    sent_at    timestamptz,
    -- The W3C traceparent (55 characters) of the event's transaction, so that the trace goes on where the event is
    -- handled. Nearly always NULL: traces are off by default and follow a small share of the requests.
    trace      text,
    PRIMARY KEY (day, id)
) PARTITION BY RANGE (day);
-- A packed event of several hundred orders lives for seconds: compressing it costs the writer's transaction a tenth of
-- its processor time and saves disk that the day's partition gives back anyway.
ALTER TABLE platform.outbox ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX outbox_unsent ON platform.outbox (id) WHERE sent_at IS NULL;

-- The inbox remembers which messages a consumer has already turned into effects. The day comes from the
-- message's own UUIDv7, not from the clock, so that a redelivery after midnight meets the same row.
CREATE TABLE platform.inbox (
    consumer   text        NOT NULL,
    message_id uuid        NOT NULL,
    day        date        NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (day, consumer, message_id)
) PARTITION BY RANGE (day);

CREATE TABLE platform.outbox_default PARTITION OF platform.outbox DEFAULT;
CREATE TABLE platform.inbox_default PARTITION OF platform.inbox DEFAULT;

-- Creates the partitions from yesterday to `ahead` days from today. A day whose rows already lie in the
-- default partition stays there: moving them is not worth a lock on a running sale.
-- +goose StatementBegin
CREATE FUNCTION platform.ensure_day_partitions(ahead int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    d    date;
    base text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('platform.ensure_day_partitions'));
    FOREACH base IN ARRAY ARRAY['outbox', 'inbox'] LOOP
        FOR d IN SELECT generate_series((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + ahead, '1 day')::date LOOP
            IF to_regclass(format('platform.%I', base || '_' || to_char(d, 'YYYYMMDD'))) IS NULL THEN
                BEGIN
                    EXECUTE format('CREATE TABLE platform.%I PARTITION OF platform.%I FOR VALUES FROM (%L) TO (%L)',
                        base || '_' || to_char(d, 'YYYYMMDD'), base, d, d + 1);
                EXCEPTION WHEN check_violation THEN
                    NULL;
                END;
            END IF;
        END LOOP;
    END LOOP;
END $$;
-- +goose StatementEnd
SELECT platform.ensure_day_partitions(7);

-- A message that a consumer gave up on, with everything needed to send it again.
CREATE TABLE platform.dead_letters (
    id         uuid        PRIMARY KEY,
    consumer   text        NOT NULL,
    subject    text        NOT NULL,
    message_id text        NOT NULL,
    payload    bytea       NOT NULL,
    error      text        NOT NULL,
    attempts   int         NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (consumer, message_id)
);
CREATE INDEX dead_letters_consumer ON platform.dead_letters (consumer, id);
CREATE INDEX dead_letters_age ON platform.dead_letters (created_at);

-- Leases with a fencing token that never falls, so that a holder that slept through its lease is told apart
-- from the one that took over.
CREATE TABLE platform.leases (
    name       text        PRIMARY KEY,
    holder     text        NOT NULL,
    token      bigint      NOT NULL,
    expires_at timestamptz NOT NULL
);

-- What needs an operator's attention, one row per code and subject. The columns age differently: the code's meaning and
-- next action are the program's, the subject is the key, and the detail is what was found last.
CREATE TABLE platform.alarms (
    code            text        NOT NULL,
    subject         text        NOT NULL,
    severity        text        NOT NULL CHECK (severity IN ('warning', 'critical')),
    next_action     text        NOT NULL,
    first_seen      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_seen       timestamptz NOT NULL DEFAULT clock_timestamp(),
    count           bigint      NOT NULL DEFAULT 1,
    acknowledged_by text,
    acknowledged_at timestamptz,
    id              bigint      GENERATED ALWAYS AS IDENTITY,
    detail          text        NOT NULL DEFAULT '',
    -- An incident begins with the first occurrence, and anew with one after a silence. The webhook gets each once.
    incident        int         NOT NULL DEFAULT 1,
    opened_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The last incident that the webhook's receiver has accepted.
    told_incident   int         NOT NULL DEFAULT 0,
    tell_attempts   int         NOT NULL DEFAULT 0,
    tell_after      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (code, subject),
    CONSTRAINT alarms_id UNIQUE (id),
    CONSTRAINT told_what_happened CHECK (told_incident <= incident)
);
CREATE INDEX alarms_newest ON platform.alarms (opened_at DESC, id DESC);
CREATE INDEX alarms_untold ON platform.alarms (tell_after) WHERE told_incident < incident AND acknowledged_at IS NULL;
CREATE INDEX alarms_last_seen ON platform.alarms (last_seen);

CREATE TABLE platform.audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   bigint      NOT NULL,
    role    text        NOT NULL,
    action  text        NOT NULL,
    subject text        NOT NULL,
    detail  jsonb       NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_subject ON platform.audit (subject, id);

-- +goose StatementBegin
CREATE FUNCTION platform.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON platform.audit
    FOR EACH STATEMENT EXECUTE FUNCTION platform.refuse_change();

-- The answers to creating requests, kept with their effect in one transaction, so that the same key gives the same
-- answer and never a second effect. Rows live for 24 hours. A row without an answer is a request that is being carried
-- out: it belongs to that request until claimed_until, after which its process must have died.
CREATE TABLE platform.idempotency (
    actor         bigint      NOT NULL,
    key           text        NOT NULL,
    request       bytea       NOT NULL,
    response      jsonb,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_until timestamptz,
    PRIMARY KEY (actor, key),
    CONSTRAINT answered_or_claimed CHECK (response IS NOT NULL OR claimed_until IS NOT NULL)
);
CREATE INDEX idempotency_age ON platform.idempotency (created_at);

-- Who may not take part: a user, a phone, an address or range, a device. Phones are personal data; an entry that has
-- expired is deleted by the program after a while.
CREATE TABLE platform.blacklist (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind       text        NOT NULL CHECK (kind IN ('user', 'phone', 'address', 'device')),
    -- As it is compared: a decimal id, E.164, a masked CIDR prefix, the device's own name.
    value      text        NOT NULL CHECK (octet_length(value) BETWEEN 1 AND 128),
    -- Whose phone it is, once that is known; 0 while no account has it.
    owner      bigint      NOT NULL DEFAULT 0,
    reason     text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    -- NULL: until an operator removes it.
    expires_at timestamptz,
    created_by bigint      NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT listed_once UNIQUE (kind, value),
    CONSTRAINT only_phones_have_owners CHECK (owner = 0 OR kind = 'phone')
);
CREATE INDEX blacklist_expiry ON platform.blacklist (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX blacklist_unowned ON platform.blacklist (id) WHERE kind = 'phone' AND owner = 0;

-- Rises in the transaction of every change, so that an instance that polls reads the list only when it changed.
CREATE TABLE platform.blacklist_revision (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    revision bigint  NOT NULL DEFAULT 0
);
INSERT INTO platform.blacklist_revision DEFAULT VALUES;

-- Ties what Redis holds to the database that it was filled from: the id says which database that is, and beat rises
-- every two seconds while a server runs. Redis remembers both, so that a beat below the one that Redis has seen shows a
-- database that was restored from a backup.
CREATE TABLE platform.heartbeat (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    id   uuid    NOT NULL DEFAULT gen_random_uuid(),
    beat bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO platform.heartbeat DEFAULT VALUES;

-- +goose Down
DROP SCHEMA platform CASCADE;
