//! Replays as data tables and bars, for pages and files.

use crate::busy::ReplayRun;
use crate::data::{Cell, DataTable, Kind};
use crate::page::{Bar, Bars};
use crate::replay::{ReplayCheck, ReplayMeasure};
use crate::replay_groups::{ReplayGroup, ReplayGroupMeasure};
use crate::result_tables::{Head, table};
use crate::units::percent;

impl ReplayCheck {
    /// Returns the tables of tasks, groups and CPUs.
    pub fn tables(&self) -> Vec<DataTable> {
        let measures: [Head; 18] = [
            ("recorded_share", "CPU: recorded", Kind::Share),
            ("replayed_share", "CPU: replayed", Kind::Share),
            ("what_if_share", "CPU: what if", Kind::Share),
            ("recorded_run_delay_ns", "Waited: recorded", Kind::Nanoseconds),
            ("replayed_run_delay_ns", "Waited: replayed", Kind::Nanoseconds),
            ("what_if_run_delay_ns", "Waited: what if", Kind::Nanoseconds),
            ("recorded_switches", "Switches: recorded", Kind::Count),
            ("replayed_switches", "Switches: replayed", Kind::Count),
            ("what_if_switches", "Switches: what if", Kind::Count),
            ("recorded_p50_ns", "p50: recorded", Kind::Nanoseconds),
            ("replayed_p50_ns", "p50: replayed", Kind::Nanoseconds),
            ("what_if_p50_ns", "p50: what if", Kind::Nanoseconds),
            ("recorded_p99_ns", "p99: recorded", Kind::Nanoseconds),
            ("replayed_p99_ns", "p99: replayed", Kind::Nanoseconds),
            ("what_if_p99_ns", "p99: what if", Kind::Nanoseconds),
            ("recorded_cpu_ns", "CPU time: recorded", Kind::Nanoseconds),
            ("replayed_cpu_ns", "CPU time: replayed", Kind::Nanoseconds),
            ("what_if_cpu_ns", "CPU time: what if", Kind::Nanoseconds),
        ];
        let names: [Head; 2] = [("task", "Task", Kind::Text), ("sleeps", "Sleeps", Kind::Text)];
        let title = |of: &str| {
            let what_if = if self.what_if_cpus.is_some() { ", what if" } else { "" };
            format!("{of}: recorded, replayed as recorded{what_if}")
        };
        let mut tasks = table("replay_tasks", &title("Tasks"), &[&names, &measures]);
        let of = [self.elapsed_ns.0, self.elapsed_ns.1, self.elapsed_ns.2];
        for task in &self.tasks {
            let before = |run| (!task.is_added()).then_some(run);
            let runs = [before(&task.recorded), before(&task.replayed), task.what_if.as_ref()];
            let all = |pick: &dyn Fn(&ReplayMeasure, u64) -> Cell| -> Vec<Cell> {
                runs.iter().zip(of).map(|(run, of)| run.map_or(Cell::Nothing, |run| pick(run, of))).collect()
            };
            let mut row: Vec<Cell> = vec![task.name.as_str().into(), task.habit.as_str().into()];
            row.extend(all(&|run, of| (run.cpu_ns as f64 / of.max(1) as f64).into()));
            row.extend(all(&|run, _| run.run_delay_ns.into()));
            row.extend(all(&|run, _| run.switches.into()));
            row.extend(all(&|run, _| run.wakeup.map(|latency| latency.p50_ns).into()));
            row.extend(all(&|run, _| run.wakeup.map(|latency| latency.p99_ns).into()));
            row.extend(all(&|run, _| run.cpu_ns.into()));
            tasks.push(row);
        }
        let heads: [Head; 4] = [
            ("cpu", "CPU", Kind::Count),
            ("recorded_busy", "Busy: recorded", Kind::Share),
            ("replayed_busy", "Busy: replayed", Kind::Share),
            ("what_if_busy", "Busy: what if", Kind::Share),
        ];
        let mut cpus = DataTable::new("replay_cpus", title("CPUs"), &heads);
        let busy = [ReplayRun::Recorded, ReplayRun::Replayed, ReplayRun::WhatIf].map(|run| self.busy(run));
        for cpu in 0..busy.iter().map(Vec::len).max().unwrap_or(0) {
            let mut row: Vec<Cell> = vec![cpu.into()];
            row.extend(busy.iter().map(|run| Cell::from(run.get(cpu).copied().flatten())));
            cpus.push(row);
        }
        let mut tables = vec![tasks];
        tables.extend(self.groups_table());
        tables.extend(self.progress_table());
        tables.push(cpus);
        tables.extend(self.over_seeds_table());
        tables
    }

