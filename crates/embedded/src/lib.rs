//! unslide embedded.
