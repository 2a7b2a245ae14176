-- +goose Up
-- When the problem was over, NULL while it lasts or where nothing watches its end.
ALTER TABLE platform.alarms ADD COLUMN over_at timestamptz;

-- What was sent to each address about an incident. Rows go with their alarm. The columns told_incident, tell_attempts and
-- tell_after of platform.alarms remain for instances of the last release.
CREATE TABLE platform.alarm_messages (
    alarm_id   bigint      NOT NULL REFERENCES platform.alarms (id) ON DELETE CASCADE,
    incident   int         NOT NULL,
    address    text        NOT NULL, -- its name, which contains no secret
    -- What was sent last, and what the claim is about to send.
    said       text        NOT NULL DEFAULT '',
    saying     text        NOT NULL,
    claim      uuid        NOT NULL,
    attempts   int         NOT NULL DEFAULT 1,
    due_at     timestamptz NOT NULL,
    tried_at   timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (alarm_id, incident, address),
    CONSTRAINT said_what_there_is CHECK (said IN ('', 'open', 'over') AND saying IN ('open', 'over'))
);
CREATE INDEX alarm_messages_tried ON platform.alarm_messages (address, tried_at);

-- The webhook does not get again what it got before the upgrade.
INSERT INTO platform.alarm_messages (alarm_id, incident, address, said, saying, claim, due_at, tried_at)
SELECT id, incident, 'webhook', 'open', 'open', gen_random_uuid(), clock_timestamp(), clock_timestamp()
FROM platform.alarms WHERE told_incident = incident;
