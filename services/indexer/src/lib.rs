//! unslide indexer.
