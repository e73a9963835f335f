//! The operations of the API.

mod crash_free;
mod figure;
mod memory_limits;
mod metric_breakdown;
mod network;
mod period;
mod prelude;
mod send_metrics;
mod send_sessions;
mod versions;

pub use crash_free::SignificantChanges;
pub use figure::FigureStep;

use prelude::*;

/// The routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(send_sessions::send_sessions))
        .routes(routes!(send_metrics::send_metrics))
        .routes(routes!(crash_free::get_health))
        .routes(routes!(versions::compare_versions))
        .routes(routes!(metric_breakdown::break_down_metric))
        .routes(routes!(figure::get_figure))
        .routes(routes!(network::get_network))
        .routes(routes!(network::list_network))
        .routes(routes!(memory_limits::list_memory_limits))
}
