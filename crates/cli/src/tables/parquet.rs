//! `--tables DIR --format parquet`.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use vruntime_report::{Cell, Column, DataTable, Kind};

/// Returns a column's type. All values are optional.
fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Count | Kind::Nanoseconds | Kind::Instant => Physical::INT64,
        Kind::Share | Kind::Number | Kind::Measure => Physical::DOUBLE,
    }
}

/// Writes a table as a file of one row group.
pub(super) fn write(table: &DataTable, out: impl Write + Send) -> io::Result<()> {
    write_group(table, out).map_err(|error| match error {
        // The file's error, which names the file.
        ParquetError::External(error) => error.downcast().map_or_else(io::Error::other, |error| *error),
        other => io::Error::other(other),
    })
}

fn write_group(table: &DataTable, out: impl Write + Send) -> ParquetResult<()> {
    let field = |column: &Column| {
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
    use std::fs::File;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::super::Part;
    use super::super::tests::table;
    use crate::args::{TableFormat, Tables};

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let asked = Tables { folder: Some(folder.path().to_owned()), format: TableFormat::Parquet };
        let part = Part { prefix: "x-".to_owned(), tables: vec![table()] };
        super::super::write(&asked, "run", vec![part], &[]).unwrap();
        let reader = SerializedFileReader::new(File::open(folder.path().join("x-latency.parquet")).unwrap()).unwrap();
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        assert_eq!(rows[0], [Field::Str("a,\"b\"\nc".to_owned()), Field::Long(7), Field::Double(0.5)]);
        assert_eq!(rows[1], [Field::Str("d".to_owned()), Field::Null, Field::Null]);
    }
}
