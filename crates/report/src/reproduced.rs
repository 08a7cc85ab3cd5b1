//! A published experiment run again: the document's tables with ours, and a check of its claims.

mod page;

use std::fmt::Write as _;

use serde::Serialize;

use crate::table::{WIDTH, grid};

/// An experiment run again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reproduced {
    /// Name.
    pub name: String,
    /// Subject, in a sentence.
    pub title: String,
    /// The document's citation.
    pub document: String,
    /// The document's tables, with ours.
    pub tables: Vec<FigureTable>,
    /// Charts of the figures.
    pub charts: Vec<Chart>,
    /// Claims of the document.
    pub claims: Vec<Claim>,
    /// Further findings, a sentence or two each.
    pub findings: Vec<String>,
    /// Methods of measurement, a paragraph each.
    pub method: Vec<String>,
}

/// A table of figures, published and ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FigureTable {
    /// Content, with units.
    pub title: String,
    /// Names of columns. Published ones say so.
    pub head: Vec<String>,
    /// Number of text columns at the left.
    pub left: usize,
    /// Cells by row.
    pub rows: Vec<Vec<String>>,
}

/// A chart of figures, published and ours.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chart {
    /// Content.
    pub title: String,
    /// Quantity of the values, with unit.
    pub y: String,
    /// Whether labels are steps of a quantity (lines), not things (bars).
    pub lines: bool,
    /// Quantity of the labels, or empty.
    pub x: String,
    /// Labels of the values.
    pub labels: Vec<String>,
    /// The values.
    pub series: Vec<Series>,
}

/// A row of values in a chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Series {
    /// Origin of the values.
    pub name: String,
    /// Whether the document published them.
    pub published: bool,
    /// A value for each label, if measured.
    pub values: Vec<Option<f64>>,
}

impl Series {
    /// Returns the document's values.
    pub fn published<V: Into<Option<f64>>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self { name: name.into(), published: true, values: values.into_iter().map(Into::into).collect() }
    }

    /// Our values.
    pub fn ours<V: Into<Option<f64>>>(name: impl Into<String>, values: impl IntoIterator<Item = V>) -> Self {
        Self { published: false, ..Self::published(name, values) }
    }
}

/// A claim of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// Whether it holds. None if this run cannot tell.
    pub met: Option<bool>,
    /// Figures behind it, or why there are none.
    pub found: String,
}

impl Claim {
    /// Returns a claim that a run has decided.
    pub fn new(claim: impl Into<String>, met: bool, found: impl Into<String>) -> Self {
        Self { claim: claim.into(), met: Some(met), found: found.into() }
    }

    /// Returns a claim that this run could not decide.
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
    /// Returns it as text, in [`WIDTH`] columns.
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

    /// Returns the number of met claims, and of all.
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
