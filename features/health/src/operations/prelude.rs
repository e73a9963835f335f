//! Names that nearly every operation uses.

pub(crate) use axum::Json;
pub(crate) use axum::extract::State;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use std::sync::Arc;
pub(crate) use unslide_api::feature::OperationRouter;
pub(crate) use unslide_api::feature::operation::{
    AcceptedResponse, Access, Kind, Path, Problem, Query, ReportsRead, ReportsWrite, problems,
};
pub(crate) use unslide_api::feature::{Broker, Storage};
pub(crate) use unslide_api::routes;
pub(crate) use utoipa::{IntoParams, ToSchema};
