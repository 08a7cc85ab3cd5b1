//! The answer if no figure stands out: which differences change events.

use serde_json::{Value, json};
use vruntime_report::{Cell, DataTable, Kind, Page, TableGroup, counted, fit_text, grid};

use super::report::{described, names};
use super::search::Changing;
use super::sides::Words;

pub(super) struct Silent<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// The input, the machine and the seeds, in words.
    pub(super) what: &'a str,
    pub(super) seeds: u16,
    /// Millions of events.
    pub(super) budget: u32,
    /// The simulated events of all runs.
    pub(super) events: u64,
    /// Descriptions of all differences.
    pub(super) words: Vec<Words>,
    /// `None`: no event differs between the sides.
    pub(super) changing: Option<Changing>,
    pub(super) notes: Vec<String>,
}

impl Silent<'_> {
    fn differences(&self) -> impl Iterator<Item = &Words> {
        let changing = self.changing.iter().flat_map(|changing| &changing.differences);
        changing.map(|&one| &self.words[one])
    }

    pub(super) fn answer(&self) -> String {
        let Self { from, to, .. } = self;
        let count = self.words.len();
        if count == 0 {
            return format!("nothing differs between {from} and {to}");
        }
        let nothing = format!("no figure that both have stands out between {from} and {to}; --metric names one");
        let Some(changing) = &self.changing else {
            let all = if count == 1 {
                "the difference changes".to_owned()
            } else {
                format!("the {count} differences change")
            };
            return format!("{nothing}. Not one event differs: {all} nothing here.");
        };
        let early = if changing.stopped {
            format!(" The search ended early, after {} million simulated events (`--budget`).", self.budget)
        } else {
            String::new()
        };
        let some = self.differences().count();
        let of = format!("{some} of {}", counted(count as u64, "difference", "differences"));
        match some {
            0 => format!("{nothing}. Events differ, but no single difference changes one.{early}"),
            1 => format!("{nothing}. Events differ: {of} changes them, {}.{early}", names(self.differences())),
            _ => format!("{nothing}. Events differ: {of} change them.{early}"),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", fit_text(&self.answer(), ""));
        if self.differences().next().is_some() {
            let lines =
                self.differences().map(|words| vec![words.name.clone(), words.releases.clone(), words.what.clone()]);
            text.extend(["\n", &grid(&["changes events", "releases", "what it does"], 3, lines)]);
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "what": self.what, "metric": null, "seeds": self.seeds,
            "from": {"kernel": self.from}, "to": {"kernel": self.to},
            "answer": self.answer(), "within_noise": true, "explained_by": [],
            "events_differ": self.changing.is_some(),
            "events": self.events,
            "ended_early": self.changing.as_ref().is_some_and(|changing| changing.stopped),
            "effects": self.differences().map(described).collect::<Vec<_>>(),
            "differences": self.words.len(), "notes": self.notes,
        })
    }

    pub(super) fn page(&self) -> Page {
        let mut page = Page::new(format!("{} to {}", self.from, self.to), self.what);
        page.say(format!("{}.", self.answer().trim_end_matches('.')));
        let columns = [
            ("difference", "difference", Kind::Text),
            ("releases", "releases", Kind::Text),
            ("what", "what it does", Kind::Text),
        ];
        let mut table = DataTable::new("bisect", "Differences that change events", &columns);
        for words in self.differences() {
            table.push([&words.name, &words.releases, &words.what].map(|text| Cell::from(text.as_str())).to_vec());
        }
        if !table.rows.is_empty() {
            page.tables(TableGroup {
                title: "Differences".to_owned(),
                sub: "No figure stands out with any of them.".to_owned(),
                tables: vec![(String::new(), table)],
            });
        }
        page
    }
}
