-- name: KeepDeadLetter :exec
INSERT INTO platform.dead_letters (id, consumer, subject, message_id, payload, error, attempts)
VALUES (@id, @consumer, @subject, @message_id, @payload, @error, @attempts)
ON CONFLICT (consumer, message_id) DO UPDATE SET error = excluded.error, attempts = excluded.attempts;

-- name: DeadLetters :many
-- Newest first; an empty consumer does not filter.
SELECT * FROM platform.dead_letters
WHERE (@consumer::text = '' OR consumer = @consumer) AND (@from_newest::boolean OR id < @before)
ORDER BY id DESC LIMIT NULLIF(@at_most::int, 0);

-- name: DeadLetter :one
SELECT * FROM platform.dead_letters WHERE id = @id;

-- name: DeadLettersOf :many
SELECT id FROM platform.dead_letters WHERE consumer = @consumer ORDER BY id LIMIT @at_most;

-- name: CountDeadLettersOf :one
SELECT count(*) FROM platform.dead_letters WHERE consumer = @consumer;

-- name: RemoveDeadLetter :execrows
DELETE FROM platform.dead_letters WHERE id = @id;
