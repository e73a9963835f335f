//! The pages.

pub mod flame;
pub mod group_pages;
pub mod lists;
pub mod overview;
pub mod report_pages;
pub mod search;
pub mod suggestions;
pub mod symbols;
pub mod tenant_pages;
pub mod version;
pub mod versions;
