//! `vruntime real`: workloads as threads under this machine's own kernel.

mod json;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use miette::{IntoDiagnostic, WrapErr, miette};
use vruntime_linux::{Measured, Options, TaskMeasured};
use vruntime_report::{
    Account, ClassResult, GroupResult, LimitResult, MigrationCount, Results, TaskResult, Unmeasured, counted,
    latency_of, measured_table, spread_table,
};
use vruntime_trace::SchedPolicy;
use vruntime_workload::program::{Bandwidth, Changed, CpuMax, Workload};
use vruntime_workload::resident::Resident;

use self::json::json_of;
use super::write_file;
use crate::args::Real;
use crate::commands::run::log_settings;
use crate::input::Input;
use crate::output_paths::OutputPaths;
use crate::rtapp_log::{self, RtAppLog};
use crate::{Ended, complaint, error_place, input, interrupt, leftovers, output};

pub(crate) fn real(real: &Real) -> miette::Result<Ended> {
    let files: &[&str] = if real.no_trace { &["results.json"] } else { &["results.json", "trace.txt", "cgroups.txt"] };
    let outputs = OutputPaths::default().reads([&real.file]).folder("--out", real.out.as_deref(), files);
    let outputs = outputs.rtapp_log(real.rtapp_log.as_deref());
    outputs.check()?;
    let input = input::read_real(&real.file, real.duration, real.strict)?;
    outputs.check_inputs()?;
    let ends = real.duration.or(input.workload.duration);
    input::suspect(ends.map_or_else(Vec::new, |end| error_place::too_late(&input, end)), real.strict)?;
    if let Some(folder) = &real.rtapp_log {
        rtapp_log::check_names(&input.workload, &log_settings(&input)).map_err(|error| no_logs(folder, error))?;
    }
    let trace = real.out.as_ref().filter(|_| !real.no_trace).map(|folder| folder.join("trace.txt"));
    if let Some(folder) = &real.out {
        fs::create_dir_all(folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))?;
    }
    let options = Options {
        duration: real.duration,
        trace,
        force: real.force,
        timer_slack_ns: None,
        threads: false,
        log_loops: real.rtapp_log.is_some(),
    };
    let mut runs = Vec::new();
    for index in 0..real.repeat {
        let options = Options { trace: options.trace.clone().filter(|_| index == 0), ..options.clone() };
        let measured = vruntime_linux::run(&input.workload, &options, &interrupt::asked)
            .map_err(|error| complaint::with_help(&error, error.help()))?;
        let interrupted = measured.interrupted;
        runs.push(measured);
        if interrupted {
            break;
        }
    }
    print_notes(&runs);
    // Prints the results before errors of writing.
    let logged = match (&real.rtapp_log, runs.first()) {
        (Some(folder), Some(measured)) => {
            write_rtapp_logs(folder, &input, measured).map_err(|error| no_logs(folder, error))
        }
        _ => Ok(()),
    };
    let results: Vec<Results> = runs.iter().map(|measured| results_of(&input.workload, measured)).collect();
    let json = || json_of(&input.name, &runs, &results);
    let left_results = real.out.as_ref().map(|folder| {
        write_file(folder, "results.json", &vruntime_report::printable_json(&format!("{:#}\n", json())))?;
        leftovers::replace_out(folder, "real", &names_written(&runs))
    });
    let written = logged.and(left_results.unwrap_or(Ok(()))).and(recorded(&runs));
    if real.json {
        output::print_json(&json());
    } else {
        output::print(&report(&input.title(), &runs, &results));
        if let Some(folder) = real.out.as_ref().filter(|_| written.is_ok()) {
            output::print(&left(folder, &runs));
        }
    }
    written?;
    Ok(if runs.iter().any(|run| run.interrupted) { Ended::Interrupted } else { Ended::Well })
}

/// Returns the error of logs that cannot be written.
fn no_logs(folder: &Path, error: io::Error) -> miette::Report {
    miette::Report::from_err(error).wrap_err(format!("cannot write logs in {}", folder.display()))
}

/// Fails if a file of a run's recording could not be written.
fn recorded(runs: &[Measured]) -> miette::Result<()> {
    match runs.iter().find_map(|run| run.unwritten.as_deref()) {
        Some(error) => Err(miette!(help = "the results above are complete", "{error}")),
        None => Ok(()),
    }
}

fn write_rtapp_logs(folder: &Path, input: &Input, measured: &Measured) -> io::Result<()> {
    let mut log = RtAppLog::new(folder, &input.workload, &log_settings(input))?;
    for (index, task) in measured.tasks.iter().enumerate() {
        log.begin(index, &input.workload.tasks[task.template].class);
        for row in &task.logged {
            log.row(index, row.ended, row.duration, &row.times);
        }
    }
    log.finish_writing()
}

