-- +goose NO TRANSACTION
-- +goose Up
RESET lock_timeout; -- a run that failed half-way has left the one below
-- A list of the erased users walks their own index, as one of the disabled ones does, and not all users. It is built
-- concurrently, because shoppers log in meanwhile; see 01277.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('account.users_erased') AND NOT indisvalid) THEN
        DROP INDEX account.users_erased; -- a run that failed half-way has left it
    END IF;
END $$;
-- +goose StatementEnd
SET lock_timeout = '20s';
CREATE INDEX CONCURRENTLY IF NOT EXISTS users_erased ON account.users (id) WHERE status = 'erased';
RESET lock_timeout;
