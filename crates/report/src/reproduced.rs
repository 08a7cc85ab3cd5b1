//! A published experiment run again: the document's tables with ours beside them, and whether its claims hold.

mod page;

use std::fmt::Write as _;

use serde::Serialize;

use crate::table::{WIDTH, grid};

/// An experiment run again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reproduced {
    /// What users call it.
    pub name: String,
    /// What it is about, in a sentence.
    pub title: String,
    /// The document, as one would cite it.
    pub document: String,
    /// The document's tables, ours beside them.
    pub tables: Vec<FigureTable>,
    /// The same figures to look at.
    pub charts: Vec<Chart>,
    /// What it must show, and whether it does.
    pub claims: Vec<Claim>,
    /// What it says besides, a sentence or two each.
    pub findings: Vec<String>,
    /// What is measured how, a paragraph each.
    pub method: Vec<String>,
}

/// A table of figures, published and ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FigureTable {
    /// What is in it, with the units.
    pub title: String,
    /// Names of the columns; published ones say so.
    pub head: Vec<String>,
    /// The number of text columns at the left.
    pub left: usize,
    /// Its cells, row by row.
    pub rows: Vec<Vec<String>>,
}

/// A chart of figures, published and ours, over the same labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What the values are, with the unit.
    pub y: String,
    /// Whether the labels are steps of one quantity (lines) or things (bars).
    pub lines: bool,
    /// What the labels are; empty if they speak for themselves.
    pub x: String,
    /// What there are values of.
    pub labels: Vec<String>,
    /// The values.
    pub series: Vec<Series>,
}

/// A row of values in a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Whose values.
    pub name: String,
    /// Whether they are the document's.
    pub published: bool,
    /// A value for each label; None if not measured.
    pub values: Vec<Option<f64>>,
}

impl Series {
    /// The document's values, one for each label.
    pub fn published<V: Into<Option<f64>>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self { name: name.into(), published: true, values: values.into_iter().map(Into::into).collect() }
    }

    /// What was found here, one for each label.
    pub fn ours<V: Into<Option<f64>>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self { published: false, ..Self::published(name, values) }
    }
}

/// Something an experiment must show.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// What.
    pub claim: String,
    /// Whether it does; none if this run could not tell.
    pub met: Option<bool>,
    /// The figures that say so, or why there are none.
    pub found: String,
}

impl Claim {
    /// A claim that a run has settled.
    pub fn new(claim: impl Into<String>, met: bool, found: impl Into<String>) -> Self {
        Self { claim: claim.into(), met: Some(met), found: found.into() }
    }

    /// A claim that this run could not settle.
    pub fn open(claim: impl Into<String>, why: impl Into<String>) -> Self {
        Self { claim: claim.into(), met: None, found: why.into() }
    }

    /// `met`, `not met` or `not measured`.
    pub fn verdict(&self) -> &'static str {
        match self.met {
            Some(true) => "met",
            Some(false) => "not met",
            None => "not measured",
        }
    }
}

impl Reproduced {
    /// The whole of it as text, in [`WIDTH`] columns.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n{}\n", self.name, "═".repeat(self.name.chars().count()));
        text.push_str(&wrapped(&self.title, "", ""));
        text.push_str(&wrapped(&self.document, "", ""));
        for table in &self.tables {
            let head: Vec<&str> = table.head.iter().map(String::as_str).collect();
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{}{}", wrapped(&table.title, "", ""), grid(&head, table.left, table.rows.clone()));
        }
        text.push('\n');
        for claim in &self.claims {
            let verdict = format!("{:<14}", format!("{}:", claim.verdict()));
            text.push_str(&wrapped(&format!("{}. {}", claim.claim, claim.found), &verdict, "              "));
        }
        for (index, finding) in self.findings.iter().enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            let _ = write!(text, "{gap}{}", wrapped(finding, "- ", "  "));
        }
        text.push_str("\nHow it is measured\n");
        for paragraph in &self.method {
            text.push_str(&wrapped(paragraph, "  ", "  "));
        }
        text
    }

    /// Returns the number of met claims, and of all claims.
    pub fn met(&self) -> (usize, usize) {
        (self.claims.iter().filter(|claim| claim.met == Some(true)).count(), self.claims.len())
    }
}

fn wrapped(text: &str, first: &str, others: &str) -> String {
    let options = textwrap::Options::new(usize::from(WIDTH)).initial_indent(first).subsequent_indent(others);
    let mut wrapped = textwrap::fill(text, options);
    wrapped.push('\n');
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Reproduced {
        Reproduced {
            name: "tea".to_owned(),
            title: "Tea with and without milk".to_owned(),
            document: "A Nice Cup of Tea, 1946".to_owned(),
            tables: vec![FigureTable {
                title: "Cups a day".to_owned(),
                head: ["", "published", "ours"].map(str::to_owned).to_vec(),
                left: 1,
                rows: vec![
                    ["with", "4", "3"].map(str::to_owned).to_vec(),
                    ["without", "1", "2"].map(str::to_owned).to_vec(),
                ],
            }],
            charts: Vec::new(),
            claims: vec![
                Claim::new("more with milk", true, "3 against 2"),
                Claim::new(
                    "at least four cups with milk, however long the sentence is that says so in many words",
                    false,
                    "3",
                ),
                Claim::open("it is hot", "there is no thermometer"),
            ],
            findings: vec!["Milk helps.".to_owned()],
            method: vec!["By counting cups.".to_owned()],
        }
    }

    #[test]
    fn a_verdict_stands_before_each_claim() {
        let text = example().text();
        assert!(text.contains("\nmet:          more with milk. 3 against 2\n"), "{text}");
        assert!(text.contains("\nnot met:      at least four"), "{text}");
        assert!(text.contains("\n\n- Milk helps.\n\nHow"), "{text}");
        assert!(text.contains("\nnot measured: it is hot. there is no thermometer\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH)), "{text}");
        assert_eq!(example().met(), (1, 3));
    }
}
