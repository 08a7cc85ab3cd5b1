//! The largest effects of a what-if, in words.

use std::iter;

use crate::latency::HUNDRED;
use crate::printable::printable;
use crate::replay::{ReplayCheck, ReplayTask, share};
use crate::replay_over::Each;
use crate::units::{percent, time};

/// What a what-if changes most.
struct StandsOut {
    /// Clauses on what users of a service notice.
    services: Vec<String>,
    /// Clauses on limits and CPU time.
    causes: Vec<String>,
    sentences: Vec<String>,
}

impl ReplayCheck {
    /// Returns the what-if's largest effects in one paragraph, in the order of [`Self::what_if_lines`].
    pub fn what_if_sentence(&self) -> Option<String> {
        let StandsOut { services, causes, sentences } = self.stands_out()?;
        let mut text = match (&services[..], &causes[..]) {
            ([], []) => "Nothing stands out.".to_owned(),
            (clauses, []) | ([], clauses) => format!("What stands out: {}.", clauses.join("; ")),
            (first, also) => format!("What stands out: {}. Also: {}.", first.join("; "), also.join("; ")),
        };
        text.extend(sentences.iter().map(|sentence| format!(" {sentence}")));
        Some(text)
    }

    /// Returns a heading and the what-if's largest effects: first on latency and progress, then on limits and CPU time.
    /// The sum of all tasks follows. Then sentences explain groups that deviate from their entitlements, and name the
    /// limits that throttled them.
    pub fn what_if_lines(&self) -> Option<(&'static str, Vec<String>)> {
        let StandsOut { services, causes, sentences } = self.stands_out()?;
        let clauses: Vec<String> = services.into_iter().chain(causes).collect();
        let heading = if clauses.is_empty() { "Nothing stands out." } else { "What stands out:" };
        Some((heading, clauses.into_iter().chain(sentences).collect()))
    }

    fn stands_out(&self) -> Option<StandsOut> {
        self.what_if_cpus.as_ref()?;
        let each = Each::new(self);
        let latency = self.latency_change(&each);
        let share = self.share_change(&each);
        let tasks = [&latency, &share].map(|change| change.as_ref().map(|(task, _)| *task));
        let [latency, share] = [latency, share].map(|change| change.map(|(_, clause)| clause));
        let groups = tasks.into_iter().flatten().filter_map(|task| task.group.as_deref());
        let reasons = self.reasons(&groups.collect::<Vec<&str>>());
        let sentences = iter::once(self.sum_sentence()).chain(self.throttled_sentence()).chain(reasons);
        Some(StandsOut {
            services: latency.into_iter().chain(self.progress_clauses()).collect(),
            causes: self.throttling_clause().into_iter().chain(share).collect(),
            sentences: sentences.collect(),
        })
    }

    /// Returns a task's shares of CPU time in the replay as recorded and in the what-if.
    fn shares(&self, task: &ReplayTask) -> Option<(f64, f64)> {
        Some((share(task.replayed.cpu_ns, self.elapsed_ns.1), share(task.what_if?.cpu_ns, self.elapsed_ns.2)))
    }

    /// `the p99 wakeup latency of `web` falls from 5.00 ms to 1.00 ms`: the largest change.
    fn latency_change(&self, each: &Each<'_>) -> Option<(&ReplayTask, String)> {
        let waits = self.large().filter_map(|task| {
            let (before, behind) = (task.replayed.wakeup?, task.what_if?.wakeup?);
            let enough =
                before.count.min(behind.count) >= HUNDRED && each.is_certain(task, |run| Some(run.wakeup?.p99_ns));
            let (before, behind) = (before.p99_ns, behind.p99_ns);
            let (by, verb) = (before.abs_diff(behind), if behind > before { "rises" } else { "falls" });
            let (before, behind) = (time(before as f64), time(behind as f64));
            // Equal text is no change.
            (enough && before != behind).then_some((by, verb, before, behind, task))
        });
        let (_, verb, before, behind, task) = waits.max_by_key(|(by, ..)| *by)?;
        let name = printable(&task.name);
        Some((task, format!("the p99 wakeup latency of `{name}` {verb} from {before} to {behind}")))
    }

    /// `the CPU time of `web` changes most, from 5.00 to 1.00 % of a CPU`.
    fn share_change(&self, each: &Each<'_>) -> Option<(&ReplayTask, String)> {
        let recorded = self.tasks.iter().filter(|task| !task.is_added());
        let certain = recorded.filter(|task| each.is_certain(task, |run| Some(run.cpu_ns)));
        let by = |(before, behind): (f64, f64)| (behind - before).abs();
        let all = certain.filter_map(|task| Some((self.shares(task)?, task)));
        let (shares, task) =
            all.max_by(|a, b| by(a.0).total_cmp(&by(b.0))).filter(|(shares, _)| by(*shares) >= 0.001)?;
        let (before, behind) = (percent(shares.0), percent(shares.1));
        let name = printable(&task.name);
        Some((task, format!("the CPU time of `{name}` changes most, from {before} to {behind} % of a CPU")))
    }

    fn sum_sentence(&self) -> String {
        let (mut before, mut behind, mut added) = (0.0, 0.0, 0.0);
        for task in &self.tasks {
            let Some(shares) = self.shares(task) else { continue };
            if task.is_added() {
                added += shares.1;
            } else {
                before += shares.0;
                behind += shares.1;
            }
        }
        let tasks = if added > 0.0 { "recorded tasks" } else { "tasks" };
        let than = match (percent(before), percent(behind)) {
            (before, behind) if before == behind => ", as before".to_owned(),
            (before, _) => format!(" instead of {before} %"),
        };
        let added = if added > 0.0 { format!(", and the added tasks {} %", percent(added)) } else { String::new() };
        format!("All {tasks} together get {} % of a CPU{than}{added}.", percent(behind))
    }
}
