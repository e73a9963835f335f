-- Images of builds of operating systems, as imports named them: which names go with a build.
CREATE TABLE system_symbol_builds (
    tenant        text NOT NULL,
    build         text NOT NULL CHECK (length(build) <= 16),
    arch          text NOT NULL CHECK (length(arch) <= 32),
    debug_id      uuid NOT NULL,
    -- When an import named it first, and the key of that import.
    imported_at   timestamptz NOT NULL,
    imported_by   text NOT NULL,
    owning_tenant text GENERATED ALWAYS AS (CASE WHEN tenant <> '~system' THEN tenant END) STORED REFERENCES tenants (slug),
    PRIMARY KEY (tenant, build, arch, debug_id)
);
-- Whether another build lists an image.
CREATE INDEX system_symbol_builds_debug_id ON system_symbol_builds (tenant, debug_id);
SELECT unslide_protect('system_symbol_builds', 'tenant', 'SELECT, INSERT, DELETE');
