-- name: LockUser :one
-- Takes the user's row lock, which serializes all decisions about one user's logins.
SELECT * FROM account.users WHERE id = @id FOR NO KEY UPDATE;

-- name: UserByID :one
SELECT * FROM account.users WHERE id = @id;

-- name: UserByPhone :one
SELECT * FROM account.users WHERE phone = @phone;

-- name: ContactsOf :many
SELECT id, coalesce(phone, '')::text AS phone, coalesce(email, '')::text AS email FROM account.users
WHERE id = ANY(@ids::bigint[]) AND (phone IS NOT NULL OR email IS NOT NULL);

-- name: OpenIDsOf :many
SELECT user_id, app_id, open_id FROM account.wechat_identities WHERE user_id = ANY(@users::bigint[]);

-- name: CreateUser :one
-- Returns no row when the phone already has an account.
INSERT INTO account.users (phone, name, password) VALUES (@phone, @name, @password)
ON CONFLICT ON CONSTRAINT users_phone DO NOTHING
RETURNING *;

-- name: SetPassword :exec
UPDATE account.users SET password = @password, updated_at = clock_timestamp() WHERE id = @id;

-- name: SetPhone :exec
UPDATE account.users SET phone = @phone, updated_at = clock_timestamp() WHERE id = @id;

-- name: SetRole :exec
UPDATE account.users SET role = @role, updated_at = clock_timestamp() WHERE id = @id;

-- name: SetStatus :exec
UPDATE account.users SET status = @status, updated_at = clock_timestamp() WHERE id = @id;

-- name: KnownUsers :many
SELECT id FROM account.users WHERE id = ANY(@ids::bigint[]) AND status <> 'erased';

-- name: StaffPhones :many
SELECT phone::text FROM account.users WHERE role <> 'shopper' AND phone IS NOT NULL;

-- name: DisabledUsers :many
SELECT id FROM account.users WHERE status = 'disabled';

-- name: LockAdmins :exec
-- Serializes changes of admins: two who demote each other concurrently would each see the other remain.
SELECT pg_advisory_xact_lock(hashtext('account.admins'));

-- name: CountOtherAdmins :one
SELECT count(*) FROM account.users WHERE role = 'admin' AND status = 'active' AND id <> @id;

-- name: EraseUser :exec
-- The trigger erasure_takes_the_email does the rest.
UPDATE account.users SET phone = NULL, name = '', password = NULL, role = 'shopper', status = 'erased', updated_at = clock_timestamp()
WHERE id = @id;

-- name: EraseLogins :exec
UPDATE account.logins SET device_id = '', device_name = '', browser = NULL, address = NULL WHERE user_id = @user_id;

-- name: EraseIdentities :exec
DELETE FROM account.wechat_identities WHERE user_id = @user_id;

-- name: EraseCodes :exec
DELETE FROM account.sms_codes WHERE phone = @phone;

-- name: PutCode :exec
-- Replaces the previous code and resets its attempts; the number of codes sent is limited elsewhere.
INSERT INTO account.sms_codes (phone, purpose, code_hash, asker, expires_at)
VALUES (@phone, @purpose, @code_hash, @asker, clock_timestamp() + make_interval(secs => @lifetime_seconds::float8))
ON CONFLICT (phone, purpose) DO UPDATE SET code_hash = excluded.code_hash, asker = excluded.asker, expires_at = excluded.expires_at,
    attempts = 0, other_attempts = 0, sent_at = clock_timestamp(), used_at = NULL;

-- name: TryCode :one
-- Counts an attempt and uses the code up if it is right. No row: there is no code, or it is used up for this address.
UPDATE account.sms_codes SET attempts = attempts + (asker = @asker)::int, other_attempts = other_attempts + (asker <> @asker)::int,
    used_at = CASE WHEN code_hash = ANY (@code_hashes::bytea[]) THEN clock_timestamp() END
WHERE phone = @phone AND purpose = @purpose AND used_at IS NULL AND expires_at > clock_timestamp()
  AND CASE WHEN asker = @asker THEN attempts ELSE other_attempts END < @most::int
RETURNING (used_at IS NOT NULL)::boolean AS fits;

-- name: KnowsDevice :one
-- Whether the phone's user has logged in with this device cookie, within the time that logins are kept.
SELECT EXISTS (
    SELECT 1 FROM account.logins l JOIN account.users u ON u.id = l.user_id
    WHERE u.phone = @phone AND l.browser = @browser);

-- name: LockIdentity :exec
-- Serializes finding or creating the user of a WeChat identity.
SELECT pg_advisory_xact_lock(hashtextextended('account.wechat/' || @app_id::text || '/' || @open_id::text, 0));

-- name: LockUnion :exec
SELECT pg_advisory_xact_lock(hashtextextended('account.wechat.union/' || @union_id::text, 0));

-- name: UserOfIdentity :one
SELECT user_id FROM account.wechat_identities WHERE app_id = @app_id AND open_id = @open_id;

-- name: UserOfUnion :one
-- The same person in another app of the shop.
SELECT user_id FROM account.wechat_identities WHERE union_id = @union_id ORDER BY created_at LIMIT 1;

