//! A report as a self-contained page, for light and dark displays, keyboards and paper.
//!
//! It has script and styles of `assets/`, uPlot for charts, and the data as JSON. Task names can be any bytes: they
//! cannot end the JSON's element, and the script shows them as text.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::analysis::Analyses;
use crate::assets::{UPLOT_CSS, UPLOT_JS, UPLOT_LICENSE};
use crate::data::{Cell, Column, DataTable, Kind};
use crate::printable::{obeyed, printable_text};

const TEMPLATE: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

/// The most rows of a table. A note counts the rest.
const MOST_ROWS: usize = 2_000;

/// A bar with an optional mark.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Label.
    pub name: String,
    /// Length.
    pub share: f64,
    /// Position of the mark, as the length.
    pub mark: Option<f64>,
    /// Text behind it.
    pub text: String,
}

/// The most separate bars.
const MOST_BARS: usize = 24;

/// Shorter bars, relative to the longest, are invisible.
const TOO_SHORT: f64 = 0.005;

impl Bar {
    /// Returns bars in order, with invisible and excess ones joined as the last. A bar `within` another (a group in a
    /// group) is in its share.
    pub(crate) fn folded(
        all: Vec<(String, f64, Option<f64>)>,
        within: fn(&str, &str) -> bool,
        text: impl Fn(f64, Option<f64>) -> String,
    ) -> Vec<Self> {
        let length = |bar: &(String, f64, Option<f64>)| bar.1.max(bar.2.unwrap_or(0.0));
        let least = all.iter().map(length).fold(0.0, f64::max) * TOO_SHORT;
        let (mut long, mut short): (Vec<_>, Vec<_>) = all.into_iter().partition(|bar| length(bar) >= least);
        short.splice(0..0, long.split_off(long.len().min(MOST_BARS)));
        if short.len() == 1 {
            // A single bar needs no more room.
            long.append(&mut short);
        }
        let mut bars: Vec<Self> =
            long.into_iter().map(|(name, share, mark)| Self { name, share, mark, text: text(share, mark) }).collect();
        if !short.is_empty() {
            let outer = short.iter().filter(|bar| !short.iter().any(|other| within(&bar.0, &other.0)));
            let (mut share, mut mark) = (0.0, None);
            for bar in outer {
                share += bar.1;
                mark = bar.2.map(|more| more + mark.unwrap_or(0.0)).or(mark);
            }
            bars.push(Self { name: format!("{} others", short.len()), share, mark, text: text(share, mark) });
        }
        bars
    }
}

/// Bars under a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// Heading.
    pub title: String,
    /// Entry in the page's navigation, if not empty.
    pub entry: String,
    /// Description.
    pub sub: String,
    /// Distinguishes bars of one heading, or is empty.
    pub label: String,
    /// One per line.
    pub rows: Vec<Bar>,
}

/// Tables under a heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableGroup {
    /// Heading.
    pub title: String,
    /// Description.
    pub sub: String,
    /// Tables with labels that distinguish them, or empty ones.
    pub tables: Vec<(String, DataTable)>,
}

/// Content of a page, as plain text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    title: String,
    lead: String,
    summary: Vec<String>,
    folded: Vec<String>,
    bars: Vec<Bars>,
    runs: Vec<Value>,
    tables: Vec<TableGroup>,
}

