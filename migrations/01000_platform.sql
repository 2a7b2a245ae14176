-- +goose Up
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

-- Creates the partitions from yesterday to `ahead` days from today. A day with
-- rows already in the default partition stays there: moving them is not worth a
-- lock during a sale. A partition is created alone and then attached, which,
-- unlike PARTITION OF, lets writers pass; only queries of all days wait for its
-- lock on the default partition. That lock conflicts with a reader of all
-- tables, such as pg_dump, so it is given up after 200 ms (SQLSTATE 55P03): the
-- housekeeper has a week for further attempts.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION platform.ensure_day_partitions(ahead int) RETURNS void LANGUAGE plpgsql AS $$
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

CREATE INDEX audit_action ON platform.audit (action, id);
CREATE INDEX audit_actor ON platform.audit (actor, id);

ALTER TABLE platform.blacklist ADD COLUMN updated_at timestamptz;
UPDATE platform.blacklist SET updated_at = created_at;
ALTER TABLE platform.blacklist
    ALTER COLUMN updated_at SET NOT NULL,
    ALTER COLUMN updated_at SET DEFAULT clock_timestamp();

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
