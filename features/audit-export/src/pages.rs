//! `/console/audit-receivers`: the receivers of the audit log, set, tested and removed.

use crate::AuditExportExtension;
use crate::operations::list::list_audit_receivers;
use crate::operations::remove::remove_audit_receiver;
use crate::operations::set::{NewAuditReceiver, set_audit_receiver};
use crate::operations::test::{AuditReceiverTest, test_audit_receiver};
use crate::operations::{AuditReceiverList, ShownReceiver};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Api, JsonBody, Path, Problem, TenantAdmin};
use unslide_model::Secret;
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

/// The path of the page.
pub const RECEIVERS_PAGE: &str = "/console/audit-receivers";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(RECEIVERS_PAGE, get(show_receivers).post(change_receiver))
}

#[derive(Template)]
#[template(path = "audit-export/receivers.html", askama = escaping)]
struct ReceiversPage {
    shell: Shell,
    receivers: Vec<ShownReceiver>,
    /// The receiver that was just set, with the secret that is shown once.
    set: Option<ShownReceiver>,
    /// The test that was just done, with the name of its receiver.
    test: Option<(String, AuditReceiverTest)>,
}

async fn load_receivers(
    storage: State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Vec<ShownReceiver>, Problem> {
    let Json(AuditReceiverList { receivers }) = list_audit_receivers(storage, access).await?;
    Ok(receivers)
}

/// `GET`: the receivers.
async fn show_receivers(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
) -> Result<Response, Problem> {
    let receivers = load_receivers(storage, signed.access).await?;
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Audit receivers");
    render_html(&ReceiversPage { shell, receivers, set: None, test: None })
}

/// `POST`: sets, tests or removes a receiver. What is shown once is on the page that answers.
async fn change_receiver(
    storage: State<Arc<Storage>>,
    audit_export: AuditExportExtension,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let (name, access) = (form.field_text("name"), signed.access);
    let (mut set, mut test) = (None, None);
    match form.field_text("action").as_str() {
        "remove" => {
            remove_audit_receiver(storage, access, Path(name)).await?;
            return Ok(Redirect::to(RECEIVERS_PAGE).into_response());
        }
        "test" => {
            let tested =
                test_audit_receiver(storage.clone(), audit_export, access.clone(), Path(name.clone()));
            let Json(done) = tested.await?;
            test = Some((name, done));
        }
        _ => {
            let new = NewAuditReceiver {
                name,
                kind: form.parse_word("kind")?,
                address: Secret::new(form.field_text("address")),
                secret: form.get("secret").map(Secret::new),
                authority: form.get("authority").map(str::to_owned),
                from_start: form.has_field("from_start"),
            };
            let body = JsonBody(new);
            let Json(done) = set_audit_receiver(storage.clone(), audit_export, access.clone(), body).await?;
            if done.new_secret.is_none() {
                return Ok(Redirect::to(RECEIVERS_PAGE).into_response());
            }
            set = Some(done);
        }
    }
    let receivers = load_receivers(storage, access).await?;
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Audit receivers");
    render_html(&ReceiversPage { shell, receivers, set, test })
}