-- name: PutIdentity :one
-- An app that joins other apps of its owner gets union ids from then on. The identity's user does not change.
INSERT INTO account.wechat_identities AS i (app_id, open_id, union_id, user_id) VALUES (@app_id, @open_id, @union_id, @user_id)
ON CONFLICT (app_id, open_id) DO UPDATE SET union_id = coalesce(excluded.union_id, i.union_id)
RETURNING user_id;

-- name: IdentityOfUser :one
SELECT open_id FROM account.wechat_identities WHERE user_id = @user_id AND app_id = @app_id;

-- name: HasIdentity :one
SELECT EXISTS (SELECT 1 FROM account.wechat_identities WHERE user_id = @user_id);

-- name: OpenLogin :one
INSERT INTO account.logins (user_id, device_kind, device_id, device_name, browser, address, how, salt, parent_id, expires_at)
VALUES (@user_id, @device_kind, @device_id, @device_name, @browser, @address, @how, @salt, sqlc.narg('parent_id'),
    clock_timestamp() + make_interval(secs => @lifetime_seconds::float8))
RETURNING id, expires_at;

-- name: EndSurplus :many
-- Ends all but the most recently used logins of a user. A login is as recently used as those that it confirmed, and
-- comes before them: so none of them outlives it.
WITH RECURSIVE line AS (
    SELECT l.id AS head, l.id, l.last_used_at FROM account.logins l WHERE l.user_id = @user_id AND l.ended_at IS NULL
    UNION ALL
    SELECT line.head, c.id, c.last_used_at FROM account.logins c JOIN line ON c.parent_id = line.id WHERE c.ended_at IS NULL
)
UPDATE account.logins SET ended_at = clock_timestamp(), ended_why = @why::text
WHERE id IN (SELECT line.head FROM line GROUP BY line.head ORDER BY max(line.last_used_at) DESC, line.head OFFSET @most::int)
RETURNING id;

-- name: EndLogin :many
-- Ends a login with those that it confirmed, and theirs.
WITH RECURSIVE line AS (
    SELECT l.id FROM account.logins l WHERE l.id = @id AND l.user_id = @user_id AND l.ended_at IS NULL
    UNION
    SELECT c.id FROM account.logins c JOIN line ON c.parent_id = line.id
)
UPDATE account.logins SET ended_at = clock_timestamp(), ended_why = @why::text
WHERE id IN (SELECT line.id FROM line) AND ended_at IS NULL
RETURNING id;

-- name: EndLoginsExcept :many
UPDATE account.logins SET ended_at = clock_timestamp(), ended_why = @why::text
WHERE user_id = @user_id AND id <> @keep AND ended_at IS NULL
RETURNING id;

-- name: OwnerOfLogin :one
SELECT user_id FROM account.logins WHERE id = @id;

-- name: LockLogin :one
-- Postgres computes the age of the current refresh token, so that all instances agree.
SELECT *, (rotated_at > clock_timestamp() - make_interval(secs => @grace_seconds::float8))::boolean AS just_rotated,
    (expires_at <= clock_timestamp())::boolean AS expired
FROM account.logins WHERE id = @id FOR NO KEY UPDATE;

-- name: LoginState :one
SELECT user_id, generation, salt, (ended_at IS NULL AND expires_at > clock_timestamp())::boolean AS live,
    (rotated_at > clock_timestamp() - make_interval(secs => @grace_seconds::float8))::boolean AS just_rotated
FROM account.logins WHERE id = @id;

-- name: RotateLogin :one
-- A login ends a fixed time after it began, however often it is refreshed.
UPDATE account.logins SET generation = generation + 1, rotated_at = clock_timestamp(), last_used_at = clock_timestamp(), address = @address,
    expires_at = least(clock_timestamp() + make_interval(secs => @lifetime_seconds::float8),
        created_at + make_interval(secs => @most_seconds::float8))
WHERE id = @id
RETURNING generation, expires_at;

-- name: LiveLogins :many
SELECT * FROM account.logins WHERE user_id = @user_id AND ended_at IS NULL AND expires_at > clock_timestamp()
ORDER BY last_used_at DESC, id DESC LIMIT @most;

-- name: PutTOTP :execrows
-- Replaces a secret that was never confirmed.
INSERT INTO account.totp AS t (user_id, secret) VALUES (@user_id, @secret)
ON CONFLICT (user_id) DO UPDATE SET secret = excluded.secret, created_at = clock_timestamp() WHERE t.confirmed_at IS NULL;

-- name: TOTPOf :one
SELECT secret, last_step, (confirmed_at IS NOT NULL)::boolean AS confirmed, extract(epoch FROM clock_timestamp())::bigint AS now,
    cardinality(recovery_hashes)::int AS recovery_left
FROM account.totp WHERE user_id = @user_id;

-- name: UseTOTP :execrows
-- Uses a step's code up; no row: it or a later one was used before.
UPDATE account.totp SET last_step = @step, secret = @secret, confirmed_at = coalesce(confirmed_at, clock_timestamp())
WHERE user_id = @user_id AND last_step < @step;