fn print_notes(runs: &[Measured]) {
    for note in runs.iter().flat_map(|run| &run.notes) {
        output::note(note);
    }
}

/// Returns the names of the files in the folder of `--out`.
fn names_written(runs: &[Measured]) -> BTreeSet<String> {
    let of_kernel = runs.iter().flat_map(|run| run.trace.iter().chain(&run.groups_file));
    let names = of_kernel.filter_map(|path| path.file_name()?.to_str());
    names.chain(["results.json"]).map(str::to_owned).collect()
}

fn left(folder: &std::path::Path, runs: &[Measured]) -> String {
    let Some((run, trace)) = runs.iter().find_map(|run| Some((run, run.trace.as_ref()?))) else {
        return format!("results are in {}\n", folder.display());
    };
    let groups = run.groups_file.as_ref().map(|file| format!(" --cgroups {}", file.display())).unwrap_or_default();
    let trace = trace.display();
    format!("results are in {}; the kernel's trace is {trace}: vruntime replay {trace}{groups}\n", folder.display())
}

fn report(name: &str, runs: &[Measured], results: &[Results]) -> String {
    let (Some(first), Some(of_first)) = (runs.first(), results.first()) else { return String::new() };
    let stopped = if runs.iter().any(|run| run.interrupted) { ", stopped early" } else { "" };
    let mut text = format!(
        "{name} under this machine's Linux {} on {}\n{:.3} s of real time{stopped}\n{}\n{}",
        first.kernel,
        counted(first.cpus as u64, "CPU", "CPUs"),
        first.elapsed_ns as f64 / 1e9,
        besides(first.others.as_deref(), first.unseen),
        measured_table(of_first)
    );
    if let Some(ended) = over_runs(runs, results) {
        // Writing to a String cannot fail.
        let count = results.len();
        let all = match ended.len() {
            all if all == count => "all of them".to_owned(),
            some => format!("the {some} that came to their end"),
        };
        let _ = write!(text, "\nAbove: the first of {count} runs. Over {all}:\n{}", spread_table(&ended));
    }
    text
}

/// Returns the results of complete runs. `None` if no run is complete, or there is only one.
fn over_runs(runs: &[Measured], results: &[Results]) -> Option<Vec<Results>> {
    let ended = runs.iter().zip(results).filter(|(run, _)| runs.len() > 1 && !run.interrupted);
    let ended: Vec<Results> = ended.map(|(_, results)| results.clone()).collect();
    (!ended.is_empty()).then_some(ended)
}

/// Describes the CPU time of other tasks, in one or two lines.
fn besides(others: Option<&[Resident]>, unseen: Option<f64>) -> String {
    /// The most names in the note.
    const NAMED: usize = 3;
    /// The least reported part of a CPU: idle time has a resolution of 10 ms.
    const LEAST: f64 = 0.01;
    let percent = |resident: &Resident| 100.0 * resident.taken();
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(others) = others {
        let all: f64 = others.iter().map(percent).sum();
        let rate: f64 = others.iter().map(Resident::rate).sum();
        let most: Vec<String> =
            others.iter().take(NAMED).map(|resident| format!("{} {:.2} %", resident.name, percent(resident))).collect();
        let most = if most.is_empty() { String::new() } else { format!(": {}", most.join(", ")) };
        let _ = writeln!(text, "other tasks used {all:.2} % of a CPU, and got a CPU {rate:.1} times a second{most}");
    }
    if let Some(unseen) = unseen.filter(|&unseen| unseen >= LEAST) {
        let took = 100.0 * unseen;
        let _ = match others {
            Some(_) => writeln!(text, "tasks that ended meanwhile, interrupts and the host took {took:.2} % more"),
            None => writeln!(text, "other tasks, interrupts and the host used {took:.2} % of a CPU"),
        };
    }
    text
}

