//! unslide runtime.
