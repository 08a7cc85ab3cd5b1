//! `vruntime record`.

use std::path::Path;
use std::time::Duration;

use miette::{IntoDiagnostic, miette};
use serde_json::{Value, json};
use vruntime_linux::{
    Calibration, Error, MeasuredCost, RecordError, RecordOptions, RecordedEvents, Snapshot, Source as EventSource,
    Stopped, TaskState,
};
use vruntime_report::{counted, fit_text};
use vruntime_sim::Costs;
use vruntime_trace::recording::Recording;

use super::section;
use crate::args::Record;
use crate::output_file::OutputFile;
use crate::output_paths::OutputPaths;
use crate::{Ended, complaint, interrupt, machine_file, output};

/// The default length of a recording without a command.
const DURATION: Duration = Duration::from_secs(10);

pub(crate) fn record(arguments: &Record) -> miette::Result<Ended> {
    let path = &arguments.out;
    OutputPaths::default().file("--out", Some(path)).check()?;
    let replaced = path.is_file();
    let focus = arguments.cgroup.as_deref().map(focus).transpose()?;
    vruntime_linux::may_record(!arguments.command.is_empty()).map_err(|error| refused(&error))?;
    let calibration = match calibration(arguments) {
        Ok(calibration) => calibration,
        Err(Error::Interrupted) => return Ok(interrupted()),
        Err(error) => return Err(complaint::with_help(&error, error.help())),
    };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let duration = arguments.duration.map(Duration::from_nanos);
    let options = RecordOptions {
        duration: duration.or(arguments.command.is_empty().then_some(DURATION)),
        command: arguments.command.clone(),
        max_bytes: arguments.max_size,
        folder: folder.to_owned(),
        measure_cost: !arguments.no_calibrate,
    };
    let recorded = match vruntime_linux::record(&options, &interrupt::asked) {
        Ok(recorded) => recorded,
        Err(RecordError::Measuring(Error::Interrupted)) => return Ok(interrupted()),
        Err(error) => return Err(refused(&error)),
    };
    for note in less(&recorded) {
        output::note(&note);
    }
    for note in calibration.notes.iter().chain(&calibration.host.notes).chain(&recorded.notes) {
        output::note(note);
    }
    let section = parts(arguments, &calibration, &recorded, focus.as_deref());
    let result = Summary::of(&recorded, path, replaced);
    let mut out = OutputFile::create(path).into_diagnostic()?;
    let size = recorded.write(&mut out, section).into_diagnostic()?;
    out.keep().into_diagnostic()?;
    if arguments.json {
        output::print_json(&result.json(size));
    } else {
        output::print(&result.text(size));
    }
    Ok(if result.stopped == Stopped::Asked { Ended::Interrupted } else { Ended::Well })
}

fn interrupted() -> Ended {
    output::note("interrupted before the recording began: no file is written");
    Ended::Interrupted
}

/// Returns notes on what a recording without tracefs lacks, why, and how to get it.
fn less(recorded: &RecordedEvents) -> Vec<String> {
    let source = recorded.source;
    let lacks = section::lacks(source.name()).map_or_else(String::new, |lacks| format!(": {lacks}"));
    let mut notes = Vec::new();
    if source != EventSource::Tracefs {
        notes.push(format!("the events are {}{lacks}", source.what()));
        notes.extend(recorded.why.iter().map(|why| format!("not permitted here: {why}")));
    }
    notes.extend(source.remedy());
    notes
}

fn refused(error: &RecordError) -> miette::Report {
    complaint::with_help(error, error.help())
}

/// Returns the group of `--cgroup` as in `/proc/PID/cgroup`: a path from the root of its hierarchy.
fn focus(name: &str) -> miette::Result<String> {
    const MOUNT: &str = "/sys/fs/cgroup";
    let help = "name a group as /proc/PID/cgroup does, such as /system.slice/redis.service";
    let wrong = |why: &str| miette!(help = help, "--cgroup {name}: {why}");
    let there = |path: &str| {
        let folders = ["", "/cpu", "/cpu,cpuacct", "/unified"];
        folders.iter().any(|folder| Path::new(&format!("{MOUNT}{folder}{path}")).is_dir())
    };
    let path =
        vruntime_workload::normalize_path(name.strip_prefix(MOUNT).unwrap_or(name)).map_err(|why| wrong(&why))?;
    // Paths of v1 begin with the controllers.
    let below = path[1..].split_once('/').filter(|(first, _)| first.split(',').any(|part| part == "cpu"));
    let path = match below {
        Some((_, rest)) if name.starts_with(MOUNT) => format!("/{rest}"),
        _ => path,
    };
    if there(&path) { Ok(path) } else { Err(wrong("there is no such group")) }
}

