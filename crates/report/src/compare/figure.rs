//! A figure of a run, by name.

use std::fmt;

use super::metrics::{ENERGY, Index, Metric, OF_CLASSES, OF_GROUPS, OF_MACHINE, Subject};
use super::{Comparison, Variant};
use crate::results::Results;
use crate::spread::{Spread, certain};
use crate::units::printed;

/// A figure of a class, a group, or the machine: `late_p99(web/worker)`, `share(/app)`, `energy`.
#[derive(Clone)]
pub struct Figure {
    metric: &'static Metric,
    subject: String,
}

impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

fn metrics() -> impl Iterator<Item = &'static Metric> {
    OF_CLASSES.iter().chain(&OF_GROUPS).chain(of_machine())
}

fn of_machine() -> impl Iterator<Item = &'static Metric> {
    OF_MACHINE.iter().chain([&ENERGY])
}

impl Figure {
    /// Finds a figure by metric, with class or group in parentheses. None if the metric does not exist for it.
    pub fn named(text: &str) -> Option<Self> {
        let (key, subject) = match text.split_once('(') {
            Some((key, rest)) => (key.trim(), rest.strip_suffix(')')?),
            None => (text.trim(), ""),
        };
        let metric = match subject {
            "" => of_machine().find(|metric| metric.key == key),
            group if group.starts_with('/') => OF_GROUPS.iter().find(|metric| metric.key == key),
            _ => OF_CLASSES.iter().find(|metric| metric.key == key),
        }?;
        Some(Self { metric, subject: subject.to_owned() })
    }

    /// Returns the keys of metrics of the whole machine, which have no class and no group.
    pub fn machine_keys() -> Vec<&'static str> {
        of_machine().map(|metric| metric.key).collect()
    }

    /// Returns the keys of all metrics.
    pub fn keys() -> Vec<&'static str> {
        let mut keys: Vec<&str> = metrics().map(|metric| metric.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the name that [`named`](Self::named) takes.
    pub fn name(&self) -> String {
        if self.subject.is_empty() {
            self.metric.key.to_owned()
        } else {
            format!("{}({})", self.metric.key, self.subject)
        }
    }

    /// Returns it in words.
    pub fn phrase(&self) -> String {
        match self.subject.as_str() {
            "" => self.metric.phrase.to_owned(),
            subject => format!("{} of {subject}", self.metric.phrase.trim_end_matches(',')),
        }
    }

    /// Returns the value in a run. None without class or group, or if unknown.
    pub fn value(&self, run: &Results) -> Option<f64> {
        let subject = match self.subject.as_str() {
            "" => Subject::Machine,
            group if group.starts_with('/') => Subject::Group(group),
            class => Subject::Class(class),
        };
        self.metric.value_of(run, &Index::new(run), subject)
    }

    /// Returns the unit of a value.
    pub fn unit(&self) -> &'static str {
        self.metric.unit
    }

    /// Returns the unit behind the text of a value; empty if the text has it.
    pub fn printed_unit(&self) -> &'static str {
        if self.metric.unit == "J" { "" } else { printed(self.metric.unit) }
    }

    /// Returns a value as text.
    pub fn text(&self, value: f64) -> String {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", (self.metric.format)(value.abs()))
    }

    /// Whether a change is large enough to matter.
    pub fn matters(&self, from: f64, to: f64) -> bool {
        self.metric.matters(from, to)
    }

    /// Returns the figures that stand out between two sides, with a run for each seed. The order is that of
    /// [`Comparison::sentences`], and the first is the one that it names first. Figures of balancing on the whole
    /// machine are last.
    pub fn standing_out(before: &[Results], after: &[Results]) -> Vec<Self> {
        let side = |runs: &[Results]| Variant { label: String::new(), runs: runs.to_vec() };
        let of_tasks = Comparison::new(vec![side(before), side(after)]).map_or_else(Vec::new, |both| both.foremost());
        let of_machine = OF_MACHINE.iter().map(|metric| Self::of(metric, Subject::Machine));
        let of_machine = of_machine.filter(|figure| figure.rises(before, after).is_some());
        of_tasks.into_iter().chain(of_machine).collect()
    }

    /// Whether the figure is higher after than before. None if the ranges of the two sides overlap, or the change is
    /// too small to matter.
    pub fn rises(&self, before: &[Results], after: &[Results]) -> Option<bool> {
        let spread =
            |runs: &[Results]| Spread::of(&runs.iter().filter_map(|run| self.value(run)).collect::<Vec<f64>>());
        let (from, to) = certain(spread(before)?, spread(after)?)?;
        self.matters(from, to).then_some(to > from)
    }

    pub(super) fn of(metric: &'static Metric, subject: Subject<'_>) -> Self {
        let subject = match subject {
            Subject::Machine => "",
            Subject::Class(name) | Subject::Group(name) => name,
        };
        Self { metric, subject: subject.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_names() {
        for name in ["late_p99(web/worker)", "share(/app)", "nr_throttled(/app)", "energy", "balance_attempts"] {
            assert_eq!(Figure::named(name).unwrap().name(), name);
        }
        for name in ["late_p99", "late_p99(/app)", "share(web", "late_p98(web)", "balance_attempts(web)", ""] {
            assert!(Figure::named(name).is_none(), "{name}");
        }
        assert!(Figure::keys().contains(&"response_p99"));
    }
}
