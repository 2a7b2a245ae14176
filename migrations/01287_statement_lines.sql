-- +goose Up
-- The deletion of old lines, each minute, finds them by their day, of whichever provider.
CREATE INDEX statement_lines_by_day ON payments.statement_lines (day);
