//! A request with a token: its tenant, its parameters and its body.

use crate::protocol::{Comparison, ScimFailure, parse_filter};
use crate::token::find_caller;
use axum::extract::{FromRef, FromRequest, Request};
use http::Method;
use http::request::Parts;
use serde_json::Value;
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::intake::{Caller, Chunks, Reservation, assign_caller};
use unslide_api::feature::operation::{Api, parse_bearer};
use unslide_api::problem::Problem;
use unslide_model::{TenantId, json};
use unslide_store::TenantTx;

/// The most bytes of a body: a group of 10,000 members in Microsoft Entra's form has less.
const BODY_BYTES_LIMIT: u64 = 2 << 20;
/// Resources of a page: the maximum, and the default.
pub const PAGE_LIMIT: u32 = 200;
const PAGE_DEFAULT: u32 = 100;

/// A request with a valid token.
pub struct ScimRequest {
    pub keys: Arc<Keys>,
    pub tenant: TenantId,
    /// The token, as the audit log names it.
    pub actor: String,
    pub page: PageWish,
    /// Comparisons that resources of a list must fulfil.
    pub filter: Vec<Comparison>,
    /// True if an answer has no members of groups.
    pub leaves_members_out: bool,
    /// The body as JSON; null without one.
    pub body: Value,
}

/// The part of a list that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageWish {
    /// The place of the first resource, from 1.
    pub start: u32,
    pub count: u32,
}

impl PageWish {
    /// Returns the number of resources before the page.
    pub fn skipped(self) -> u32 {
        self.start.saturating_sub(1)
    }

    fn read(start: Option<&str>, count: Option<&str>) -> Result<PageWish, ScimFailure> {
        let read = |name: &str, text: Option<&str>| {
            let number = text.map(str::parse::<i64>).transpose();
            let number =
                number.map_err(|_| ScimFailure::value(format!("{name}: a whole number is expected")));
            Ok::<_, ScimFailure>(number?.map(|number| u32::try_from(number.max(0)).unwrap_or(u32::MAX)))
        };
        let start = read("startIndex", start)?.unwrap_or(1).max(1);
        let count = read("count", count)?.unwrap_or(PAGE_DEFAULT).min(PAGE_LIMIT);
        Ok(PageWish { start, count })
    }
}

impl ScimRequest {
    /// Begins a transaction of the tenant.
    pub async fn begin(&self) -> Result<unslide_api::feature::site::Tx<TenantTx>, ScimFailure> {
        Ok(self.keys.storage.tenant(&self.tenant).await?)
    }

    /// Forgets the keys of the tenant that this process has read. Other processes read them again within a second.
    pub fn forget_keys(&self) {
        self.keys.cache.forget(&self.tenant);
    }
}

impl FromRequest<Api> for ScimRequest {
    type Rejection = ScimFailure;

    async fn from_request(request: Request, api: &Api) -> Result<ScimRequest, ScimFailure> {
        let keys = <Arc<Keys>>::from_ref(api);
        let (parts, body) = request.into_parts();
        let caller = find_caller(&keys, parse_bearer(&parts.headers).unwrap_or_default()).await?;
        let tenant = caller.tenant.clone();
        assign_caller(&parts.extensions, &keys.capacity, Caller::Tenant(tenant.clone()))?;
        let mut read = ScimRequest {
            actor: format!("SCIM token {}", caller.prefix),
            page: PageWish { start: 1, count: PAGE_DEFAULT },
            filter: Vec::new(),
            leaves_members_out: false,
            body: Value::Null,
            tenant,
            keys,
        };
        read.read_parameters(&parts)?;
        if parts.method != Method::GET && parts.method != Method::DELETE {
            let capacity = &read.keys.capacity;
            let mut reserved =
                Reservation::new(&capacity.permits.bodies, &read.tenant, 0).map_err(Problem::from)?;
            let pace = capacity.limits.client_pace();
            let chunks = Chunks::new(&parts.headers, body, BODY_BYTES_LIMIT, pace)?;
            let bytes = chunks.collect_body(&mut reserved).await?;
            read.body = json::from_slice(&bytes)
                .map_err(|error| ScimFailure::syntax(format!("the body: {error}")))?;
        }
        Ok(read)
    }
}

impl ScimRequest {
    /// Reads the parameters of the address. Others than these mean nothing here.
    fn read_parameters(&mut self, parts: &Parts) -> Result<(), ScimFailure> {
        let (mut start, mut count) = (None, None);
        for (name, value) in form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes()) {
            match name.to_lowercase().as_str() {
                "startindex" => start = Some(value.into_owned()),
                "count" => count = Some(value.into_owned()),
                "filter" if !value.trim().is_empty() => self.filter = parse_filter(&value)?,
                "excludedattributes" => {
                    let mut names = value.split(',').map(str::trim);
                    self.leaves_members_out = names.any(|name| name.eq_ignore_ascii_case("members"));
                }
                _ => {}
            }
        }
        self.page = PageWish::read(start.as_deref(), count.as_deref())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_bounded_and_begin_with_one() {
        let read = |start: &str, count: &str| {
            let page = PageWish::read(Some(start).filter(|text| !text.is_empty()), Some(count)).ok()?;
            Some((page.start, page.skipped(), page.count))
        };
        assert_eq!(read("1", "2"), Some((1, 0, 2)));
        assert_eq!(read("101", "100"), Some((101, 100, 100)));
        assert_eq!(read("", "0"), Some((1, 0, 0)));
        assert_eq!(read("-4", "-1"), Some((1, 0, 0)));
        assert_eq!(read("0", "999999999999"), Some((1, 0, PAGE_LIMIT)));
        assert_eq!((read("x", "1"), read("1", "1.5")), (None, None));
        assert_eq!(PageWish::read(None, None).unwrap().count, PAGE_DEFAULT);
    }
}
