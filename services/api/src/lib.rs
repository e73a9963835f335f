//! unslide api.
