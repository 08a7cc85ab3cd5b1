//! What stands out of a comparison, in plain words.

use super::Comparison;
use super::metrics::{Family, Subject};
use super::rows::Row;
use crate::printable::printable;
use crate::spread::{Spread, certain};
use crate::table::wrap;
use crate::units::three;

struct Standout<'a> {
    /// Whether its tasks have CPU time to speak of: those that have come first.
    weighs: bool,
    score: f64,
    row: &'a Row<'a>,
    variant: usize,
    base: Spread,
    other: Spread,
}

impl Standout<'_> {
    fn is_rise(&self) -> bool {
        self.other.mean > self.base.mean
    }

    /// How large the change is, and the word that leads to what it is compared with.
    fn size(&self) -> (String, &'static str) {
        let (base, other) = (self.base.mean, self.other.mean);
        match other / base {
            _ if base == 0.0 => ("above 0".to_owned(), "but not"),
            ratio if ratio >= 2.0 => (format!("{} times as high", three(ratio)), "as"),
            ratio if ratio > 1.0 => (format!("{:.0} % higher", (ratio - 1.0) * 100.0), "than"),
            ratio if ratio > 0.5 => (format!("{:.0} % lower", (1.0 - ratio) * 100.0), "than"),
            _ if other == 0.0 => ("0".to_owned(), "but not"),
            ratio => (format!("{} times lower", three(1.0 / ratio)), "than"),
        }
    }

    /// `280 ms against 300 ms`, `23 against 133 per second and task`.
    fn figures(&self) -> String {
        let metric = self.row.metric;
        let format = |spread: &Spread| {
            let text = (metric.format)(spread.mean);
            // Times are written with theirs.
            if metric.unit.starts_with('%') || metric.unit == "J" { format!("{text} {}", metric.unit) } else { text }
        };
        let rate = if metric.unit.starts_with("per ") { format!(" {}", metric.unit) } else { String::new() };
        format!("{} against {}{rate}", format(&self.other), format(&self.base))
    }
}

/// A change rests on too few samples for a sentence.
struct TooFew;

impl Comparison {
    /// What stands out, in plain words: the largest relative change beyond the spread, and the largest of each other
    /// kind (latency, CPU time, switches and migrations). Percentiles of a few sleeps, wakeups or loops are no matter
    /// for it. Tasks with less than a thousandth of a CPU in every variant are named if nobody else is of that kind,
    /// and behind all others.
    pub fn sentence(&self) -> String {
        if self.unfinished {
            return wrap("What differs is not told: all were stopped before any of their runs had come to its end.");
        }
        let without = self.variants.iter().filter(|variant| variant.runs.is_empty());
        let without: Vec<&str> = without.map(|variant| variant.label.as_str()).collect();
        let stopped = match without[..] {
            [] => String::new(),
            _ => format!("No run of {} came to its end: no values, and nothing to compare.", without.join(", ")),
        };
        if self.ran().count() < 2 {
            return wrap(&stopped);
        }
        let said = self.of_those_that_ran();
        wrap(&if stopped.is_empty() { said } else { format!("{said} {stopped}") })
    }

    /// The sentence of the variants that have values.
    fn of_those_that_ran(&self) -> String {
        let rows = self.rows();
        let (best, few) = self.standouts(&rows);
        if !rows.is_empty() && !rows.iter().any(|row| row.cells.iter().filter(|cell| cell.is_some()).count() > 1) {
            return "Nothing can be compared: no class of tasks is in more than one of these.".to_owned();
        }
        if best.is_empty() {
            let labels: Vec<&str> = self.ran().map(|variant| variant.label.as_str()).collect();
            let bound = if self.repeats() > 1 { " beyond the spread of the repeats" } else { "" };
            let labels = labels.join(", ");
            return if few {
                format!(
                    "Nothing stands out{bound} with {labels} but what rests on too few samples; a longer run or more \
                     seeds would tell."
                )
            } else {
                format!("Nothing stands out: no class of tasks and no group fares differently{bound} with {labels}.")
            };
        }
        let mut text = String::from("What stands out: ");
        for (index, standout) in best.iter().enumerate() {
            if index == 1 {
                text.push_str(" Also: ");
            } else if index > 1 {
                text.push_str("; ");
            }
            text.push_str(&self.words(standout));
            if let Some(counter) = self.counter(&rows, standout) {
                let (phrase, (size, _)) = (counter.row.metric.phrase, counter.size());
                text.extend([", while the ", phrase, " is ", &size, " (", &counter.figures(), ")"]);
            }
            if index == 0 {
                if self.repeats() > 1 {
                    text.extend([", beyond the spread of ", &self.repeats().to_string(), " repeats"]);
                }
                text.push('.');
            }
        }
        if best.len() > 1 {
            text.push('.');
        }
        text
    }

