//! Results of a run: figures of tasks, classes, groups and CPUs from an event stream, with tables, JSON, comparisons
//! and verdicts.
//!
//! ```
//! use vruntime_report::Collector;
//! use vruntime_trace::{CpuId, Event, GroupId, PrevState, Running, Sink, TaskId, TaskInfo};
//!
//! let task = TaskId(0);
//! let mut collector = Collector::new(1);
//! collector.task(task, &TaskInfo { name: "web-0", class: "web", ..TaskInfo::default() });
//! let cpu = CpuId(0);
//! collector.event(0, cpu, &Event::Fork { parent: None, child: task });
//! collector.event(0, cpu, &Event::WakeupNew { task, target: cpu });
//! let (idle, web) = (Running::Idle, Running::Task(task));
//! collector.event(50, cpu, &Event::Switch { prev: idle, prev_state: PrevState::Preempted, next: web });
//! collector.event(250, cpu, &Event::Switch { prev: web, prev_state: PrevState::Sleeping, next: idle });
//! collector.finish(1_000);
//!
//! let results = collector.into_results();
//! let account = results.tasks[0].account;
//! assert_eq!((account.cpu_ns, account.run_delay_ns, account.sleeping_ns), (200, 50, 750));
//! ```
//!
//! A task's life is divided exactly: running + run delay + sleeping = life. So is a CPU's time: busy + overhead + idle
//! = elapsed. As in the kernel, a tick or switch is CPU time of the task, and overhead of the CPU.

// Input from users leads to errors, never to panics. Impossible cases state the reason in place.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod accounts;
mod analysis;
mod assets;
mod busy;
mod collector;
mod compare;
mod conservation;
mod cputime;
mod data;
mod detect;
mod entitlement;
mod explain;
pub mod fidelity;
mod frequency;
mod groups;
mod json;
mod latency;
mod page;
mod passes;
mod printable;
mod procfs;
mod psi;
mod replay;
mod replay_effects;
mod replay_groups;
mod replay_over;
mod replay_progress;
mod replay_tables;
mod replay_text;
mod replay_verdict;
mod reproduced;
mod result_tables;
mod results;
mod saved;
mod schedstat;
mod series;
mod settling;
mod shares;
mod spread;
mod table;
mod throttle_state;
mod throttles;
mod units;
mod violation;

pub use analysis::{Analyses, AnalysisKind, AnalysisOptions, MachineGroups};
pub use busy::ReplayRun;
pub use collector::{Collector, DETAILED_TASKS};
pub use compare::{Comparison, Figure, Variant, spread_data, spread_json, spread_table};
pub use cputime::CpuTimes;
pub use data::{Cell, Column, DataTable, Kind, Shown};
pub use detect::{Detected, Detector};
pub use explain::Explained;
pub use frequency::CpuFrequency;
pub use json::{RunInfo, observed_json, run_json};
pub use latency::Latency;
pub use page::{Bar, Bars, Page, TableGroup};
pub use passes::PassDelays;
pub use printable::{obeyed, printable, printable_json, printable_text};
pub use procfs::{proc_pid_sched, proc_schedstat, sched_debug};
pub use replay::{ReplayCheck, ReplayMeasure, ReplayTask, latency_of};
pub use replay_groups::{ReplayGroup, ReplayGroupMeasure};
pub use replay_progress::Progress as ReplayProgress;
pub use replay_verdict::Verdict;
pub use reproduced::{Chart, Claim, FigureTable, Reproduced, Series};
pub use result_tables::notes_data;
pub use results::{
    Account, BalanceCount, ClassResult, Conservation, CpuResult, DeadlineCount, GroupResult, GroupVisits, IdleWaits,
    LimitResult, MigrationCount, Pressure, Response, Results, Stall, TaskResult, Unmeasured, Unsettled, WorstIdleWait,
};
pub use saved::{SavedError, SavedResults, SavedRun, is_saved_comparison, is_saved_results};
pub use schedstat::SchedStat;
pub use series::{TimeSample, TimeSeries};
pub use table::{WIDTH, fit_text, grid, measured_table, results_table, set_width};
pub use units::counted;
pub use violation::{Pattern, Side, Violation};