/// Describes the machine, and measures costs unless `--no-calibrate` is given.
fn calibration(arguments: &Record) -> Result<Calibration, Error> {
    if arguments.no_calibrate {
        return Ok(Calibration { host: vruntime_linux::describe_all(), ..Calibration::default() });
    }
    let mut calibration = vruntime_linux::calibrate_briefly(&interrupt::asked)?;
    let replaced = plausible(&mut calibration);
    if !replaced.is_empty() {
        calibration.notes.push(format!(
            "the machine was busy during the measurement of its costs: usual values replace {}; run `vruntime calibrate` on the idle \
             machine, and replay with --recorded-machine host",
            replaced.join(", ")
        ));
    }
    Ok(calibration)
}

/// A measured cost is plausible up to this multiple of the usual cost, plus nanoseconds.
const PLAUSIBLE: (u64, u64) = (4, 2000);

/// Replaces implausible costs, which on a busy machine include other tasks' time. Returns their names.
fn plausible(calibration: &mut Calibration) -> Vec<&'static str> {
    let (profile, usual, how) = if calibration.host.emulated {
        (Costs::EMULATED, Costs::EMULATED, "the machine was busy: as in the profile emulated")
    } else if calibration.host.virtual_machine {
        (Costs::VM, Costs::VM, "the machine was busy: as in the profile vm")
    } else {
        (Costs::VM, Costs::default(), "the machine was busy: as in the profile default")
    };
    let of = |costs: &Costs, name: &str| costs.iter().find(|(known, _)| *known == name).map(|(_, ns)| ns);
    let mut replaced = Vec::new();
    for cost in &mut calibration.costs {
        let (Some(most), Some(usual)) = (of(&profile, cost.name), of(&usual, cost.name)) else { continue };
        if cost.ns > most.max(usual) * PLAUSIBLE.0 + PLAUSIBLE.1 {
            (cost.ns, cost.how) = (usual, how);
            replaced.push(cost.name);
        }
    }
    // Needs an idle CPU.
    let name = "idle_exit_ns";
    let cpus = calibration.costs.iter().any(|cost| cost.name == "ipi_ns");
    if let Some(ns) = of(&usual, name).filter(|_| cpus && calibration.costs.iter().all(|cost| cost.name != name)) {
        calibration.costs.push(MeasuredCost { name, ns, how });
        replaced.push(name);
    }
    replaced
}

/// Returns the section of the file, beside the events.
fn parts(arguments: &Record, calibration: &Calibration, recorded: &RecordedEvents, focus: Option<&str>) -> Recording {
    let mut section = Recording::default();
    let lines = |value: &Value| format!("{value:#}\n");
    section.add("recording", lines(&about(arguments, calibration, recorded, focus)));
    section.add("events", format!("{}\n", recorded.event_names.join("\n")));
    section.add("machine", machine_file::write(calibration));
    section.add("tasks", tasks(&recorded.before));
    section.add("cgroups", recorded.before.cgroups.clone());
    section.add("tasks-after", tasks(&recorded.after));
    section.add("cgroups-after", recorded.after.cgroups.clone());
    section
}

