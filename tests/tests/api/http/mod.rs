//! What belongs to no operation: how the server answers, what a body may take, and clients that mean harm.

mod attacks;
mod bodies;
mod service;
mod strangers;
