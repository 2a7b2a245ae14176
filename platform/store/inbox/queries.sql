-- name: NoteMessages :many
-- Returns those that the consumer had not taken before. In one order for every caller, so that two batches that share
-- messages wait for each other and do not deadlock.
INSERT INTO platform.inbox (consumer, message_id, day)
SELECT @consumer, m.id, m.day FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@days::date[]) AS day) m ORDER BY m.id
ON CONFLICT DO NOTHING RETURNING message_id;
