//! The commands of all features, a module for each feature.
//!
//! A module has the name of its feature in `features/`, and its `FEATURE` is what the feature adds to the command line. It uses no
//! other feature's module and no other feature's package. No part of a server is linked.

pub mod alerts;
pub mod audit_export;
pub mod body_cap;
pub mod captures;
pub mod changes;
pub mod chat;
pub mod export;
pub mod fault_analysis;
pub mod health;
pub mod ingest;
pub mod mcp;
pub mod otlp;
pub mod own_keys;
pub mod owners;
pub mod parquet_export;
pub mod people;
pub mod person_erasure;
pub mod scim;
pub mod scrubbing;
pub mod source_context;
pub mod symbol_server;
pub mod symbol_sources;
pub mod system_symbols;
pub mod testflight;
pub mod tickets;
pub mod uploaders;
pub mod verdicts;
