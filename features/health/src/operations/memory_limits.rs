//! `GET /v1/apps/{app}/memory-limits`.

use super::prelude::*;
use crate::store::figures::memory_limits::{self, MemoryLimit};

/// How much memory an app may have.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AppMemoryLimits {
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// By device model and system version, those of the most reports first.
    #[schema(max_items = 200)]
    pub limits: Vec<MemoryLimit>,
}

problems!(Failures: NotFound);

/// List an app's memory limits
///
/// Lists the memory limits of the app on each device model and system version. They come from the newest 1,000 reports and the
/// newest 1,000 sessions with a limit: from `app_memory` of KSCrash, from Jetsam events that ended the app at its limit, and
/// from `footprint_limit` of sessions. If a run names no limit, its end is evaluated with the median, which needs three
/// devices.
#[utoipa::path(get, path = "/v1/apps/{app}/memory-limits", tag = "apps", operation_id = "list_memory_limits",
    params(("app" = String, Path, description = "Bundle identifier.", example = "com.example.shop")),
    responses((status = 200, description = "The limits.", body = AppMemoryLimits), Failures),
    security(("key" = ["reports:read"])))]
pub async fn list_memory_limits(
    State(storage): State<Arc<Storage>>,
    access: Access<ReportsRead>,
    Path(app): Path<String>,
) -> Result<Json<AppMemoryLimits>, Problem> {
    let none = "neither a report nor a session of this app says how much memory it may have";
    if !access.can_see(&app) {
        return Err(Problem::new(Kind::NotFound, none));
    }
    let mut tx = storage.tenant(access.tenant()).await?;
    let limits = memory_limits::app_limits(&mut tx, &app).await?;
    if limits.is_empty() {
        return Err(Problem::new(Kind::NotFound, none));
    }
    Ok(Json(AppMemoryLimits { app: app.replace('\0', ""), limits }))
}
