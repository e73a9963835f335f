//! unslide report.
