-- +goose Up
-- The running instances, so that each sees whether the others have the same signing key, Redis and NATS. A row counts for
-- as long as its instance repeats it; a crash of Postgres, a failover or a restored backup needs none of them.
CREATE UNLOGGED TABLE platform.instances (
    instance    uuid PRIMARY KEY,
    name        text        NOT NULL,
    signs       text        NOT NULL, -- fingerprint of the key that it signs with
    accepts     text[]      NOT NULL, -- of every key that it accepts
    redis       text        NOT NULL,
    nats        text        NOT NULL,
    clients     bigint      NOT NULL, -- connections that it takes at most
    connections bigint      NOT NULL, -- to Postgres at most
    at          timestamptz NOT NULL
) WITH (fillfactor = 50);
