-- name: StartRun :one
-- No row is returned while another run has not ended.
INSERT INTO platform.proof_runs (requested_by, checks_total) VALUES (@requested_by, @checks_total)
ON CONFLICT (status) WHERE status = 'running' DO NOTHING
RETURNING *;

-- name: RunningRun :one
SELECT * FROM platform.proof_runs WHERE status = 'running';

-- name: AttemptRun :one
UPDATE platform.proof_runs SET attempts = attempts + 1, checks_total = @checks_total, checks_done = 0, current = '' WHERE id = @id AND status = 'running' RETURNING *;

-- name: NoteProgress :exec
UPDATE platform.proof_runs SET checks_done = @done, current = @current WHERE id = @id AND status = 'running';

-- name: EndRun :exec
UPDATE platform.proof_runs SET status = @status, ended_at = clock_timestamp(), current = '', document = @document, sha256 = @sha256
WHERE id = @id AND status = 'running';

-- name: Run :one
SELECT * FROM platform.proof_runs WHERE id = $1;

-- name: Runs :many
SELECT * FROM platform.proof_runs WHERE (@before::bigint = 0 OR id < @before) ORDER BY id DESC LIMIT @at_most;