/// Converts measurements to a simulation's results. Unknown values are `None`, or 0 and marked [`Unmeasured`].
pub(crate) fn results_of(workload: &Workload, measured: &Measured) -> Results {
    let mut results = Results { elapsed_ns: measured.elapsed_ns, ..Results::default() };
    let mut late: Vec<Vec<u64>> = Vec::new();
    let mut loops: Vec<Vec<u64>> = Vec::new();
    for task in &measured.tasks {
        let name = &workload.tasks[task.template].class;
        let class = results.classes.iter().position(|class| class.name == *name).unwrap_or_else(|| {
            late.push(Vec::new());
            loops.push(Vec::new());
            results.classes.push(ClassResult {
                name: name.clone(),
                tasks: 0,
                group: None,
                account: Account::default(),
                wakeup_latency: None,
                sleep_return: None,
                loop_duration: None,
                response: None,
                migrations: MigrationCount::default(),
            });
            results.classes.len() - 1
        });
        late[class].extend(&task.late_ns);
        loops[class].extend(&task.loop_ns);
        let account = account_of(task);
        results.classes[class].add(task.group, &account);
        results.account.add(&account);
        results.tasks.push(TaskResult {
            name: task.name.clone(),
            class,
            group: task.group,
            nice: i8::try_from(task.nice).unwrap_or(0),
            policy: policy_of(task.policy),
            rt_priority: u8::try_from(task.rt_priority).unwrap_or(0),
            // Not measured for forked tasks.
            born_ns: 0,
            ended: task.ended,
            account,
            wakeup_latency: None,
            sleep_return: latency_of(&task.late_ns),
            loop_duration: latency_of(&task.loop_ns),
            response: None,
        });
    }
    for (class, (late, loops)) in results.classes.iter_mut().zip(late.iter().zip(&loops)) {
        class.sleep_return = latency_of(late);
        class.loop_duration = latency_of(loops);
    }
    if !measured.groups.is_empty() {
        results.groups = groups_of(workload, measured, &results.tasks);
    }
    results
}

fn account_of(task: &TaskMeasured) -> Account {
    let waited = task.run_delay_ns.unwrap_or(0);
    Account {
        cpu_ns: task.cpu_ns,
        run_delay_ns: waited,
        sleeping_ns: task.life_ns.saturating_sub(task.cpu_ns + waited),
        life_ns: task.life_ns,
        // Simulated tasks switch once to exit.
        voluntary: task.voluntary + u64::from(task.ended),
        involuntary: task.involuntary,
        migrations: task.migrations.unwrap_or(0),
        loops: task.loops,
        loop_work_ns: task.loop_work_ns,
        unmeasured: Unmeasured {
            waits: task.run_delay_ns.is_none(),
            migrations: task.migrations.is_none(),
            ..Unmeasured::default()
        },
        ..Account::default()
    }
}

fn policy_of(number: u32) -> SchedPolicy {
    match number {
        1 => SchedPolicy::Fifo,
        2 => SchedPolicy::RoundRobin,
        3 => SchedPolicy::Batch,
        5 => SchedPolicy::Idle,
        6 => SchedPolicy::Deadline,
        _ => SchedPolicy::Normal,
    }
}

/// Returns the results of every group, descendants included.
fn groups_of(workload: &Workload, measured: &Measured, tasks: &[TaskResult]) -> Vec<GroupResult> {
    let ends: Vec<Ends> =
        (0..workload.groups.len()).map(|index| Ends::of(workload, index, measured.elapsed_ns)).collect();
    let mut groups: Vec<GroupResult> = workload
        .groups
        .iter()
        .zip(&measured.groups)
        .zip(ends)
        .map(|((group, stat), ends)| GroupResult {
            path: group.path.clone(),
            parent: group.parent,
            // As in a simulation, idle groups have no weight.
            weight: if ends.idle { 0 } else { ends.weight },
            idle: ends.idle,
            limit: ends.limited.then(|| LimitResult {
                max: ends.max.map(|max| (max.quota, max.period)),
                nr_periods: stat.nr_periods,
                nr_throttled: stat.nr_throttled,
                throttled_ns: stat.throttled_ns,
                nr_bursts: stat.nr_bursts,
                burst_ns: stat.burst_ns,
            }),
            unmeasured: Unmeasured { pressure: true, ..Unmeasured::default() },
            ..GroupResult::default()
        })
        .collect();
    for task in tasks {
        let mut at = Some(task.group);
        while let Some(group) = at.and_then(|index| groups.get_mut(index)) {
            group.tasks += 1;
            group.cpu_ns += task.account.cpu_ns;
            group.run_delay_ns += task.account.run_delay_ns;
            group.switches += task.account.switches();
            group.unmeasured.add(task.account.unmeasured);
            at = group.parent;
        }
    }
    groups
}

/// A group's settings at the end of the run, after changes.
struct Ends {
    weight: u32,
    idle: bool,
    max: Option<Bandwidth>,
    /// Set if it ever had a limit.
    limited: bool,
}

