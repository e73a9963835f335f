//! The words of Unslide: ids that carry their tenant, addresses that cannot be mixed up, and the
//! few values that every layer speaks of. No I/O and no clock of its own.

mod address;
mod body_key;
mod clock;
pub mod cost;
mod cpu;
mod distinct;
mod figures;
mod grouping;
mod host;
mod id;
mod owner;
mod quality;
mod scope;
mod secret;
mod shell;
pub mod units;
mod words;

pub use address::{FileAddress, LoadAddress, RelativeAddress, Slide};
pub use body_key::BodyKey;
pub use clock::{Clock, FixedClock, SystemClock};
pub use cpu::{CpuFamily, CpuType};
pub use distinct::DistinctSketch;
pub use figures::Figures;
pub use grouping::ReportGrouping;
pub use host::is_local;
pub use id::{ContentHash, DebugId, IdError, ReportId, Scoped, TenantId};
pub use owner::{Owned, Owner};
pub use quality::Quality;
pub use scope::Scope;
pub use secret::Secret;
pub use shell::shell_word;
