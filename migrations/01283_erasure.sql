-- +goose Up
-- An account that is erased loses its address of e-mail, also where an older version erases it, which knows none.
-- +goose StatementBegin
CREATE FUNCTION account.forget_email() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.email := NULL;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER erasure_takes_the_email BEFORE UPDATE ON account.users
    FOR EACH ROW WHEN (NEW.status = 'erased' AND NEW.email IS NOT NULL) EXECUTE FUNCTION account.forget_email();
UPDATE account.users SET email = NULL WHERE status = 'erased' AND email IS NOT NULL;