impl Page {
    /// Creates a page with heading and a line on the run.
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { title: title.into(), lead: lead.into(), ..Self::default() }
    }

    /// Adds a sentence to the summary.
    pub fn say(&mut self, sentence: impl Into<String>) {
        self.summary.push(sentence.into());
    }

    /// Adds a folded sentence below the summary.
    pub fn fold(&mut self, sentence: impl Into<String>) {
        self.folded.push(sentence.into());
    }

    /// Adds bars, unless empty.
    pub fn bars(&mut self, bars: Bars) {
        if !bars.rows.is_empty() {
            self.bars.push(bars);
        }
    }

    /// Adds the charts of analyses with [`Analyses::with_overview`].
    pub fn run(&mut self, label: &str, analyses: &Analyses) {
        if let Some(overview) = analyses.overview_json() {
            self.runs.push(json!({ "label": label, "overview": overview }));
        }
    }

    /// Adds tables, unless empty.
    pub fn tables(&mut self, group: TableGroup) {
        if !group.tables.is_empty() {
            self.tables.push(group);
        }
    }

    /// Adds tables of several runs, grouped by name.
    pub fn analyses(&mut self, runs: &[(String, &Analyses)]) {
        let mut groups: Vec<TableGroup> = Vec::new();
        for (label, analyses) in runs {
            // The chart shows this table.
            for table in analyses.tables().into_iter().filter(|table| table.name != "runqueue_over_time") {
                let label = if runs.len() > 1 { label.clone() } else { String::new() };
                match groups.iter_mut().find(|group| group.title == table.title) {
                    Some(group) => group.tables.push((label, table)),
                    None => groups.push(TableGroup {
                        title: table.title.clone(),
                        sub: String::new(),
                        tables: vec![(label, table)],
                    }),
                }
            }
        }
        self.tables.extend(groups);
    }

    /// Returns the page.
    pub fn html(&self) -> String {
        let tables: Vec<Value> = self.tables.iter().map(group_json).collect();
        let bars: Vec<Value> = self.bars.iter().map(bars_json).collect();
        let data = json!({ "runs": self.runs, "bars": bars, "tables": tables });
        let made = format!("Made by vruntime {}. All data is in this page.", env!("CARGO_PKG_VERSION"));
        let list = |sentences: &[String]| {
            sentences
                .iter()
                .flat_map(|sentence| ["<li>".to_owned(), escape(sentence), "</li>".to_owned()])
                .collect::<String>()
        };
        let folded = match self.folded.len() {
            0 => String::new(),
            count => format!(
                "<details class=\"notes\"><summary>{count} more notes</summary><ul class=\"sentences\">{}</ul></details>",
                list(&self.folded)
            ),
        };
        let parts = [
            ("TITLE", escape(&self.title)),
            ("CSS", format!("{UPLOT_CSS}\n{STYLE}")),
            ("LEAD", escape(&self.lead)),
            ("SUMMARY", list(&self.summary)),
            ("NOTES", folded),
            ("MADE", escape(&made)),
            ("LICENCE", escape(UPLOT_LICENSE)),
            ("DATA", in_script(&visible(data).to_string())),
            ("LIBRARY", UPLOT_JS.to_owned()),
            ("SCRIPT", SCRIPT.to_owned()),
        ];
        let mut html = String::new();
        // A name is between two @. Its replacement is not searched.
        for (index, piece) in TEMPLATE.split('@').enumerate() {
            match parts.iter().find(|(name, _)| index % 2 == 1 && *name == piece) {
                Some((_, text)) => html.push_str(text),
                None => html.push_str(piece),
            }
        }
        html
    }
}

fn group_json(group: &TableGroup) -> Value {
    let mut sub = group.sub.clone();
    let tables: Vec<Value> = group
        .tables
        .iter()
        .map(|(label, table)| {
            if table.rows.len() > MOST_ROWS {
                // Writing to a String cannot fail.
                let _ = write!(sub, " The first {MOST_ROWS} of {} rows.", table.rows.len());
            }
            json!({ "label": label, "table": table_json(table) })
        })
        .collect();
    json!({ "title": group.title, "sub": sub.trim(), "tables": tables })
}

fn table_json(table: &DataTable) -> Value {
    let kind = |kind| match kind {
        Kind::Text => "text",
        Kind::Count => "count",
        Kind::Nanoseconds => "ns",
        Kind::Instant => "instant",
        Kind::Share => "share",
        Kind::Number => "number",
        Kind::Measure => "measure",
    };
    let kind_of = |column: &Column| match column.key.as_ref() {
        "pid" => "id",
        key if key.starts_with("change") => "change",
        _ => kind(column.kind),
    };
    // Omits columns without values. The files have them.
    let has_values = |at: usize| table.rows.iter().any(|row| row.get(at).is_some_and(|cell| *cell != Cell::Nothing));
    let shown: Vec<usize> = (0..table.columns.len()).filter(|&at| table.rows.is_empty() || has_values(at)).collect();
    let columns: Vec<Value> = shown
        .iter()
        .map(|&at| {
            let column = &table.columns[at];
            // `CPU: recorded` and its neighbours share a head.
            match column.head.split_once(": ") {
                Some((group, head)) => json!({ "group": group, "head": head, "kind": kind_of(column) }),
                None => json!({ "head": column.head, "kind": kind_of(column) }),
            }
        })
        .collect();
    let cell = |cell: &Cell| match cell {
        // Value and unit for sorting, and text.
        Cell::Measure { value, unit, text } => json!([value, unit, text]),
        cell => cell.json(),
    };
    let row = |row: &Vec<Cell>| shown.iter().filter_map(|&at| row.get(at)).map(cell).collect();
    let rows: Vec<Vec<Value>> = table.rows.iter().take(MOST_ROWS).map(row).collect();
    json!({ "title": table.title, "columns": columns, "rows": rows })
}

