-- A row of each table of the core that stored reports leave empty.
INSERT INTO audit_log (id, tenant, at, actor, action, subject) VALUES (md5('entry')::uuid, 'acme', now(), 'test', 'key.create', 'x');
INSERT INTO console_sessions (token_hash, tenant, key_id, created_at, ends_at)
VALUES (sha256('x'), 'acme', md5('api')::uuid, now(), now() + interval '1 hour');
INSERT INTO uploads (id, tenant, status, created_at, updated_at)
VALUES (md5('upload')::uuid, 'acme', 'done', now(), now()), (md5('partial')::uuid, 'acme', 'receiving', now(), now());
INSERT INTO partial_uploads (upload_id, tenant, size, content_hash, part_bytes, multipart_id)
VALUES (md5('partial')::uuid, 'acme', 10, sha256('partial'), 5, 'x');
INSERT INTO upload_parts (upload_id, tenant, number, etag) VALUES (md5('partial')::uuid, 'acme', 1, 'e');
INSERT INTO objects (tenant, content_hash, debug_id, name, arch, kind, size, status, created_at, updated_at)
VALUES ('acme', sha256('object'), md5('image')::uuid, 'a', 'arm64', 'dsym', 1, 'ready', now(), now());
INSERT INTO upload_objects (tenant, upload_id, content_hash, path, known)
VALUES ('acme', md5('upload')::uuid, sha256('object'), 'a', false);
INSERT INTO symbol_slots (tenant, debug_id, generation, content_hash, updated_at)
VALUES ('acme', md5('image')::uuid, 1, sha256('object'), now());
INSERT INTO jobs (id, tenant, kind, payload, status, max_attempts, run_at, lease_owner, lease_token, lease_until, created_at, updated_at)
VALUES (md5('running')::uuid, 'acme', 'process', '{}', 'running', 6, now(), 'worker', md5('token')::uuid, now() + interval '1 hour', now(), now()),
       (md5('queued')::uuid, 'acme', 'process', '{}', 'queued', 6, now(), NULL, NULL, NULL, now(), now());
INSERT INTO reprocesses (id, tenant, actor, wanted, matched, created_at, updated_at)
VALUES (md5('reprocess')::uuid, 'acme', 'test', '{}', 1, now(), now());
INSERT INTO report_duplicates (tenant, report_id, variant, origin_topic, origin_partition, origin_offset, origin_index, seen_at, received_at)
VALUES ('acme', md5('report')::uuid, 0, 'in', 0, 1, 0, now(), now());
INSERT INTO segments (tenant, id, day, key, state, created_at)
VALUES ('acme', md5('segment')::uuid, '2026-11-20', 't/acme/segments/2026-11-20/a', 'live', now());
INSERT INTO report_frames (tenant, received_at, report_id, variant, revision, size, segment, at_offset, length, body_key)
SELECT tenant, received_at, report_id, variant, 1, 1, md5('segment')::uuid, 0, 1, sha256('k') FROM reports WHERE tenant = 'acme' LIMIT 1;
INSERT INTO condemned_objects (tenant, key, condemned_at) VALUES ('acme', 't/acme/segments/a', now());
INSERT INTO app_settings (tenant, app, source_url, source_root) VALUES ('acme', 'shop', '', '/ci');
INSERT INTO signal_drops (tenant, app, signal, day, dropped) VALUES ('acme', 'shop', 'sessions', now()::date, 1);
INSERT INTO system_waits (tenant, debug_id, day, seen_generation) VALUES ('acme', md5('image')::uuid, now()::date, 0) ON CONFLICT DO NOTHING;
INSERT INTO app_devices (tenant, app, version, device, day, reports) VALUES ('acme', 'shop', '', '\x01', now()::date, 1);
INSERT INTO group_activity (tenant, id, group_id, at, actor, action, text)
SELECT 'acme', md5('activity')::uuid, id, now(), 'test', 'comment', 'x' FROM groups WHERE tenant = 'acme' LIMIT 1;
INSERT INTO group_moves (tenant, from_group, to_group, reports, first_seen)
SELECT 'acme', id, md5('other')::uuid, 1, now() FROM groups WHERE tenant = 'acme' LIMIT 1;
INSERT INTO group_redirects (tenant, id, target) SELECT 'acme', md5('old')::uuid, id FROM groups WHERE tenant = 'acme' LIMIT 1;
INSERT INTO group_days (tenant, group_id, day, reports) SELECT 'acme', id, '2026-11-01', 1 FROM groups WHERE tenant = 'acme' LIMIT 1;
INSERT INTO group_hours (tenant, group_id, hour, reports) SELECT 'acme', id, '2026-11-01', 1 FROM groups WHERE tenant = 'acme' LIMIT 1;
INSERT INTO group_breakdowns (tenant, group_id, dimension, value, day, reports)
SELECT 'acme', id, 'version', '0.1', '2026-11-01', 1 FROM groups WHERE tenant = 'acme' LIMIT 1;
INSERT INTO group_devices (tenant, group_id, device, reports) SELECT 'acme', id, '\x01', 1 FROM groups WHERE tenant = 'acme' LIMIT 1;
INSERT INTO group_terms (tenant, group_id, terms) SELECT 'acme', id, 'x' FROM groups WHERE tenant = 'acme' LIMIT 1 ON CONFLICT DO NOTHING;
INSERT INTO grouping_rules (tenant, version, text, changed_by, changed_at, status)
VALUES ('acme', 1, 'ignore function f', 'test', now(), 'done');
INSERT INTO dead_letters (topic_id, partition, at_offset, topic, stage, tenant, arrived_at, reason, detail)
VALUES ('t', 0, 1, 'west.unslide.dead', 'store', 'acme', now(), 'x', '');
INSERT INTO deferred_ranges (tenant, topic, topic_id, partition, from_offset, to_offset, records, oldest_at)
VALUES ('acme', 'west.unslide.out', 't', 0, 5, 8, 3, now());
INSERT INTO alert_rules (id, tenant, name, condition, threshold, channel, address, secret, template, content_type, digest_minutes,
                         next_message_at, next_evaluation_at, created_at, escalate_to)
VALUES (md5('a first rule')::uuid, 'acme', 'escalates', 'new_group', 0, 'kafka', '', '', '', 'application/json', 0, now(), now(), now(),
        md5('rule')::uuid);
