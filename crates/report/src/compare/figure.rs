//! One figure of a run, chosen by name.

use std::fmt;

use super::metrics::{ENERGY, Family, Index, Metric, OF_CLASSES, OF_GROUPS, Subject};
use crate::results::Results;
use crate::spread::Spread;

/// A figure of a class of tasks, of a group, or of the machine: `late_p99(web/worker)`, `share(/app)`, `energy`.
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

/// Metrics of classes, of groups and of the machine.
fn metrics() -> impl Iterator<Item = &'static Metric> {
    OF_CLASSES.iter().chain(&OF_GROUPS).chain([&ENERGY])
}

impl Figure {
    /// Finds a figure by the key of its metric, with its class or group in parentheses. `None`: there is no such
    /// metric, or it is not one of classes, groups or the machine as the parentheses say.
    pub fn named(text: &str) -> Option<Self> {
        let (key, subject) = match text.split_once('(') {
            Some((key, rest)) => (key.trim(), rest.strip_suffix(')')?),
            None => (text.trim(), ""),
        };
        let among: &'static [Metric] = match subject {
            "" => return (key == ENERGY.key).then(|| Self { metric: &ENERGY, subject: String::new() }),
            group if group.starts_with('/') => &OF_GROUPS,
            _ => &OF_CLASSES,
        };
        let metric = among.iter().find(|metric| metric.key == key)?;
        Some(Self { metric, subject: subject.to_owned() })
    }

    /// Returns the keys of all metrics.
    pub fn keys() -> Vec<&'static str> {
        let mut keys: Vec<&str> = metrics().map(|metric| metric.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Returns the figure's name, as [`named`](Self::named) takes it.
    pub fn name(&self) -> String {
        if self.subject.is_empty() {
            self.metric.key.to_owned()
        } else {
            format!("{}({})", self.metric.key, self.subject)
        }
    }

    /// Returns what the figure is, in words.
    pub fn phrase(&self) -> String {
        match self.subject.as_str() {
            "" => self.metric.phrase.to_owned(),
            subject => format!("{} of {subject}", self.metric.phrase.trim_end_matches(',')),
        }
    }

    /// Returns the figure's value in a run. `None`: the run has no such class or group, or does not know the value.
    pub fn value(&self, run: &Results) -> Option<f64> {
        let subject = match self.subject.as_str() {
            "" => Subject::Machine,
            group if group.starts_with('/') => Subject::Group(group),
            class => Subject::Class(class),
        };
        self.metric.value_of(run, &Index::new(run), subject)
    }

    /// Returns the unit of its values, for figures whose text does not say it; else nothing.
    pub fn unit(&self) -> &'static str {
        if matches!(self.metric.unit, "ns" | "J") { "" } else { self.metric.unit }
    }

    /// Returns a value as people read it.
    pub fn text(&self, value: f64) -> String {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", (self.metric.format)(value.abs()))
    }

    /// Returns whether a change between these values is large enough to matter.
    pub fn matters(&self, from: f64, to: f64) -> bool {
        self.metric.matters(from, to)
    }

    /// Returns the figure of classes that differs most between two sets of runs, in proportion and beyond the spread of
    /// the seeds. Latencies and CPU time precede others. `None`: nothing differs.
    pub fn standing_out(before: &[Results], after: &[Results]) -> Option<Self> {
        let first = before.first()?;
        let mut best: Option<(bool, f64, Self)> = None;
        for class in &first.classes {
            for metric in OF_CLASSES.iter().filter(|metric| !metric.grows()) {
                let figure = Self { metric, subject: class.name.clone() };
                let of = |runs: &[Results]| {
                    Spread::of(&runs.iter().filter_map(|run| figure.value(run)).collect::<Vec<f64>>())
                };
                let (Some(from), Some(to)) = (of(before), of(after)) else { continue };
                let enough = (metric.samples)(class) >= metric.least;
                if !enough || !from.is_disjoint(to) || !metric.matters(from.mean, to.mean) {
                    continue;
                }
                let main = matches!(metric.family, Family::Latency | Family::Cpu);
                let part = (from.mean - to.mean).abs() / from.mean.abs().max(to.mean.abs());
                if best.as_ref().is_none_or(|(least, most, _)| (main, part) > (*least, *most)) {
                    best = Some((main, part, figure));
                }
            }
        }
        best.map(|(.., figure)| figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_names() {
        for name in ["late_p99(web/worker)", "share(/app)", "nr_throttled(/app)", "energy"] {
            assert_eq!(Figure::named(name).unwrap().name(), name);
        }
        for name in ["late_p99", "late_p99(/app)", "share(web", "late_p98(web)", ""] {
            assert!(Figure::named(name).is_none(), "{name}");
        }
        assert!(Figure::keys().contains(&"response_p99"));
    }
}
