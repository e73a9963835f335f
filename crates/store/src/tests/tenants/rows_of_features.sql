INSERT INTO alert_rules (id, tenant, name, condition, threshold, channel, address, secret, template, content_type,
                         digest_minutes, next_message_at, next_evaluation_at, created_at)
VALUES (md5('rule')::uuid, 'acme', 'rule', 'new_group', 0, 'kafka', '', '', '', 'application/json', 0, now(), now(),
        now());
INSERT INTO alert_messages (id, tenant, rule, status, events, due_at, created_at)
VALUES (md5('message')::uuid, 'acme', md5('rule')::uuid, 'waiting', 1, now(), now());
INSERT INTO alert_events (tenant, rule, cause, occurred_at, headline, detail, app, version, path, message)
VALUES ('acme', md5('rule')::uuid, 'test', now(), '', '', '', '', '', md5('message')::uuid);
INSERT INTO alert_recipients (tenant, address, status, asked_at)
VALUES ('acme', 'a@example.com', 'waiting_for_confirmation', now());
INSERT INTO alert_figures (rule, tenant, figure, comparison, days, least_observations)
VALUES (md5('rule')::uuid, 'acme', 'hangs', 'above', 1, 1);
INSERT INTO alert_firings (id, tenant, rule, headline, began_at, link_key)
VALUES (md5('firing')::uuid, 'acme', md5('rule')::uuid, '', now(), sha256(''));
INSERT INTO alert_mail_counts (tenant, day, mails) VALUES ('acme', now()::date, 1);
INSERT INTO keys (id, tenant, kind, name, prefix, key_hash, key_text, apps, created_at)
VALUES (md5('public')::uuid, 'acme', 'public', 'app', '0a1b2c3d', sha256('text'), 'text', '{shop}', now());
INSERT INTO ingest_key_versions (tenant, key_id, day, app, version, reports, runs)
VALUES ('acme', '0a1b2c3d', now()::date, 'shop', '1.0', 1, 0);
INSERT INTO key_erasures (id, tenant, key_id, range_begin, range_end, requested_by, requested_at, state)
VALUES (md5('range')::uuid, 'acme', '0a1b2c3d', '2000-01-01', '2000-01-02', 'test', now(), 'searching');
INSERT INTO sign_in_providers (tenant, issuer, client_id, client_secret, group_claim, rules, session_hours, changed_at)
VALUES ('acme', 'https://login.example.com', 'x', '', 'groups', '[]', 12, now());
INSERT INTO people (tenant, issuer, subject, key_id, last_sign_in_at)
SELECT 'acme', 'https://login.example.com', 's', id, now() FROM keys WHERE tenant = 'acme' AND kind = 'api' LIMIT 1;
INSERT INTO sign_in_failures (id, tenant, at, outcome, reason)
VALUES (md5('failure')::uuid, 'acme', now(), 'declined', '');
INSERT INTO person_erasures (id, tenant, kind, person_id, person_hash, requested_by, requested_at, state)
VALUES (md5('erasure')::uuid, 'acme', 'user', 'u', sha256(''), 'test', now(), 'searching');
INSERT INTO person_secrets (tenant, secret) VALUES ('acme', sha256(''));
INSERT INTO erased_persons (tenant, kind, person_hash, erased_at) VALUES ('acme', 'user', sha256(''), '2000-01-01');
INSERT INTO report_users (tenant, received_at, report_id, variant, user_hash)
SELECT 'acme', received_at, report_id, variant, substr(sha256(''), 1, 16) FROM reports LIMIT 1;
INSERT INTO system_symbol_builds (tenant, build, arch, debug_id, imported_at, imported_by)
VALUES ('acme', '23B87', 'arm64e', md5('image')::uuid, now(), 'key');
INSERT INTO source_switches (tenant, enabled, changed_at) VALUES ('acme', true, now());
INSERT INTO source_bundles (tenant, debug_id, app, object_id, content_hash, size, files, received_at)
VALUES ('acme', md5('image')::uuid, '', md5('bundle')::uuid, sha256(''), 1, 1, now());
INSERT INTO uploader_chunks (tenant, sha1, object_id, size, counted, expires_at)
VALUES ('acme', substr(sha256(''), 1, 20), md5('chunk')::uuid, 1, true, now());
INSERT INTO uploader_files (tenant, app, sha1, name, chunks, file_use, one_app, file_limit, state, attempts, due_at, updated_at)
VALUES ('acme', 'shop', substr(sha256(''), 1, 20), '', '', 'debug_file', false, 1, 'waiting', 0, now(), now());
INSERT INTO uploader_urls (tenant, token_hash, key_id, expires_at)
VALUES ('acme', sha256('token'), md5('key')::uuid, now());
INSERT INTO group_views (tenant, id, owner, name, filter, created_by, created_at)
VALUES ('acme', md5('view')::uuid, '', 'view', '{}', 'key', now());
INSERT INTO live_event_counters (tenant, last) VALUES ('acme', 1);
INSERT INTO live_events (tenant, event, kind, data, occurred_at) VALUES ('acme', 1, 'reports_stored', '{}', now());
INSERT INTO captures (id, tenant, app, version, kind, form, files, size, content_hash, state, received_at)
VALUES (md5('capture')::uuid, 'acme', 'shop', '', 'profile', '{"kind": "profile"}', '[]', 1, sha256(''), 'ready', now());
INSERT INTO capture_waits (tenant, debug_id, capture_id, system, seen_generation)
VALUES ('acme', md5('image')::uuid, md5('capture')::uuid, false, 0);
INSERT INTO sessions (tenant, day, app, session_id, version, counted, started_at, received_at)
SELECT 'acme', received_at::date, 'shop', 's1', '', 1, received_at, received_at FROM reports LIMIT 1;
INSERT INTO session_days (tenant, app, version, day, sessions, crashed, installations, crashed_installations, users,
                          crashed_users)