impl Ends {
    fn of(workload: &Workload, index: usize, elapsed: u64) -> Self {
        let group = &workload.groups[index];
        let mut ends = Self { weight: group.weight, idle: group.idle, max: group.max, limited: group.max.is_some() };
        for change in workload.changes.iter().filter(|change| change.at < elapsed) {
            let Changed::Group { group, to } = &change.what else { continue };
            if *group != index {
                continue;
            }
            if let Some(idle) = to.idle {
                // A change of `idle` resets the weight.
                (ends.idle, ends.weight) = (idle, 100);
            }
            ends.weight = to.weight.unwrap_or(ends.weight);
            ends.max = match to.max {
                Some(CpuMax::Limited(max)) => Some(max),
                Some(CpuMax::Unlimited) => None,
                None => ends.max,
            };
            ends.limited |= ends.max.is_some();
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use vruntime_linux::GroupMeasured;
    use vruntime_workload::program::{Change, Group, GroupChange, Policy};

    use super::*;

    /// As in `run`, changes after the end do not apply.
    #[test]
    fn groups_are_reported_as_changes_have_left_them() {
        let max = |quota| Bandwidth { quota, period: 100_000_000, burst: 0 };
        let change = |at, group, to| Change { at, what: Changed::Group { group, to } };
        let none = GroupChange::default();
        let limit = |quota| GroupChange { max: Some(CpuMax::Limited(max(quota))), ..none };
        let workload = Workload {
            groups: ["/", "/web", "/batch", "/late", "/plain"]
                .map(|path| Group { path: path.to_owned(), parent: (path != "/").then_some(0), ..Group::default() })
                .into(),
            changes: vec![
                change(1, 1, limit(50_000_000)),
                change(2, 1, GroupChange { weight: Some(300), ..none }),
                change(3, 2, limit(20_000_000)),
                change(4, 2, GroupChange { max: Some(CpuMax::Unlimited), idle: Some(true), ..none }),
                change(10, 3, limit(1_000_000)),
            ],
            ..Workload::default()
        };
        let measured = Measured {
            elapsed_ns: 10,
            groups: vec![GroupMeasured { nr_periods: 7, ..GroupMeasured::default() }; 5],
            ..Measured::default()
        };
        let groups = groups_of(&workload, &measured, &[]);
        let settings =
            |index: usize| (groups[index].weight, groups[index].idle, groups[index].limit.map(|limit| limit.max));
        assert_eq!(settings(1), (300, false, Some(Some((50_000_000, 100_000_000)))));
        assert_eq!(settings(2), (0, true, Some(None)), "it had one");
        assert_eq!((settings(3), settings(4)), ((100, false, None), (100, false, None)));
        assert_eq!(groups[2].limit.unwrap().nr_periods, 7);
    }

    #[test]
    fn cpu_time_without_a_known_task_is_reported() {
        let other = |name: &str, work| Resident {
            name: name.to_owned(),
            policy: Policy::Other { nice: 0, slice: None },
            cpus: None,
            period: 1000,
            work,
        };
        let others = [other("make", 500), other("sh", 55)];
        assert_eq!(
            besides(Some(&others), Some(1.071)),
            "other tasks used 55.50 % of a CPU, and got a CPU 2000000.0 times a second: make 50.00 %, sh 5.50 %\n\
             tasks that ended meanwhile, interrupts and the host took 107.10 % more\n"
        );
        assert_eq!(besides(Some(&others), Some(0.009)), besides(Some(&others), None));
        assert!(besides(None, Some(0.5)).starts_with("other tasks, interrupts and the host used 50.00 % of a CPU"));
        assert_eq!(besides(None, None), "");
    }

    #[test]
    fn runs_that_were_stopped_are_not_summed_up() {
        let run = |interrupted, elapsed_ns| Measured { interrupted, elapsed_ns, ..Measured::default() };
        let over = |runs: &[Measured]| {
            let results: Vec<Results> = runs.iter().map(|run| results_of(&Workload::default(), run)).collect();
            over_runs(runs, &results).map(|ended| ended.iter().map(|ended| ended.elapsed_ns).collect::<Vec<_>>())
        };
        assert_eq!(over(&[run(false, 1), run(false, 2), run(true, 3)]), Some(vec![1, 2]));
        assert_eq!((over(&[run(false, 1)]), over(&[run(true, 1), run(true, 2)])), (None, None));
        let json = json_of("x", &[run(false, 1), run(false, 2)], &[Results::default(), Results::default()]);
        assert!(json["over_seeds"].is_array(), "{json}");
        assert!(json_of("x", &[run(false, 1)], &[Results::default()]).get("over_seeds").is_none());
    }
}
