//! `--tables DIR --format csv|json|parquet`: every table of a command as a file of its own.

#[cfg(feature = "parquet")]
mod parquet;

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use miette::{IntoDiagnostic, WrapErr};
use vruntime_report::{Cell, DataTable, printable_text};

use crate::args::TableFormat;
use crate::output_file::OutputFile;

/// The names of all tables that a command writes: before the run, they tell which files `--tables` may replace.
const NAMES: [&str; 32] = [
    "antagonists",
    "averages",
    "cells",
    "classes",
    "comparison",
    "cpus",
    "critical_path",
    "critical_path_longest",
    "deadlines",
    "diff",
    "events",
    "frequencies",
    "group_usage",
    "group_weights",
    "groups",
    "idle_waits",
    "idle_while_waiting",
    "latency",
    "migrations",
    "migrations_by_task",
    "over_seeds",
    "replay_cpus",
    "replay_groups",
    "replay_over_seeds",
    "replay_progress",
    "replay_tasks",
    "runqueue",
    "runqueue_over_time",
    "tasks",
    "throttling",
    "timehist",
    "timehist_summary",
];

/// Returns the names of the files that `write` may write.
pub(crate) fn file_names(prefix: &str, format: TableFormat) -> impl Iterator<Item = String> {
    NAMES.into_iter().map(move |name| file_name(prefix, name, format))
}

fn file_name(prefix: &str, name: &str, format: TableFormat) -> String {
    let ending = match format {
        TableFormat::Csv => "csv",
        TableFormat::Json => "json",
        #[cfg(feature = "parquet")]
        TableFormat::Parquet => "parquet",
    };
    format!("{prefix}{name}.{ending}")
}

/// Writes each table as `DIR/PREFIXNAME.csv`, or whatever the format is.
pub(crate) fn write(folder: &Path, format: TableFormat, prefix: &str, tables: &[DataTable]) -> miette::Result<()> {
    fs::create_dir_all(folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))?;
    for table in tables {
        debug_assert!(NAMES.contains(&table.name), "`{}` is missing in NAMES", table.name);
        let path = folder.join(file_name(prefix, table.name, format));
        let written = OutputFile::create(&path).map(BufWriter::new).and_then(|mut file| {
            match format {
                TableFormat::Csv => csv(table, &mut file)?,
                TableFormat::Json => json(table, &mut file)?,
                #[cfg(feature = "parquet")]
                TableFormat::Parquet => parquet::write(table, &mut file).map_err(io::Error::other)?,
            }
            file.into_inner()?.keep()
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
            Cell::Text(text) => inert(text),
            Cell::Int(value) => value.to_string(),
            Cell::Float(value) | Cell::Measure { value, .. } => value.to_string(),
        }))?;
    }
    writer.flush()
}

/// A text that a spreadsheet shows and does not execute: behind a `'` if it begins like a formula and is no number.
/// Characters that a terminal obeys are escaped.
fn inert(text: &str) -> String {
    let safe = printable_text(text);
    let formula = safe.starts_with(['=', '+', '-', '@', '\t']) && safe.parse::<f64>().is_err();
    if formula { format!("'{safe}") } else { safe }
}

/// An array of an object a row.
fn json(table: &DataTable, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut out, &table.json())?;
    out.write_all(b"\n")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use vruntime_report::Kind;

    use super::*;

    pub(super) fn table() -> DataTable {
        let columns =
            [("task", "Task", Kind::Text), ("delay_ns", "Delay", Kind::Nanoseconds), ("share", "Share", Kind::Share)];
        let mut table = DataTable::new("latency", "Delays", &columns);
        table.push(vec!["a,\"b\"\nc".into(), 7_u64.into(), 0.5.into()]);
        table.push(vec!["d".into(), None::<u64>.into(), None::<f64>.into()]);
        table
    }

    #[test]
    fn names_in_csv_are_neither_formulas_nor_commands() {
        for (text, cell) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+SUM(A1)", "'+SUM(A1)"),
            ("-x", "'-x"),
            ("@x", "'@x"),
            ("-5", "-5"),
            ("+1.5", "+1.5"),
            ("a=b", "a=b"),
            ("a\u{202e}b\u{1b}[31m", "a\\u{202e}b\\u{1b}[31m"),
        ] {
            let mut table = DataTable::new("t", "T", &[("task", "Task", Kind::Text), ("ns", "Ns", Kind::Count)]);
            table.push(vec![text.into(), (-5_i32).into()]);
            let mut written = Vec::new();
            csv(&table, &mut written).unwrap();
            let mut rows = csv::Reader::from_reader(&written[..]);
            assert_eq!(rows.records().next().unwrap().unwrap(), vec![cell, "-5"]);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        for format in [TableFormat::Csv, TableFormat::Json] {
            write(folder.path(), format, "x-", &[table()]).unwrap();
        }
        let text = fs::read_to_string(folder.path().join("x-latency.csv")).unwrap();
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(rows.headers().unwrap(), vec!["task", "delay_ns", "share"]);
        let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        assert_eq!(rows[0], vec!["a,\"b\"\nc", "7", "0.5"]);
        assert_eq!(rows[1], vec!["d", "", ""]);
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.path().join("x-latency.json")).unwrap()).unwrap();
        assert_eq!(json, table().json());
    }
}
