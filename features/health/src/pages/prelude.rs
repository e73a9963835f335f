//! Names that nearly every page uses.

pub(crate) use axum::extract::State;
pub(crate) use axum::response::Response;
pub(crate) use unslide_api::feature::operation::{Api, Kind, Problem, Query, ReportsRead};
pub(crate) use unslide_site::{
    FilterBar, PageState, Shell, SignedIn, Template, build_link, counted, escaping, estimate, filters,
    period_select, render_html, text_or,
};
