//! The columns of a file. Their names are those of the fields of `unslide.stored.v1.StoredEvent`, times are timestamps.

use crate::store::ExportedReport;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::errors::Result;
use parquet::schema::types::{Type, TypePtr};
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;
use time::OffsetDateTime;

/// The value of a row in one column. A text or a time may be absent.
pub enum CellValue<'r> {
    Text(Option<Cow<'r, str>>),
    Time(Option<OffsetDateTime>),
    Number(i32),
    Flag(bool),
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    Text,
    OptionalText,
    Time,
    OptionalTime,
    Number,
    Flag,
}

/// A column of the files, and its values.
pub struct Column {
    pub name: &'static str,
    pub kind: ColumnKind,
    pub read: for<'r> fn(&'r ExportedReport) -> CellValue<'r>,
}

/// All columns in their order. A column is only ever added, at the end.
pub const FILE_COLUMNS: &[Column] = &[
    column("report_id", ColumnKind::Text, |row| id(Some(row.report_id))),
    column("variant", ColumnKind::Number, |row| CellValue::Number(row.variant)),
    column("revision", ColumnKind::Number, |row| CellValue::Number(row.revision)),
    column("app", ColumnKind::Text, |row| text(Some(&row.app))),
    column("app_version", ColumnKind::Text, |row| text(Some(&row.app_version))),
    column("app_build", ColumnKind::Text, |row| text(Some(&row.app_build))),
    column("kind", ColumnKind::Text, |row| text(Some(&row.kind))),
    column("fatal", ColumnKind::Flag, |row| CellValue::Flag(row.fatal)),
    column("status", ColumnKind::Text, |row| text(Some(&row.status))),
    column("exception", ColumnKind::OptionalText, |row| text(row.exception.as_ref())),
    column("signal", ColumnKind::OptionalText, |row| text(row.signal.as_ref())),
    column("fault", ColumnKind::OptionalText, |row| text(row.fault.as_ref())),
    column("group_id", ColumnKind::OptionalText, |row| id(row.group_id)),
    column("received_at", ColumnKind::Time, |row| CellValue::Time(Some(row.received_at))),
    column("occurred_at", ColumnKind::OptionalTime, |row| CellValue::Time(row.occurred_at)),
    column("stored_at", ColumnKind::Time, |row| CellValue::Time(Some(row.stored_at))),
    column("os_name", ColumnKind::OptionalText, |row| text(row.os_name.as_ref())),
    column("os_version", ColumnKind::OptionalText, |row| text(row.os_version.as_ref())),
    column("os_build", ColumnKind::OptionalText, |row| text(row.os_build.as_ref())),
    column("model", ColumnKind::OptionalText, |row| text(row.model.as_ref())),
    column("cpu_arch", ColumnKind::OptionalText, |row| text(row.cpu_arch.as_ref())),
    column("teller", ColumnKind::Text, |row| text(Some(&row.teller))),
    column("weight", ColumnKind::Number, |row| CellValue::Number(row.weight)),
    column("same_crash_as", ColumnKind::OptionalText, |row| id(row.same_crash_as)),
    column("frames", ColumnKind::Number, |row| CellValue::Number(row.frames)),
    column("frames_symbolicated", ColumnKind::Number, |row| CellValue::Number(row.frames_symbolicated)),
    column("frames_missing", ColumnKind::Number, |row| CellValue::Number(row.frames_missing)),
    column("own_frames", ColumnKind::Number, |row| CellValue::Number(row.own_frames)),
    column("own_frames_symbolicated", ColumnKind::Number, |row| {
        CellValue::Number(row.own_frames_symbolicated)
    }),
    column("symbols_missing", ColumnKind::Flag, |row| CellValue::Flag(row.symbols_missing)),
];

const fn column(
    name: &'static str,
    kind: ColumnKind,
    read: for<'r> fn(&'r ExportedReport) -> CellValue<'r>,
) -> Column {
    Column { name, kind, read }
}

fn text(value: Option<&String>) -> CellValue<'_> {
    CellValue::Text(value.map(|value| value.as_str().into()))
}

fn id<'r>(value: Option<impl Display>) -> CellValue<'r> {
    CellValue::Text(value.map(|value| value.to_string().into()))
}

impl ColumnKind {
    /// Returns true if rows may have no value.
    pub fn is_optional(self) -> bool {
        matches!(self, ColumnKind::OptionalText | ColumnKind::OptionalTime)
    }

    fn physical_type(self) -> PhysicalType {
        match self {
            ColumnKind::Text | ColumnKind::OptionalText => PhysicalType::BYTE_ARRAY,
            ColumnKind::Time | ColumnKind::OptionalTime => PhysicalType::INT64,
            ColumnKind::Number => PhysicalType::INT32,
            ColumnKind::Flag => PhysicalType::BOOLEAN,
        }
    }
}

/// Returns the schema of the files.
///
/// # Errors
/// The schema is not one of Parquet.
pub fn build_schema() -> Result<TypePtr> {
    let fields = FILE_COLUMNS.iter().map(|column| {
        let repetition = if column.kind.is_optional() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, column.kind.physical_type())
            .with_repetition(repetition);
        let logical_type = match column.kind {
            ColumnKind::Text | ColumnKind::OptionalText => Some(LogicalType::String),
            ColumnKind::Time | ColumnKind::OptionalTime => {
                Some(LogicalType::timestamp(true, TimeUnit::MICROS))
            }
            ColumnKind::Number | ColumnKind::Flag => None,
        };
        let field = field.with_logical_type(logical_type);
        field.build().map(Arc::new)
    });
    let fields = fields.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder("report").with_fields(fields).build()?))
}
