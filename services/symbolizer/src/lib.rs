//! unslide symbolizer.
