-- +goose Up
-- What is done by itself once the last payment window of a session is over: a proof of the books, and the report that is
-- kept.
CREATE TABLE seckill.settlements (
    session_id bigint      PRIMARY KEY REFERENCES seckill.sessions ON DELETE CASCADE,
    proof_run  bigint      NOT NULL,
    begun_at   timestamptz NOT NULL,
    settled_at timestamptz,
    -- How the proof ended, as in platform.proof_runs.
    status     text        NOT NULL DEFAULT '',
    -- As JSON in exactly the bytes that sha256, in hex, is of.
    report     text        NOT NULL DEFAULT '',
    sha256     text        NOT NULL DEFAULT '',
    CONSTRAINT settled_with_a_report CHECK ((settled_at IS NULL) = (report = ''))
);
CREATE INDEX settlements_unfinished ON seckill.settlements (session_id) WHERE settled_at IS NULL;
