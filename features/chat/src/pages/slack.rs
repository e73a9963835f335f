//! `/console/chat`: the Slack app of a tenant, set, tested and removed.

use crate::ChatExtension;
use crate::operations::get::get_slack;
use crate::operations::remove::remove_slack;
use crate::operations::set::{NewSlackApp, set_slack};
use crate::operations::test::{SlackTest, test_slack};
use crate::operations::{ShownSlackApp, SlackSetting};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{JsonBody, Problem, TenantAdmin};
use unslide_model::Secret;
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

/// The path of the page.
pub const SLACK_PAGE: &str = "/console/chat";

#[derive(Template)]
#[template(path = "chat/slack.html", askama = escaping)]
struct SlackPage {
    shell: Shell,
    slack: Option<ShownSlackApp>,
    /// The test that was just done.
    test: Option<SlackTest>,
}

/// `GET`: the Slack app.
pub async fn show_slack(
    storage: State<Arc<Storage>>,
    chat: ChatExtension,
    signed: SignedIn<TenantAdmin>,
) -> Result<Response, Problem> {
    let Json(SlackSetting { slack }) = get_slack(storage, chat, signed.access).await?;
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Slack");
    render_html(&SlackPage { shell, slack, test: None })
}

/// `POST`: sets, tests or removes the Slack app.
pub async fn change_slack(
    storage: State<Arc<Storage>>,
    chat: ChatExtension,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let access = signed.access;
    match form.field_text("action").as_str() {
        "remove" => drop(remove_slack(storage, access).await?),
        "test" => {
            let Json(test) = test_slack(storage.clone(), chat.clone(), access.clone()).await?;
            let Json(SlackSetting { slack }) = get_slack(storage, chat, access).await?;
            let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Slack");
            return render_html(&SlackPage { shell, slack, test: Some(test) });
        }
        _ => {
            let new = NewSlackApp {
                bot_token: form.get("bot_token").map(Secret::new),
                signing_secret: form.get("signing_secret").map(Secret::new),
                channel: form.field_text("channel"),
                reports: form.parse_number("reports")?,
                app: form.get("app").map(str::to_owned),
                team: None,
                force: false,
            };
            drop(set_slack(storage, chat, access, JsonBody(new)).await?);
        }
    }
    Ok(Redirect::to(SLACK_PAGE).into_response())
}
