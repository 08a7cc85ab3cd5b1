//! The collected results.

use vruntime_trace::Sink;

use super::Collector;
use crate::accounts::{Class, State, Task};
use crate::groups::group_results;
use crate::latency::Recorder;
use crate::results::{self, Account, ClassResult, Results, TaskResult, Unsettled};

impl Collector {
    /// Returns the results. Without [`Sink::finish`], the last event ends the run.
    pub fn into_results(mut self) -> Results {
        if !self.finished {
            let now = self.now;
            self.finish(now);
        }
        let overutilized_ns = self.frequency.overutilized_ns(self.now);
        let Self {
            mut tasks,
            mut classes,
            groups,
            cpus,
            migrations,
            conservation,
            mut psi,
            shares,
            settling,
            frequency,
            h_load,
            loadavg,
            counted_switches,
            unexplained,
            target,
            now,
            ..
        } = self;
        let mut account = Account::default();
        for task in &tasks {
            account.add(&task.account);
        }
        let moving = settling.finish(now, &tasks);
        let class_results = class_results(&mut classes, &mut tasks);
        let mut all_wakeups = Recorder::default();
        for class in &classes {
            all_wakeups.merge(&class.detail.wakeup_latency);
        }
        let unsettled = moving.iter().map(|moves| Unsettled {
            name: moves.name(&classes, &groups),
            whole_ppm: (moves.whole * 1e6).round() as u32,
            last_ppm: (moves.last * 1e6).round() as u32,
        });
        let unsettled = unsettled.collect();
        let mut groups = group_results(&groups, &tasks, &shares.entitled(groups.len()));
        for (group, pressure) in groups.iter_mut().zip(psi.read(now)) {
            group.pressure = pressure;
        }
        for (group, ns) in groups.iter_mut().zip(psi.behind_own()) {
            group.own_delay_ns = Some(ns);
        }
        for (group, count) in groups.iter_mut().zip(counted_switches) {
            group.counted_switches = Some(count);
        }
        Results {
            elapsed_ns: now,
            target_ns: target,
            tasks: tasks.into_iter().map(TaskResult::from).collect(),
            classes: class_results,
            groups,
            cpus: cpus.iter().map(|cpu| cpu.result).collect(),
            account,
            migrations,
            conservation: conservation.map(|watch| results::Conservation {
                least_interval_ns: watch.range.0,
                most_interval_ns: watch.range.1,
                worst: watch.worst,
            }),
            h_load,
            unexplained,
            loadavg,
            frequencies: frequency.finish(now),
            overutilized_ns,
            wakeup_latency: all_wakeups.latency(),
            unsettled,
        }
    }
}

/// Sums over each class's tasks. Flushes their histograms into the class's.
fn class_results(classes: &mut [Class], tasks: &mut [Task]) -> Vec<ClassResult> {
    let mut results: Vec<ClassResult> = classes
        .iter()
        .map(|class| ClassResult {
            name: class.name.clone(),
            tasks: 0,
            group: None,
            account: Account::default(),
            wakeup_latency: None,
            sleep_return: None,
            loop_duration: None,
            response: None,
            migrations: class.migrations,
        })
        .collect();
    for task in tasks {
        let class = task.class as usize;
        results[class].add(task.group as usize, &task.account);
        if let Some(detail) = &mut task.detail {
            detail.flush();
            classes[class].detail.merge(detail);
        }
    }
    for (result, class) in results.iter_mut().zip(classes) {
        result.wakeup_latency = class.detail.wakeup_latency.latency();
        result.sleep_return = class.detail.sleep_return.latency();
        result.loop_duration = class.detail.loop_duration.latency();
        result.response = class.detail.response();
    }
    results
}

impl From<Task> for TaskResult {
    fn from(task: Task) -> Self {
        let detail = task.detail.unwrap_or_default();
        Self {
            name: task.name.into(),
            class: task.class as usize,
            group: task.group as usize,
            nice: task.nice,
            policy: task.policy,
            rt_priority: task.rt_priority,
            born_ns: task.born,
            ended: task.state == State::Dead,
            account: task.account,
            wakeup_latency: detail.wakeup_latency.latency(),
            sleep_return: detail.sleep_return.latency(),
            loop_duration: detail.loop_duration.latency(),
            response: detail.response(),
        }
    }
}
