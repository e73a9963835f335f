-- The commit that a build was made of, by the debug id of the build.
CREATE TABLE build_commits (
    tenant       text NOT NULL,
    debug_id     uuid NOT NULL,
    commit_sha   text NOT NULL CHECK (commit_sha ~ '^[0-9a-f]{7,64}$'),
    -- The address of the repository, without credentials.
    repository   text CHECK (octet_length(repository) <= 300),
    pull_request integer CHECK (pull_request > 0),
    -- The folder of the checkout on the machine of the build: paths of source files in its symbols begin with it.
    source_root  text CHECK (octet_length(source_root) <= 1000),
    recorded_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant, debug_id)
);
-- Finds the oldest rows of a tenant that has too many.
CREATE INDEX build_commits_recorded ON build_commits (tenant, recorded_at);
SELECT unslide_protect('build_commits', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');
