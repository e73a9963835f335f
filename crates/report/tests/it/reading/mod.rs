//! What is read of a report, and what is refused.

mod foreign;
mod grammar;
mod hostile;
mod kscrash3;
mod lists;
mod parts;
mod processes;
mod profiles;
mod samples;
mod summaries;
mod tolerance;
