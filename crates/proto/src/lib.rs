//! unslide proto.
