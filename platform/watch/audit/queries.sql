-- name: RecordAction :exec
INSERT INTO platform.audit (actor, role, action, subject, detail) VALUES (@actor, @role, @action, @subject, @detail);

-- name: Actions :many
-- Newest first; an empty parameter does not filter.
SELECT * FROM platform.audit
WHERE (@subject::text = '' OR subject = @subject) AND (@action::text = '' OR action = @action)
  AND (@actor::bigint = 0 OR actor = @actor) AND (@before::bigint = 0 OR id < @before)
ORDER BY id DESC LIMIT NULLIF(@at_most::int, 0);
