//! The tests of features that need servers. Each feature has its tests in its folder; one program links them all, so that
//! the services are linked once.

#[path = "../../../../features/alerts/tests/it/mod.rs"]
mod alerts;
#[path = "../../../../features/audit-export/tests/it/mod.rs"]
mod audit_export;
#[path = "../../../../features/body-cap/tests/it/mod.rs"]
mod body_cap;
#[path = "../../../../features/captures/tests/it/mod.rs"]
mod captures;
#[path = "../../../../features/changes/tests/it/mod.rs"]
mod changes;
#[path = "../../../../features/chat/tests/it/mod.rs"]
mod chat;
#[path = "../../../../features/console/tests/it/mod.rs"]
mod console;
#[path = "../../../../features/costs/tests/it/mod.rs"]
mod costs;
#[path = "../../../../features/export/tests/it/mod.rs"]
mod export;
#[path = "../../../../features/fault-analysis/tests/it/mod.rs"]
mod fault_analysis;
#[path = "../../../../features/health/tests/it/mod.rs"]
mod health;
#[path = "../../../../features/ingest/tests/it/mod.rs"]
mod ingest;
#[path = "../../../../features/mcp/tests/it/mod.rs"]
mod mcp;
#[path = "../../../../features/otlp/tests/it/mod.rs"]
mod otlp;
#[path = "../../../../features/own-keys/tests/it/mod.rs"]
mod own_keys;
#[path = "../../../../features/owners/tests/it/mod.rs"]
mod owners;
#[path = "../../../../features/parquet-export/tests/it/mod.rs"]
mod parquet_export;
#[path = "../../../../features/people/tests/it/mod.rs"]
mod people;
#[path = "../../../../features/person-erasure/tests/it/mod.rs"]
mod person_erasure;
#[path = "../../../../features/scim/tests/it/mod.rs"]
mod scim;
#[path = "../../../../features/source-context/tests/it/mod.rs"]
mod source_context;
#[path = "../../../../features/stored-events/tests/it/mod.rs"]
mod stored_events;
#[path = "../../../../features/symbol-server/tests/it/mod.rs"]
mod symbol_server;
#[path = "../../../../features/symbol-sources/tests/it/mod.rs"]
mod symbol_sources;
#[path = "../../../../features/testflight/tests/it/mod.rs"]
mod testflight;
#[path = "../../../../features/tickets/tests/it/mod.rs"]
mod tickets;
#[path = "../../../../features/uploaders/tests/it/mod.rs"]
mod uploaders;
#[path = "../../../../features/verdicts/tests/it/mod.rs"]
mod verdicts;
