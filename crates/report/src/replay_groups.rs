//! Task groups in a trace and its replays ([`ReplayCheck::groups`]), as text, data and JSON.

use serde_json::{Value, json};

use crate::data::{Cell, DataTable, Kind};
use crate::printable::printable;
use crate::replay::ReplayCheck;
use crate::replay_progress::{Indexed, Progress};
use crate::results::{GroupResult, Results};
use crate::table::grid;
use crate::units::{self, counted, percent, time};

/// A task group with its descendants in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayGroupMeasure {
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// See [`GroupResult::entitled_ns`].
    pub entitled_ns: u64,
    /// Run delay, nanoseconds.
    pub run_delay_ns: u64,
    /// Number and nanoseconds of throttlings by its limit.
    pub throttled: Option<(u64, u64)>,
    /// Quota and period of its limit, nanoseconds.
    pub max: Option<(u64, u64)>,
}

impl From<&GroupResult> for ReplayGroupMeasure {
    fn from(group: &GroupResult) -> Self {
        Self {
            cpu_ns: group.cpu_ns,
            entitled_ns: group.entitled_ns,
            run_delay_ns: group.run_delay_ns,
            throttled: group.limit.map(|limit| (limit.nr_throttled, limit.throttled_ns)),
            max: group.limit.and_then(|limit| limit.max),
        }
    }
}

impl ReplayGroupMeasure {
    /// `40 times, for 5.15 s`. None if it was not throttled.
    fn throttlings(&self) -> Option<String> {
        let (times, ns) = self.throttled.filter(|(times, _)| *times > 0)?;
        Some(format!("{}, for {}", counted(times, "time", "times"), time(ns as f64)))
    }

    /// `the CPU limit of 0.2 CPUs (20 ms in each 100 ms)`.
    fn limit(&self) -> String {
        let max = self.max.map(|(quota, period)| format!(" of {}", units::limit(quota, period)));
        format!("the CPU limit{}", max.unwrap_or_default())
    }
}

/// A task group in all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayGroup {
    /// Its path.
    pub path: String,
    /// Recorded CPU time with descendants, nanoseconds, if known.
    pub recorded_ns: Option<u64>,
    /// In the replay as recorded. None if a rule adds it.
    pub replayed: Option<ReplayGroupMeasure>,
    /// In the what-if.
    pub what_if: Option<ReplayGroupMeasure>,
}

impl ReplayGroup {
    /// Returns the groups of both runs in order of creation. None if only the root.
    pub fn all(replayed: &Results, what_if: Option<&Results>) -> Vec<Self> {
        let mut all: Vec<Self> = replayed
            .groups
            .iter()
            .map(|group| Self { path: group.path.clone(), replayed: Some(group.into()), ..Self::default() })
            .collect();
        for group in what_if.into_iter().flat_map(|results| &results.groups) {
            let measure = Some(group.into());
            match all.iter_mut().find(|known| known.path == group.path) {
                Some(known) => known.what_if = measure,
                None => all.push(Self { path: group.path.clone(), what_if: measure, ..Self::default() }),
            }
        }
        if all.len() > 1 { all } else { Vec::new() }
    }
}

type Measure = Option<ReplayGroupMeasure>;

fn share(measure: Measure, pick: fn(&ReplayGroupMeasure) -> u64, of: u64) -> Option<f64> {
    measure.map(|measure| pick(&measure) as f64 / of.max(1) as f64)
}

fn recorded(group: &ReplayGroup, of: u64) -> String {
    group.recorded_ns.map_or_else(|| "-".to_owned(), |ns| percent(ns as f64 / of.max(1) as f64))
}

fn waited(measure: Measure) -> String {
    measure.map_or_else(|| "-".to_owned(), |measure| time(measure.run_delay_ns as f64))
}

fn throttled(measure: Measure) -> String {
    let limit = measure.and_then(|measure| measure.throttled);
    limit.map_or_else(|| "-".to_owned(), |(times, ns)| format!("{times} x, {}", time(ns as f64)))
}

