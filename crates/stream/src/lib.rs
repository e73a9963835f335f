//! unslide stream.
