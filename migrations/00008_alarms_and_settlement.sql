-- +goose Up
-- What an alarm is about is told in three columns that age differently: the code's meaning and next action are the
-- program's, the subject is the key, and the detail is what was found this time.
ALTER TABLE platform.alarms
    ADD COLUMN id              bigint      GENERATED ALWAYS AS IDENTITY,
    ADD COLUMN detail          text        NOT NULL DEFAULT '',
    -- An incident begins with the first occurrence, and anew with one after a silence. Each is told once.
    ADD COLUMN incident        int         NOT NULL DEFAULT 1,
    ADD COLUMN opened_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The last incident that the webhook's receiver has accepted.
    ADD COLUMN told_incident   int         NOT NULL DEFAULT 0,
    ADD COLUMN tell_attempts   int         NOT NULL DEFAULT 0,
    ADD COLUMN tell_after      timestamptz NOT NULL DEFAULT clock_timestamp(),
    ADD CONSTRAINT alarms_id UNIQUE (id),
    ADD CONSTRAINT told_what_happened CHECK (told_incident <= incident);
CREATE INDEX alarms_newest ON platform.alarms (opened_at DESC, id DESC);
CREATE INDEX alarms_untold ON platform.alarms (tell_after) WHERE told_incident < incident AND acknowledged_at IS NULL;
CREATE INDEX alarms_last_seen ON platform.alarms (last_seen);

CREATE INDEX dead_letters_consumer ON platform.dead_letters (consumer, id);
CREATE INDEX dead_letters_age ON platform.dead_letters (created_at);

-- Items whose sale is over and whose keys were removed from Redis. The epoch is the Load whose keys they were: an
-- item that was loaded again has keys again.
CREATE TABLE inventory.settled (
    item_id    bigint      PRIMARY KEY,
    epoch      bigint      NOT NULL,
    settled_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- +goose Down
DROP TABLE inventory.settled;
DROP INDEX platform.dead_letters_age, platform.dead_letters_consumer;
ALTER TABLE platform.alarms
    DROP COLUMN id, DROP COLUMN detail, DROP COLUMN incident, DROP COLUMN opened_at,
    DROP COLUMN told_incident, DROP COLUMN tell_attempts, DROP COLUMN tell_after;
