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
    -- The W3C traceparent (55 characters) of the event's transaction, so that
    -- the trace continues where the event is handled. Nearly always NULL:
    -- traces are off by default and follow a small share of the requests.
    trace      text,
    PRIMARY KEY (day, id)
) PARTITION BY RANGE (day);
-- A packed event of several hundred orders lives for seconds: compressing it costs the writer's transaction a tenth of
-- its processor time and saves disk space that dropping the day's partition
-- frees anyway.
ALTER TABLE platform.outbox ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX outbox_unsent ON platform.outbox (id) WHERE sent_at IS NULL;

-- Events that the bus refused, moved here from the outbox so that they neither delay it nor keep its partitions. A row is
-- tried again until it is sent, and is then in the outbox again, or has failed: then it waits for an operator.
CREATE TABLE platform.outbox_refused (
    id         uuid        PRIMARY KEY,
    subject    text        NOT NULL,
    payload    bytea       NOT NULL,
    created_at timestamptz NOT NULL,
    trace      text,
    attempts   int         NOT NULL DEFAULT 1,
    error      text        NOT NULL,
    -- The first refusal, or the first since an operator redrove the event.
    refused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_try   timestamptz,
    failed_at  timestamptz,
    CONSTRAINT tried_again_or_failed CHECK ((next_try IS NULL) <> (failed_at IS NULL))
);
CREATE INDEX outbox_refused_due ON platform.outbox_refused (next_try);

-- The inbox remembers which messages a consumer has already turned into effects. The day comes from the
-- message's own UUIDv7, not from the clock, so that a redelivery after midnight
-- finds the same row.
CREATE TABLE platform.inbox (
    consumer   text        NOT NULL,
    message_id uuid        NOT NULL,
    day        date        NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (day, consumer, message_id)
) PARTITION BY RANGE (day);

CREATE TABLE platform.outbox_default PARTITION OF platform.outbox DEFAULT;
CREATE TABLE platform.inbox_default PARTITION OF platform.inbox DEFAULT;

