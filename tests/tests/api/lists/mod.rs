//! What holds for every list: its pages, and the same as a file.

mod exports;
mod pages;
mod slow;
