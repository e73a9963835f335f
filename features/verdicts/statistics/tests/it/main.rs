//! Simulated releases and fixes with fixed seeds: how often verdicts are wrong, and how soon they come.

mod fix;
mod release;
mod simulation;