    /// As [`ReplayCheck::tables`], for a page. It has no CPU times that are also shares, and several seeds' figures are
    /// first. Without a what-if, it has no columns of one.
    pub fn page_tables(&self) -> Vec<DataTable> {
        let mut tables = self.tables();
        tables.retain(|table| table.name != "replay_over_seeds");
        for table in tables.iter_mut().filter(|table| table.name == "replay_tasks") {
            table.remove(|key| key.ends_with("_cpu_ns"));
        }
        let mut all: Vec<DataTable> = self.over_seeds_page().into_iter().chain(tables).collect();
        if self.what_if_cpus.is_none() {
            for table in &mut all {
                table.remove(|key| key.starts_with("what_if") || ["change", "certain"].contains(&key));
            }
        }
        all
    }

    /// Returns a page's bars: groups with entitlements, largest tasks with recorded times, closed loops with recorded
    /// speeds.
    pub fn share_bars(&self) -> Vec<Bars> {
        let (replayed, what_if) = (self.elapsed_ns.1, self.elapsed_ns.2);
        let groups = [
            self.group_bars("replayed as recorded", replayed, |group| group.replayed),
            self.group_bars("what if", what_if, |group| group.what_if),
        ];
        let all = groups.into_iter().chain([self.task_bars(), self.progress_bars()]);
        all.filter(|bars| !bars.rows.is_empty()).collect()
    }

    fn group_bars(&self, run: &str, of: u64, measured: fn(&ReplayGroup) -> Option<ReplayGroupMeasure>) -> Bars {
        let part = |ns: u64| ns as f64 / of.max(1) as f64;
        // The first is the root.
        let groups = self.groups.iter().skip(1).filter_map(|group| Some((&group.path, measured(group)?)));
        let rows = groups.map(|(path, group)| (path.clone(), part(group.cpu_ns), Some(part(group.entitled_ns))));
        let rows = Bars::rows_of_groups(rows.collect());
        Bars { entry: "Groups".to_owned(), label: run.to_owned(), rows, ..Bars::of_groups() }
    }

