CREATE TABLE tenants (
    slug       text PRIMARY KEY CHECK (slug ~ '^[a-z0-9][a-z0-9-]{0,38}[a-z0-9]$'),
    name       text NOT NULL,
    state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'suspended', 'deleted')),
    limits     jsonb NOT NULL DEFAULT '{}',
    -- The analyses of reports that the tenant has turned on or off: {"variables": true, …}. The default counts for others.
    analysis_switches jsonb NOT NULL DEFAULT '{}',
    -- Whether the tenant lets people search reports by the id of a device, an installation or a user.
    person_search boolean NOT NULL DEFAULT false,
    -- Counts up with every change; readers of the configuration topic ignore lower numbers.
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
SELECT unslide_protect('tenants', 'slug', 'SELECT, INSERT, UPDATE');

-- A deleted tenant stays deleted.
CREATE FUNCTION unslide_tenant_state_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state = 'deleted' AND NEW.state <> 'deleted' THEN
        RAISE EXCEPTION 'the tenant was deleted' USING ERRCODE = 'UD001';
    END IF;
    IF OLD.state <> 'deleted' AND NEW.state = 'deleted' THEN
        PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('tenant ' || NEW.slug, 0));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tenant_state_changes BEFORE UPDATE OF state ON tenants
    FOR EACH ROW EXECUTE FUNCTION unslide_tenant_state_changes();

