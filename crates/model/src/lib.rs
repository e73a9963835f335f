//! Shared types of Unslide: ids that carry their tenant, addresses that cannot be mixed up, and the
//! few values that every layer uses. No I/O. The clock is a parameter.

#![warn(missing_docs)]

mod clock;
mod commit;
mod counts;
pub mod ended;
mod grouping;
mod ids;
pub mod key_digits;
mod macho;
pub mod resource_use;
mod signal;
mod text;
pub mod timestamp;

pub use clock::{Clock, FixedClock, SystemClock};
pub use commit::{is_commit, shorten_commit};
pub use counts::cost;
pub use counts::distinct::DistinctSketch;
pub use counts::quantile::QuantileSketch;
pub use counts::stats::Stats;
pub use grouping::ReportGrouping;
pub use ids::body_key::BodyKey;
pub use ids::group_ref::{GroupRef, NotAGroupRef, strip_page_address};
pub use ids::id::{ContentHash, DebugId, IdError, ReportId, Scoped, TenantId};
pub use ids::owner::{Owned, Owner};
pub use ids::preset::KeyPreset;
pub use ids::scope::Scope;
pub use ids::secret::Secret;
pub use ids::sender_key::SenderKeyId;
pub use ids::short_id;
pub use macho::address::{FileAddress, LoadAddress, RelativeAddress, Slide};
pub use macho::cpu::{CpuFamily, CpuType};
pub use macho::dsym_search::{find_dsym_command, upload_dsym_command};
pub use macho::quality::Quality;
pub use macho::symbol_name::{SymbolName, is_hidden_symbol};
pub use resource_use::{PROCESS_USE, ResourceUse, ResourceUses};
pub use signal::AppSignal;
pub use text::causes::format_causes;
pub use text::figures;
pub use text::host::{is_local, is_sent_unencrypted};
pub use text::json;
pub use text::line::{first_bytes, one_line};
pub use text::moment::{Moment, format_time};
pub use text::shell::shell_word;
pub use text::units;
pub use text::versions::{compare_versions, is_newer};
