//! What a run, a comparison and a replay gave, as tables of data: for pages and files.

use crate::data::{Cell, DataTable, Kind};
use crate::latency::Latency;
use crate::page::{Bar, Bars};
use crate::replay::{ReplayCheck, ReplayMeasure};
use crate::results::{Account, Results};
use crate::units::percent;

/// Bars beyond this many are left out.
const MOST_BARS: usize = 24;

type Head = (&'static str, &'static str, Kind);

const ACCOUNT: [Head; 7] = [
    ("cpu_ns", "CPU time", Kind::Nanoseconds),
    ("cpu", "CPU", Kind::Share),
    ("run_delay_ns", "Waited", Kind::Nanoseconds),
    ("sleeping_ns", "Slept", Kind::Nanoseconds),
    ("voluntary", "Voluntary", Kind::Count),
    ("involuntary", "Involuntary", Kind::Count),
    ("migrations", "Migrations", Kind::Count),
];

const LATENCY: [Head; 4] = [
    ("wakeup_p50_ns", "Wakeup p50", Kind::Nanoseconds),
    ("wakeup_p99_ns", "p99", Kind::Nanoseconds),
    ("wakeup_p999_ns", "p99.9", Kind::Nanoseconds),
    ("wakeup_max_ns", "Max", Kind::Nanoseconds),
];

fn account(account: &Account, results: &Results) -> Vec<Cell> {
    vec![
        account.cpu_ns.into(),
        results.share(account.cpu_ns).into(),
        account.run_delay_ns.into(),
        account.sleeping_ns.into(),
        account.voluntary.into(),
        account.involuntary.into(),
        account.migrations.into(),
    ]
}

fn latency(latency: Option<Latency>) -> Vec<Cell> {
    let pick = |pick: fn(&Latency) -> u64| Cell::from(latency.as_ref().map(pick));
    vec![
        pick(|latency| latency.p50_ns),
        pick(|latency| latency.p99_ns),
        pick(|latency| latency.p999_ns),
        pick(|latency| latency.max_ns),
    ]
}

fn table(name: &'static str, title: &str, heads: &[&[Head]]) -> DataTable {
    DataTable::new(name, title, &heads.concat())
}

impl Results {
    /// Tasks, classes, groups, CPUs: every number of them that is a column.
    pub fn tables(&self) -> Vec<DataTable> {
        let names: [Head; 2] = [("class", "Tasks", Kind::Text), ("tasks", "Number", Kind::Count)];
        let mut classes = table("classes", "Classes of tasks", &[&names, &ACCOUNT, &LATENCY]);
        for class in &self.classes {
            let name = vec![class.name.as_str().into(), class.tasks.into()];
            classes.push([name, account(&class.account, self), latency(class.wakeup_latency)].concat());
        }
        let names: [Head; 4] = [
            ("task", "Task", Kind::Text),
            ("class", "Class", Kind::Text),
            ("group", "Group", Kind::Text),
            ("nice", "Nice", Kind::Count),
        ];
        let mut tasks = table("tasks", "Tasks", &[&names, &ACCOUNT, &LATENCY]);
        for task in &self.tasks {
            let group = self.groups.get(task.group).map_or("/", |group| group.path.as_str());
            let class = self.classes.get(task.class).map_or("", |class| class.name.as_str());
            let name = vec![task.name.as_str().into(), class.into(), group.into(), i32::from(task.nice).into()];
            tasks.push([name, account(&task.account, self), latency(task.wakeup_latency)].concat());
        }
        let mut tables = vec![classes, tasks];
        if self.groups.len() > 1 {
            tables.push(self.groups_table());
        }
        tables.push(self.cpus_table());
        tables
    }

    fn groups_table(&self) -> DataTable {
        let heads: [Head; 13] = [
            ("group", "Group", Kind::Text),
            ("weight", "Weight", Kind::Count),
            ("tasks", "Tasks", Kind::Count),
            ("cpu_ns", "CPU time", Kind::Nanoseconds),
            ("cpu", "CPU", Kind::Share),
            ("entitled_ns", "Entitled to", Kind::Nanoseconds),
            ("entitled", "Entitled", Kind::Share),
            ("run_delay_ns", "Waited", Kind::Nanoseconds),
            ("quota_ns", "Quota", Kind::Nanoseconds),
            ("period_ns", "Period", Kind::Nanoseconds),
            ("nr_periods", "Periods", Kind::Count),
            ("nr_throttled", "Throttled", Kind::Count),
            ("throttled_ns", "For", Kind::Nanoseconds),
        ];
        let mut groups = DataTable::new("groups", "Groups, and what they were entitled to", &heads);
        for group in &self.groups {
            let limit = group.limit;
            let max = limit.and_then(|limit| limit.max);
            groups.push(vec![
                group.path.as_str().into(),
                group.weight.into(),
                group.tasks.into(),
                group.cpu_ns.into(),
                self.share(group.cpu_ns).into(),
                group.entitled_ns.into(),
                self.share(group.entitled_ns).into(),
                group.run_delay_ns.into(),
                max.map(|(quota, _)| quota).into(),
                max.map(|(_, period)| period).into(),
                limit.map(|limit| limit.nr_periods).into(),
                limit.map(|limit| limit.nr_throttled).into(),
                limit.map(|limit| limit.throttled_ns).into(),
            ]);
        }
        groups
    }

