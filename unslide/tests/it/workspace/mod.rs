//! The shape of the workspace: layers, names, documents and promises against the code.

mod budgets;
mod circles;
mod client;
mod dependencies;
mod documents;
mod extension_points;
mod feature_commands;
mod features;
mod language;
mod layering;
mod migrations;
mod names;
mod origins;
mod pauses;
mod promises;
mod test_programs;
