//! Progress of closed-loop tasks in a what-if: by name, task and group.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::data::{Cell, DataTable, Kind};
use crate::page::{Bar, Bars};
use crate::printable::printable;
use crate::replay::{ReplayCheck, ReplayMeasure, ReplayTask, share};
use crate::replay_groups::ReplayGroup;
use crate::replay_verdict::JUDGED_PERMILLE;
use crate::spread::Spread;
use crate::table::grid;
use crate::units::{count, percent, time};

/// The least change of progress that counts.
const CHANGED: f64 = 0.01;
/// The most names, and groups, in the sentence.
const NAMED: usize = 3;

/// Progress of closed-loop tasks in a what-if. Work is CPU time, so CPUs need the recorded speed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The tasks' name, a task's name, or a group's path.
    pub of: String,
    /// Number of tasks.
    pub tasks: usize,
    /// Recorded wakeups per second, over all tasks.
    pub recorded_rounds_per_s: f64,
    /// Wakeups per second in the what-if.
    pub what_if_rounds_per_s: f64,
    /// Work in the what-if, relative to the recorded work.
    pub progress: f64,
    /// When the recorded work is done at steady speed in the what-if, nanoseconds. None if after its end.
    pub done_ns: Option<u64>,
    /// CPU time in the recording, nanoseconds.
    pub cpu_ns: u64,
}

impl Progress {
    /// Returns the progress in words. `range` follows the speed.
    fn words(&self, recorded_ns: u64, range: &str) -> String {
        let done = match self.done_ns {
            Some(done_ns) => format!(
                "it does the recorded work in {:.3} s instead of {:.3} s",
                done_ns as f64 / 1e9,
                recorded_ns as f64 / 1e9
            ),
            None => format!("it does {:.0} % of the recorded work", self.progress * 100.0),
        };
        format!("`{}` works {:.2}{range} times as fast ({done})", printable(&self.of), self.progress)
    }

