//! One-word verdicts on replays.

use std::fmt;

use serde_json::{Value, json};

use crate::latency::HUNDRED;
use crate::replay::{ReplayCheck, ReplayTask, share};
use crate::units::{counted, percent};

/// The least CPU time of a judged task, thousandths of a CPU.
pub(crate) const JUDGED_PERMILLE: u64 = 10;
/// Allowance for the rounding of fractions.
const ROUNDING: f64 = 1e-9;

/// How well a replay reproduces the recording.
///
/// | verdict | CPU time of tasks | switches | tasks that never run |
/// |---|---|---|---|
/// | good | 95 % of the judged tasks within 1 point or 5 % | within 15 % | at most 5 % |
/// | fair | tasks with 80 % of the CPU time within 2 points or 10 % | | at most 5 % |
/// | poor | otherwise | | |
///
/// A judged task has 1 % of a CPU or more. A point is 1 % of a CPU. If missing switches leave 2 % or more of CPU time
/// unplaced, the verdict is at most fair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The replay is close, and a what-if can be.
    Good,
    /// A what-if shows direction and rough size of changes.
    Fair,
    /// A what-if is not reliable.
    Poor,
}

impl Verdict {
    /// Returns the word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Poor => "poor",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a replayed wakeup latency is within 25 % or 100 us of the recorded one. Both are nanoseconds.
pub(crate) fn is_latency_near(recorded: u64, replayed: u64) -> bool {
    recorded.abs_diff(replayed) <= (recorded / 4).max(100_000)
}

impl ReplayCheck {
    fn weighed(&self) -> impl Iterator<Item = &ReplayTask> {
        let least = self.elapsed_ns.0 / 1000 * JUDGED_PERMILLE;
        self.tasks.iter().filter(move |task| task.recorded.cpu_ns > 0 && task.recorded.cpu_ns >= least)
    }

    /// Whether a task's CPU time is within these points, or this part, of the recorded.
    fn is_near(&self, task: &ReplayTask, points: f64, part: f64) -> bool {
        let (recorded, replayed) =
            (share(task.recorded_work_ns(), self.elapsed_ns.0), share(task.replayed.cpu_ns, self.elapsed_ns.1));
        let off = (recorded - replayed).abs();
        off <= points / 100.0 + ROUNDING || off <= recorded * part + ROUNDING
    }

    /// Returns how many judged tasks are within 1 point or 5 %, and all.
    pub fn tasks_near(&self) -> (usize, usize) {
        (self.weighed().filter(|task| self.is_near(task, 1.0, 0.05)).count(), self.weighed().count())
    }

    /// Returns how many tasks with at least 100 wakeups have p50 and p99 within 25 % or 100 us, and all.
    pub fn latencies_near(&self) -> (usize, usize) {
        let near = is_latency_near;
        let pairs: Vec<bool> = self
            .tasks
            .iter()
            .filter_map(|task| {
                let recorded = task.recorded.wakeup.filter(|recorded| recorded.count >= HUNDRED)?;
                Some(task.replayed.wakeup.is_some_and(|replayed| {
                    near(recorded.p50_ns, replayed.p50_ns) && near(recorded.p99_ns, replayed.p99_ns)
                }))
            })
            .collect();
        (pairs.iter().filter(|near| **near).count(), pairs.len())
    }

    /// Returns the verdict. None without a judged task. For several seeds, it is that of one in the middle: the machine
    /// drew one outcome, too, and no mean.
    pub fn verdict(&self) -> Option<Verdict> {
        if let Some(seed) = self.in_the_middle() {
            return seed.verdict();
        }
        let (near, all) = self.tasks_near();
        if all == 0 {
            return None;
        }
        let (never, ran) = self.never_ran();
        let complete = never * 20 <= ran;
        let switches = self.all_switches_off().unwrap_or(0.0).abs();
        let sum = |pick: &dyn Fn(&ReplayTask) -> bool| {
            self.weighed().filter(|task| pick(task)).map(|task| task.recorded.cpu_ns).sum::<u64>()
        };
        let fair = share(sum(&|task| self.is_near(task, 2.0, 0.1)), sum(&|_| true)) >= 0.8;
        Some(if complete && near * 20 >= all * 19 && switches <= 0.15 && self.unplaced().is_none() {
            Verdict::Good
        } else if complete && fair {
            Verdict::Fair
        } else {
            Verdict::Poor
        })
    }

    /// Returns a seed whose verdict is in the middle. None for one seed.
    fn in_the_middle(&self) -> Option<&Self> {
        let mut seeds: Vec<&Self> = self.seeds.iter().collect();
        seeds.sort_by_key(|seed| match seed.verdict() {
            Some(Verdict::Good) => 0,
            Some(Verdict::Fair) => 1,
            Some(Verdict::Poor) => 2,
            None => 3,
        });
        seeds.get(seeds.len() / 2).copied()
    }

    /// Returns the verdict with reasons, and for several seeds how many have which verdict.
    pub fn verdict_line(&self) -> String {
        if let Some((seed, verdicts)) = self.in_the_middle().zip(self.verdicts_of_seeds()) {
            return format!("{} {verdicts}; the figures are of the median seed.", seed.verdict_line());
        }
        let Some(verdict) = self.verdict() else {
            return "Verdict: none. No task had 1 % of a CPU: the recording is too short or too idle.".to_owned();
        };
        let (near, all) = self.tasks_near();
        let mut parts = vec![
            format!("CPU time of {near} of {} is within 1 point or 5 %", counted(all as u64, "task", "tasks")),
            format!("switches differ by {:+.1} %", self.all_switches_off().unwrap_or(0.0) * 100.0),
        ];
        if let (near, all @ 1..) = self.latencies_near() {
            let all = counted(all as u64, "task", "tasks");
            parts.push(format!("wakeup latencies of {near} of {all} are within 25 % or 100 us"));
        }
        if let (never @ 1.., ran) = self.never_ran() {
            parts.push(format!("{never} of {ran} tasks never run"));
        }
        if let Some(part) = self.unplaced() {
            parts.push(format!(
                "{} % of the CPU time is assigned to no task, because switches are missing",
                percent(part)
            ));
        }
        format!("Verdict: {verdict}. {}.", parts.join("; "))
    }

