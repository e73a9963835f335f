//! A report as Markdown, for people and for programs that read language.
//!
//! Headings, sentences and lists are ours. Every text of a device is quoted: it is never a heading, a link, an image
//! or HTML, and it cannot leave its quotation.

mod document;
mod quote;
mod report;
mod stack;

pub use document::{MarkdownDocument, MarkdownStyle};
pub use quote::{flatten_text, quote_lines, quote_text};
pub use report::{markdown_report, report_heading, write_report};
