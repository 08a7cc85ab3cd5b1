//! Tables as data for text, files and pages: columns with key and kind, and rows of values.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::table::{fit_text, grid, has_room};
use crate::units::{count, percent, time};

/// Kinds of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Names.
    Text,
    /// Counts, and numbers of CPUs or tasks.
    Count,
    /// Durations, nanoseconds.
    Nanoseconds,
    /// Times, nanoseconds.
    Instant,
    /// Fractions of a whole.
    Share,
    /// Other numbers.
    Number,
    /// Numbers with their own units, and text for reading.
    Measure,
}

/// A column of a [`DataTable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name in JSON, CSV and Parquet, with unit: `max_delay_ns`.
    pub key: Cow<'static, str>,
    /// Heading for reading: `Max delay`.
    pub head: Cow<'static, str>,
    /// Kind of its values.
    pub kind: Kind,
}

/// A value, in the variant of the column's [`Kind`].
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// No value.
    #[default]
    Nothing,
    /// Of [`Kind::Text`].
    Text(String),
    /// A count or time.
    Int(i64),
    /// A share or number; finite.
    Float(f64),
    /// A number with its own unit.
    Measure {
        /// The finite number.
        value: f64,
        /// Its unit, such as `ns`.
        unit: &'static str,
        /// Text for reading.
        text: String,
    },
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<i32> for Cell {
    fn from(value: i32) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Float(value) } else { Self::Nothing }
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

impl Cell {
    /// Returns text for reading.
    pub fn text(&self, kind: Kind) -> String {
        match (self, kind) {
            (Self::Nothing, _) => "-".to_owned(),
            (Self::Text(text) | Self::Measure { text, .. }, _) => text.clone(),
            (Self::Int(value), Kind::Nanoseconds) => time(*value as f64),
            (Self::Int(value), Kind::Instant) => instant(*value),
            (Self::Int(value), _) => value.to_string(),
            (Self::Float(value), Kind::Share) => format!("{} %", percent(*value)),
            (Self::Float(value), Kind::Nanoseconds) => time(*value),
            (Self::Float(value), _) => count(*value),
        }
    }

    /// Returns the JSON value.
    pub fn json(&self) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::Text(text) => json!(text),
            Self::Int(value) => json!(value),
            Self::Float(value) | Self::Measure { value, .. } => json!(value),
        }
    }
}

pub(crate) fn instant(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    format!("{sign}{}.{:09}", ns.unsigned_abs() / 1_000_000_000, ns.unsigned_abs() % 1_000_000_000)
}

/// How much a text for a terminal shows.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// The most rows of a table.
    pub rows: usize,
    /// The most switches of `timehist`.
    pub switches: usize,
    /// The option of the command that shows all.
    pub option: &'static str,
}