fn bars_json(bars: &Bars) -> Value {
    let rows: Vec<Value> = bars
        .rows
        .iter()
        .map(|bar| json!({ "name": bar.name, "share": bar.share, "mark": bar.mark, "text": bar.text }))
        .collect();
    json!({ "title": bars.title, "entry": bars.entry, "sub": bars.sub, "label": bars.label, "rows": rows })
}

/// Escapes text between tags.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if obeyed(c) && c != '\n' => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    safe
}

/// Makes controls and writing directions in texts of a page visible, as in tables of a terminal.
fn visible(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable_text(&text)),
        Value::Array(values) => values.into_iter().map(visible).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (printable_text(&name), visible(value))).collect()
        }
        other => other,
    }
}

/// Escapes JSON in a script element.
fn in_script(json: &str) -> String {
    // JSON has these only in strings.
    let escaped = json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
    escaped.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_ever_markup() {
        let nasty = "</script><script>alert(1)</script>&amp;\"'\u{2028}\u{202e}\u{7}";
        let mut page = Page::new(nasty, nasty);
        page.say(nasty);
        let mut table = DataTable::new("t", nasty, &[("task", "Task", Kind::Text)]);
        table.push(vec![nasty.into()]);
        page.tables(TableGroup {
            title: nasty.to_owned(),
            sub: String::new(),
            tables: vec![(nasty.to_owned(), table)],
        });
        page.bars(Bars {
            title: nasty.to_owned(),
            rows: vec![Bar { name: nasty.to_owned(), share: 0.5, mark: None, text: String::new() }],
            ..Bars::default()
        });
        let html = page.html();
        assert!(!html.contains("<script>alert"), "it is escaped everywhere");
        assert!(!html.contains(['\u{2028}', '\u{202e}', '\u{7}']), "it directs no text");
        let data = html.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next()).unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["tables"][0]["tables"][0]["table"]["rows"][0][0], printable_text(nasty), "and is visible");
        assert_eq!(html.matches("</script>").count(), 3);
    }

    #[test]
    fn short_bars_are_one() {
        let bar = |name: &str, share: f64, mark: f64| (name.to_owned(), share, Some(mark));
        let text = |share: f64, mark: Option<f64>| format!("{share:.3} {:.3}", mark.unwrap_or(-1.0));
        let inside = |path: &str, other: &str| path.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
        let bars_of = |all: Vec<(String, f64, Option<f64>)>| -> Vec<(String, String)> {
            Bar::folded(all, inside, text).into_iter().map(|bar| (bar.name, bar.text)).collect()
        };
        let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let all = vec![bar("/a", 1.0, 1.0), bar("/b", 0.003, 0.002), bar("/b/c", 0.002, 0.001), bar("/d", 0.001, 0.5)];
        // Recorded values are long, so visible.
        assert_eq!(
            bars_of(all.clone()),
            [pair("/a", "1.000 1.000"), pair("/d", "0.001 0.500"), pair("2 others", "0.003 0.002")]
        );
        assert_eq!(
            bars_of(all[..2].to_vec()),
            [pair("/a", "1.000 1.000"), pair("/b", "0.003 0.002")],
            "one is no others"
        );
        assert_eq!(bars_of(all[1..3].to_vec()).len(), 2, "of small ones none is too short");
        let many: Vec<_> = (0..30).map(|index| bar(&format!("/{index}"), 0.5, 0.5)).collect();
        assert_eq!((bars_of(many.clone()).len(), &*bars_of(many)[MOST_BARS].0), (MOST_BARS + 1, "6 others"));
        assert_eq!(bars_of(Vec::new()), []);
    }

    #[test]
    fn a_page_is_whole_and_small_without_data() {
        let html = Page::new("t", "l").html();
        assert!(html.len() < 200_000, "{} bytes", html.len());
        assert!(html.contains("uPlot") && html.contains("Permission is hereby granted"), "the licence is in it");
        for outside in ["src=", "@import", "<link", "url(http"] {
            assert!(!html.contains(outside), "{outside}: nothing is fetched");
        }
    }
}
