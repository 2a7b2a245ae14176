-- +goose Up
-- The backups that the servers made, and those that they could not make.
CREATE TABLE platform.backups (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    began_at timestamptz NOT NULL,
    -- NULL while it is being made, and for ever if its process died.
    ended_at timestamptz,
    place    text        NOT NULL,
    name     text        NOT NULL DEFAULT '',
    bytes    bigint      NOT NULL DEFAULT 0,
    error    text        NOT NULL DEFAULT ''
);
CREATE INDEX backups_good ON platform.backups (began_at) WHERE name <> '';
