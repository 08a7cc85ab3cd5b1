//! How well a replay reproduces its recording, and effects of a what-if.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::explain::Explained;
use crate::latency::{HUNDRED, Latency, Recorder, SEVERAL};
use crate::printable::printable;
use crate::replay_groups::ReplayGroup;
use crate::replay_progress::Progress;
use crate::replay_verdict;
use crate::results::TaskResult;
use crate::units::{counted, percent};

/// The least CPU time of a large task, thousandths of a CPU.
const LARGE_PERMILLE: u64 = 5;

/// The tolerated part of unplaced CPU time, from before the trace.
const UNPLACED: f64 = 0.02;

/// Measurements of a task in a run or recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayMeasure {
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Wait time for a CPU, nanoseconds. None if the trace does not distinguish it from sleep.
    pub run_delay_ns: Option<u64>,
    /// Switches away from it.
    pub switches: u64,
    /// From wakeups to running.
    pub wakeup: Option<Latency>,
}

impl From<&TaskResult> for ReplayMeasure {
    fn from(task: &TaskResult) -> Self {
        let account = &task.account;
        Self {
            cpu_ns: account.cpu_ns,
            run_delay_ns: (!account.unmeasured.waits).then_some(account.run_delay_ns),
            switches: account.switches(),
            wakeup: task.wakeup_latency,
        }
    }
}

/// A task in all its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayTask {
    /// `comm-pid`.
    pub name: String,
    /// `comm`, by which small tasks are judged together.
    pub comm: String,
    /// How its sleeps are replayed. Empty for [added](ReplayTask::is_added) tasks.
    pub habit: String,
    /// Its last known cgroup.
    pub cgroup: Option<String>,
    /// Group or autogroup at the end of the what-if, or else of the replay.
    pub group: Option<String>,
    /// The CPU it seems confined to.
    pub confined: Option<u32>,
    /// Duration of its clock-bounded computations, nanoseconds.
    pub computes_for: Option<u64>,
    /// Whether it does more with more CPU time.
    pub closed: bool,
    /// Whether a rule removes it from the what-if.
    pub removed: bool,
    /// Wakeups in the recording.
    pub rounds: u64,
    /// Part of the recorded CPU time that recording took, nanoseconds. The replays lack it.
    pub subtracted_ns: u64,
    /// In the recording.
    pub recorded: ReplayMeasure,
    /// In the replay as recorded.
    pub replayed: ReplayMeasure,
    /// In the what-if: another kernel, machine or rules.
    pub what_if: Option<ReplayMeasure>,
}

impl ReplayTask {
    /// Whether it is only in the what-if, as a copy or added workload.
    pub fn is_added(&self) -> bool {
        self.habit.is_empty()
    }

    /// Returns the recorded CPU time without the cost of recording, nanoseconds.
    pub fn recorded_work_ns(&self) -> u64 {
        self.recorded.cpu_ns.saturating_sub(self.subtracted_ns)
    }
}

/// A recording and its replays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayCheck {
    /// All tasks. [`ReplayCheck::sort`] sorts them.
    pub tasks: Vec<ReplayTask>,
    /// All task groups. Empty if only the root.
    pub groups: Vec<ReplayGroup>,
    /// The groups of the replay as recorded and of the what-if, to explain their CPU time.
    pub explained: Vec<Explained>,
    /// Busy time of each CPU, nanoseconds: recorded, replayed. Simulated CPUs are also busy with interrupts while
    /// no task runs, which a trace does not show.
    pub cpus: Vec<(u64, u64)>,
    /// For how long the recording has the events of each CPU, nanoseconds. It lacks those that were lost to the end, or
    /// that no reader understands. Empty: all the time.
    pub known_ns: Vec<u64>,
    /// Busy time of each CPU in the what-if.
    pub what_if_cpus: Option<Vec<u64>>,
    /// Charged time of recorded tasks (`sched_stat_runtime`), nanoseconds; 0 if unknown.
    pub charged_ns: u64,
    /// Lengths of recording, replay and what-if, nanoseconds.
    pub elapsed_ns: (u64, u64, u64),
    /// The checks of several seeds, whose mean the rest is ([`ReplayCheck::over`]).
    pub seeds: Vec<Self>,
}