    /// The largest change of each family that has any, the one to be told first before the others; and whether there
    /// were some of too few samples to tell.
    fn standouts<'a>(&self, rows: &'a [Row<'a>]) -> (Vec<Standout<'a>>, bool) {
        let mut best: Vec<(Family, Standout<'_>)> = Vec::new();
        let mut few = false;
        for row in rows {
            for variant in 1..self.variants.len() {
                let standout = match self.change_of(row, variant) {
                    Ok(Some(standout)) => standout,
                    Ok(None) => continue,
                    Err(TooFew) => {
                        few = true;
                        continue;
                    }
                };
                let family = row.metric.family;
                match best.iter_mut().find(|(known, _)| *known == family) {
                    Some((_, known)) if (known.weighs, known.score) >= (standout.weighs, standout.score) => {}
                    Some((_, known)) => *known = standout,
                    None => best.push((family, standout)),
                }
            }
        }
        let mut best: Vec<Standout<'_>> = best.into_iter().map(|(_, standout)| standout).collect();
        best.sort_by(|a, b| b.weighs.cmp(&a.weighs).then_with(|| b.score.total_cmp(&a.score)));
        (best, few)
    }

    /// Which latency of the same tasks goes the other way: a median that falls says nothing of a tail that grows.
    fn counter<'a>(&self, rows: &'a [Row<'a>], standout: &Standout<'_>) -> Option<Standout<'a>> {
        let (whose, family) = (standout.row.subject, standout.row.metric.family);
        if family != Family::Latency {
            return None;
        }
        let same = rows.iter().filter(|row| row.subject == whose && row.metric.family == family);
        let changes = same.filter_map(|row| self.change_of(row, standout.variant).ok()?);
        let counters = changes.filter(|change| change.is_rise() != standout.is_rise());
        counters.max_by(|a, b| a.score.total_cmp(&b.score))
    }

    /// The change that a row shows, if it is beyond the spread and matters; an error if it rests on too few samples.
    fn change_of<'a>(&self, row: &'a Row<'a>, variant: usize) -> Result<Option<Standout<'a>>, TooFew> {
        let Some((base, other)) = row.pair(variant) else { return Ok(None) };
        let Some((from, to)) = certain(base, other) else { return Ok(None) };
        if !row.metric.matters(from, to) {
            return Ok(None);
        }
        if !row.is_of_enough(variant) {
            return Err(TooFew);
        }
        let floor = row.metric.floor;
        let score = ((to + floor) / (from + floor)).ln().abs();
        Ok(Some(Standout { weighs: self.weighs(row), score, row, variant, base, other }))
    }

    fn words(&self, standout: &Standout<'_>) -> String {
        let Standout { row, variant, .. } = standout;
        let of = row.base().map_or(0, |(of, _)| of);
        let (with, than) = (&self.variants[*variant].label, &self.variants[of].label);
        let (size, link) = standout.size();
        let (phrase, whose, figures) = (row.metric.phrase, whose(row.subject), standout.figures());
        format!("the {phrase} of {whose} is {size} with {with} {link} with {than} ({figures})")
    }
}

/// In sentences.
fn whose(subject: Subject<'_>) -> String {
    match subject {
        Subject::Class(class) => format!("`{}`", printable(class)),
        Subject::Group(group) => format!("group `{}`", printable(group)),
        Subject::Machine => "the machine".to_owned(),
    }
}
