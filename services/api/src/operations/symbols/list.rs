//! `GET /v1/symbols`.

use crate::operations::prelude::*;
use crate::requests::input::{check_texts, parse_period};
use crate::requests::page::{position_by_time, time_and_id};
use unslide_model::DebugId;
use unslide_store::objects::ObjectStatus;
use unslide_store::symbols::{self, ObjectFilter, ObjectListing};

/// File names are never longer.
const FILTER_BYTES: usize = 255;

/// Which objects to list. An absent filter does not limit the list.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SymbolQuery {
    /// Name of the file, without its folder.
    #[param(example = "Shop", max_length = 255)]
    pub name: Option<String>,
    /// Architecture of the file, such as `arm64`.
    #[param(example = "arm64", max_length = 255)]
    pub arch: Option<String>,
    /// `queued`, `building`, `ready`, `malformed`, `unsupported` or `too_complex`.
    pub status: Option<String>,
    /// A debug id or how it begins, dashed or not, in any case.
    #[param(example = "0f1e2d3c")]
    pub debug_id: Option<String>,
    /// First uploaded at this time or later (RFC 3339).
    #[param(format = DateTime, example = "2026-11-20T09:00:00Z")]
    pub from: Option<String>,
    /// First uploaded before this time (RFC 3339).
    #[param(format = DateTime)]
    pub to: Option<String>,
    /// Entries a page, 1 to 500; 50 if absent.
    #[param(minimum = 1, maximum = 500)]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page, unchanged.
    #[param(max_length = 4096)]
    pub cursor: Option<String>,
}

problems!(Failures: InvalidParameter);

/// List symbols
///
/// Lists every object that was found in an upload, newest first.
#[utoipa::path(get, path = "/symbols", tag = "symbols", operation_id = "list_symbols",
    params(SymbolQuery),
    responses((status = 200, description = "A page of objects.", body = Page<ObjectListing>), Failures),
    security(("key" = ["symbols:read"])))]
pub async fn list_symbols(
    State(storage): State<Arc<Storage>>,
    access: Access<SymbolsRead>,
    Query(query): Query<SymbolQuery>,
) -> Result<Json<Page<ObjectListing>>, Problem> {
    let page = PageQuery { limit: query.limit, cursor: query.cursor.clone() };
    let filter = ObjectFilter { app: access.restrict_app(None)?, ..build_filter(query)? };
    let owner = access.symbol_owner();
    let list = List::for_operation(&owner, "list_symbols", &filter);
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.owner(&owner).await?;
    let found = symbols::list_objects(&mut tx, &filter, after, limit).await?;
    Ok(Json(Page {
        items: found.objects,
        next_cursor: found.next.map(|next| list.encode_cursor(&position_by_time(next.0, next.1))),
    }))
}

fn build_filter(query: SymbolQuery) -> Result<ObjectFilter, Problem> {
    let texts = [("name", query.name.as_deref()), ("arch", query.arch.as_deref())];
    check_texts(Kind::InvalidParameter, FILTER_BYTES, texts)?;
    let (from, to) = parse_period(query.from.as_deref(), query.to.as_deref())?;
    Ok(ObjectFilter {
        name: query.name,
        arch: query.arch,
        status: query.status.as_deref().map(parse_status).transpose()?,
        debug_ids: query.debug_id.as_deref().map(parse_prefix).transpose()?,
        from,
        to,
        app: None,
    })
}

fn parse_status(text: &str) -> Result<ObjectStatus, Problem> {
    ObjectStatus::parse(text).ok_or_else(|| {
        Problem::new(
            Kind::InvalidParameter,
            "status: queued, building, ready, malformed, unsupported or too_complex".to_owned(),
        )
    })
}

/// Returns the lowest and the highest debug id with this prefix.
fn parse_prefix(text: &str) -> Result<(DebugId, DebugId), Problem> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let wrong =
        || Problem::new(Kind::InvalidParameter, "debug_id: 1 to 32 hexadecimal digits, dashed or not");
    if digits.is_empty() || digits.len() > 32 || !digits.is_ascii() {
        return Err(wrong());
    }
    let filled = |with: &str| format!("{digits}{}", with.repeat(32 - digits.len())).parse::<DebugId>();
    Ok((filled("0").map_err(|_| wrong())?, filled("f").map_err(|_| wrong())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_debug_id_stands_for_all_that_begin_so() {
        let (lowest, highest) = parse_prefix("0F1E2d3c-4b").unwrap();
        assert_eq!(lowest.to_string(), "0f1e2d3c-4b00-0000-0000-000000000000");
        assert_eq!(highest.to_string(), "0f1e2d3c-4bff-ffff-ffff-ffffffffffff");
        let whole = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        let (lowest, highest) = parse_prefix(whole).unwrap();
        assert_eq!((lowest.to_string().as_str(), lowest), (whole, highest));
        for bad in ["", "-", "xyz", "é", &"0".repeat(33)] {
            assert_eq!(parse_prefix(bad).unwrap_err().kind(), Kind::InvalidParameter, "{bad}");
        }
    }
}
