-- +goose Up
-- The creations of EVENTS for which the outbox has sent again what was lost before, so that a start does not do so too.
CREATE TABLE platform.outbox_recalls (
    events_created timestamptz PRIMARY KEY,
    recalled_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