    /// Returns the CPU time of the largest tasks in the last run, with recorded times.
    fn task_bars(&self) -> Bars {
        let what_if = self.what_if_cpus.is_some();
        let of = if what_if { self.elapsed_ns.2 } else { self.elapsed_ns.1 };
        let part = |ns: u64, of: u64| ns as f64 / of.max(1) as f64;
        let all = self.tasks.iter().map(|task| {
            let run = if what_if { task.what_if.unwrap_or_default() } else { task.replayed };
            let then = part(task.recorded.cpu_ns, self.elapsed_ns.0);
            (task.name.clone(), part(run.cpu_ns, of), (!task.is_added()).then_some(then))
        });
        let rows = Bar::folded(
            all.collect(),
            |_, _| false,
            |now, then| match then {
                Some(then) => format!("{} %, recorded {} %", percent(now), percent(then)),
                None => format!("{} %, not recorded", percent(now)),
            },
        );
        Bars {
            title: "CPU time of tasks".to_owned(),
            entry: "CPU time".to_owned(),
            sub: format!(
                "{}; the mark is the recorded value. 100 % is one CPU for the whole time. Tasks too small to be seen share one bar; the tables have each.",
                if what_if { "What if" } else { "Replayed as recorded" }
            ),
            rows,
            ..Bars::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::replay::ReplayTask;

    #[test]
    fn a_replay_as_tables() {
        let measure = |cpu_ns| ReplayMeasure { cpu_ns, switches: 3, ..ReplayMeasure::default() };
        let check = ReplayCheck {
            tasks: vec![
                ReplayTask {
                    name: "web-1".to_owned(),
                    habit: "woken".to_owned(),
                    recorded: measure(400),
                    replayed: measure(300),
                    what_if: Some(measure(200)),
                    ..ReplayTask::default()
                },
                ReplayTask { name: "beside".to_owned(), what_if: Some(measure(100)), ..ReplayTask::default() },
            ],
            explained: Vec::new(),
            groups: vec![
                ReplayGroup { path: "/".to_owned(), ..ReplayGroup::default() },
                ReplayGroup {
                    path: "/new".to_owned(),
                    recorded_ns: None,
                    replayed: None,
                    what_if: Some(ReplayGroupMeasure {
                        cpu_ns: 200,
                        entitled_ns: 250,
                        run_delay_ns: 9,
                        throttled: Some((7, 50)),
                        max: None,
                    }),
                },
            ],
            cpus: vec![(400, 300)],
            known_ns: vec![500],
            what_if_cpus: Some(vec![200, 0]),
            charged_ns: 0,
            elapsed_ns: (1000, 1000, 1000),
            seeds: Vec::new(),
        };
        let tables = check.tables();
        let row = tables[0].json()[0].clone();
        assert_eq!((&row["recorded_share"], &row["what_if_share"]), (&0.4.into(), &0.2.into()));
        let row = tables[0].json()[1].clone();
        assert_eq!(
            (&row["recorded_share"], &row["replayed_switches"]),
            (&Value::Null, &Value::Null),
            "it was not there"
        );
        assert_eq!((&row["what_if_share"], &row["what_if_switches"]), (&0.1.into(), &3.into()));
        let row = tables[1].json()[1].clone();
        assert_eq!((&row["what_if_share"], &row["what_if_entitled"]), (&0.2.into(), &0.25.into()));
        assert_eq!((&row["what_if_nr_throttled"], &row["replayed_share"]), (&7.into(), &serde_json::Value::Null));
        assert_eq!(tables[2].rows.len(), 2);
        assert_eq!(tables[2].json()[0]["recorded_busy"], 0.8, "half of its events are lost");
        assert_eq!(tables[2].json()[1]["replayed_busy"], serde_json::Value::Null);
        let all = check.share_bars();
        let bars: Vec<_> = all.iter().map(|bars| (bars.rows.len(), bars.rows[0].mark, &*bars.rows[0].text)).collect();
        assert_eq!(bars[0], (1, Some(0.25), "20.00 %, entitled to 25.00 %"), "the root is all of the machine");
        assert_eq!(bars[1], (2, Some(0.4), "20.00 %, recorded 40.00 %"));
        assert_eq!((all[1].rows[1].mark, &*all[1].rows[1].text), (None, "10.00 %, not recorded"));
        assert_eq!((all.len(), all[0].label.as_str()), (2, "what if"), "the group is of a rule");

        // Without a what-if, a page has none of its columns.
        let has_what_if = |check: &ReplayCheck| {
            let tables = check.page_tables();
            let heads = tables.iter().flat_map(|table| table.columns.iter().map(|column| column.head.to_string()));
            let texts: Vec<String> = tables.iter().map(|table| table.title.clone()).chain(heads).collect();
            texts.iter().any(|text| text.contains("what if"))
        };
        assert!(has_what_if(&check));
        let alone = ReplayCheck { what_if_cpus: None, ..check };
        assert!(!has_what_if(&alone) && alone.tables()[0].columns.iter().any(|column| column.key == "what_if_share"));
    }
}