-- Keys of every kind. The core declares the kind `api`, features declare others. A look-up always names the kind.
CREATE TABLE keys (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    kind         text NOT NULL CHECK (kind ~ '^[a-z]{1,20}$'),
    name         text NOT NULL,
    -- Names the key wherever its text must not be: a part of the text of an API key, and 8 hexadecimal digits of the hash of
    -- a key in a path.
    prefix       text NOT NULL CHECK (length(prefix) = 8),
    -- SHA-256 of the secret of an API key, and of the whole text of a key in a path.
    key_hash     bytea NOT NULL CHECK (length(key_hash) = 32),
    -- In clear, for kinds that are no secret: the text ships in every copy of an app.
    key_text     text,
    scopes       text[] NOT NULL DEFAULT '{}',
    -- The apps that the key is for; empty for all. A public key may have `prefix.*`.
    apps         text[] NOT NULL DEFAULT '{}' CHECK (cardinality(apps) <= 20),
    created_at   timestamptz NOT NULL,
    -- Set: the key works, and a newer one should take its place.
    retired_at   timestamptz,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    -- When the key ended or ends, by revocation or expiry.
    ends_at      timestamptz GENERATED ALWAYS AS (coalesce(revoked_at, expires_at)) STORED,
    last_used_at timestamptz,
    -- The key that made this one, so that a leaked key can be revoked with all keys that descend from it. NULL for keys
    -- made on the command line. No reference: an operator's key makes keys of other tenants.
    made_by      uuid,
    UNIQUE (tenant, prefix),
    -- Scopes give operations of the API. A key of another kind can have none, whatever a program writes.
    CHECK (kind = 'api' OR (scopes = '{}' AND made_by IS NULL)),
    CHECK (kind <> 'api' OR (key_text IS NULL AND cardinality(apps) <= 1))
);
CREATE INDEX keys_list ON keys (tenant, created_at, id);
CREATE INDEX keys_prefix ON keys (prefix, kind);
CREATE INDEX keys_ends ON keys (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX keys_made_by ON keys (made_by) WHERE made_by IS NOT NULL;
SELECT unslide_protect('keys', 'tenant', 'SELECT, INSERT, UPDATE');

-- An owner is a tenant or the system. The system's name can be no slug: `~system`. In tables with rows of the system,
-- the reference to the tenant is a column that is NULL for the system.
CREATE TABLE audit_log (
    id            uuid PRIMARY KEY,
    tenant        text NOT NULL,
    at            timestamptz NOT NULL,
    actor         text NOT NULL,
    action        text NOT NULL,
    subject       text NOT NULL,
    detail        jsonb NOT NULL DEFAULT '{}',
    owning_tenant text GENERATED ALWAYS AS (CASE WHEN tenant <> '~system' THEN tenant END) STORED REFERENCES tenants (slug)
);
CREATE INDEX audit_log_tenant ON audit_log (tenant, at DESC);
-- Written once: the service can neither change nor remove an entry. DELETE is revoked below.
SELECT unslide_protect('audit_log', 'tenant', 'SELECT, INSERT');

-- Settings of a tenant for an app.
CREATE TABLE app_settings (
    tenant      text NOT NULL REFERENCES tenants (slug),
    app         text NOT NULL,
    source_url  text NOT NULL,
    source_root text NOT NULL,
    -- Which signals are kept: {"hangs": true, …}. Empty: those of the app `*`, or the default if the tenant chose none.
    signals     jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant, app)
);
SELECT unslide_protect('app_settings', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- Counts of signals that an app's settings dropped, by the day (UTC) on which the service read them. Only apps with
-- settings have rows.
CREATE TABLE signal_drops (
    tenant  text NOT NULL,
    app     text NOT NULL,
    signal  text NOT NULL,
    day     date NOT NULL,
    dropped bigint NOT NULL,
    PRIMARY KEY (tenant, app, signal, day)
);
SELECT unslide_protect('signal_drops', 'tenant', 'SELECT, INSERT, UPDATE, DELETE');

-- How far the erasing of a deleted tenant is, and the proof that nothing was left. Kept like the tenant's row.
CREATE TABLE tenant_erasures (
    tenant       text PRIMARY KEY REFERENCES tenants (slug),
    requested_at timestamptz NOT NULL,
    -- Rows that were removed, by table.
    removed      jsonb NOT NULL DEFAULT '{}',
    -- Objects that were removed from object storage.
    objects      bigint NOT NULL DEFAULT 0,
    object_bytes bigint NOT NULL DEFAULT 0,
    -- Counts after everything was removed: rows by table, and objects. All are 0 once it is finished.
    remaining    jsonb,
    finished_at  timestamptz,
    -- When a second search ran, long after the last upload that had begun before the deletion.
    swept_at     timestamptz
);
SELECT unslide_protect('tenant_erasures', 'tenant', 'SELECT, INSERT, UPDATE');

-- Both outlive their tenant.
REVOKE DELETE ON audit_log, tenant_erasures FROM unslide_service;

CREATE FUNCTION unslide_tenants(after text, how_many integer)
RETURNS TABLE (slug text, name text, state text, limits jsonb, version bigint, created_at timestamptz, updated_at timestamptz)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT t.slug, t.name, t.state, t.limits, t.version, t.created_at, t.updated_at
    FROM tenants t WHERE t.slug > after ORDER BY t.slug LIMIT how_many
$$;

-- Those of these names that no tenant has, or had before it was deleted.
CREATE FUNCTION unslide_unknown_tenants(names text[]) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT DISTINCT n FROM unnest(names) n WHERE NOT EXISTS (SELECT FROM tenants t WHERE t.slug = n)
$$;

-- The most days that any tenant's reports are kept.
CREATE FUNCTION unslide_retention_longest(usual integer) RETURNS integer
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT greatest(usual, (SELECT max(least((t.limits ->> 'retention_days')::numeric, 100000)::integer)
                            FROM tenants t WHERE t.state <> 'deleted'))
$$;

-- Keys arrive before their tenants are known: a row for each exact kind and prefix, with the hash and not the secret, and with
-- what its tenant may use, so that one statement says who asks and how much.
CREATE FUNCTION unslide_key_owners(kinds text[], prefixes text[])
RETURNS TABLE (kind text, prefix text, id uuid, tenant text, tenant_version bigint, key_hash bytea, scopes text[],
               apps text[], expires_at timestamptz, revoked_at timestamptz, last_used_at timestamptz, tenant_state text,
               tenant_limits jsonb)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT k.kind, k.prefix, k.id, k.tenant, t.version, k.key_hash, k.scopes, k.apps, k.expires_at, k.revoked_at,
           k.last_used_at, t.state, t.limits
    FROM unnest(kinds, prefixes) AS w (kind, prefix)
    JOIN keys k ON k.prefix = w.prefix AND k.kind = w.kind JOIN tenants t ON t.slug = k.tenant
$$;

-- True if a key is still in force, until the transaction ends: a revocation with descendants sees the keys that it
-- creates in this transaction.
CREATE FUNCTION unslide_key_may_make(maker uuid, at timestamptz) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT pg_advisory_xact_lock_shared(hashtextextended('makers of keys', 0));
    SELECT EXISTS (SELECT FROM keys k WHERE k.id = maker AND k.revoked_at IS NULL
                   AND (k.expires_at IS NULL OR k.expires_at > at))
$$;

-- The keys in force that a key made, that these made, and so on: of one tenant, or of all.
CREATE FUNCTION unslide_made_keys(root uuid, within text, at timestamptz) RETURNS TABLE (tenant text, id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    WITH RECURSIVE made AS (
        SELECT k.tenant, k.id, k.revoked_at, k.expires_at FROM keys k WHERE k.made_by = root
        UNION
        SELECT k.tenant, k.id, k.revoked_at, k.expires_at FROM made m JOIN keys k ON k.made_by = m.id
    )
    SELECT m.tenant, m.id FROM made m JOIN tenants t ON t.slug = m.tenant
    WHERE (within IS NULL OR m.tenant = within) AND t.state <> 'deleted'
      AND m.revoked_at IS NULL AND (m.expires_at IS NULL OR m.expires_at > at)
$$;

-- Revokes them, each with an entry in its tenant's audit log, and returns their number. Waits for those that are being made.
-- Locks them and the root in the order in which uses of keys are noted, so that neither waits for the other forever.
CREATE FUNCTION unslide_revoke_made_keys(root uuid, within text, at timestamptz, by_whom text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
    SELECT set_config('unslide.definer', 'on', true);
    SELECT pg_advisory_xact_lock(hashtextextended('makers of keys', 0));
    SELECT FROM keys k
    WHERE k.id IN (SELECT root UNION ALL SELECT m.id FROM unslide_made_keys(root, within, at) m)
      AND (within IS NULL OR k.tenant = within)
    ORDER BY k.tenant COLLATE "C", k.id FOR UPDATE;
    WITH revoked AS (
        UPDATE keys k SET revoked_at = at FROM unslide_made_keys(root, within, at) m
        WHERE k.tenant = m.tenant AND k.id = m.id RETURNING k.tenant, k.id
    ), noted AS (
        INSERT INTO audit_log (id, tenant, at, actor, action, subject, detail)
        SELECT unslide_uuid(at), r.tenant, at, by_whom, 'key.revoke', r.id::text, jsonb_build_object('descends_from', root)
        FROM revoked r
    )
    SELECT count(*) FROM revoked
$$;

-- Keys that ended, except those that made keys which are still there.
INSERT INTO purges (target, key, at_column, condition) VALUES
    ('keys', 'id', 'ends_at', 'NOT EXISTS (SELECT FROM keys m WHERE m.made_by = t.id)');
