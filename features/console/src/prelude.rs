//! Common imports of pages.

pub(crate) use crate::bar::PageState;
pub(crate) use crate::escaping::{self, Template, filters};
pub(crate) use crate::link::build_link;
pub(crate) use crate::session::SignedIn;
pub(crate) use crate::shell::{Shell, render_html};
pub(crate) use crate::words::{self, counted};
pub(crate) use axum::Json;
pub(crate) use axum::extract::State;
pub(crate) use axum::response::{IntoResponse, Redirect, Response};
pub(crate) use std::sync::Arc;
pub(crate) use unslide_api::feature::Api;
pub(crate) use unslide_api::feature::operation::{Access, ReportsRead};
pub(crate) use unslide_api::feature::operation::{Path, Query};
pub(crate) use unslide_api::feature::{Broker, Keys, Storage, Symbolication};
pub(crate) use unslide_api::problem::{Kind, Problem};