fn about(arguments: &Record, calibration: &Calibration, recorded: &RecordedEvents, focus: Option<&str>) -> Value {
    let host = &calibration.host;
    let command: Vec<_> = arguments.command.iter().map(|word| word.to_string_lossy()).collect();
    let tunables: serde_json::Map<String, Value> =
        host.tunables.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let cost = recorded.cost.map(|cost| {
        json!({"ns": cost.ns, "events_per_message": cost.events_permille as f64 / 1e3, "message_ns": cost.with_ns,
            "message_without_ns": cost.without_ns})
    });
    json!({
        "vruntime": env!("CARGO_PKG_VERSION"),
        "date": vruntime_linux::today(),
        "command": command,
        "command_pid": recorded.command.map(|ended| ended.pid),
        "cgroup": focus,
        "kernel": {
            "release": host.kernel,
            "hz": host.hz,
            "preempt": host.preempt,
            "preempt_from": host.preempt_from,
            "autogroup": host.autogroup,
            "features": host.features,
            "tunables": tunables,
        },
        "machine": {
            "topology": host.topology,
            "capacities": host.capacities,
            "processor": host.processor,
            "emulated": host.emulated,
            "cpus": recorded.cpus,
            "frequencies": frequencies(recorded.cpus),
        },
        "began_ns": recorded.began_ns,
        "ended_ns": recorded.ended_ns,
        "snapshot_ns": [recorded.before.at_ns, recorded.before.took_ns],
        "snapshot_after_ns": [recorded.after.at_ns, recorded.after.took_ns],
        "stopped": word(recorded.stopped),
        "source": recorded.source.name(),
        "events": recorded.events,
        "lost": recorded.lost,
        "event_cost": cost,
        "buffer_bytes": recorded.buffer_bytes,
        "recorder_tids": recorded.recorder,
    })
}

/// Returns the highest frequency, kHz, and the governor of each CPU; empty if unknown.
fn frequencies(cpus: u32) -> Vec<Value> {
    let of = |cpu: u32| {
        let read = |file: &str| {
            let text = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/{file}")).ok()?;
            Some(text.trim().to_owned())
        };
        let khz = |file: &str| read(file)?.parse::<u64>().ok();
        let highest = khz("cpuinfo_max_freq")?;
        Some(
            json!({"cpu": cpu, "highest_khz": highest, "now_khz": khz("scaling_cur_freq"), "governor": read("scaling_governor")}),
        )
    };
    (0..cpus).filter_map(of).collect()
}

/// Formats all tasks as a JSON array, one line each. Default values are omitted.
fn tasks(snapshot: &Snapshot) -> String {
    let lines: Vec<String> = snapshot.tasks.iter().map(|task| task_json(task).to_string()).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

fn task_json(task: &TaskState) -> Value {
    let mut json = json!({
        "pid": task.pid, "tid": task.tid, "ppid": task.ppid, "comm": task.comm, "state": task.state.to_string(),
        "policy": task.policy,
    });
    let Value::Object(fields) = &mut json else { return json };
    let mut add = |name: &str, value: Option<Value>| {
        fields.extend(value.map(|value| (name.to_owned(), value)));
    };
    let positive = |value: u64| (value > 0).then(|| json!(value));
    add("nice", (task.nice != 0).then(|| json!(task.nice)));
    add("rt_priority", positive(u64::from(task.rt_priority)));
    add("slice_ns", positive(task.slice_ns));
    add("deadline_ns", positive(task.deadline_ns));
    add("period_ns", positive(task.period_ns));
    add("uclamp", task.uclamp.map(|(min, max)| json!([min, max])));
    add("reset_on_fork", task.reset_on_fork.then_some(Value::Bool(true)));
    add("cpu_ns", task.cpu_ns.map(|ns| json!(ns)));
    add("ran_ns", task.ran_ns.map(|ns| json!(ns)));
    json
}

fn word(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Duration => "duration",
        Stopped::Command => "command",
        Stopped::Asked => "interrupted",
        Stopped::Size => "size",
        Stopped::Failed => "failed",
    }
}

struct Summary {
    source: EventSource,
    stopped: Stopped,
    file: String,
    replaced: bool,
    duration_ns: u64,
    events: u64,
    lost: u64,
    cost_ns: Option<u64>,
    cpus: u32,
    tasks: usize,
    command: Option<vruntime_linux::CommandEnded>,
}

impl Summary {
    fn of(recorded: &RecordedEvents, path: &Path, replaced: bool) -> Self {
        Self {
            source: recorded.source,
            stopped: recorded.stopped,
            file: path.display().to_string(),
            replaced,
            duration_ns: recorded.ended_ns.saturating_sub(recorded.began_ns),
            events: recorded.events,
            lost: recorded.lost,
            cost_ns: recorded.cost.map(|cost| cost.ns),
            cpus: recorded.cpus,
            tasks: recorded.after.tasks.len(),
            command: recorded.command,
        }
    }