impl ReplayCheck {
    /// Returns the group whose throttled time the what-if changes most, if by more than a tenth.
    fn rethrottled(&self) -> Option<(&str, ReplayGroupMeasure, ReplayGroupMeasure)> {
        let changes = self.groups.iter().filter_map(|group| {
            let (before, behind) = (group.replayed?, group.what_if?);
            let [from, to] = [before, behind].map(|run| run.throttled.map_or(0, |(_, ns)| ns));
            let by = from.abs_diff(to);
            (by > from.max(to) / 10).then_some((by, (group.path.as_str(), before, behind)))
        });
        changes.max_by_key(|(by, _)| *by).map(|(_, change)| change)
    }

    /// `group `/app` is no longer throttled (40 times, for 5.15 s before)`. Omits counts that [`Self::reasons`] has.
    pub(crate) fn throttling_clause(&self) -> Option<String> {
        let (path, before, behind) = self.rethrottled()?;
        let group = format!("group `{}`", printable(path));
        let is_explained = self.explained.iter().any(|explained| explained.names_limit(path));
        match (before.throttlings(), behind.throttlings()) {
            (Some(_), None) if is_explained => return Some(format!("{group} is no longer throttled")),
            _ if is_explained => return None,
            _ => {}
        }
        Some(match (before.throttlings(), behind.throttlings()) {
            (Some(before), None) => format!("{group} is no longer throttled ({before} before)"),
            (None, Some(often)) => format!("{} throttles {group} {often}", behind.limit()),
            (Some(_), Some(_)) => {
                let [(was, was_ns), (is, is_ns)] = [before, behind].map(|run| run.throttled.unwrap_or_default());
                let [was_for, is_for] = [was_ns, is_ns].map(|ns| time(ns as f64));
                let often = counted(is, "time", "times");
                let limit = behind.limit();
                if was == is {
                    format!("{limit} throttles {group} {often}, as before, but for {is_for} instead of {was_for}")
                } else {
                    format!("{limit} throttles {group} {often} instead of {was}, for {is_for} instead of {was_for}")
                }
            }
            (None, None) => return None,
        })
    }

    /// Returns the group that is throttled longest in the what-if, unless [`Self::throttling_clause`] or
    /// [`Self::reasons`] has it.
    pub(crate) fn throttled_sentence(&self) -> Option<String> {
        let named = self.rethrottled().map(|(path, ..)| path);
        if self.explained.get(1).is_some_and(|what_if| !what_if.sentences("").is_empty()) {
            return None;
        }
        let throttled = self.groups.iter().filter_map(|group| {
            let run = group.what_if?;
            Some((run.throttled?.1, group.path.as_str(), run.throttlings()?, run.limit()))
        });
        let (_, path, often, limit) =
            throttled.max_by_key(|(ns, ..)| *ns).filter(|(_, path, ..)| named != Some(*path))?;
        let mut limit = limit;
        limit[..1].make_ascii_uppercase();
        Some(format!("{limit} throttles group `{}` {often}, about as before.", printable(path)))
    }

    /// Explains groups' CPU time in the replay as recorded, and names the limits that throttled them.
    pub fn group_sentences(&self) -> Vec<String> {
        self.explained.first().map_or_else(Vec::new, |replayed| replayed.sentences(""))
    }

    /// Explains the CPU time of the group whose throttling changes most, and of the groups `tasks`: in the what-if, and
    /// in the replay as recorded. Other groups of the what-if follow.
    pub(crate) fn reasons(&self, tasks: &[&str]) -> Vec<String> {
        let [replayed, what_if] = &self.explained[..] else { return Vec::new() };
        let throttled = self.rethrottled().map(|(path, ..)| path);
        let of_group = |path| {
            let what_if = what_if.of_group(path).map(|reason| format!("In the what-if, {reason}"));
            what_if.into_iter().chain(replayed.of_group(path).map(|reason| format!("As recorded, {reason}")))
        };
        let changed = throttled.into_iter().chain(tasks.iter().copied()).flat_map(of_group);
        let mut sentences: Vec<String> = Vec::new();
        for sentence in changed.chain(what_if.sentences("in the what-if, ")) {
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        }
        sentences
    }