    fn fields(&self) -> [(&'static str, Value); 4] {
        [
            ("recorded_rounds_per_s", json!(self.recorded_rounds_per_s)),
            ("what_if_rounds_per_s", json!(self.what_if_rounds_per_s)),
            ("progress", json!(self.progress)),
            ("work_done_ns", json!(self.done_ns)),
        ]
    }

    /// Returns the JSON fields of a task or group. All are null without a closed loop.
    pub(crate) fn fields_of(progress: Option<&Self>) -> [(&'static str, Value); 4] {
        progress.map_or_else(|| Self::default().fields().map(|(name, _)| (name, Value::Null)), Self::fields)
    }
}

type Find = fn(&Indexed<'_>, &str) -> Option<Progress>;

/// A check with its tasks by name and by group, so that figures of many groups take no pass over all tasks each.
pub(crate) struct Indexed<'a> {
    check: &'a ReplayCheck,
    by_name: BTreeMap<&'a str, Vec<usize>>,
    by_group: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Indexed<'a> {
    pub(crate) fn new(check: &'a ReplayCheck) -> Self {
        let (mut by_name, mut by_group) = (BTreeMap::<&str, Vec<usize>>::new(), BTreeMap::<&str, Vec<usize>>::new());
        for (index, task) in check.tasks.iter().enumerate() {
            if !task.is_added() {
                by_name.entry(&task.comm).or_default().push(index);
            }
            by_group.entry(task.group.as_deref().unwrap_or("/")).or_default().push(index);
        }
        Self { check, by_name, by_group }
    }

    fn of_name(&self, comm: &str) -> Option<Progress> {
        let tasks = self.by_name.get(comm)?;
        self.check.progress_of(comm, tasks.iter().map(|&index| &self.check.tasks[index]))
    }

    /// As [`ReplayCheck::progress_of_group`].
    pub(crate) fn of_group(&self, path: &str) -> Option<Progress> {
        if path == "/" {
            return self.check.progress_of(path, self.check.tasks.iter());
        }
        let below = format!("{path}/");
        let inner = self.by_group.range(below.as_str()..).take_while(|(group, _)| group.starts_with(&below));
        let own = self.by_group.get(path).into_iter();
        let mut tasks: Vec<usize> = own.chain(inner.map(|(_, tasks)| tasks)).flatten().copied().collect();
        // Sums are in the order of the tasks.
        tasks.sort_unstable();
        self.check.progress_of(path, tasks.into_iter().map(|index| &self.check.tasks[index]))
    }
}

struct Row {
    name: String,
    /// Shares of CPU time in replay and what-if, and wait times.
    cpu: [f64; 2],
    waited_ns: [Option<u64>; 2],
    progress: Progress,
}

impl ReplayTask {
    /// Whether it is in task group `path` or a descendant.
    pub(crate) fn is_in(&self, path: &str) -> bool {
        path == "/"
            || self
                .group
                .as_deref()
                .and_then(|group| group.strip_prefix(path))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl ReplayCheck {
    /// Returns the what-if's progress of these tasks' closed loops.
    fn progress_of<'a>(&self, of: &str, tasks: impl Iterator<Item = &'a ReplayTask>) -> Option<Progress> {
        let (mut recorded_ns, mut what_if_ns, mut rounds, mut rounds_now, mut count) = (0, 0, 0.0, 0.0, 0);
        for task in tasks.filter(|task| task.closed && !task.removed && task.recorded_work_ns() > 0) {
            let what_if = task.what_if?;
            count += 1;
            recorded_ns += task.recorded_work_ns();
            what_if_ns += what_if.cpu_ns;
            rounds += task.rounds as f64;
            rounds_now += task.rounds as f64 * what_if.cpu_ns as f64 / task.recorded_work_ns() as f64;
        }
        let (seconds, what_if_seconds) = (self.elapsed_ns.0.max(1) as f64 / 1e9, self.elapsed_ns.2.max(1) as f64 / 1e9);
        let progress = what_if_ns as f64 / recorded_ns.max(1) as f64 * seconds / what_if_seconds;
        let done_ns = (self.elapsed_ns.0 as f64 / progress) as u64;
        (count > 0).then(|| Progress {
            of: of.to_owned(),
            tasks: count,
            recorded_rounds_per_s: rounds / seconds,
            what_if_rounds_per_s: rounds_now / what_if_seconds,
            progress,
            done_ns: Some(done_ns).filter(|&ns| progress > 0.0 && ns <= self.elapsed_ns.2),
            cpu_ns: recorded_ns,
        })
    }

    /// Returns the progress by name, by decreasing CPU time.
    pub fn progress(&self) -> Vec<Progress> {
        let mut names: BTreeMap<&str, Vec<&ReplayTask>> = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| !task.is_added()) {
            names.entry(&task.comm).or_default().push(task);
        }
        let all = names.into_iter().filter_map(|(comm, tasks)| self.progress_of(comm, tasks.into_iter()));
        let mut all: Vec<Progress> = all.collect();
        all.sort_by(|a, b| (b.cpu_ns, &a.of).cmp(&(a.cpu_ns, &b.of)));
        all
    }

    /// Returns a task's progress.
    pub fn progress_of_task(&self, task: &ReplayTask) -> Option<Progress> {
        self.progress_of(&task.name, std::iter::once(task))
    }

    /// Returns a group's progress, with descendants.
    pub fn progress_of_group(&self, group: &ReplayGroup) -> Option<Progress> {
        self.progress_of(&group.path, self.tasks.iter().filter(|task| task.is_in(&group.path)))
    }

    /// Returns groups' progress, by decreasing CPU time. Omits groups with the tasks of a name or inner group, the
    /// root, and autogroups, which have no names.
    fn groups_that_get_on(&self) -> Vec<Progress> {
        let (names, tasks) = (self.progress(), Indexed::new(self));
        let groups = self.groups.iter().filter(|group| group.path != "/" && !group.path.starts_with("/autogroup"));
        let same = |one: &Progress, other: &Progress| (one.tasks, one.cpu_ns) == (other.tasks, other.cpu_ns);
        let mut all: Vec<Progress> = groups
            .filter_map(|group| tasks.of_group(&group.path))
            .filter(|group| !names.iter().any(|name| same(name, group)))
            .collect();
        all.sort_by(|a, b| (b.cpu_ns, &b.of).cmp(&(a.cpu_ns, &a.of)));
        all.dedup_by(|one, kept| same(one, kept));
        all
    }

    fn changes(&self, progress: &Progress) -> bool {
        let least = self.elapsed_ns.0 / 1000 * JUDGED_PERMILLE;
        progress.cpu_ns >= least && (progress.progress - 1.0).abs() >= CHANGED
    }

    /// Returns clauses on the largest changes of programs and groups.
    pub(crate) fn progress_clauses(&self) -> Vec<String> {
        let (names, groups) = (self.progress(), self.groups_that_get_on());
        let seeds: Vec<Indexed<'_>> = self.seeds.iter().map(Indexed::new).collect();
        let words_of = |all: Vec<Progress>, find: Find| {
            let with_spread = all.into_iter().filter(|one| self.changes(one)).map(|one| {
                let spread = seeds.iter().filter_map(|seed| Some(find(seed, &one.of)?.progress));
                let spread = Spread::of(&spread.collect::<Vec<f64>>());
                (one, spread)
            });
            // A direction that depends on the seed is chance.
            let certain = with_spread.filter(|(_, spread)| spread.is_none_or(|all| all.min > 1.0 || all.max < 1.0));
            let words = certain.take(NAMED).map(|(one, spread)| {
                let half = spread.map(|all| format!(" ±{:.2}", (all.max - all.min) / 2.0)).unwrap_or_default();
                one.words(self.elapsed_ns.0, &half)
            });
            words.collect::<Vec<String>>()
        };
        #[expect(clippy::redundant_closure_for_method_calls, reason = "the methods are of one lifetime")]
        let all =
            [words_of(names, |seed, of| seed.of_name(of)), words_of(groups, |seed, of| seed.of_group(of))].concat();
        all
    }

    fn progress_rows(&self, tasks: &[ReplayTask]) -> Vec<Row> {
        let (of, what_if_of) = (self.elapsed_ns.1, self.elapsed_ns.2);
        let indexed = Indexed::new(self);
        let of_task = |task: &ReplayTask| {
            let (progress, runs) = (self.progress_of_task(task)?, [task.replayed, task.what_if?]);
            let cpu = [share(runs[0].cpu_ns, of), share(runs[1].cpu_ns, what_if_of)];
            let waited_ns = runs.map(|run: ReplayMeasure| run.run_delay_ns);
            Some(Row { name: task.name.clone(), cpu, waited_ns, progress })
        };
        let of_group = |group: &ReplayGroup| {
            let (progress, runs) = (indexed.of_group(&group.path)?, [group.replayed, group.what_if]);
            let cpu = |run: usize, of| runs[run].map_or(0.0, |run| share(run.cpu_ns, of));
            let waited_ns = runs.map(|run| run.map(|run| run.run_delay_ns));
            Some(Row {
                name: format!("group {}", group.path),
                cpu: [cpu(0, of), cpu(1, what_if_of)],
                waited_ns,
                progress,
            })
        };
        tasks.iter().filter_map(of_task).chain(self.groups.iter().filter_map(of_group)).collect()
    }

    /// Returns the progress of these tasks and all groups. Empty without closed loops.
    pub(crate) fn progress_text(&self, tasks: &[ReplayTask]) -> String {
        let waited = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| time(ns as f64));
        let row = |row: Row| {
            let Row { name, cpu, waited_ns, progress } = row;
            vec![
                name,
                percent(cpu[0]),
                percent(cpu[1]),
                waited(waited_ns[0]),
                waited(waited_ns[1]),
                count(progress.recorded_rounds_per_s),
                count(progress.what_if_rounds_per_s),
                format!("{:.2}", progress.progress),
                waited(progress.done_ns),
            ]
        };
        let rows: Vec<Vec<String>> = self.progress_rows(tasks).into_iter().map(row).collect();
        let head = [
            "progress of",
            "CPU % replayed",
            "CPU % what if",
            "waited replayed",
            "waited what if",
            "rounds/s recorded",
            "rounds/s what if",
            "times as fast",
            "work done after",
        ];
        if rows.is_empty() { String::new() } else { format!("\n{}", grid(&head, 1, rows)) }
    }

    /// Returns [`Self::progress_text`] of everything as data.
    pub(crate) fn progress_table(&self) -> Option<DataTable> {
        const NS: Kind = Kind::Nanoseconds;
        let heads: [(&'static str, &'static str, Kind); 10] = [
            ("task", "Task", Kind::Text),
            ("group", "Group", Kind::Text),
            ("replayed_share", "CPU: replayed", Kind::Share),
            ("what_if_share", "CPU: what if", Kind::Share),
            ("replayed_run_delay_ns", "Waited: replayed", NS),
            ("what_if_run_delay_ns", "Waited: what if", NS),
            ("recorded_rounds_per_s", "Rounds/s: recorded", Kind::Number),
            ("what_if_rounds_per_s", "Rounds/s: what if", Kind::Number),
            ("progress", "Progress: times as fast", Kind::Number),
            ("work_done_ns", "Progress: recorded work done after", NS),
        ];
        let mut table = DataTable::new("replay_progress", "Progress of closed loops", &heads);
        for Row { name, cpu, waited_ns, progress } in self.progress_rows(&self.tasks) {
            let group = name != progress.of;
            let mut row: Vec<Cell> = vec![
                (!group).then_some(progress.of.as_str()).into(),
                group.then_some(progress.of.as_str()).into(),
                cpu[0].into(),
                cpu[1].into(),
            ];
            row.extend(waited_ns.map(Cell::from));
            row.extend(
                [progress.recorded_rounds_per_s, progress.what_if_rounds_per_s, progress.progress].map(Cell::from),
            );
            row.push(progress.done_ns.into());
            table.push(row);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    /// Returns the speed of large programs and groups in closed loops, with a mark at the recorded speed.
    pub(crate) fn progress_bars(&self) -> Bars {
        let least = self.elapsed_ns.0 / 1000 * JUDGED_PERMILLE;
        let all = self.progress().into_iter().chain(self.groups_that_get_on());
        let rows = all.filter(|one| one.cpu_ns >= least);
        let rows = rows.map(|one| Bar {
            name: if one.tasks > 1 && !one.of.starts_with('/') {
                format!("{} x{}", one.of, one.tasks)
            } else {
                one.of.clone()
            },
            share: one.progress,
            mark: Some(1.0),
            text: match one.done_ns {
                Some(ns) => format!("{:.2} times as fast, done after {}", one.progress, time(ns as f64)),
                None => format!("{:.2} times as fast, not done at the end", one.progress),
            },
        });
        Bars {
            title: "Progress".to_owned(),
            entry: "Progress".to_owned(),
            sub: "The speed of closed loops in the what-if relative to the recording, and the time at which the recorded work is done. The \
                mark is 1. Work is CPU time."
                .to_owned(),
            rows: rows.collect(),
            ..Bars::default()
        }
    }

    pub(crate) fn progress_json(&self) -> Value {
        let one = |one: &Progress| {
            let mut json = json!({ "comm": one.of, "tasks": one.tasks });
            for (name, value) in one.fields() {
                json[name] = value;
            }
            json
        };
        self.progress().iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second. In the what-if each task has twice the CPU time, and `idle` half of it.
    fn check() -> ReplayCheck {
        let measure = |cpu_ns| ReplayMeasure { cpu_ns, run_delay_ns: Some(cpu_ns / 10), ..ReplayMeasure::default() };
        let task = |name: &str, group: &str, recorded: u64, what_if: u64| ReplayTask {
            name: format!("{name}-1"),
            comm: name.to_owned(),
            habit: "woken".to_owned(),
            closed: true,
            rounds: 10,
            group: Some(group.to_owned()),
            recorded: measure(recorded),
            replayed: measure(recorded),
            what_if: Some(measure(what_if)),
            ..ReplayTask::default()
        };
        let group = |path: &str| ReplayGroup {
            path: path.to_owned(),
            replayed: Some(crate::ReplayGroupMeasure { cpu_ns: 300_000_000, ..Default::default() }),
            what_if: Some(crate::ReplayGroupMeasure { cpu_ns: 600_000_000, run_delay_ns: 7, ..Default::default() }),
            ..ReplayGroup::default()
        };
        ReplayCheck {
            tasks: vec![
                task("server", "/web/app", 200_000_000, 400_000_000),
                task("client", "/web", 100_000_000, 200_000_000),
                task("hog", "/webby", 500_000_000, 250_000_000),
                ReplayTask { closed: false, ..task("clock", "/web", 50_000_000, 50_000_000) },
            ],
            groups: ["/", "/web", "/webby"].map(group).into(),
            what_if_cpus: Some(vec![900_000_000]),
            elapsed_ns: (1_000_000_000, 1_000_000_000, 1_000_000_000),
            ..ReplayCheck::default()
        }
    }

    #[test]
    fn tasks_and_groups_have_rounds_and_a_time_at_which_their_work_is_done() {
        let check = check();
        let server = check.progress_of_task(&check.tasks[0]).unwrap();
        assert_eq!((server.recorded_rounds_per_s, server.what_if_rounds_per_s), (10.0, 20.0));
        assert_eq!((server.progress, server.done_ns), (2.0, Some(500_000_000)));
        let hog = check.progress_of_task(&check.tasks[2]).unwrap();
        assert_eq!((hog.progress, hog.done_ns), (0.5, None), "half of it is done at the end");
        assert_eq!(check.progress_of_task(&check.tasks[3]), None, "it keeps its times");
        let web = check.progress_of_group(&check.groups[1]).unwrap();
        assert_eq!((web.tasks, web.progress, web.recorded_rounds_per_s), (2, 2.0, 20.0), "/webby is another group");
        let root = check.progress_of_group(&check.groups[0]).unwrap();
        assert_eq!((root.tasks, root.progress), (3, 850.0 / 800.0));
        let json = check.json();
        assert_eq!(
            (&json["tasks"][0]["work_done_ns"], &json["tasks"][2]["work_done_ns"]),
            (&500_000_000.into(), &Value::Null)
        );
        assert_eq!(
            (&json["groups"][1]["progress"], &json["groups"][1]["what_if_rounds_per_s"]),
            (&2.0.into(), &40.0.into())
        );
        assert_eq!(json["tasks"][3]["progress"], Value::Null);
    }

    #[test]
    fn of_groups_with_the_same_tasks_the_innermost_is_reported() {
        let mut check = check();
        check.tasks.iter_mut().for_each(|task| task.group = task.group.as_ref().map(|path| format!("/slice{path}")));
        for path in ["/slice", "/slice/web", "/slice/web/none", "/autogroup-7"] {
            check.groups.push(ReplayGroup { path: path.to_owned(), ..ReplayGroup::default() });
        }
        check.tasks.remove(2);
        let paths = |check: &ReplayCheck| check.groups_that_get_on().into_iter().map(|one| one.of).collect::<Vec<_>>();
        assert_eq!(paths(&check), ["/slice/web"]);
        check.tasks[0].removed = true;
        assert_eq!((paths(&check), check.progress().len()), (Vec::<String>::new(), 1), "only the client is left");
    }

    #[test]
    fn a_group_of_several_programs_is_in_the_sentence() {
        assert_eq!(
            check().progress_clauses().join("; "),
            "`hog` works 0.50 times as fast (it does 50 % of the recorded work); `server` works 2.00 times as fast (it does the \
             recorded work in 0.500 s instead of 1.000 s); `client` works 2.00 times as fast (it does the recorded work in 0.500 s \
             instead of 1.000 s); `/web` works 2.00 times as fast (it does the recorded work in 0.500 s instead of 1.000 s)"
        );
    }

    #[test]
    fn progress_stands_beside_cpu_time_and_waiting() {
        let check = check();
        let text = check.progress_text(&check.tasks);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = |name: &str| rows.iter().find(|row| row.contains(&name)).map(|row| row.join(" "));
        assert_eq!(row("server-1").as_deref(), Some("server-1 20.00 40.00 20.0 ms 40.0 ms 10 20 2.00 500 ms"));
        assert_eq!(row("hog-1").as_deref(), Some("hog-1 50.00 25.00 50.0 ms 25.0 ms 10 5 0.50 -"));
        assert_eq!(row("/web").as_deref(), Some("group /web 30.00 60.00 0 ns 7 ns 20 40 2.00 500 ms"));
        assert_eq!(row("clock-1"), None);
        let table = check.progress_table().unwrap().json();
        assert_eq!((&table[0]["task"], &table[0]["group"]), (&"server-1".into(), &Value::Null));
        assert_eq!(
            (&table[4]["task"], &table[4]["group"], &table[4]["progress"]),
            (&Value::Null, &"/web".into(), &2.0.into())
        );
        let bars = check.progress_bars();
        let names: Vec<&str> = bars.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["hog", "server", "client", "/web"], "in /webby there is only the hog");
        assert_eq!(bars.rows[1].text, "2.00 times as fast, done after 500 ms");
        let alone = ReplayCheck { tasks: Vec::new(), groups: Vec::new(), ..check };
        assert_eq!((alone.progress_text(&[]).as_str(), alone.progress_table()), ("", None));
    }
}
