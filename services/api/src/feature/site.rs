//! Parts for a site that shows data to people in a browser: the operations of the core as functions, and the admission of
//! requests.

pub use crate::http::server::Peer;
pub use crate::http::time_limit::bound_time;
pub use crate::limits::pace::ClientPace;
pub use crate::operations::apps::settings::{NewAppSettings, set_app_settings};
pub use crate::operations::apps::versions::list_versions;
pub use crate::operations::audit_log::list_audit_log;
pub use crate::operations::dead_letters::get::{BytesShown, open_letter};
pub use crate::operations::dead_letters::list::{DeadLetterQuery, list_dead_letters};
pub use crate::operations::dead_letters::replay::{ReplayWish, replay_dead_letter};
pub use crate::operations::group_views::change::{GroupViewPatch, change_group_view};
pub use crate::operations::group_views::create::{NewGroupView, create_group_view};
pub use crate::operations::group_views::delete::delete_group_view;
pub use crate::operations::group_views::list::list_group_views;
pub use crate::operations::grouping_rules::{
    GroupingRulesEffect, GroupingRulesTrial, NewGroupingRules, get_grouping_rules, set_grouping_rules,
    try_grouping_rules,
};
pub use crate::operations::groups::activity::list_group_activity;
pub use crate::operations::groups::bulk::{
    CHANGED_GROUPS_LIMIT, ChangedGroups, GroupChanges, GroupOutcome, change_all_as_author,
};
pub use crate::operations::groups::change::{GroupPatch, change_as_author};
pub use crate::operations::groups::findings::{describe_only_device, describe_verdict, load_context};
pub use crate::operations::groups::get::{GroupFormatQuery, get_group};
pub use crate::operations::groups::list::{GROWING, GROWING_DAYS, GroupQuery, count_groups, list_groups};
pub use crate::operations::groups::reference::{GROUP_HOURS, find_named_group, load_group, resolve_group};
pub use crate::operations::groups::representative::choose_report;
pub use crate::operations::groups::{Author, comment, edit_comment, group_link, merge, split};
pub use crate::operations::keys::create::create_key;
pub use crate::operations::keys::list::list_keys;
pub use crate::operations::keys::{CreatedKey, NewKeyBody, RevokeQuery, revoke_key};
pub use crate::operations::reports::delete::delete_report;
pub use crate::operations::reports::explain::explain_stored;
pub use crate::operations::reports::get::{GetQuery, VariantQuery, get_report};
pub use crate::operations::reports::list::{ReportQuery, list_reports, read_report_total};
pub use crate::operations::reports::load::{load_listed, load_report};
pub use crate::operations::reprocess::{BegunReprocess, NewReprocess, begin_reprocess, get_reprocess};
pub use crate::operations::search::by_id::{find_by_id, find_by_short_id, read_id};
pub use crate::operations::search::matches::SearchMatch;
pub use crate::operations::search::person_search::{
    PersonSearchSetting, get_person_search, set_person_search,
};
pub use crate::operations::search::{SearchQuery, SearchResults, search};
pub use crate::operations::sessions::get::{SessionQuery, get_session};
pub use crate::operations::symbols::delete::delete_symbols;
pub use crate::operations::symbols::list::{SymbolQuery, list_symbols};
pub use crate::operations::symbols::sees_symbols;
pub use crate::operations::symbols::upload::{UploadQuery, upload_symbols};
pub use crate::operations::tenants::usage::{TenantUsageQuery, list_tenant_usage};
pub use crate::reports::sampled::{load_profile, no_profile};
pub use crate::reports::stored_body;
pub use crate::requests::access::{
    GroupsWrite, Operator, Permission, SymbolsRead, SymbolsWrite, admit_request, authenticate_key,
    parse_bearer,
};
pub use crate::storage::transactions::Tx;
