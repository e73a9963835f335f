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

-- Keys that ended, except those that made keys which are still there.
INSERT INTO purges (target, key, at_column, condition) VALUES
    ('keys', 'id', 'ends_at', 'NOT EXISTS (SELECT FROM keys m WHERE m.made_by = t.id)');

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

-- Requests to erase what came with a key in a range of time. They also keep such data away that arrives at the store later, so
-- the rows stay.
CREATE TABLE key_erasures (
    id           uuid PRIMARY KEY,
    tenant       text NOT NULL REFERENCES tenants (slug),
    -- The key's prefix. The key itself may be gone.
    key_id       text NOT NULL,
    -- By the time of arrival; the end is not included.
    range_begin  timestamptz NOT NULL,
    range_end    timestamptz NOT NULL,
    -- The only version of the apps; NULL for all, empty for reports that name none.
    version      text,
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    state        text NOT NULL CHECK (state IN ('searching', 'searching_again', 'done', 'failed')),
    -- Rows that were removed, by table.
    removed      jsonb NOT NULL DEFAULT '{}',
    -- Why it failed.
    detail       text,
    finished_at  timestamptz,
    CHECK (range_begin < range_end)
);
CREATE INDEX key_erasures_key ON key_erasures (tenant, key_id, requested_at DESC, id DESC);
SELECT unslide_protect('key_erasures', 'tenant', 'SELECT, INSERT, UPDATE');
