//! unslide tests.