VALUES ('acme', 'shop', '', now()::date, 1, 0, '', '', '', '');
INSERT INTO metric_payloads (tenant, day, app, payload_id, version, measured_at, received_at)
SELECT 'acme', received_at::date, 'shop', 'm1', '', received_at, received_at FROM reports LIMIT 1;
INSERT INTO metric_versions (tenant, day, app, version) VALUES ('acme', now()::date, 'shop', '');
INSERT INTO metric_days (tenant, app, version, dimension, day, value, metric, observations, failed, squares, sampled,
                         sketch)
VALUES ('acme', 'shop', '', '', now()::date, '', 'launch_time', 1, 0, 1, false, '');
INSERT INTO metric_hours (tenant, app, dimension, value, metric, hour, version, observations, failed, squares, sampled,
                          sketch)
VALUES ('acme', 'shop', '', '', 'launch_time', now(), '', 1, 0, 1, false, '');
INSERT INTO session_hour_counts (tenant, app, hour, version, sessions, crashed, out_of_memory, unexplained,
                           background_memory, squares, users, crashed_users)
VALUES ('acme', 'shop', now(), '', 1, 0, 0, 0, 0, 1, '', '');
INSERT INTO memory_exceptions (tenant, report_id, variant, app, version, at, names_session, outcome, received_at)
VALUES ('acme', '11111111-1111-1111-1111-111111111111', 0, 'shop', '', now(), false, 'none', now());
INSERT INTO app_ends (tenant, app, version, day, foreground, cause, ends)
VALUES ('acme', 'shop', '', now()::date, true, 'normal', 1);
INSERT INTO resource_uses (tenant, day, cpu_micros, kafka_bytes, object_requests, object_bytes, stored)
VALUES ('acme', now()::date, 1, 1, 1, 1, 1);
INSERT INTO group_labels (tenant, group_id, label) SELECT 'acme', id, 'owner:x' FROM groups LIMIT 1;
INSERT INTO owner_apps (tenant, app, epoch, changed_at) VALUES ('acme', 'shop', 1, now());
INSERT INTO owner_files (id, tenant, app, version, dialect, content, rules, problems, first_problems, uploaded_at)
VALUES (md5('owners')::uuid, 'acme', 'shop', '', 'github', '', 0, 0, '[]', now());
INSERT INTO group_owners (tenant, group_id, app, needed, next_look_at)
SELECT 'acme', id, 'shop', 1, now() FROM groups LIMIT 1;
INSERT INTO regression_rules (tenant, rule, changed_at) VALUES ('acme', 'any_report', now());
INSERT INTO held_regressions (tenant, group_id, app, version, received_at, next_look_at)
SELECT 'acme', id, 'shop', '', now(), now() FROM groups LIMIT 1;
INSERT INTO app_slots (tenant, app, window_start, units) VALUES ('acme', 'shop', now(), 1);
INSERT INTO otlp_settings (tenant, refuses_others, header_names, changed_at, next_send_at)
VALUES ('acme', true, '{}', now(), now());
INSERT INTO otlp_outbox (tenant, report_id, variant, revision, queued_at)
VALUES ('acme', '11111111-1111-1111-1111-111111111111', 0, 1, now());
INSERT INTO stored_events (tenant, queued_at, report_id, variant, revision)
VALUES ('acme', now(), '11111111-1111-1111-1111-111111111111', 0, 1);
INSERT INTO history_moves (tenant, day, token, begun_at, places) VALUES ('acme', now()::date, md5('token')::uuid, now(), '[]');
INSERT INTO history_deletions (tenant, received_at, report_id, variant, version, queued_at)
VALUES ('acme', now(), md5('moved')::uuid, 0, 1, now());
INSERT INTO history_tenants (tenant, ended_moves, newest_at) VALUES ('acme', 1, now());
INSERT INTO stored_event_turns (tenant, next_send_at) VALUES ('acme', now());
INSERT INTO parquet_exports (tenant, shown_address, sealed_target, changed_at, first_day, next_day, next_write_at)
VALUES ('acme', '', '', now(), now()::date, now()::date, now());
INSERT INTO parquet_day_changes (tenant, day, changed_at, erases) VALUES ('acme', now()::date, now(), false);
INSERT INTO parquet_days (tenant, day) VALUES ('acme', now()::date);
INSERT INTO parquet_files (tenant, path, day, generation) VALUES ('acme', 'reports/a', now()::date, 1);
INSERT INTO scrub_salts (tenant, salt) VALUES ('acme', sha256('salt'));
INSERT INTO scrub_runs (tenant, id, status, started_by, started_at, updated_at)
    VALUES ('acme', gen_random_uuid(), 'running', 'a key', now(), now());