    fn cpus_table(&self) -> DataTable {
        let heads: [Head; 8] = [
            ("cpu", "CPU", Kind::Count),
            ("busy_ns", "Busy", Kind::Nanoseconds),
            ("busy", "Busy", Kind::Share),
            ("overhead_ns", "Overhead", Kind::Nanoseconds),
            ("idle_ns", "Idle", Kind::Nanoseconds),
            ("switches", "Switches", Kind::Count),
            ("balanced", "Balanced", Kind::Count),
            ("pulled", "Tasks pulled", Kind::Count),
        ];
        let mut cpus = DataTable::new("cpus", "CPUs", &heads);
        for (index, cpu) in self.cpus.iter().enumerate() {
            let balance = cpu.balance_total();
            cpus.push(vec![
                index.into(),
                cpu.busy_ns.into(),
                self.share(cpu.busy_ns).into(),
                cpu.overhead_ns.into(),
                cpu.idle_ns.into(),
                cpu.switches.into(),
                balance.attempts.into(),
                balance.tasks.into(),
            ]);
        }
        cpus
    }

    /// CPU time of each group against what it was entitled to; of each class if there are no groups.
    pub fn share_bars(&self) -> Bars {
        let cpu = |ns: u64| format!("{} %", percent(self.share(ns)));
        if self.groups.len() > 1 {
            let rows = self.groups.iter().skip(1).take(MOST_BARS).map(|group| Bar {
                name: group.path.clone(),
                share: self.share(group.cpu_ns),
                mark: Some(self.share(group.entitled_ns)),
                text: format!("{}, entitled to {}", cpu(group.cpu_ns), cpu(group.entitled_ns)),
            });
            return Bars {
                title: "CPU time of groups".to_owned(),
                entry: "CPU time".to_owned(),
                sub: "The mark is what a group's weight and limit entitled it to, among those that wanted the CPU; 100 % is one CPU all along."
                    .to_owned(),
                rows: rows.collect(),
                ..Bars::default()
            };
        }
        let mut rows: Vec<Bar> = self
            .classes
            .iter()
            .map(|class| Bar {
                name: if class.tasks > 1 { format!("{} ({})", class.name, class.tasks) } else { class.name.clone() },
                share: self.share(class.account.cpu_ns),
                mark: None,
                text: cpu(class.account.cpu_ns),
            })
            .collect();
        rows.sort_by(|a, b| b.share.total_cmp(&a.share));
        rows.truncate(MOST_BARS);
        Bars {
            title: "CPU time".to_owned(),
            entry: "CPU time".to_owned(),
            sub: "Of each class of tasks; 100 % is one CPU all along.".to_owned(),
            rows,
            ..Bars::default()
        }
    }
}