impl Shown {
    /// Shows `rows` rows and all switches, in a command with `--all`.
    pub const fn rows(rows: usize) -> Self {
        Self { rows, switches: usize::MAX, option: "--all" }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataTable {
    /// Name in files and JSON, such as `latency`: letters, digits, `_`.
    pub name: &'static str,
    /// A line above the table.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Rows, with a cell for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl DataTable {
    /// Creates an empty table. Each column: key, head, kind.
    pub fn new(name: &'static str, title: impl Into<String>, columns: &[(&'static str, &'static str, Kind)]) -> Self {
        let columns =
            columns.iter().map(|&(key, head, kind)| Column { key: key.into(), head: head.into(), kind }).collect();
        Self { name, title: title.into(), columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// Without a cell for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row of the table {} has a cell a column", self.name);
        self.rows.push(row);
    }

    /// Returns title and the first rows for a terminal, and a note on omitted ones.
    pub fn text(&self, shown: Shown) -> String {
        if self.rows.is_empty() {
            return format!("{}\n", fit_text(&format!("{}: none", self.title), ""));
        }
        let left = self.columns.iter().take_while(|column| column.kind == Kind::Text).count();
        let table = grid(&self.heads(), left, self.lines(shown.rows));
        let more = match self.rows.len().saturating_sub(shown.rows) {
            0 => String::new(),
            more => format!("and {more} more ({} shows them)\n", shown.option),
        };
        format!("{}\n{table}{more}", fit_text(&format!("{}:", self.title), ""))
    }

    /// As [`DataTable::text`], but without the first `spare` columns on a narrow terminal, with a note.
    pub(crate) fn text_without(&self, spare: &[&str], shown: Shown) -> String {
        let (table, left_out) = self.narrowed(spare, shown.rows, has_room);
        let mut text = table.text(shown);
        if !left_out.is_empty() {
            let line = format!("too wide for {} (--json has all)", left_out.join(", "));
            text.extend([fit_text(&line, "").as_str(), "\n"]);
        }
        text
    }

    /// Removes the first `spare` columns until the table `fits`. Returns it and the removed heads.
    pub(crate) fn narrowed(
        &self,
        spare: &[&str],
        rows: usize,
        fits: impl Fn(&[&str], &[Vec<String>]) -> bool,
    ) -> (Self, Vec<Cow<'static, str>>) {
        let (mut table, mut left_out) = (self.clone(), Vec::new());
        for key in spare {
            if fits(&table.heads(), &table.lines(rows)) {
                break;
            }
            if let Some(column) = table.columns.iter().position(|column| column.key == *key) {
                left_out.push(table.columns.remove(column).head);
                table.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        (table, left_out)
    }

    pub(crate) fn remove(&mut self, is_spare: impl Fn(&str) -> bool) {
        let kept: Vec<bool> = self.columns.iter().map(|column| !is_spare(&column.key)).collect();
        let (mut of_columns, kept) = (kept.iter(), &kept);
        self.columns.retain(|_| of_columns.next().is_none_or(|kept| *kept));
        for row in &mut self.rows {
            let mut of_row = kept.iter();
            row.retain(|_| of_row.next().is_none_or(|kept| *kept));
        }
    }

    fn heads(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.head.as_ref()).collect()
    }

    fn lines(&self, rows: usize) -> Vec<Vec<String>> {
        let line =
            |row: &Vec<Cell>| row.iter().zip(&self.columns).map(|(cell, column)| cell.text(column.kind)).collect();
        self.rows.iter().take(rows).map(line).collect()
    }

    /// Returns an array with an object for each row.
    pub fn json(&self) -> Value {
        let object = |row: &Vec<Cell>| {
            let fields = self.columns.iter().zip(row).map(|(column, cell)| (column.key.to_string(), cell.json()));
            Value::Object(fields.collect::<Map<String, Value>>())
        };
        Value::Array(self.rows.iter().map(object).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_by_people_and_by_programs() {
        let columns =
            [("task", "Task", Kind::Text), ("delay_ns", "Delay", Kind::Nanoseconds), ("part", "Part", Kind::Share)];
        let mut table = DataTable::new("delays", "Who waited", &columns);
        assert_eq!(table.text(Shown::rows(5)), "Who waited: none\n");
        table.push(vec!["a\nb".into(), 1_500_000_u64.into(), 0.25.into()]);
        table.push(vec!["c".into(), None::<u64>.into(), f64::NAN.into()]);
        let text = table.text(Shown::rows(1));
        assert!(
            text.contains("a\\nb  1.50 ms  25.00 %") && text.ends_with("and 1 more (--all shows them)\n"),
            "{text}"
        );
        assert_eq!(table.json()[0], json!({ "task": "a\nb", "delay_ns": 1_500_000, "part": 0.25 }));
        assert_eq!(table.json()[1]["part"], Value::Null);
    }

    #[test]
    fn instants_have_all_digits_on_both_sides_of_zero() {
        assert_eq!(instant(56_127_109_749_001), "56127.109749001");
        assert_eq!(instant(-1_500_000_000), "-1.500000000");
    }
}
