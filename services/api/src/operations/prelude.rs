//! Common imports of operations.

pub(crate) use crate::limits::capacity::Capacity;
pub(crate) use crate::operation_router::OperationRouter;
pub(crate) use crate::problem::{Kind, Problem, problems};
pub(crate) use crate::reports::symbolication::Symbolication;
pub(crate) use crate::requests::accepted::AcceptedResponse;
pub(crate) use crate::requests::access::{
    Access, GroupsWrite, Operator, ReportsRead, ReportsWrite, SymbolsRead, SymbolsState, SymbolsWrite,
    TenantAdmin,
};
pub(crate) use crate::requests::broker::Broker;
pub(crate) use crate::requests::input::{Path, Query, parse_parameter};
pub(crate) use crate::requests::keys::Keys;
pub(crate) use crate::requests::page::{List, Page, PageQuery};
pub(crate) use crate::routes;
pub(crate) use crate::storage::Storage;
pub(crate) use axum::Json;
pub(crate) use axum::extract::State;
pub(crate) use serde::{Deserialize, Serialize};
pub(crate) use std::sync::Arc;
pub(crate) use utoipa::{IntoParams, ToSchema};
