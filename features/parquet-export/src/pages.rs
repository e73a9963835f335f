//! `/console/parquet-export`: the bucket of the tenant, set, tested and removed.

use crate::ParquetExportExtension;
use crate::operations::get::get_parquet_export;
use crate::operations::remove::remove_parquet_export;
use crate::operations::set::{NewParquetExport, set_parquet_export};
use crate::operations::test::{ParquetExportTest, test_parquet_export};
use crate::operations::{ParquetExportSetting, ShownExport};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Api, JsonBody, Problem, TenantAdmin};
use unslide_model::Secret;
use unslide_site::{SentForm, Shell, SignedIn, Template, escaping, filters, render_html};

/// The path of the page.
pub const EXPORT_PAGE: &str = "/console/parquet-export";

/// Returns the routes of the page.
pub fn routes() -> Router<Api> {
    Router::new().route(EXPORT_PAGE, get(show_export).post(change_export))
}

#[derive(Template)]
#[template(path = "parquet-export/export.html", askama = escaping)]
struct ExportPage {
    shell: Shell,
    export: Option<ShownExport>,
    /// The test that was just done.
    test: Option<ParquetExportTest>,
}

async fn load_export(
    storage: State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Option<ShownExport>, Problem> {
    let Json(ParquetExportSetting { export }) = get_parquet_export(storage, access).await?;
    Ok(export)
}

/// `GET`: the export.
async fn show_export(
    storage: State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
) -> Result<Response, Problem> {
    let export = load_export(storage, signed.access).await?;
    let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Parquet export");
    render_html(&ExportPage { shell, export, test: None })
}

/// `POST`: sets, tests or removes the export.
async fn change_export(
    storage: State<Arc<Storage>>,
    export: ParquetExportExtension,
    signed: SignedIn<TenantAdmin>,
    form: SentForm,
) -> Result<Response, Problem> {
    let access = signed.access;
    match form.field_text("action").as_str() {
        "remove" => drop(remove_parquet_export(storage, access).await?),
        "test" => {
            let Json(done) = test_parquet_export(storage.clone(), export, access.clone()).await?;
            let export = load_export(storage, access).await?;
            let shell = Shell::for_viewer(signed.viewer, crate::NAME, "Parquet export");
            return render_html(&ExportPage { shell, export, test: Some(done) });
        }
        _ => {
            let new = NewParquetExport {
                address: form.get("address").map(Secret::new),
                bucket: form.field_text("bucket"),
                prefix: form.get("prefix").map(str::to_owned),
                region: form.get("region").map(str::to_owned),
                access_key: form.field_text("access_key"),
                secret_key: form.get("secret_key").map(Secret::new),
                from_start: form.has_field("from_start"),
            };
            drop(set_parquet_export(storage, export, access, JsonBody(new)).await?);
        }
    }
    Ok(Redirect::to(EXPORT_PAGE).into_response())
}
