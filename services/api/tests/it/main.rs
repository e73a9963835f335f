//! The api as its clients see it: over HTTP, against real PostgreSQL, Kafka and S3.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod alerts;
mod attacks;
mod bodies;
mod captures;
mod cases;
mod console;
mod dead_letters;
mod events;
mod exports;
mod grouping_rules;
mod groups;
mod isolation;
mod keys_and_tenants;
mod metrics;
mod openapi;
mod pages;
mod parts;
mod quarantine;
mod quotas;
mod reports;
mod round_trips;
mod sending;
mod service;
mod sessions;
mod shares;
mod stored_bodies;
mod symbolicating;
mod symbols;
mod tenant_life;
mod uploads;
mod world;
