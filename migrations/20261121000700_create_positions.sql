-- How far the indexers have read: part of the transaction that stores what was read.
CREATE TABLE positions (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    -- The broker's id of the topic, so that a topic that was created again under its old name is noticed.
    topic_id    text NOT NULL,
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE ON positions TO unslide_service;

-- Which indexer reads a partition. It only spares work: what keeps two apart is the position.
CREATE TABLE partition_leases (
    topic       text NOT NULL,
    partition   integer NOT NULL,
    owner       text NOT NULL,
    lease_until timestamptz NOT NULL,
    PRIMARY KEY (topic, partition)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON partition_leases TO unslide_service;
