-- +goose Up
-- Ties what Redis holds to the database that it was made from: the id says which database that is, and beat
-- rises every two seconds while a server runs. Redis remembers both, so a database that was restored from a
-- backup is told by a beat below the one that Redis has seen.
CREATE TABLE platform.lineage (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    id   uuid    NOT NULL DEFAULT gen_random_uuid(),
    beat bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
INSERT INTO platform.lineage DEFAULT VALUES;

-- +goose Down
DROP TABLE platform.lineage;
