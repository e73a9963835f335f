mod names_files;
pub mod partial_uploads;
pub mod symbols_and_uploads;
pub mod system_symbols;
