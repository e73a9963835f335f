//! Common imports of pages.

pub(crate) use axum::Json;
pub(crate) use axum::extract::State;
pub(crate) use axum::response::{IntoResponse, Redirect, Response};
pub(crate) use std::sync::Arc;
pub(crate) use unslide_api::feature::Api;
pub(crate) use unslide_api::feature::operation::{Access, ReportsRead};
pub(crate) use unslide_api::feature::operation::{Path, Query};
pub(crate) use unslide_api::feature::{Broker, Keys, Storage, Symbolication};
pub(crate) use unslide_api::problem::{Kind, Problem};
pub(crate) use unslide_site::words::{self, counted};
pub(crate) use unslide_site::{
    PageState, Shell, SignedIn, Template, build_link, escaping, filters, render_html,
};
