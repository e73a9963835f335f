//! Names that nearly every page uses.

pub(crate) use axum::Json;
pub(crate) use axum::extract::State;
pub(crate) use axum::response::{IntoResponse, Redirect, Response};
pub(crate) use std::sync::Arc;
pub(crate) use unslide_api::feature::operation::{Kind, Path, Problem, Query, ReportsRead, ReservedAnswer};
pub(crate) use unslide_api::feature::{Storage, Symbolication};
pub(crate) use unslide_site::{
    FLAME_PATH, PageState, Shell, SignedIn, Template, escaping, filters, html_answer, render_html,
};
