//! unslide artifacts.