INSERT INTO scrub_rules (tenant, app, revision, rules, changed_at)
VALUES ('acme', '', md5('rules')::uuid, '{}', now());
INSERT INTO body_caps (tenant, app, bodies, since, changed_at) VALUES ('acme', '', 200, now(), now());
INSERT INTO body_cap_turns (tenant, next_at, swept_to, wait_day) VALUES ('acme', now(), now(), now()::date);
INSERT INTO testflight_keys (tenant, key_id, sealed_key, changed_at, next_poll_at)
VALUES ('acme', 'AB12', '', now(), now());
INSERT INTO trackers (tenant, name, id, kind, url, project, labels, sealed_token, sealed_hook_secret, rule_since,
                      next_look_at, changed_at)
VALUES ('acme', 'main', md5('tracker')::uuid, 'github', '', '', '{}', '', '', now(), now(), now());
INSERT INTO audit_receivers (tenant, name, kind, shown_address, sealed_target, position, changed_at, next_send_at)
VALUES ('acme', 'siem', 'syslog', 'siem.example.com:6514', '', 0, now(), now());
INSERT INTO symbol_sources (tenant, name, kind, layout, shown_address, sealed_target, changed_at, next_ask_at)
VALUES ('acme', 'builds', 's3', 'unified', '', '', now(), now());
INSERT INTO symbol_source_requests (tenant, debug_id, source, state, created_at, due_at)
VALUES ('acme', md5('image')::uuid, 'builds', 'waiting', now(), now());
INSERT INTO build_commits (tenant, debug_id, commit_sha, recorded_at) VALUES ('acme', md5('image')::uuid, '0a1b2c3', now());
INSERT INTO slack_apps (tenant, id, team, channel, sealed_token, sealed_signing_secret, reports, since, next_look_at, changed_at)
VALUES ('acme', md5('slack')::uuid, 'T1', 'C1', '', '', 1, now(), now(), now());
INSERT INTO slack_threads (tenant, group_id, channel, marker, created_at, asked_at)
VALUES ('acme', md5('group')::uuid, 'C1', md5('marker')::uuid, now(), now());
INSERT INTO slack_actions (tenant, id, slack_user, user_name, channel, action, group_id, received_at)
VALUES ('acme', sha256('a'), 'U1', 'robin', 'C1', 'ignore', md5('group')::uuid, now());
INSERT INTO slack_people (tenant, team, slack_user, key_id, name, ends_at)
SELECT 'acme', 'T1', 'U1', id, 'robin', now() FROM keys WHERE tenant = 'acme' LIMIT 1;
INSERT INTO slack_links (tenant, token_hash, team, slack_user, user_name, ends_at)
VALUES ('acme', sha256('l'), 'T1', 'U1', 'robin', now());
INSERT INTO mcp_grants (tenant, id, key_id, client_hash, client_name, redirect_host, redirect_hash, scopes, names_tenant,
                        created_at, code_hash, code_challenge, code_ends_at, ends_at)
