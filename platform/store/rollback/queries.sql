-- name: Heartbeat :one
SELECT id::text AS id, beat FROM platform.heartbeat;

-- name: CountHeartbeat :one
UPDATE platform.heartbeat SET beat = beat + 1 RETURNING id::text AS id, beat;
