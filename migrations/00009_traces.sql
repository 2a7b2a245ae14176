-- +goose Up
-- What the trace of an event's transaction is called (W3C traceparent, 55 characters), so that whoever handles the
-- event goes on with it. Nearly always NULL: traces are off by default and follow a small share of the requests.
ALTER TABLE platform.outbox ADD COLUMN trace text;
