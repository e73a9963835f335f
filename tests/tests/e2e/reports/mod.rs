//! Reports from Kafka to consumers: the straight way, and what happens when a part of it fails.

mod consumers;
mod dead_letters;
mod delivery;
mod from_app;
mod hang;
mod journey;
mod secrecy;
mod traces;
mod workers;
