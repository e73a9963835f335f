//! unslide store.
