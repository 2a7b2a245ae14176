-- +goose Up
-- The last incident whose event is in the outbox. Incidents from before the upgrade get none.
ALTER TABLE platform.alarms ADD COLUMN published_incident int NOT NULL DEFAULT 0;
UPDATE platform.alarms SET published_incident = incident;
CREATE INDEX alarms_unpublished ON platform.alarms (id) WHERE published_incident < incident;