/// Returns key figures. None without times.
pub fn latency_of(times: &[u64]) -> Option<Latency> {
    let mut recorder = Recorder::default();
    for &ns in times {
        recorder.record(ns);
    }
    recorder.latency()
}

pub(crate) fn share(ns: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { ns as f64 / of as f64 }
}

impl ReplayCheck {
    /// Sorts the tasks: largest first, then by name.
    pub fn sort(&mut self) {
        let most = |task: &ReplayTask| match task.what_if {
            Some(what_if) if task.is_added() => what_if.cpu_ns,
            _ => task.recorded.cpu_ns,
        };
        self.tasks.sort_by(|a, b| (most(b), &a.name).cmp(&(most(a), &b.name)));
    }

    /// Returns the tasks with enough CPU time to be judged.
    pub(crate) fn large(&self) -> impl Iterator<Item = &ReplayTask> {
        let least = self.elapsed_ns.0 / 1000 * LARGE_PERMILLE;
        self.tasks.iter().filter(move |task| task.recorded.cpu_ns > 0 && task.recorded.cpu_ns >= least)
    }

    /// Returns the largest difference of a large task's CPU share, with its name.
    pub fn worst_share(&self) -> Option<(f64, &str)> {
        let off = |task: &ReplayTask| {
            (share(task.replayed.cpu_ns, self.elapsed_ns.1) - share(task.recorded_work_ns(), self.elapsed_ns.0)).abs()
        };
        self.large().map(|task| (off(task), task.name.as_str())).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns the relative change of large tasks' switches in the replay.
    pub fn switches_off(&self) -> Option<f64> {
        let sum = |pick: fn(&ReplayTask) -> u64| self.large().map(pick).sum::<u64>();
        let recorded = sum(|task| task.recorded.switches);
        (recorded > 0).then(|| sum(|task| task.replayed.switches) as f64 / recorded as f64 - 1.0)
    }

    /// As [`Self::switches_off`], for all recorded tasks.
    pub fn all_switches_off(&self) -> Option<f64> {
        let recorded = || self.tasks.iter().filter(|task| !task.habit.is_empty());
        let sum = |pick: fn(&ReplayTask) -> u64| recorded().map(pick).sum::<u64>();
        let before = sum(|task| task.recorded.switches);
        (before > 0).then(|| sum(|task| task.replayed.switches) as f64 / before as f64 - 1.0)
    }

    /// Returns how many large tasks with 20 or more wakeups have p50 within 25 % or 100 us, and their number. From 100
    /// wakeups, p99 counts, too.
    pub fn latencies_within(&self) -> (usize, usize) {
        let near = replay_verdict::is_latency_near;
        let pairs: Vec<bool> = self
            .large()
            .filter_map(|task| {
                // Percentiles of fewer wakeups have no meaning.
                let recorded = task.recorded.wakeup.filter(|recorded| recorded.count >= SEVERAL)?;
                Some(task.replayed.wakeup.is_some_and(|replayed| {
                    near(recorded.p50_ns, replayed.p50_ns)
                        && (recorded.count < HUNDRED || near(recorded.p99_ns, replayed.p99_ns))
                }))
            })
            .collect();
        (pairs.iter().filter(|near| **near).count(), pairs.len())
    }

    /// Returns large tasks' part of CPU time and switches.
    pub fn judged(&self) -> (f64, f64) {
        let part =
            |pick: fn(&ReplayTask) -> u64| share(self.large().map(pick).sum(), self.tasks.iter().map(pick).sum());
        (part(|task| task.recorded.cpu_ns), part(|task| task.recorded.switches))
    }

    /// Returns how many recorded tasks never run in the replay, and all.
    pub fn never_ran(&self) -> (usize, usize) {
        let ran = self.tasks.iter().filter(|task| task.recorded.cpu_ns > 0);
        let (never, all) =
            ran.fold((0, 0), |(never, all), task| (never + usize::from(task.replayed.cpu_ns == 0), all + 1));
        (never, all)
    }

    /// Returns the part of charged CPU time that the recording does not place, from 2 %.
    pub fn unplaced(&self) -> Option<f64> {
        let placed: u64 = self.tasks.iter().map(|task| task.recorded.cpu_ns).sum();
        let part = share(self.charged_ns.saturating_sub(placed), self.charged_ns);
        (part >= UNPLACED).then_some(part)
    }

    /// Returns the largest difference of a name's small tasks in CPU share, among names with enough CPU time.
    pub fn worst_name(&self) -> Option<(f64, &str)> {
        let least = self.elapsed_ns.0 / 1000 * LARGE_PERMILLE;
        let mut names: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for task in self.tasks.iter().filter(|task| !task.is_added() && task.recorded.cpu_ns < least) {
            let (recorded, replayed) = names.entry(&task.comm).or_default();
            *recorded += task.recorded_work_ns();
            *replayed += task.replayed.cpu_ns;
        }
        let (of, replayed_of) = (self.elapsed_ns.0, self.elapsed_ns.1);
        let off = |(name, (recorded, replayed)): (_, (u64, u64))| {
            ((share(replayed, replayed_of) - share(recorded, of)).abs(), name)
        };
        let large_names = names.into_iter().filter(|(_, (recorded, _))| *recorded > 0 && *recorded >= least);
        large_names.map(off).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Returns a sentence on how far to trust a what-if.
    pub fn summary(&self) -> String {
        let Some((worst, name)) = self.worst_share() else {
            return "No task had half a percent of a CPU: the trace is too short or too idle for a verdict.".to_owned();
        };
        let (switches, all_switches) = (self.switches_off().unwrap_or(0.0), self.all_switches_off().unwrap_or(0.0));
        let switches_off = switches.abs().max(all_switches.abs());
        let (name, (near, of)) = (printable(name), self.latencies_within());
        let (by_name, (never, ran)) = (self.worst_name(), self.never_ran());
        let off = by_name.map_or(worst, |(off, _)| off.max(worst));
        // Tasks that never run also distort the rest.
        let complete = never * 20 <= ran && self.unplaced().is_none();
        let good = off <= 0.005 && switches_off <= 0.1 && complete;
        let fair = off <= 0.02 && switches_off <= 0.25 && complete;
        let ((cpu, of_switches), judged) = (self.judged(), self.large().count());
        // Small tasks are not judged singly, and a recording may consist of them.
        let most = cpu >= 0.8 && of_switches >= 0.5;
        let verdict = match (good && near == of && most, good || fair) {
            (true, _) => "A what-if of this trace is as accurate as these differences",
            (false, true) => {
                "Trust a what-if for CPU time; trust other changes only if they are much larger than these differences"
            }
            (false, false) => "Trust only changes that are much larger than these differences",
        };
        let latencies = match of {
            0 => "No task has enough wakeups for a comparison of latency".to_owned(),
            _ => format!(
                "The p50 and p99 of the wakeup latency are within 25 % or 100 us for {near} of {}",
                counted(of as u64, "task", "tasks")
            ),
        };
        let names = by_name.map_or_else(String::new, |(off, name)| {
            format!(
                ". Small tasks of one name together differ by at most {:.2} points ({})",
                off * 100.0,
                printable(name)
            )
        });
        let unplaced = self.unplaced().map_or_else(String::new, |part| {
            format!(
                " {} % of the charged CPU time is assigned to no task in the recording, because switches are missing.",
                percent(part)
            )
        });
        let missing = match never {
            0 => String::new(),
            1 if ran == 1 => " The task that ran in the recording never runs in the replay.".to_owned(),
            1 => format!(" 1 of {ran} tasks that ran in the recording never runs in the replay."),
            _ => format!(" {never} of {ran} tasks that ran in the recording never run in the replay."),
        };
        format!(
            "Of all tasks, {judged} {} half a percent of a CPU or more. Together they have {:.0} % of the CPU time and {:.0} % \
             of the switches. Their CPU shares are within {:.2} points of the recording (the worst: {name}){names}. Their switches differ by \
             {:+.1} % (all tasks together: {:+.1} %). {latencies}.{missing}{unplaced} {verdict}.",
            if judged == 1 { "has" } else { "have" },
            cpu * 100.0,
            of_switches * 100.0,
            worst * 100.0,
            switches * 100.0,
            all_switches * 100.0
        )
    }

    /// Returns everything, for `--json`. Added tasks have null `recorded`, `replayed` and `sleeps`.
    pub fn json(&self) -> Value {
        let measure = |measure: &ReplayMeasure| {
            json!({
                "cpu_ns": measure.cpu_ns,
                "run_delay_ns": measure.run_delay_ns,
                "switches": measure.switches,
                "wakeups": measure.wakeup.map_or(0, |latency| latency.count),
                "wakeup_latency_p50_ns": measure.wakeup.map(|latency| latency.p50_ns),
                "wakeup_latency_p99_ns": measure.wakeup.map(|latency| latency.p99_ns),
            })
        };
        let tasks: Vec<Value> = self
            .tasks
            .iter()
            .map(|task| {
                let there = |found: &ReplayMeasure| (!task.is_added()).then(|| measure(found));
                let mut json = json!({
                    "name": task.name,
                    "sleeps": (!task.is_added()).then_some(&task.habit),
                    "cgroup": task.cgroup,
                    "group": task.group,
                    "confined_to": task.confined,
                    "computes_for_ns": task.computes_for,
                    "closed": task.closed,
                    "rounds": task.rounds,
                    "subtracted_ns": task.subtracted_ns,
                    "recorded": there(&task.recorded),
                    "replayed": there(&task.replayed),
                    "what_if": task.what_if.as_ref().map(measure),
                });
                for (name, value) in Progress::fields_of(self.progress_of_task(task).as_ref()) {
                    json[name] = value;
                }
                json
            })
            .collect();
        let (recorded, replayed): (Vec<u64>, Vec<u64>) = self.cpus.iter().copied().unzip();
        let mut json = json!({
            "duration_ns": { "recorded": self.elapsed_ns.0, "replayed": self.elapsed_ns.1, "what_if": self.what_if_cpus.as_ref().map(|_| self.elapsed_ns.2) },
            "known_ns": (!self.known_ns.is_empty()).then_some(&self.known_ns),
            "busy_ns": { "recorded": recorded, "replayed": replayed, "what_if": self.what_if_cpus },
            "check": {
                "worst_cpu_share_off": self.worst_share().map(|(off, _)| off),
                "worst_cpu_share_off_by_name": self.worst_name().map(|(off, _)| off),
                "never_ran": self.never_ran().0,
                "unplaced": self.unplaced(),
                "switches_off": self.switches_off(),
                "all_switches_off": self.all_switches_off(),
                "latencies_within": self.latencies_within().0,
                "latencies": self.latencies_within().1,
                "judged_tasks": self.large().count(),
                "judged_cpu": self.judged().0,
                "judged_switches": self.judged().1,
                "summary": self.summary(),
            },
            "what_if": self.what_if_sentence(),
            "groups": self.groups_json(),
            "tasks": tasks,
        });
        json["verdict"] = self.verdict_json();
        json["progress"] = self.progress_json();
        if let Some(over_seeds) = self.over_seeds_json() {
            json["over_seeds"] = over_seeds;
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{GroupResult, LimitResult, Results};

    fn check(replayed: u64, switches: u64) -> ReplayCheck {
        let wakeup = latency_of(&[1_000, 2_000, 500_000]);
        let measure = |cpu_ns, switches| ReplayMeasure { cpu_ns, switches, wakeup, ..ReplayMeasure::default() };
        ReplayCheck {
            tasks: vec![
                ReplayTask { name: "small-2".to_owned(), ..ReplayTask::default() },
                ReplayTask {
                    name: "web-1".to_owned(),
                    habit: "woken".to_owned(),
                    recorded: measure(400_000_000, 100),
                    replayed: measure(replayed, switches),
                    what_if: Some(measure(replayed / 2, switches)),
                    ..ReplayTask::default()
                },
            ],
            groups: Vec::new(),
            explained: Vec::new(),
            cpus: vec![(400_000_000, replayed)],
            known_ns: Vec::new(),
            what_if_cpus: Some(vec![replayed / 2, 0]),
            charged_ns: 0,
            elapsed_ns: (1_000_000_000, 1_000_000_000, 1_000_000_000),
            seeds: Vec::new(),
        }
    }

    #[test]
    fn a_task_only_in_the_what_if_has_no_recorded_values() {
        let json = check(400_000_000, 100).json();
        let (added, web) = (&json["tasks"][0], &json["tasks"][1]);
        assert_eq!(added["name"], "small-2");
        assert!(
            [&added["recorded"], &added["replayed"], &added["sleeps"]].iter().all(|value| value.is_null()),
            "{added}"
        );
        assert_eq!((&web["recorded"]["switches"], &web["sleeps"]), (&json!(100), &json!("woken")));
    }

    #[test]
    fn the_summary_says_how_far_to_trust() {
        assert!(
            check(403_000_000, 105).summary().contains("as accurate as these differences"),
            "{}",
            check(403_000_000, 105).summary()
        );
        assert!(check(415_000_000, 105).summary().contains("for CPU time"));
        let bad = check(600_000_000, 105);
        assert!(
            bad.summary().contains("within 20.00 points") && bad.summary().contains("Trust only changes"),
            "{}",
            bad.summary()
        );
        assert!(ReplayCheck::default().summary().contains("too short"));
    }

    #[test]
    fn changed_throttling_is_reported_with_its_limit() {
        let sentence = |before: Option<(u64, u64)>, behind: Option<(u64, u64)>| {
            let max = Some((20_000_000, 100_000_000));
            let with =
                |throttled| Some(crate::replay_groups::ReplayGroupMeasure { throttled, max, ..Default::default() });
            let group = |path: &str, before, behind| ReplayGroup {
                path: path.to_owned(),
                recorded_ns: None,
                replayed: with(before),
                what_if: with(behind),
            };
            let mut check = check(400_000_000, 100);
            check.groups = vec![group("/", None, None), group("/app", before, behind), group("/b", Some((1, 9)), None)];
            check.what_if_sentence().unwrap()
        };
        let (often, rarely) = (Some((40, 5_150_000_000)), Some((4, 150_000_000)));
        let gone = sentence(often, None);
        assert!(gone.contains(" group `/app` is no longer throttled (40 times, for 5.15 s before); the CPU"), "{gone}");
        assert_eq!(sentence(often, Some((0, 0))), gone);
        let new = sentence(None, often);
        assert!(
            new.contains(
                "the CPU limit of 0.2 CPUs (20.0 ms in each 100 ms) throttles group `/app` 40 times, for 5.15 s; "
            ),
            "{new}"
        );
        let less = sentence(often, rarely);
        assert!(
            less.contains(" throttles group `/app` 4 times instead of 40, for 150 ms instead of 5.15 s; "),
            "{less}"
        );
        let longer = sentence(Some((29, 3_000_000_000)), Some((29, 4_000_000_000)));
        assert!(longer.contains(" `/app` 29 times, as before, but for 4.00 s instead of 3.00 s; "), "{longer}");
        // The largest change is that of `/b`.
        let same = sentence(often, often);
        assert!(same.contains("group `/b` is no longer throttled"), "{same}");
        let limit = "The CPU limit of 0.2 CPUs (20.0 ms in each 100 ms) throttles group `/app` 40 times, for 5.15 s, about as before.";
        assert!(same.ends_with(limit), "{same}");
    }

    /// The what-if's groups are explained, and the changed ones of the replay as recorded.
    #[test]
    fn deviations_from_entitlements_are_explained_with_their_limits() {
        let explained = |hits: u64, web: u64| {
            let (max, throttled_ns) = (Some((50, 100)), hits * 10_000_000);
            let limit = LimitResult { max, nr_periods: 10, nr_throttled: hits, throttled_ns, ..LimitResult::default() };
            let group = |path: &str, parent, cpu_ms: u64, limit| GroupResult {
                path: path.to_owned(),
                parent,
                cpu_ns: cpu_ms * 1_000_000,
                entitled_ns: if parent.is_some() { 500_000_000 } else { 1_000_000_000 },
                limit,
                ..GroupResult::default()
            };
            let groups = vec![
                group("/", None, 1_000, None),
                group("/web", Some(0), web, Some(limit)),
                group("/batch", Some(0), 1_000 - web, None),
            ];
            Explained::new(&Results { groups, ..Results::default() }, 1_000_000_000)
        };
        let mut check = check(400_000_000, 100);
        check.tasks[1].group = Some("/web".to_owned());
        check.explained = vec![explained(0, 500), explained(9, 400)];
        assert_eq!(check.group_sentences(), [""; 0]);
        let text = check.what_if_sentence().unwrap();
        let limit = "less than its entitlement of 50.00 % of a CPU: its CPU limit of 0.5 CPUs (50 ns in each 100 ns) throttled it in \
                     9 of 10 periods.";
        assert!(text.contains(&format!(" In the what-if, group `/web` got 40.00 % of a CPU, {limit}")), "{text}");
        assert!(text.contains(" In the what-if, group `/batch` got 60.00 % of a CPU, more than"), "{text}");
        assert!(!text.contains("As recorded"), "{text}");
        check.explained.reverse();
        assert_eq!(check.group_sentences().len(), 2);
        let text = check.what_if_sentence().unwrap();
        // A task of `/web` changes most, and none of `/batch`.
        assert!(text.ends_with(&format!(" As recorded, group `/web` got 40.00 % of a CPU, {limit}")), "{text}");
        assert!(!text.contains("what-if, group") && !text.contains("/batch"), "{text}");
    }

    #[test]
    fn few_wakeups_are_no_measure() {
        let with = |recorded: &[u64], replayed: &[u64]| {
            let mut check = check(400_000_000, 100);
            let web = &mut check.tasks[1];
            web.recorded.wakeup = latency_of(recorded);
            web.replayed.wakeup = latency_of(replayed);
            web.what_if = Some(ReplayMeasure { wakeup: latency_of(&vec![9_000_000; replayed.len()]), ..web.replayed });
            check
        };
        let tail = |count: usize, worst: u64| [vec![10_000; count - 1], vec![worst]].concat();
        let few = with(&tail(19, 10_000), &tail(19, 5_000_000));
        assert_eq!(few.latencies_within(), (0, 0));
        assert!(few.summary().contains("No task has enough wakeups"), "{}", few.summary());
        assert!(!few.what_if_sentence().unwrap().contains("p99"));
        assert_eq!(with(&tail(20, 10_000), &tail(20, 5_000_000)).latencies_within(), (1, 1));
        assert!(!with(&tail(99, 1), &tail(99, 1)).what_if_sentence().unwrap().contains("p99"));
        let many =
            with(&[tail(60, 10_000), tail(60, 10_000)].concat(), &[tail(60, 5_000_000), tail(60, 5_000_000)].concat());
        assert_eq!(many.latencies_within(), (0, 1));
        assert!(many.what_if_sentence().unwrap().contains("p99"));
    }

    #[test]
    fn the_switches_of_small_tasks_count_together() {
        let mut check = check(400_000_000, 100);
        check.tasks[0].habit = "recorded".to_owned();
        (check.tasks[0].recorded.switches, check.tasks[0].replayed.switches) = (900, 500);
        assert_eq!((check.switches_off(), check.all_switches_off()), (Some(0.0), Some(-0.4)));
        let summary = check.summary();
        assert!(
            summary.contains("differ by +0.0 % (all tasks together: -40.0 %)")
                && summary.contains("Trust only changes"),
            "{summary}"
        );
    }

    #[test]
    fn time_of_no_task_is_reported() {
        let mut check = check(403_000_000, 105);
        check.charged_ns = 405_000_000;
        assert_eq!(check.unplaced(), None);
        check.charged_ns = 800_000_000;
        let summary = check.summary();
        assert!(
            summary.contains(" 50.00 % of the charged CPU time is assigned to no task")
                && summary.contains("Trust only changes"),
            "{summary}"
        );
    }

    /// Thirty children of 2 ms: none is large, and together they have 6 % of the second.
    #[test]
    fn small_tasks_count_together_and_so_do_those_that_never_run() {
        let children = |replayed: fn(u64) -> u64| {
            let mut check = check(400_000_000, 100);
            let child = |number: u64| ReplayTask {
                name: format!("true-{number}"),
                comm: "true".to_owned(),
                habit: "woken".to_owned(),
                recorded: ReplayMeasure { cpu_ns: 2_000_000, ..ReplayMeasure::default() },
                replayed: ReplayMeasure { cpu_ns: replayed(number), ..ReplayMeasure::default() },
                ..ReplayTask::default()
            };
            check.tasks.extend((10..40).map(child));
            check
        };
        let all = children(|_| 2_000_000);
        assert_eq!((all.never_ran(), all.worst_name()), ((0, 31), Some((0.0, "true"))));
        assert!(
            all.summary().contains("as accurate as these differences") && !all.summary().contains("never"),
            "{}",
            all.summary()
        );
        let some = children(|number| if number < 20 { 0 } else { 2_000_000 }).summary();
        assert!(some.contains("Small tasks of one name together differ by at most 2.00 points (true)"), "{some}");
        assert!(
            some.contains(" 10 of 31 tasks that ran in the recording never run in the replay. Trust only changes"),
            "{some}"
        );
    }

    #[test]
    fn the_largest_task_is_first_and_tables_have_every_cpu() {
        let mut check = check(403_000_000, 105);
        check.sort();
        assert_eq!(check.tasks[0].name, "web-1");
        let table = check.check_table(false);
        assert!(table.contains("40.00") && table.contains("40.30") && table.contains("500 us"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 100), "it fits a terminal: {table}");
        let table = check.what_if_table(false).unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= 100), "it fits a terminal: {table}");
        assert!(table.contains("20.15") && table.lines().last().unwrap().starts_with('1'), "{table}");
        assert_eq!(check.json()["tasks"][0]["what_if"]["switches"], 105);
        assert_eq!(
            check.what_if_sentence().unwrap(),
            "What stands out: the CPU time of `web-1` changes most, from 40.30 to 20.15 % of a CPU. All tasks together get \
             20.15 % of a CPU instead of 40.30 %."
        );
        // Added tasks have no change.
        check.tasks[1].what_if = Some(ReplayMeasure { cpu_ns: 600_000_000, ..ReplayMeasure::default() });
        assert_eq!(
            check.what_if_sentence().unwrap(),
            "What stands out: the CPU time of `web-1` changes most, from 40.30 to 20.15 % of a CPU. All recorded tasks together \
             get 20.15 % of a CPU instead of 40.30 %, and the added tasks 60.00 %."
        );
        // Equal digits are no change.
        check.tasks.truncate(1);
        check.tasks[0].what_if = Some(ReplayMeasure { cpu_ns: 403_000_001, ..check.tasks[0].replayed });
        let waits = |ns: u64| latency_of(&vec![ns; 100]);
        check.tasks[0].replayed.wakeup = waits(2_420_000);
        check.tasks[0].what_if = check.tasks[0].what_if.map(|run| ReplayMeasure { wakeup: waits(2_421_000), ..run });
        assert_eq!(
            check.what_if_sentence().unwrap(),
            "Nothing stands out. All tasks together get 40.30 % of a CPU, as before."
        );
        check.what_if_cpus = None;
        assert_eq!(check.what_if_sentence(), None);
    }
}
