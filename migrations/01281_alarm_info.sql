-- +goose Up
-- What operators want to hear although nothing is wrong, such as that a session was settled.
ALTER TABLE platform.alarms DROP CONSTRAINT alarms_severity_check,
    ADD CONSTRAINT alarms_severity_check CHECK (severity IN ('info', 'warning', 'critical'));
