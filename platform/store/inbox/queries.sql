-- name: NoteMessages :many
-- Returns those that are new to the consumer. Sorted, so that two batches that
-- share messages wait for each other instead of deadlocking.
INSERT INTO platform.inbox (consumer, message_id, day)
SELECT @consumer, m.id, m.day FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@days::date[]) AS day) m ORDER BY m.id
ON CONFLICT DO NOTHING RETURNING message_id;
