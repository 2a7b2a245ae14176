-- name: LockJoining :exec
SELECT pg_advisory_xact_lock(@name);

-- name: Report :exec
INSERT INTO platform.instances (instance, name, signs, accepts, redis, nats, clients, connections, at)
VALUES (@instance, @name, @signs, @accepts, @redis, @nats, @clients, @connections, @at)
ON CONFLICT (instance) DO UPDATE SET redis = EXCLUDED.redis, nats = EXCLUDED.nats, at = EXCLUDED.at;

-- name: Running :many
-- A row from the future is one that was stored before the clock was set back.
SELECT instance, name, signs, accepts, redis, nats, clients, connections, at FROM platform.instances
WHERE at BETWEEN clock_timestamp() - @within::interval AND clock_timestamp() + @within::interval ORDER BY name, instance;

-- name: Leave :exec
-- This instance, and those that were killed.
DELETE FROM platform.instances WHERE instance = @instance OR at NOT BETWEEN clock_timestamp() - @within::interval AND clock_timestamp() + @within::interval;
