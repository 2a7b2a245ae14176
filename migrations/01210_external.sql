-- +goose Up
-- What a shop's other systems call a row, and texts that they keep with it; see package platform/edge/external, whose
-- bounds the program checks. An instance of the release before leaves both columns as they are.
ALTER TABLE seckill.activities
    ADD COLUMN external_id text,
    ADD COLUMN metadata    jsonb NOT NULL DEFAULT '{}',
    ADD CONSTRAINT activity_external_id_is_short CHECK (octet_length(external_id) BETWEEN 1 AND 64),
    ADD CONSTRAINT activity_metadata_is_a_map CHECK (jsonb_typeof(metadata) = 'object'),
    ADD CONSTRAINT activities_external_id_key UNIQUE (external_id);

ALTER TABLE seckill.sessions
    ADD COLUMN external_id text,
    ADD COLUMN metadata    jsonb NOT NULL DEFAULT '{}',
    ADD CONSTRAINT session_external_id_is_short CHECK (octet_length(external_id) BETWEEN 1 AND 64),
    ADD CONSTRAINT session_metadata_is_a_map CHECK (jsonb_typeof(metadata) = 'object'),
    ADD CONSTRAINT sessions_activity_id_external_id_key UNIQUE (activity_id, external_id);

ALTER TABLE seckill.items
    ADD COLUMN external_id text,
    ADD COLUMN metadata    jsonb NOT NULL DEFAULT '{}',
    ADD CONSTRAINT item_external_id_is_short CHECK (octet_length(external_id) BETWEEN 1 AND 64),
    ADD CONSTRAINT item_metadata_is_a_map CHECK (jsonb_typeof(metadata) = 'object'),
    ADD CONSTRAINT items_session_id_external_id_key UNIQUE (session_id, external_id),
    -- A document of a whole plan may exchange the SKUs of two items, row by row; it is checked at its commit.
    DROP CONSTRAINT items_session_id_sku_key,
    ADD CONSTRAINT items_session_id_sku_key UNIQUE (session_id, sku) DEFERRABLE;

-- The same for orders, beside their table: the writer's COPY and the hot row do not know of it.
CREATE TABLE orders.external_references (
    bucket      smallint    NOT NULL,
    order_no    uuid        NOT NULL,
    user_id     bigint      NOT NULL,
    -- Several orders may have one: a shop ships or books them together.
    external_id text,
    metadata    jsonb       NOT NULL DEFAULT '{}',
    -- The shopper has deleted the account.
    forget      boolean     NOT NULL DEFAULT false,
    erased_at   timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (order_no, bucket),
    CONSTRAINT order_external_id_is_short CHECK (octet_length(external_id) BETWEEN 1 AND 64),
    CONSTRAINT order_metadata_is_a_map CHECK (jsonb_typeof(metadata) = 'object')
);
CREATE INDEX external_references_by_id ON orders.external_references (external_id, order_no) WHERE external_id IS NOT NULL;
CREATE INDEX external_references_to_erase ON orders.external_references (user_id) WHERE erased_at IS NULL;
CREATE INDEX external_references_by_age ON orders.external_references (updated_at) WHERE erased_at IS NULL;
CREATE INDEX external_references_forgotten ON orders.external_references (order_no) WHERE forget AND erased_at IS NULL;
