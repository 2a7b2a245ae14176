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
    PRIMARY KEY (day, id)
) PARTITION BY RANGE (day);
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

-- Leases with a fencing token that never falls, so that a holder that slept through its lease is told apart
-- from the one that took over.
CREATE TABLE platform.leases (
    name       text        PRIMARY KEY,
    holder     text        NOT NULL,
    token      bigint      NOT NULL,
    expires_at timestamptz NOT NULL
);

-- What needs a person's eye, one row per code and subject.
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
    PRIMARY KEY (code, subject)
);

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

-- +goose Down
DROP SCHEMA platform CASCADE;
