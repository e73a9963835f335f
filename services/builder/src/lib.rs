//! unslide builder.
