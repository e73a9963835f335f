//! The schemas of reports in the OpenAPI document. The service's own output has separate schemas
//! (`docs/schema`), which are served beside the document.

use utoipa::openapi::schema::{AdditionalProperties, ArrayBuilder, Type};
use utoipa::openapi::{ObjectBuilder, OneOfBuilder, Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// A report with the additions of the service.
pub struct EnrichedReport;

impl PartialSchema for EnrichedReport {
    fn schema() -> RefOr<Schema> {
        Ref::new("schemas/symbolication-v1.json").into()
    }
}

impl ToSchema for EnrichedReport {}

/// The explanation of each frame of a report.
pub struct ExplanationSchema;

impl PartialSchema for ExplanationSchema {
    fn schema() -> RefOr<Schema> {
        Ref::new("schemas/explanation-v1.json").into()
    }
}

impl ToSchema for ExplanationSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "Explanation".into()
    }
}

/// A report as the SDK writes it.
pub struct CrashReport;

impl PartialSchema for CrashReport {
    fn schema() -> RefOr<Schema> {
        let images = ArrayBuilder::new()
            .items(build_object("`image_addr`, `image_size`, `uuid`, `name` and more."))
            .description(Some("The images that were loaded in the process."));
        build_object(
            "A KSCrash report, format versions 2 to 3.9. The members that matter most are named here.",
        )
        .property("report", build_object("`id`, `version`, `type`, `timestamp` and more."))
        .property("system", build_object("The device, the system and the app."))
        .property("binary_images", images)
        .property("crash", build_object("`error`, and `threads` with their backtraces."))
        .into()
    }
}

impl ToSchema for CrashReport {}

/// The body of a request with reports.
pub struct CrashReports;

impl PartialSchema for CrashReports {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::from_schema_name("CrashReport");
        OneOfBuilder::new().item(one()).item(ArrayBuilder::new().items(one())).into()
    }
}

impl ToSchema for CrashReports {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((CrashReport::name().into_owned(), CrashReport::schema()));
    }
}

fn build_object(about: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(about))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
}
