-- The rows of people and sessions refer to it.
INSERT INTO keys (id, tenant, kind, name, prefix, key_hash, scopes, created_at)
VALUES (md5('api')::uuid, 'acme', 'api', 'ci', 'abcdefgh', sha256('api'), '{symbols:write}', now());
