//! Common imports of pages.

pub(crate) use crate::console::bar::PageState;
pub(crate) use crate::console::escaping::{self, Template, filters};
pub(crate) use crate::console::link::build_link;
pub(crate) use crate::console::session::SignedIn;
pub(crate) use crate::console::shell::{Shell, render_html};
pub(crate) use crate::console::words::{self, counted};
pub(crate) use crate::http::problem::{Kind, Problem};
pub(crate) use crate::requests::access::{Access, ReportsRead};
pub(crate) use crate::requests::input::{Path, Query};
pub(crate) use crate::state::Api;
pub(crate) use axum::Json;
pub(crate) use axum::extract::State;
pub(crate) use axum::response::{IntoResponse, Redirect, Response};
