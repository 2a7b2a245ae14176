-- +goose Up
-- Operators list the messages of a kind, also those in one state.
CREATE INDEX messages_by_kind ON notify.messages (kind, state, id);
