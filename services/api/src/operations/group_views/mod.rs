//! Saved views of the list of groups: one key's own, and those of the whole tenant.

pub mod change;
pub mod create;
pub mod delete;
pub mod list;

use crate::operations::groups::list::check_view_filter;
use crate::operations::prelude::*;
use crate::requests::input;
use unslide_model::Scope;
use unslide_store::groups::views::{GroupView, GroupViewFilter, MAX_VIEWS, ViewOutcome, ViewReader};

/// Maximum length of a view's name, in bytes.
const VIEW_NAME_BYTES: usize = 100;

/// Returns the routes of this folder.
pub fn group_view_routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(list::list_group_views, create::create_group_view))
        .routes(routes!(change::change_group_view, delete::delete_group_view))
}

/// A key that sees views.
struct Reader {
    key: String,
    app: Option<String>,
}

impl Reader {
    fn from_access(access: &Access<ReportsRead>) -> Reader {
        Reader { key: access.principal.key_id.to_string(), app: access.only_app().map(str::to_owned) }
    }

    fn as_view_reader(&self) -> ViewReader<'_> {
        ViewReader { key: &self.key, app: self.app.as_deref() }
    }
}

/// Refuses a change of a view by a key that may only look: of a shared view, or of a suspended tenant.
fn check_may_change(access: &Access<ReportsRead>, shared: bool) -> Result<(), Problem> {
    if shared && !access.principal.has_scope(Scope::GroupsWrite) {
        let detail = "shared: a view of the whole tenant needs the scope groups:write";
        return Err(Problem::new(Kind::InsufficientScope, detail));
    }
    if !access.principal.active {
        let detail = "the tenant is suspended: its keys can read and delete, but not add or change";
        return Err(Problem::new(Kind::TenantSuspended, detail));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Problem> {
    if input::is_text(name, VIEW_NAME_BYTES) && name.trim() == name {
        return Ok(());
    }
    let detail = format!("name: 1 to {VIEW_NAME_BYTES} bytes, no control characters, no space around it");
    Err(Problem::new(Kind::InvalidBody, detail))
}

/// Returns the filter of a view. A key for one app makes views of that app.
fn check_filter(
    access: &Access<ReportsRead>,
    mut filter: GroupViewFilter,
) -> Result<GroupViewFilter, Problem> {
    filter.app = access.restrict_app(filter.app)?;
    check_view_filter(&filter)?;
    Ok(filter)
}

fn check_outcome(outcome: ViewOutcome) -> Result<GroupView, Problem> {
    match outcome {
        ViewOutcome::Done(view) => Ok(*view),
        ViewOutcome::NotFound => Err(no_such_view()),
        ViewOutcome::NameTaken => {
            Err(Problem::new(Kind::Conflict, "name: another view has this name; choose another one"))
        }
        ViewOutcome::TooMany => {
            let detail = format!("there are {MAX_VIEWS} views already; delete one that is not needed");
            Err(Problem::new(Kind::LimitReached, detail))
        }
    }
}

fn no_such_view() -> Problem {
    Problem::new(Kind::NotFound, "there is no such view")
}
