-- +goose Up
-- Operators list the messages of a kind, in a state, or both: each is read by this one.
CREATE INDEX messages_by_kind ON notify.messages (kind, state, id);
DROP INDEX notify.messages_by_state;
