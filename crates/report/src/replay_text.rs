//! Recordings and replays as printed tables, whose headings name the run.

use crate::busy::ReplayRun;
use crate::latency::Latency;
use crate::replay::{ReplayCheck, ReplayMeasure, ReplayTask, share};
use crate::table::grid;
use crate::units::{count, percent, time};

/// The default number of rows.
const SHOWN: usize = 15;

/// Figures of two runs. New tasks lack the first.
type Pair = (Option<ReplayMeasure>, ReplayMeasure);

fn latency(measure: &ReplayMeasure, pick: fn(&Latency) -> u64) -> String {
    measure.wakeup.as_ref().map_or_else(|| "-".to_owned(), |latency| time(pick(latency) as f64))
}

impl ReplayCheck {
    pub(crate) fn shown(&self, all: bool) -> &[ReplayTask] {
        &self.tasks[..if all { self.tasks.len() } else { self.tasks.len().min(SHOWN) }]
    }

    pub(crate) fn rest(&self, all: bool) -> String {
        let more = self.tasks.len() - self.shown(all).len();
        match more {
            0 => String::new(),
            1 => "and 1 smaller task (--all shows it)\n".to_owned(),
            more => format!("and {more} smaller tasks (--all shows them)\n"),
        }
    }

    fn rows(&self, all: bool, of: (u64, u64), pair: fn(&ReplayTask) -> Option<Pair>) -> Vec<Vec<String>> {
        let row = |task: &ReplayTask| {
            let (a, b) = pair(task)?;
            let before = |text: fn(&ReplayMeasure, u64) -> String| a.map_or_else(|| "-".to_owned(), |a| text(&a, of.0));
            Some(vec![
                task.name.clone(),
                before(|a, of| percent(share(a.cpu_ns, of))),
                percent(share(b.cpu_ns, of.1)),
                before(|a, _| count(a.switches as f64)),
                count(b.switches as f64),
                before(|a, _| latency(a, |latency| latency.p50_ns)),
                latency(&b, |latency| latency.p50_ns),
                before(|a, _| latency(a, |latency| latency.p99_ns)),
                latency(&b, |latency| latency.p99_ns),
            ])
        };
        self.shown(all).iter().filter_map(row).collect()
    }

    /// Returns each CPU's utilisation in two runs, which may differ in CPUs.
    fn cpu_rows(&self, before: ReplayRun, behind: ReplayRun) -> Vec<Vec<String>> {
        let runs = [before, behind].map(|run| self.busy(run));
        let cpus = runs.iter().map(Vec::len).max().unwrap_or(0);
        let share_of = |busy: &Vec<Option<f64>>, cpu: usize| busy.get(cpu).copied().flatten();
        let busy_of = |busy, cpu| share_of(busy, cpu).map_or_else(|| "-".to_owned(), percent);
        (0..cpus)
            .map(|cpu| std::iter::once(cpu.to_string()).chain(runs.iter().map(|run| busy_of(run, cpu))).collect())
            .collect()
    }

    /// Returns the table of recording and replay.
    pub fn check_table(&self, all: bool) -> String {
        let of = (self.elapsed_ns.0, self.elapsed_ns.1);
        let head = [
            "task",
            "CPU % recorded",
            "CPU % replayed",
            "switches recorded",
            "switches replayed",
            "p50 recorded",
            "p50 replayed",
            "p99 recorded",
            "p99 replayed",
        ];
        let rows = self.rows(all, of, |task| (!task.is_added()).then_some((Some(task.recorded), task.replayed)));
        let cpus = self.cpu_rows(ReplayRun::Recorded, ReplayRun::Replayed);
        let cpus = grid(&["CPU", "busy % recorded", "busy % replayed"], 1, cpus);
        format!("{}{}\n{cpus}{}", grid(&head, 1, rows), self.rest(all), self.groups_text())
    }

    /// Returns the table of replay and what-if. None without a what-if.
    pub fn what_if_table(&self, all: bool) -> Option<String> {
        self.what_if_cpus.as_ref()?;
        let of = (self.elapsed_ns.1, self.elapsed_ns.2);
        let head = [
            "task",
            "CPU % replayed",
            "CPU % what if",
            "switches replayed",
            "switches what if",
            "p50 replayed",
            "p50 what if",
            "p99 replayed",
            "p99 what if",
        ];
        let rows = self.rows(all, of, |task| Some(((!task.is_added()).then_some(task.replayed), task.what_if?)));
        let cpus = self.cpu_rows(ReplayRun::Replayed, ReplayRun::WhatIf);
        let cpus = grid(&["CPU", "busy % replayed", "busy % what if"], 1, cpus);
        let progress = self.progress_text(self.shown(all));
        Some(format!("{}{}{progress}\n{cpus}{}", grid(&head, 1, rows), self.rest(all), self.groups_what_if()))
    }
}
