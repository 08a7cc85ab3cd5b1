//! `--tables DIR --format csv|json|parquet`: writes each table of a command to a file.

#[cfg(feature = "parquet")]
mod parquet;

use std::fs;
use std::io::{self, BufWriter, Write};

use miette::{IntoDiagnostic, WrapErr};
use vruntime_report::{Cell, DataTable, notes_data, printable};

use crate::args::{TableFormat, Tables};
use crate::output_file::OutputFile;
use crate::{leftovers, output};

/// The names of all tables, for checks of output paths before the run.
const NAMES: [&str; 34] = [
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
    "notes",
    "over_seeds",
    "replay_cpus",
    "replay_groups",
    "replay_over_seeds",
    "replay_progress",
    "replay_tasks",
    "runqueue",
    "runqueue_over_time",
    "series",
    "tasks",
    "throttling",
    "timehist",
    "timehist_summary",
];

/// Returns the names of files that [`write()`] may write.
pub(crate) fn file_names(prefix: &str, format: TableFormat) -> impl Iterator<Item = String> {
    NAMES.into_iter().map(move |name| file_name(prefix, name, format))
}

fn file_name(prefix: &str, name: &str, format: TableFormat) -> String {
    format!("{prefix}{name}.{}", ending(format))
}

const fn ending(format: TableFormat) -> &'static str {
    match format {
        TableFormat::Csv => "csv",
        TableFormat::Json => "json",
        #[cfg(feature = "parquet")]
        TableFormat::Parquet => "parquet",
    }
}

/// Tables of a command with a common prefix of their files' names.
pub(crate) struct Part {
    pub(crate) prefix: String,
    pub(crate) tables: Vec<DataTable>,
}

impl From<Vec<DataTable>> for Part {
    fn from(tables: Vec<DataTable>) -> Self {
        Self { prefix: String::new(), tables }
    }
}

/// Writes each table of `command`, and a table of the notes, to `DIR/PREFIXNAME.csv`, or in another format. Removes
/// tables of earlier runs of the command, in any format, and notes those of other commands.
pub(crate) fn write(asked: &Tables, command: &str, mut parts: Vec<Part>, notes: &[String]) -> miette::Result<()> {
    let Some(folder) = &asked.folder else { return Ok(()) };
    parts.extend(notes_data(notes).map(|table| Part::from(vec![table])));
    fs::create_dir_all(folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))?;
    let all = parts.iter().flat_map(|part| part.tables.iter().map(|table| (part.prefix.as_str(), table)));
    let names = all.clone().map(|(prefix, table)| file_name(prefix, table.name, asked.format));
    let others = leftovers::replace_tables(folder, command, ending(asked.format), &names.collect())
        .into_diagnostic()
        .wrap_err_with(|| format!("cannot remove the tables of an earlier run from {}", folder.display()))?;
    for (other, count) in others {
        let tables = if count == 1 { "table" } else { "tables" };
        output::note(&format!("{}: {count} {tables} of an earlier `vruntime {other}` stay there", folder.display()));
    }
    for (prefix, table) in all {
        debug_assert!(NAMES.contains(&table.name), "`{}` is missing in NAMES", table.name);
        let format = asked.format;
        let path = folder.join(file_name(prefix, table.name, format));
        let written = OutputFile::create(&path).map(BufWriter::new).and_then(|mut file| {
            match format {
                TableFormat::Csv => csv(table, &mut file)?,
                TableFormat::Json => json(table, &mut file)?,
                #[cfg(feature = "parquet")]
                TableFormat::Parquet => parquet::write(table, &mut file)?,
            }
            file.into_inner()?.keep()
        });
        written.into_diagnostic()?;
    }
    Ok(())
}

/// Writes a head of keys, then the rows. Missing values are empty.
fn csv(table: &DataTable, out: impl Write) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.columns.iter().map(|column| column.key.as_ref())).map_err(of_csv)?;
    for row in &table.rows {
        let cells = row.iter().map(|cell| match cell {
            Cell::Nothing => String::new(),
            Cell::Text(text) => inert(text),
            Cell::Int(value) => value.to_string(),
            Cell::Float(value) | Cell::Measure { value, .. } => value.to_string(),
        });
        writer.write_record(cells).map_err(of_csv)?;
    }
    writer.flush()
}

/// Returns the file's error, which names the file.
fn of_csv(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// Returns a text that a spreadsheet does not execute: with a leading `'` if it begins like a formula and is no number.
/// Escapes control characters.
fn inert(text: &str) -> String {
    let safe = printable(text);
    // Spreadsheets read full-width signs, too.
    let signs = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
    let formula = safe.starts_with(signs) && safe.parse::<f64>().is_err();
    if formula { format!("'{safe}") } else { safe }
}

/// Writes an array of objects, one for each row.
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
            ("\u{ff1d}1+1", "'\u{ff1d}1+1"),
            ("-5", "-5"),
            ("+1.5", "+1.5"),
            ("a=b", "a=b"),
            ("a\u{202e}b\u{1b}[31m", "a\\u{202e}b\\u{1b}[31m"),
            ("a\r\n\tb", "a\\r\\n\\tb"),
            ("\t=1", "\\t=1"),
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
        for (format, command) in [(TableFormat::Csv, "one"), (TableFormat::Json, "another")] {
            let asked = Tables { folder: Some(folder.path().to_owned()), format };
            let part = Part { prefix: "x-".to_owned(), tables: vec![table()] };
            write(&asked, command, vec![part], &["cut off".to_owned()]).unwrap();
            let notes = fs::read_to_string(folder.path().join(file_name("", "notes", format))).unwrap();
            assert!(notes.contains("cut off"), "{notes}");
        }
        let text = fs::read_to_string(folder.path().join("x-latency.csv")).unwrap();
        let mut rows = csv::Reader::from_reader(text.as_bytes());
        assert_eq!(rows.headers().unwrap(), vec!["task", "delay_ns", "share"]);
        let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
        assert_eq!(rows[0], vec!["a,\"b\"\\nc", "7", "0.5"]);
        assert_eq!(rows[1], vec!["d", "", ""]);
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.path().join("x-latency.json")).unwrap()).unwrap();
        assert_eq!(json, table().json());
    }
}
