//! unslide symbolicate.
