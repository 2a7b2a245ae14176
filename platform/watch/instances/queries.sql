-- name: Report :exec
INSERT INTO platform.instances (instance, name, signs, accepts, redis, nats, clients, connections, at)
VALUES (@instance, @name, @signs, @accepts, @redis, @nats, @clients, @connections, clock_timestamp())
ON CONFLICT (instance) DO UPDATE SET redis = EXCLUDED.redis, nats = EXCLUDED.nats, at = EXCLUDED.at;

-- name: Running :many
SELECT instance, name, signs, accepts, redis, nats, clients, connections, at FROM platform.instances
WHERE at > clock_timestamp() - @within::interval ORDER BY name, instance;

-- name: Leave :exec
-- This instance, and those that were killed.
DELETE FROM platform.instances WHERE instance = @instance OR at < clock_timestamp() - @within::interval;