-- name: PutRecovery :exec
UPDATE account.totp SET recovery_hashes = @hashes::bytea[] WHERE user_id = @user_id;

-- name: UseRecovery :execrows
-- Uses a recovery code up; no row: there is no such code, or it was used.
UPDATE account.totp SET recovery_hashes = array_remove(recovery_hashes, @hash::bytea)
WHERE user_id = @user_id AND confirmed_at IS NOT NULL AND @hash::bytea = ANY (recovery_hashes);

-- name: RemoveTOTP :execrows
DELETE FROM account.totp WHERE user_id = @user_id;

-- name: PutNote :exec
INSERT INTO account.notes (id, user_id, about) VALUES (@id, @user_id, @about);

-- name: IsNewDevice :one
-- Whether the user has logged in before, on other devices only. The cookie tells, where there is one: an id can be copied.
SELECT (count(*) > 0 AND count(*) FILTER (WHERE CASE WHEN octet_length(@browser::bytea) > 0 THEN browser = @browser ELSE device_id = @device_id END) = 0)::boolean AS is_new
FROM account.logins WHERE user_id = @user_id;

-- name: ClaimNote :one
-- The next note to send, with its user's phone. The claim ends by itself when the process dies.
WITH due AS (
    SELECT id FROM account.notes WHERE next_try <= statement_timestamp() ORDER BY next_try LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE account.notes n SET attempts = n.attempts + 1, next_try = clock_timestamp() + make_interval(secs => @again_seconds::float8) * (n.attempts + 1)
FROM due, account.users u
WHERE n.id = due.id AND u.id = n.user_id
RETURNING n.id, n.user_id, n.about, n.attempts, u.phone;

-- name: PostponeNote :exec
-- Gives a claim back that was not attempted.
UPDATE account.notes SET attempts = attempts - 1, next_try = clock_timestamp() + make_interval(secs => @after_seconds::float8) WHERE id = @id;

-- name: PutStaffCode :exec
-- A login code that a member of the staff waits for, once.
INSERT INTO account.notes (id, user_id, about)
SELECT @id, u.id, 'code' FROM account.users u
WHERE u.phone = @phone AND u.role <> 'shopper' AND NOT EXISTS (SELECT 1 FROM account.notes n WHERE n.user_id = u.id AND n.about = 'code');

-- name: RemoveNote :exec
DELETE FROM account.notes WHERE id = @id;

-- name: EraseNotes :exec
WITH waiting AS (DELETE FROM account.notes n WHERE n.user_id = @user_id)
DELETE FROM account.notices d WHERE d.user_id = @user_id;

-- name: PutNotice :exec
INSERT INTO account.notices (user_id, about) VALUES (@user_id, @about);

-- name: ListNotices :many
SELECT about, created_at FROM account.notices WHERE user_id = @user_id ORDER BY id DESC LIMIT @most;

-- name: ForgetNotices :execrows
DELETE FROM account.notices d WHERE d.id IN (
    SELECT o.id FROM account.notices o WHERE o.created_at < statement_timestamp() - make_interval(secs => @keep_seconds::float8)
    ORDER BY o.created_at LIMIT @most);

-- name: ListUsers :many
-- All given filters apply together.
SELECT * FROM account.users
WHERE id < @before
  AND (sqlc.narg('id')::bigint IS NULL OR id = sqlc.narg('id'))
  AND (sqlc.narg('phone')::text IS NULL OR phone = sqlc.narg('phone'))
  AND (sqlc.narg('role')::text IS NULL OR role = sqlc.narg('role'))
  AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
ORDER BY id DESC LIMIT @most;

-- name: ForgetCodes :execrows
DELETE FROM account.sms_codes c WHERE (c.phone, c.purpose) IN (
    SELECT o.phone, o.purpose FROM account.sms_codes o WHERE o.expires_at < statement_timestamp() - make_interval(secs => @keep_seconds::float8)
    ORDER BY o.expires_at LIMIT @most);

-- name: ForgetLogins :execrows
-- Deletes logins that ended or expired long ago.
DELETE FROM account.logins l WHERE l.id IN (
    SELECT o.id FROM account.logins o WHERE least(o.ended_at, o.expires_at) < statement_timestamp() - make_interval(secs => @keep_seconds::float8)
    ORDER BY least(o.ended_at, o.expires_at) LIMIT @most);

-- name: LockSubject :exec
-- Two first exchanges of one subject make one user.
SELECT pg_advisory_xact_lock(hashtextextended(@issuer::text || chr(31) || @subject::text, 7));

-- name: UserOfSubject :one
SELECT user_id FROM account.external_users WHERE issuer = @issuer AND subject = @subject;

-- name: PutSubject :exec
INSERT INTO account.external_users (issuer, subject, user_id) VALUES (@issuer, @subject, @user_id);

-- name: SetName :exec
UPDATE account.users SET name = @name, updated_at = clock_timestamp() WHERE id = @id AND name <> @name;

-- name: SetEmail :exec
UPDATE account.users SET email = @email, updated_at = clock_timestamp() WHERE id = @id AND email IS DISTINCT FROM @email;

-- name: EraseSubjects :exec
DELETE FROM account.external_users WHERE user_id = @user_id;