    /// Returns the groups of the replay as recorded.
    pub(crate) fn groups_text(&self) -> String {
        if self.groups.is_empty() {
            return String::new();
        }
        let of = self.elapsed_ns.1;
        let rows = self.groups.iter().filter(|group| group.replayed.is_some()).map(|group| {
            let part = |pick| share(group.replayed, pick, of).map_or_else(String::new, percent);
            vec![
                group.path.clone(),
                recorded(group, self.elapsed_ns.0),
                part(|measure| measure.cpu_ns),
                part(|measure| measure.entitled_ns),
                waited(group.replayed),
                throttled(group.replayed),
            ]
        });
        let head =
            ["group", "CPU % recorded", "CPU % replayed", "entitled replayed", "waited replayed", "throttled replayed"];
        format!("\n{}", grid(&head, 1, rows))
    }

    /// Returns the groups of replay and what-if, with effects of limits.
    pub(crate) fn groups_what_if(&self) -> String {
        if self.groups.is_empty() {
            return String::new();
        }
        let rows = self.groups.iter().map(|group| {
            let part = |measure, pick, of| share(measure, pick, of).map_or_else(|| "-".to_owned(), percent);
            let (of, what_if_of) = (self.elapsed_ns.1, self.elapsed_ns.2);
            vec![
                group.path.clone(),
                part(group.replayed, |measure| measure.cpu_ns, of),
                part(group.what_if, |measure| measure.cpu_ns, what_if_of),
                part(group.replayed, |measure| measure.entitled_ns, of),
                part(group.what_if, |measure| measure.entitled_ns, what_if_of),
                waited(group.replayed),
                waited(group.what_if),
            ]
        });
        let head = [
            "group",
            "CPU % replayed",
            "CPU % what if",
            "entitled replayed",
            "entitled what if",
            "waited replayed",
            "waited what if",
        ];
        let mut text = format!("\n{}", grid(&head, 1, rows));
        let has_limit = |measure: Measure| measure.is_some_and(|measure| measure.throttled.is_some());
        let limited = self.groups.iter().filter(|group| has_limit(group.replayed) || has_limit(group.what_if));
        let rows: Vec<Vec<String>> = limited
            .map(|group| vec![group.path.clone(), throttled(group.replayed), throttled(group.what_if)])
            .collect();
        if !rows.is_empty() {
            text.extend(["\n", &grid(&["limited group", "throttled replayed", "throttled what if"], 1, rows)]);
        }
        text
    }