    fn json(&self, size: u64) -> Value {
        json!({
            "file": self.file, "replaced": self.replaced, "bytes": size, "duration_ns": self.duration_ns, "events": self.events,
            "lost": self.lost, "event_cost_ns": self.cost_ns, "cpus": self.cpus, "tasks": self.tasks,
            "source": self.source.name(), "stopped": word(self.stopped), "command_exit": self.command.and_then(|ended| ended.code),
            "command_signal": self.command.and_then(|ended| ended.signal),
        })
    }

    fn text(&self, size: u64) -> String {
        let Self { file, events, lost, .. } = self;
        let seconds = self.duration_ns as f64 / 1e9;
        let rate = if seconds > 0.0 { *events as f64 / seconds } else { 0.0 };
        let mut lines = vec![
            format!("recording  {file}{}", if self.replaced { " (replaced the file that was there)" } else { "" }),
            format!("size       {:.1} MB", size as f64 / 1e6),
            format!("time       {seconds:.3} s on {}{}", counted(u64::from(self.cpus), "CPU", "CPUs"), self.why()),
            format!("events     {events} ({rate:.0} a second)"),
            format!("lost       {lost}"),
        ];
        if self.source != EventSource::Tracefs {
            lines.insert(3, format!("source     {}", self.source.what()));
        }
        lines.extend(self.cost_ns.map(|ns| {
            let share = ns as f64 * *events as f64 / (seconds.max(1e-9) * f64::from(self.cpus.max(1)) * 1e9);
            format!("cost       {ns} ns an event: {:.1} % of the CPUs' time", share * 100.0)
        }));
        if let Some(code) = self.command.and_then(|ended| ended.code).filter(|&code| code != 0) {
            lines.push(format!("command    ended with status {code}"));
        }
        if let Some(signal) = self.command.and_then(|ended| ended.signal) {
            lines.push(format!("command    ended by signal {signal}"));
        }
        if *lost > 0 {
            let text = format!(
                "{} could not be kept. Record for a shorter time, or while less runs.",
                counted(*lost, "event", "events")
            );
            lines.push(fit_text(&text, ""));
        }
        lines.push(format!("\nReplay it with: vruntime replay {file}\n"));
        lines.join("\n")
    }

    fn why(&self) -> &'static str {
        match self.stopped {
            Stopped::Duration | Stopped::Command => "",
            Stopped::Asked => ", until it was interrupted",
            Stopped::Size => ", until the events had --max-size",
            Stopped::Failed => ", until the events could not be written",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_from_idle_of_a_busy_machine_is_the_usual_one() {
        let cost = |name| MeasuredCost { name, ns: 1, how: "measured" };
        let with = |names: &[&'static str]| {
            let costs = names.iter().copied().map(cost).collect();
            let mut calibration = Calibration { costs, ..Calibration::default() };
            calibration.host.virtual_machine = true;
            let replaced = plausible(&mut calibration);
            (replaced, calibration.costs.iter().find(|cost| cost.name == "idle_exit_ns").map(|cost| cost.ns))
        };
        assert_eq!(with(&["ipi_ns"]), (vec!["idle_exit_ns"], Some(Costs::VM.idle_exit_ns)));
        assert_eq!(with(&["ipi_ns", "idle_exit_ns"]), (vec![], Some(1)), "measured");
        assert_eq!(with(&["syscall_ns"]), (vec![], None), "one CPU");
    }

    #[test]
    fn costs_of_a_busy_machine_are_replaced() {
        let cost = |name, ns| MeasuredCost { name, ns, how: "measured" };
        let costs = vec![cost("syscall_ns", 264), cost("ipi_latency_ns", 7_973_946), cost("irq_latency_ns", 0)];
        let mut calibration = Calibration { costs, ..Calibration::default() };
        calibration.host.virtual_machine = true;
        assert_eq!(plausible(&mut calibration), ["ipi_latency_ns"]);
        let usual = Costs::VM.iter().find(|(name, _)| *name == "ipi_latency_ns").unwrap().1;
        let ns: Vec<u64> = calibration.costs.iter().map(|cost| cost.ns).collect();
        assert_eq!(ns, [264, usual, 0]);
        assert!(calibration.costs[1].how.contains("profile vm"));
        assert!(plausible(&mut calibration).is_empty(), "what is usual is plausible");
    }
}
