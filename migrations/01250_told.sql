-- +goose Up
-- What was published last about a session and an item, so that each event is published once, whichever instance leads.
CREATE TABLE seckill.told_sessions (
    session_id bigint      PRIMARY KEY REFERENCES seckill.sessions ON DELETE CASCADE,
    open       boolean     NOT NULL,
    told_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE seckill.told_items (
    item_id  bigint      PRIMARY KEY REFERENCES seckill.items ON DELETE CASCADE,
    sold_out boolean     NOT NULL,
    told_at  timestamptz -- NULL: only that it opened
);

-- What opened before the upgrade is not published afterwards.
INSERT INTO seckill.told_sessions (session_id, open)
SELECT s.id, a.status IN ('scheduled', 'running') AND s.closes_at > clock_timestamp()
FROM seckill.sessions s JOIN seckill.activities a ON a.id = s.activity_id
WHERE a.status <> 'draft' AND s.opens_at <= clock_timestamp();
INSERT INTO seckill.told_items (item_id, sold_out)
SELECT i.id, false FROM seckill.items i JOIN seckill.told_sessions t ON t.session_id = i.session_id AND t.open;
