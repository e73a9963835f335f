//! Lists as files in the OpenAPI document.

use super::{ExportFormat, MAX_ENTRIES};
use unslide_api::feature::lists::ListTable;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ContentBuilder, ObjectBuilder, OpenApi, RefOr, Required};

/// The values of the parameter. The last one is only for lists of entries with ids.
const FORMAT_WORDS: [&str; 4] = ["json", "ndjson", "csv", "elasticsearch"];

/// Adds the parameter and the forms of the answer to the operation of each list.
pub fn document_exports(document: &mut OpenApi, tables: &[&'static ListTable]) {
    for table in tables {
        let item = document.paths.paths.get_mut(table.path);
        if let Some(operation) = item.and_then(|item| item.get.as_mut()) {
            add_parameter(operation, table.has_ids());
            add_forms(operation);
        }
    }
}

fn add_parameter(operation: &mut Operation, has_ids: bool) {
    let about = format!(
        "`csv` or `ndjson` answers the whole list as a file, as `Accept: text/csv` and `Accept: application/x-ndjson` do; \
         `limit` is then the most entries of the file, 1 to {MAX_ENTRIES}. A file that is not whole does not end \
         regularly. `json` if absent.{}",
        if has_ids { " `elasticsearch` is a file for the bulk API of Elasticsearch." } else { "" }
    );
    let words = if has_ids { &FORMAT_WORDS[..] } else { &FORMAT_WORDS[..3] };
    let words = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.to_vec()));
    let parameter = ParameterBuilder::new()
        .name("format")
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(words.build()))
        .build();
    operation.parameters.get_or_insert_default().push(parameter.into());
}

fn add_forms(operation: &mut Operation) {
    let Some(RefOr::T(answer)) = operation.responses.responses.get_mut("200") else { return };
    for format in [ExportFormat::Ndjson, ExportFormat::Csv] {
        let kind = format.media_type().split(';').next().unwrap_or_default().to_owned();
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        answer.content.insert(kind, ContentBuilder::new().schema(Some(text)).build().into());
    }
}