    /// `5 of 5 seeds are good`, or `2 of 3 seeds are good, 1 of 3 seeds is poor`. None for one seed.
    fn verdicts_of_seeds(&self) -> Option<String> {
        let count = |verdict| self.seeds.iter().filter(|seed| seed.verdict() == Some(verdict)).count();
        let is = |count: usize| if count == 1 { "is" } else { "are" };
        let all = [Verdict::Good, Verdict::Fair, Verdict::Poor].map(|verdict| (count(verdict), verdict));
        let there = all.into_iter().filter(|(count, _)| *count > 0);
        let there: Vec<String> = there
            .map(|(count, verdict)| format!("{count} of {} seeds {} {verdict}", self.seeds.len(), is(count)))
            .collect();
        (!there.is_empty()).then(|| there.join(", "))
    }

    pub(crate) fn verdict_json(&self) -> Value {
        let of_one = self.in_the_middle().unwrap_or(self);
        let (near, all) = of_one.tasks_near();
        let (latencies, of) = of_one.latencies_near();
        json!({
            "verdict": self.verdict().map(Verdict::name),
            "line": self.verdict_line(),
            "tasks_near": near,
            "tasks": all,
            "switches_off": of_one.all_switches_off(),
            "latencies_near": latencies,
            "latencies": of,
            "of_seeds": self.seeds.iter().map(|seed| seed.verdict().map(Verdict::name)).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayMeasure, latency_of};

    /// Two tasks with a tenth and a half of a CPU. `replayed` and `switches` are of the second.
    fn check(replayed: u64, switches: u64, what_if: Option<u64>) -> ReplayCheck {
        let measure = |cpu_ns, switches| ReplayMeasure { cpu_ns, switches, ..ReplayMeasure::default() };
        let task = |name: &str, recorded: ReplayMeasure, replayed: ReplayMeasure| ReplayTask {
            name: format!("{name}-1"),
            comm: name.to_owned(),
            habit: "woken".to_owned(),
            closed: true,
            rounds: 10,
            recorded,
            replayed,
            what_if: what_if.map(|cpu_ns| measure(cpu_ns, 10)),
            ..ReplayTask::default()
        };
        ReplayCheck {
            tasks: vec![
                task("small", measure(1_000, 10), measure(1_000, 10)),
                task("large", measure(5_000, 10), measure(replayed, switches)),
            ],
            what_if_cpus: what_if.map(|_| vec![0]),
            elapsed_ns: (10_000, 10_000, 10_000),
            ..ReplayCheck::default()
        }
    }

    #[test]
    fn the_verdict_is_by_the_rules() {
        assert_eq!(check(5_000, 10, None).verdict(), Some(Verdict::Good));
        assert_eq!(check(5_250, 13, None).verdict(), Some(Verdict::Good), "5 %, and 15 % of all switches");
        assert_eq!(check(5_251, 10, None).verdict(), Some(Verdict::Fair), "one of two tasks is not near");
        assert_eq!(check(5_000, 14, None).verdict(), Some(Verdict::Fair), "20 % of all switches");
        assert_eq!(check(5_500, 10, None).verdict(), Some(Verdict::Fair));
        assert_eq!(check(5_501, 10, None).verdict(), Some(Verdict::Poor));
        assert_eq!(check(0, 0, None).verdict(), Some(Verdict::Poor), "one of two never runs");
        assert_eq!(ReplayCheck::default().verdict(), None);
        let line = check(5_251, 14, None).verdict_line();
        assert_eq!(
            line,
            "Verdict: fair. CPU time of 1 of 2 tasks is within 1 point or 5 %; switches differ by +20.0 %."
        );
    }

    /// The tolerance is in the line: 3 us and 46 us are near, and do not agree.
    #[test]
    fn the_line_states_how_near_latencies_are() {
        let mut check = check(5_000, 10, None);
        let latency = |ns: u64| latency_of(&vec![ns; HUNDRED as usize]);
        (check.tasks[0].recorded.wakeup, check.tasks[0].replayed.wakeup) = (latency(46_000), latency(3_000));
        (check.tasks[1].recorded.wakeup, check.tasks[1].replayed.wakeup) = (latency(146_000), latency(3_000));
        let line = check.verdict_line();
        let ends = "; wakeup latencies of 1 of 2 tasks are within 25 % or 100 us.";
        assert!(line.ends_with(ends), "{line}");
    }

    #[test]
    fn progress_is_a_multiple_of_the_recorded_work() {
        let faster = check(5_000, 10, Some(10_000));
        let [large, small] = &faster.progress()[..] else { panic!("two names") };
        assert_eq!((large.of.as_str(), large.progress, small.progress), ("large", 2.0, 10.0));
        assert!((large.recorded_rounds_per_s - 1e6).abs() < 1.0 && (large.what_if_rounds_per_s - 2e6).abs() < 1.0);
        let clauses = faster.progress_clauses();
        assert!(clauses[0].starts_with("`large` works 2.00 times as fast"), "{clauses:?}");
        assert!(
            check(5_000, 10, Some(5_000)).progress_clauses().concat().contains("small"),
            "it got five times as much"
        );
        assert!(check(5_000, 10, None).progress_clauses().is_empty());
    }
}
