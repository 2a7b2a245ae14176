-- +goose Up
-- An exchange of a token asks, under its user's lock, whether all of the user's logins have ended since.
CREATE INDEX revocations_of_users ON auth.revocations (user_id, issued_before) WHERE user_id IS NOT NULL;
