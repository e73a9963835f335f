//! One file in memory, of a bounded size: row groups are compressed into it as they come.

use super::columns::{CellValue, Column, FILE_COLUMNS, build_schema};
use crate::store::ExportedReport;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use std::sync::Arc;
use unslide_store::outbox::to_micros;

/// The rows could not be written as Parquet.
#[derive(Debug, thiserror::Error)]
#[error("the rows cannot be written as Parquet")]
pub struct FileWriteError(#[from] ParquetError);

/// A file that is being written.
pub struct ParquetFile {
    writer: SerializedFileWriter<Vec<u8>>,
    rows: usize,
}

impl ParquetFile {
    /// Begins a file.
    ///
    /// # Errors
    /// Parquet cannot have the columns.
    pub fn new() -> std::result::Result<ParquetFile, FileWriteError> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(concat!("unslide ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = SerializedFileWriter::new(Vec::new(), build_schema()?, Arc::new(properties))?;
        Ok(ParquetFile { writer, rows: 0 })
    }

    /// Returns the number of its rows.
    pub fn count_rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of bytes of its row groups.
    pub fn count_bytes(&self) -> usize {
        self.writer.bytes_written()
    }

    /// Adds rows as a row group.
    ///
    /// # Errors
    /// The rows cannot be written.
    pub fn add_rows(&mut self, rows: &[ExportedReport]) -> std::result::Result<(), FileWriteError> {
        let mut group = self.writer.next_row_group()?;
        for column in FILE_COLUMNS {
            let Some(mut writer) = group.next_column()? else { break };
            write_column(writer.untyped(), column, rows)?;
            writer.close()?;
        }
        group.close()?;
        self.rows += rows.len();
        Ok(())
    }

    /// Ends the file and returns its bytes.
    ///
    /// # Errors
    /// The end cannot be written.
    pub fn finish(self) -> std::result::Result<Vec<u8>, FileWriteError> {
        Ok(self.writer.into_inner()?)
    }
}

fn write_column(writer: &mut ColumnWriter<'_>, column: &Column, rows: &[ExportedReport]) -> Result<()> {
    let values = || rows.iter().map(|row| (column.read)(row));
    let levels: Vec<i16> = if column.kind.is_optional() {
        values().map(|value| i16::from(value.is_present())).collect()
    } else {
        Vec::new()
    };
    let levels = column.kind.is_optional().then_some(levels.as_slice());
    match writer {
        ColumnWriter::ByteArrayColumnWriter(writer) => {
            let texts: Vec<ByteArray> = values().filter_map(CellValue::into_text).collect();
            writer.write_batch(&texts, levels, None)?;
        }
        ColumnWriter::Int64ColumnWriter(writer) => {
            let times: Vec<i64> = values().filter_map(CellValue::into_micros).collect();
            writer.write_batch(&times, levels, None)?;
        }
        ColumnWriter::Int32ColumnWriter(writer) => {
            let numbers: Vec<i32> = values().filter_map(CellValue::into_number).collect();
            writer.write_batch(&numbers, levels, None)?;
        }
        ColumnWriter::BoolColumnWriter(writer) => {
            let flags: Vec<bool> = values().filter_map(CellValue::into_flag).collect();
            writer.write_batch(&flags, levels, None)?;
        }
        _ => return Err(ParquetError::General(format!("the column {} has another type", column.name))),
    }
    Ok(())
}

impl CellValue<'_> {
    fn is_present(&self) -> bool {
        !matches!(self, CellValue::Text(None) | CellValue::Time(None))
    }

    fn into_text(self) -> Option<ByteArray> {
        match self {
            CellValue::Text(text) => text.map(|text| ByteArray::from(text.as_ref())),
            _ => None,
        }
    }

    fn into_micros(self) -> Option<i64> {
        match self {
            CellValue::Time(at) => at.map(to_micros),
            _ => None,
        }
    }

    fn into_number(self) -> Option<i32> {
        match self {
            CellValue::Number(number) => Some(number),
            _ => None,
        }
    }

    fn into_flag(self) -> Option<bool> {
        match self {
            CellValue::Flag(flag) => Some(flag),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RowReportId;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use time::macros::datetime;
    use unslide_store::{GroupId, Uuid};

    fn row(number: u128) -> ExportedReport {
        ExportedReport {
            report_id: RowReportId::from_uuid(Uuid::from_u128(number)),
            variant: 1,
            revision: 2,
            app: "com.acme.shop".to_owned(),
            app_version: "1.0".to_owned(),
            app_build: "100".to_owned(),
            kind: "mach".to_owned(),
            fatal: true,
            status: "complete".to_owned(),
            exception: Some("EXC_BAD_ACCESS".to_owned()),
            signal: None,
            fault: None,
            group_id: Some(GroupId::from_uuid(Uuid::from_u128(9))),
            received_at: datetime!(2026-11-29 23:59:59.000001 UTC),
            occurred_at: None,
            stored_at: datetime!(2026-11-30 00:00 UTC),
            os_name: Some("iOS".to_owned()),
            os_version: Some("27.0".to_owned()),
            os_build: None,
            model: Some("iPhone17,1".to_owned()),
            cpu_arch: None,
            teller: "handler".to_owned(),
            weight: 4,
            same_crash_as: None,
            frames: 10,
            frames_symbolicated: 8,
            frames_missing: 1,
            own_frames: 6,
            own_frames_symbolicated: 5,
            symbols_missing: true,
        }
    }

    #[test]
    fn a_file_has_what_was_added_with_absent_values() {
        let mut file = ParquetFile::new().unwrap();
        file.add_rows(&[row(1), ExportedReport { signal: Some("SIGSEGV".to_owned()), ..row(2) }]).unwrap();
        file.add_rows(&[row(3)]).unwrap();
        assert!(file.count_rows() == 3 && file.count_bytes() > 0);
        let bytes = file.finish().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let names: Vec<&str> = rows[0].get_column_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, FILE_COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
        let at = |name: &str| names.iter().position(|other| *other == name).unwrap();
        let ids: Vec<&str> = rows.iter().map(|row| row.get_string(0).unwrap().as_str()).collect();
        assert_eq!(ids[2], "00000000-0000-0000-0000-000000000003");
        assert!(rows[0].get_string(at("signal")).is_err(), "absent");
        assert_eq!(rows[1].get_string(at("signal")).unwrap(), "SIGSEGV");
        assert_eq!(rows[0].get_timestamp_micros(at("received_at")).unwrap(), 1_795_996_799_000_001);
        assert!(rows[0].get_timestamp_micros(at("occurred_at")).is_err());
        assert_eq!(rows[2].get_int(at("weight")).unwrap(), 4);
        assert!(rows[2].get_bool(at("symbols_missing")).unwrap());
    }
}