    pub(crate) fn groups_table(&self) -> Option<DataTable> {
        const NS: Kind = Kind::Nanoseconds;
        let heads: [(&'static str, &'static str, Kind); 15] = [
            ("group", "Group", Kind::Text),
            ("recorded_share", "CPU: recorded", Kind::Share),
            ("replayed_share", "CPU: replayed", Kind::Share),
            ("what_if_share", "CPU: what if", Kind::Share),
            ("replayed_entitled", "Entitled: replayed", Kind::Share),
            ("what_if_entitled", "Entitled: what if", Kind::Share),
            ("replayed_nr_throttled", "Throttled: replayed", Kind::Count),
            ("what_if_nr_throttled", "Throttled: what if", Kind::Count),
            ("replayed_throttled_ns", "For: replayed", NS),
            ("what_if_throttled_ns", "For: what if", NS),
            ("replayed_run_delay_ns", "Waited: replayed", NS),
            ("what_if_run_delay_ns", "Waited: what if", NS),
            ("recorded_cpu_ns", "CPU time: recorded", NS),
            ("replayed_cpu_ns", "CPU time: replayed", NS),
            ("what_if_cpu_ns", "CPU time: what if", NS),
        ];
        let mut table = DataTable::new("replay_groups", "Groups and their entitlements", &heads);
        for group in &self.groups {
            let both = [(group.replayed, self.elapsed_ns.1), (group.what_if, self.elapsed_ns.2)];
            let recorded = group.recorded_ns.map(|ns| ns as f64 / self.elapsed_ns.0.max(1) as f64);
            let mut row: Vec<Cell> = vec![group.path.as_str().into(), recorded.into()];
            row.extend(both.map(|(measure, of)| Cell::from(share(measure, |measure| measure.cpu_ns, of))));
            row.extend(both.map(|(measure, of)| Cell::from(share(measure, |measure| measure.entitled_ns, of))));
            let limits = both.map(|(measure, _)| measure.and_then(|measure| measure.throttled));
            row.extend(limits.map(|limit| Cell::from(limit.map(|(times, _)| times))));
            row.extend(limits.map(|limit| Cell::from(limit.map(|(_, ns)| ns))));
            row.extend(both.map(|(measure, _)| Cell::from(measure.map(|measure| measure.run_delay_ns))));
            row.push(group.recorded_ns.into());
            row.extend(both.map(|(measure, _)| Cell::from(measure.map(|measure| measure.cpu_ns))));
            table.push(row);
        }
        (!self.groups.is_empty()).then_some(table)
    }

    pub(crate) fn groups_json(&self) -> Value {
        let measure = |measure: &ReplayGroupMeasure| {
            json!({
                "cpu_ns": measure.cpu_ns,
                "entitled_ns": measure.entitled_ns,
                "run_delay_ns": measure.run_delay_ns,
                "nr_throttled": measure.throttled.map(|(times, _)| times),
                "throttled_ns": measure.throttled.map(|(_, ns)| ns),
            })
        };
        let indexed = Indexed::new(self);
        let group = |group: &ReplayGroup| {
            let (replayed, what_if) = (group.replayed.as_ref().map(measure), group.what_if.as_ref().map(measure));
            let mut json = json!({
                "path": group.path,
                "recorded_cpu_ns": group.recorded_ns,
                "replayed": replayed,
                "what_if": what_if,
            });
            for (name, value) in Progress::fields_of(indexed.of_group(&group.path).as_ref()) {
                json[name] = value;
            }
            json
        };
        self.groups.iter().map(group).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Explained;
    use crate::results::LimitResult;

    /// Where a sentence explains the limit, the clause would repeat its counts.
    #[test]
    fn a_limit_that_is_explained_is_not_counted_twice() {
        let measure = |hits| ReplayGroupMeasure { throttled: Some((hits, hits)), ..ReplayGroupMeasure::default() };
        let clause = |before: u64, behind: u64, is_explained: bool| {
            let hits = if is_explained { before.max(behind) } else { 0 };
            let limit =
                LimitResult { max: Some((50, 100)), nr_periods: 10, nr_throttled: hits, ..LimitResult::default() };
            let root = GroupResult { path: "/".to_owned(), ..GroupResult::default() };
            let web = GroupResult { path: "/web".to_owned(), parent: Some(0), limit: Some(limit), ..root.clone() };
            let run = Results { groups: vec![root, web], ..Results::default() };
            let (replayed, what_if) = (Some(measure(before)), Some(measure(behind)));
            let group = ReplayGroup { path: "/web".to_owned(), recorded_ns: None, replayed, what_if };
            let explained = vec![Explained::new(&run, 1_000_000_000); 2];
            ReplayCheck { groups: vec![group], explained, ..ReplayCheck::default() }.throttling_clause()
        };
        assert!(clause(2, 9, false).is_some_and(|text| text.contains(" throttles group `/web` 9 times instead of 2")));
        assert_eq!(clause(2, 9, true), None);
        assert!(
            clause(9, 0, false).is_some_and(|text| text.starts_with("group `/web` is no longer throttled (9 times"))
        );
        assert_eq!(clause(9, 0, true).as_deref(), Some("group `/web` is no longer throttled"));
    }
}