impl ReplayCheck {
    /// Tasks, groups and CPUs, recorded, replayed and what if.
    pub fn tables(&self) -> Vec<DataTable> {
        let measures: [Head; 15] = [
            ("recorded_cpu", "CPU, recorded", Kind::Share),
            ("replayed_cpu", "Replayed", Kind::Share),
            ("what_if_cpu", "What if", Kind::Share),
            ("recorded_switches", "Switches, recorded", Kind::Count),
            ("replayed_switches", "Replayed", Kind::Count),
            ("what_if_switches", "What if", Kind::Count),
            ("recorded_p50_ns", "p50, recorded", Kind::Nanoseconds),
            ("replayed_p50_ns", "Replayed", Kind::Nanoseconds),
            ("what_if_p50_ns", "What if", Kind::Nanoseconds),
            ("recorded_p99_ns", "p99, recorded", Kind::Nanoseconds),
            ("replayed_p99_ns", "Replayed", Kind::Nanoseconds),
            ("what_if_p99_ns", "What if", Kind::Nanoseconds),
            ("recorded_cpu_ns", "CPU time, recorded", Kind::Nanoseconds),
            ("replayed_cpu_ns", "Replayed", Kind::Nanoseconds),
            ("what_if_cpu_ns", "What if", Kind::Nanoseconds),
        ];
        let names: [Head; 2] = [("task", "Task", Kind::Text), ("sleeps", "Sleeps", Kind::Text)];
        let mut tasks = table("replay_tasks", "Tasks: recorded, replayed as recorded, what if", &[&names, &measures]);
        let of = [self.elapsed_ns.0, self.elapsed_ns.1, self.elapsed_ns.2];
        for task in &self.tasks {
            let runs = [Some(&task.recorded), Some(&task.replayed), task.what_if.as_ref()];
            let all = |pick: &dyn Fn(&ReplayMeasure, u64) -> Cell| -> Vec<Cell> {
                runs.iter().zip(of).map(|(run, of)| run.map_or(Cell::Nothing, |run| pick(run, of))).collect()
            };
            let mut row: Vec<Cell> = vec![task.name.as_str().into(), task.habit.as_str().into()];
            row.extend(all(&|run, of| (run.cpu_ns as f64 / of.max(1) as f64).into()));
            row.extend(all(&|run, _| run.switches.into()));
            row.extend(all(&|run, _| run.wakeup.map(|latency| latency.p50_ns).into()));
            row.extend(all(&|run, _| run.wakeup.map(|latency| latency.p99_ns).into()));
            row.extend(all(&|run, _| run.cpu_ns.into()));
            tasks.push(row);
        }
        let heads: [Head; 4] = [
            ("cpu", "CPU", Kind::Count),
            ("recorded_busy", "Busy, recorded", Kind::Share),
            ("replayed_busy", "Replayed", Kind::Share),
            ("what_if_busy", "What if", Kind::Share),
        ];
        let mut cpus = DataTable::new("replay_cpus", "CPUs: recorded, replayed as recorded, what if", &heads);
        let what_if = self.what_if_cpus.as_deref().unwrap_or_default();
        for cpu in 0..self.cpus.len().max(what_if.len()) {
            let part = |ns: Option<u64>, of: u64| Cell::from(ns.map(|ns| ns as f64 / of.max(1) as f64));
            let pair = self.cpus.get(cpu);
            cpus.push(vec![
                cpu.into(),
                part(pair.map(|pair| pair.0), of[0]),
                part(pair.map(|pair| pair.1), of[1]),
                part(what_if.get(cpu).copied(), of[2]),
            ]);
        }
        let mut tables = vec![tasks];
        tables.extend(self.groups_table());
        tables.push(cpus);
        tables
    }

    /// CPU time of the largest tasks in the last of the runs; the mark is what was recorded.
    pub fn share_bars(&self) -> Bars {
        let what_if = self.what_if_cpus.is_some();
        let of = if what_if { self.elapsed_ns.2 } else { self.elapsed_ns.1 };
        let part = |ns: u64, of: u64| ns as f64 / of.max(1) as f64;
        let rows = self.tasks.iter().take(MOST_BARS).map(|task| {
            let run = if what_if { task.what_if.unwrap_or_default() } else { task.replayed };
            let (now, then) = (part(run.cpu_ns, of), part(task.recorded.cpu_ns, self.elapsed_ns.0));
            Bar {
                name: task.name.clone(),
                share: now,
                mark: Some(then),
                text: format!("{} %, recorded {} %", percent(now), percent(then)),
            }
        });
        Bars {
            title: "CPU time of tasks".to_owned(),
            entry: "CPU time".to_owned(),
            sub: format!(
                "{}; the mark is what was recorded. 100 % is one CPU all along.",
                if what_if { "What if" } else { "Replayed as recorded" }
            ),
            rows: rows.collect(),
            ..Bars::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::ReplayTask;
    use crate::replay_groups::{ReplayGroup, ReplayGroupMeasure};

    #[test]
    fn a_replay_as_tables() {
        let measure = |cpu_ns| ReplayMeasure { cpu_ns, switches: 3, wakeup: None };
        let check = ReplayCheck {
            tasks: vec![ReplayTask {
                name: "web-1".to_owned(),
                recorded: measure(400),
                replayed: measure(300),
                what_if: Some(measure(200)),
                ..ReplayTask::default()
            }],
            groups: vec![ReplayGroup {
                path: "/new".to_owned(),
                replayed: None,
                what_if: Some(ReplayGroupMeasure {
                    cpu_ns: 200,
                    entitled_ns: 250,
                    run_delay_ns: 9,
                    throttled: Some((7, 50)),
                }),
            }],
            cpus: vec![(400, 300)],
            what_if_cpus: Some(vec![200, 0]),
            charged_ns: 0,
            elapsed_ns: (1000, 1000, 1000),
        };
        let tables = check.tables();
        let row = tables[0].json()[0].clone();
        assert_eq!((&row["recorded_cpu"], &row["what_if_cpu"]), (&0.4.into(), &0.2.into()));
        let row = tables[1].json()[0].clone();
        assert_eq!((&row["what_if_cpu"], &row["what_if_entitled"]), (&0.2.into(), &0.25.into()));
        assert_eq!((&row["what_if_nr_throttled"], &row["replayed_cpu"]), (&7.into(), &serde_json::Value::Null));
        assert_eq!(tables[2].rows.len(), 2);
        assert_eq!(tables[2].json()[1]["replayed_busy"], serde_json::Value::Null);
        let bars = check.share_bars();
        assert_eq!((bars.rows[0].mark, bars.rows[0].text.as_str()), (Some(0.4), "20.00 %, recorded 40.00 %"));
    }
}