SELECT 'acme', md5('grant')::uuid, id, sha256('c'), 'c', 'localhost', sha256('r'), '{}', false, now(), sha256('o'),
       sha256('v'), now(), now()
FROM keys WHERE tenant = 'acme' LIMIT 1;
INSERT INTO scim_users (tenant, id, user_name, is_active, attributes, created_at, changed_at)
VALUES ('acme', md5('user')::uuid, 'robin', true, '{}', now(), now());
INSERT INTO scim_groups (tenant, id, display_name, created_at, changed_at)
VALUES ('acme', md5('group')::uuid, 'crew', now(), now());
INSERT INTO scim_members (tenant, group_id, user_id) VALUES ('acme', md5('group')::uuid, md5('user')::uuid);
INSERT INTO sign_out_notices (tenant, notice_hash, received_at) VALUES ('acme', sha256('n'), now());
INSERT INTO sign_out_hints (tenant, hint_hash, id_token, ends_at) VALUES ('acme', sha256('h'), 'token', now());
INSERT INTO tickets (tenant, group_id, tracker, marker, state, asked_by, created_at)
VALUES ('acme', md5('group')::uuid, 'main', md5('marker')::uuid, 'open', 'key', now());
INSERT INTO ticket_requests (tenant, group_id, action, tracker, asked_at, due_at)
VALUES ('acme', md5('group')::uuid, 'read', 'main', now(), now());
INSERT INTO tracker_deliveries (tenant, tracker, delivery, received_at) VALUES ('acme', 'main', 'd', now());
INSERT INTO ticket_fixes (tenant, group_id, revision, fixed_at) VALUES ('acme', md5('group')::uuid, 'a', now());
INSERT INTO testflight_apps (tenant, app) VALUES ('acme', 'shop');
INSERT INTO testflight_submissions (tenant, submission, app, state, seen_at, next_try_at)
VALUES ('acme', 'a', 'shop', 'waiting', now(), now());
INSERT INTO testflight_comments (tenant, report_id, submission, app, comment, received_at)
VALUES ('acme', '11111111-1111-1111-1111-111111111111', 'a', 'shop', 'It crashed.', now());
