//! `--tables DIR --format csv|json|parquet`: every table of a command as a file of its own.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use miette::{IntoDiagnostic, WrapErr};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use vruntime_report::{Cell, DataTable, Kind};

use crate::args::TableFormat;

/// Writes each table as `DIR/PREFIXNAME.csv`, or whatever the format is.
pub(crate) fn write(folder: &Path, format: TableFormat, prefix: &str, tables: &[DataTable]) -> miette::Result<()> {
    fs::create_dir_all(folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))?;
    for table in tables {
        let ending = match format {
            TableFormat::Csv => "csv",
            TableFormat::Json => "json",
            TableFormat::Parquet => "parquet",
        };
        let path = folder.join(format!("{prefix}{}.{ending}", table.name));
        let file = File::create(&path).map(BufWriter::new);
        let written = file.and_then(|file| match format {
            TableFormat::Csv => csv(table, file),
            TableFormat::Json => json(table, file),
            TableFormat::Parquet => parquet(table, file).map_err(io::Error::other),
        });
        written.into_diagnostic().wrap_err_with(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A head of keys, then the rows; nothing where there is no value.
fn csv(table: &DataTable, out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.columns.iter().map(|column| column.key.as_ref()))?;
    for row in &table.rows {
        writer.write_record(row.iter().map(|cell| match cell {
            Cell::Nothing => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Int(value) => value.to_string(),
            Cell::Float(value) | Cell::Measure { value, .. } => value.to_string(),
        }))?;
    }
    writer.flush()
}

/// An array of an object a row.
fn json(table: &DataTable, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut out, &table.json())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// What a column is in Parquet: every value may be missing.
fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Count | Kind::Nanoseconds | Kind::Instant => Physical::INT64,
        Kind::Share | Kind::Number | Kind::Measure => Physical::DOUBLE,
    }
}

fn parquet(table: &DataTable, out: impl Write + Send) -> ParquetResult<()> {
    let field = |column: &vruntime_report::Column| {
        let builder = Type::primitive_type_builder(column.key.as_ref(), physical(column.kind));
        let text = (column.kind == Kind::Text).then_some(LogicalType::String);
        builder.with_repetition(Repetition::OPTIONAL).with_logical_type(text).build().map(Arc::new)
    };
    let fields = table.columns.iter().map(field).collect::<ParquetResult<Vec<_>>>()?;
    let schema = Type::group_type_builder(table.name).with_fields(fields).build()?;
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(WriterProperties::builder().build()))?;
    let mut group = writer.next_row_group()?;
    for (index, column) in table.columns.iter().enumerate() {
        let Some(mut to) = group.next_column()? else { break };
        let cells = || table.rows.iter().map(|row| &row[index]);
        let there: Vec<i16> = cells().map(|cell| i16::from(*cell != Cell::Nothing)).collect();
        match physical(column.kind) {
            Physical::BYTE_ARRAY => {
                let text = |cell: &Cell| match cell {
                    Cell::Text(text) => Some(ByteArray::from(text.as_str())),
                    Cell::Int(value) => Some(ByteArray::from(value.to_string().as_str())),
                    Cell::Float(value) | Cell::Measure { value, .. } => {
                        Some(ByteArray::from(value.to_string().as_str()))
                    }
                    Cell::Nothing => None,
                };
                let values: Vec<ByteArray> = cells().filter_map(text).collect();
                to.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)?;
            }
            Physical::INT64 => {
                let whole = |cell: &Cell| match cell {
                    Cell::Int(value) => Some(*value),
                    Cell::Float(value) | Cell::Measure { value, .. } => Some(value.round() as i64),
                    Cell::Text(_) | Cell::Nothing => None,
                };
                let values: Vec<i64> = cells().filter_map(whole).collect();
                to.typed::<Int64Type>().write_batch(&values, Some(&there), None)?;
            }
            _ => {
                let number = |cell: &Cell| match cell {
                    Cell::Int(value) => Some(*value as f64),
                    Cell::Float(value) | Cell::Measure { value, .. } => Some(*value),
                    Cell::Text(_) | Cell::Nothing => None,
                };
                let values: Vec<f64> = cells().filter_map(number).collect();
                to.typed::<DoubleType>().write_batch(&values, Some(&there), None)?;
            }
        }
        to.close()?;
    }
    group.close()?;
    writer.close().map(drop)
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    fn table() -> DataTable {
        let columns =
            [("task", "Task", Kind::Text), ("delay_ns", "Delay", Kind::Nanoseconds), ("share", "Share", Kind::Share)];
        let mut table = DataTable::new("delays", "Delays", &columns);
        table.push(vec!["a,\"b\"\nc".into(), 7_u64.into(), 0.5.into()]);
        table.push(vec!["d".into(), None::<u64>.into(), None::<f64>.into()]);
        table
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for format in [TableFormat::Csv, TableFormat::Json, TableFormat::Parquet] {
            write(folder.path(), format, "x-", &[table()]).unwrap();
        }
        let text = fs::read_to_string(folder.path().join("x-delays.csv")).unwrap();
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(rows.headers().unwrap(), vec!["task", "delay_ns", "share"]);
        let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        assert_eq!(rows[0], vec!["a,\"b\"\nc", "7", "0.5"]);
        assert_eq!(rows[1], vec!["d", "", ""]);
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.path().join("x-delays.json")).unwrap()).unwrap();
        assert_eq!(json, table().json());
        let reader = SerializedFileReader::new(File::open(folder.path().join("x-delays.parquet")).unwrap()).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        assert_eq!(rows[0], [Field::Str("a,\"b\"\nc".to_owned()), Field::Long(7), Field::Double(0.5)]);
        assert_eq!(rows[1], [Field::Str("d".to_owned()), Field::Null, Field::Null]);
    }
}
