-- name: Claim :one
-- Returns no row while the key is claimed or answered. After a day it is free; the same request may take over the claim
-- of a process that died.
INSERT INTO platform.idempotency AS kept (actor, key, request, claimed_until)
VALUES (@actor, @key, @request, clock_timestamp() + @claim_for::interval)
ON CONFLICT (actor, key) DO UPDATE
SET request = excluded.request, response = NULL, claimed_until = excluded.claimed_until, created_at = now()
WHERE kept.created_at <= now() - @kept::interval
   OR kept.response IS NULL AND kept.claimed_until <= now() AND kept.request = excluded.request
RETURNING claimed_until;

-- name: Answer :one
SELECT request, response FROM platform.idempotency WHERE actor = @actor AND key = @key;

-- name: GiveClaimBack :exec
DELETE FROM platform.idempotency WHERE actor = @actor AND key = @key AND response IS NULL AND claimed_until = @claimed_until;

-- name: KeepAnswer :exec
UPDATE platform.idempotency SET response = @response, claimed_until = NULL
WHERE actor = @actor AND key = @key AND response IS NULL AND claimed_until = @claimed_until;

-- name: TryLockKey :one
SELECT pg_try_advisory_xact_lock(hashtextextended('idempotency ' || @actor::bigint || ' ' || @key::text, 0));

-- name: AnswerOfToday :one
SELECT request, response FROM platform.idempotency WHERE actor = @actor AND key = @key AND created_at > now() - @kept::interval;

-- name: PutAnswer :exec
INSERT INTO platform.idempotency (actor, key, request, response) VALUES (@actor, @key, @request, @response)
ON CONFLICT (actor, key) DO UPDATE
SET request = excluded.request, response = excluded.response, claimed_until = NULL, created_at = now();

-- name: ForgetAnswers :execrows
DELETE FROM platform.idempotency WHERE created_at <= now() - @kept::interval;