-- Creates the partitions from yesterday to `ahead` days from today. A day with
-- rows already in the default partition stays there: moving them is not worth a
-- lock during a sale. A partition is created alone and then attached, which,
-- unlike PARTITION OF, lets writers pass; only queries of all days wait for its
-- lock on the default partition. That lock conflicts with a reader of all
-- tables, such as pg_dump, so it is given up after 200 ms (SQLSTATE 55P03): the
-- housekeeper has a week for further attempts.
-- +goose StatementBegin
CREATE FUNCTION platform.ensure_day_partitions(ahead int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    d    date;
    base text;
    part text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('platform.ensure_day_partitions'));
    PERFORM set_config('lock_timeout', '200ms', true);
    FOREACH base IN ARRAY ARRAY['outbox', 'inbox'] LOOP
        FOR d IN SELECT generate_series((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + ahead, '1 day')::date LOOP
            part := base || '_' || to_char(d, 'YYYYMMDD');
            IF to_regclass(format('platform.%I', part)) IS NULL THEN
                BEGIN
                    EXECUTE format('CREATE TABLE platform.%I (LIKE platform.%I INCLUDING DEFAULTS INCLUDING STORAGE)', part, base);
                    EXECUTE format('ALTER TABLE platform.%I ATTACH PARTITION platform.%I FOR VALUES FROM (%L) TO (%L)', base, part, d, d + 1);
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

-- Leases with a fencing token that never decreases, which tells a holder that
-- slept through its lease from its successor.
CREATE TABLE platform.leases (
    name       text        PRIMARY KEY,
    holder     text        NOT NULL,
    token      bigint      NOT NULL,
    expires_at timestamptz NOT NULL
);

-- What needs an operator's attention, one row per code and subject. The program
-- supplies the code's meaning and next action, the subject is part of the key,
-- and the detail is the latest finding.
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
    -- An incident begins with the first occurrence, and a new one with an
    -- occurrence after a silence. The webhook receives each once.
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
CREATE INDEX audit_action ON platform.audit (action, id);
CREATE INDEX audit_actor ON platform.audit (actor, id);

-- +goose StatementBegin
CREATE FUNCTION platform.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%.% is append-only', TG_TABLE_SCHEMA, TG_TABLE_NAME;
END $$;
-- +goose StatementEnd
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON platform.audit
    FOR EACH STATEMENT EXECUTE FUNCTION platform.refuse_change();

-- The answers to creating requests, kept with their effect in one transaction, so that the same key gives the same
-- answer and never a second effect. Rows live for 24 hours. A row without an
-- answer is a request in progress: it belongs to that request until
-- claimed_until, after which its process must have died.
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
    -- In the form used for comparison: a decimal id, E.164, a masked CIDR
    -- prefix, the device's own name.
    value      text        NOT NULL CHECK (octet_length(value) BETWEEN 1 AND 128),
    -- The phone's user, once known; 0 while no account has it.
    owner      bigint      NOT NULL DEFAULT 0,
    reason     text        NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    -- NULL: until an operator removes it.
    expires_at timestamptz,
    created_by bigint      NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT listed_once UNIQUE (kind, value),
    CONSTRAINT only_phones_have_owners CHECK (owner = 0 OR kind = 'phone')
);
CREATE INDEX blacklist_expiry ON platform.blacklist (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX blacklist_unowned ON platform.blacklist (id) WHERE kind = 'phone' AND owner = 0;

-- Rises in the transaction of every change, so that a polling instance reads
-- the list only when it has changed.
CREATE TABLE platform.blacklist_revision (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    revision bigint  NOT NULL DEFAULT 0
);
INSERT INTO platform.blacklist_revision DEFAULT VALUES;

-- Ties the data in Redis to the database that it was filled from: the id says which database that is, and beat rises
-- every two seconds while a server runs. Redis remembers both, so that a beat below the one that Redis has seen shows a
-- database that was restored from a backup.
CREATE TABLE platform.heartbeat (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    id   uuid    NOT NULL DEFAULT gen_random_uuid(),
    beat bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO platform.heartbeat DEFAULT VALUES;

-- What a sale's funnel counted, by subject (an item), second and instance: {"stage": {"code": n}}. The instance is one process's
-- life, and its key makes a repeated statement add nothing.
CREATE TABLE platform.tally (
    subject  bigint      NOT NULL,
    at       timestamptz NOT NULL,
    instance uuid        NOT NULL,
    counts   jsonb       NOT NULL,
    PRIMARY KEY (subject, at, instance)
);
-- Rows arrive in the order of time, and only the deletion of old ones asks by it.
CREATE INDEX tally_age ON platform.tally USING brin (at);

-- The sums of platform.tally, which outlive its rows. Updated once a second during a sale; the free space keeps the updates
-- within their page.
CREATE TABLE platform.tally_totals (
    subject bigint PRIMARY KEY,
    counts  jsonb  NOT NULL
) WITH (fillfactor = 50);

-- When something happened to a subject first and last.
CREATE TABLE platform.tally_moments (
    subject  bigint      NOT NULL,
    name     text        NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    PRIMARY KEY (subject, name),
    CONSTRAINT first_is_first CHECK (first_at <= last_at)
);

-- What each instance measured last, such as its open sockets; the shop's figure is the sum over the instances that still report.
CREATE TABLE platform.tally_gauges (
    instance uuid        NOT NULL,
    name     text        NOT NULL,
    value    bigint      NOT NULL,
    at       timestamptz NOT NULL,
    PRIMARY KEY (instance, name)
) WITH (fillfactor = 50);

-- The sum of two documents of counts.
CREATE FUNCTION platform.add_counts(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(stage, codes), '{}') FROM (
        SELECT stage, jsonb_object_agg(code, n) AS codes FROM (
            SELECT stage.key AS stage, code.key AS code, sum(code.value::bigint) AS n
            FROM (VALUES (a), (b)) AS side(counts), jsonb_each(side.counts) AS stage, jsonb_each_text(stage.value) AS code
            GROUP BY stage.key, code.key
        ) AS sums GROUP BY stage
    ) AS stages
$$;

-- Proofs of the books that operators requested, with what they found. At most one runs at a time.
CREATE TABLE platform.proof_runs (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    requested_by bigint      NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    status       text        NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'proved', 'violated', 'failed')),
    attempts     int         NOT NULL DEFAULT 0,
    checks_total int         NOT NULL,
    checks_done  int         NOT NULL DEFAULT 0,
    current      text        NOT NULL DEFAULT '',
    -- What was found, as JSON in exactly the bytes that sha256, in hex, is of.
    document     text        NOT NULL DEFAULT '',
    sha256       text        NOT NULL DEFAULT '',
    CONSTRAINT ended_or_running CHECK ((ended_at IS NULL) = (status = 'running'))
);
CREATE UNIQUE INDEX proof_runs_one ON platform.proof_runs (status) WHERE status = 'running';

-- +goose Down
DROP SCHEMA platform CASCADE;
