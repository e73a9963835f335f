//! Names that nearly every page uses.

pub(crate) use axum::extract::State;
pub(crate) use axum::response::Response;
pub(crate) use std::sync::Arc;
pub(crate) use unslide_api::feature::Storage;
pub(crate) use unslide_api::feature::operation::{Kind, Problem, Query, ReportsRead};
pub(crate) use unslide_site::{
    FilterBar, PageState, Shell, SignedIn, Template, build_link, counted, escaping, estimate, filters,
    period_select, render_html, text_or,
};
