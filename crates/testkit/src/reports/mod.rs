//! Crash reports in the form that KSCrash writes, made up: by hand with [`Report`], in every known
//! shape with [`shapes`], and at random from a seed with [`random`] and [`sized`].

mod builder;
mod errors;
mod json;
mod pieces;
mod random;
mod shapes;

pub use builder::{Report, record};
pub use errors::Error;
pub use json::{Json, Style};
pub use pieces::{ARM64, ARM64_32, ARM64E, ARMV7, Frame, I386, Image, Thread, X86_64, backtrace};
pub use random::{random, sized};
pub use shapes::shapes;
