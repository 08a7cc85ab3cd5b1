//! Reading the trace of a replay, and the programs that are made of it.

use std::path::Path;

use miette::miette;
use vruntime_replay::recorded::{Charges, Event, Recorded, Recorder};
use vruntime_report::Analyses;
use vruntime_sched::{Topology, kernel};
use vruntime_sim::Config;
use vruntime_sim::plan::Trace;
use vruntime_trace::read::{self, Forked, Summary};
use vruntime_workload::cgroups::Cgroups;

use crate::commands::html;
use crate::commands::replayed::{Clock, MAX_CPUS, what};
use crate::commands::trace::{explain, open};
use crate::plan::series;
use crate::{Ended, input, interrupt, output};

/// Events between two looks for Ctrl-C.
const ROUND: u64 = 1 << 16;

/// The kernel of a trace that does not say.
const RECORDED_KERNEL: &str = "6.18";

pub(in crate::commands) fn nothing_ran(path: &Path) -> miette::Report {
    miette!(help = "record while something runs", "nothing but the idle tasks ran in {}", path.display())
}

/// The programs of a trace, for a machine of this kind. They may name CPUs that it does not have: cpusets, where
/// nothing ever happened on some.
///
/// `event_ns` is what it took to record an event, if that is known.
pub(in crate::commands) fn finish(recorder: Recorder, config: &Config, keep_times: bool, event_ns: u64) -> Recorded {
    let recorder = if keep_times { recorder.keep_times() } else { recorder };
    let mut recorded = recorder.finish(&charges(config, event_ns));
    if !config.autogroup {
        recorded.workload.sessions.clear();
        for task in &mut recorded.workload.tasks {
            task.session = None;
        }
    }
    recorded
}

/// Reads a trace of a machine; none: Ctrl-C came before its end.
pub(in crate::commands) fn read(
    path: &Path,
    duration: Option<u64>,
    machine: Option<&Topology>,
    highest_khz: Vec<u32>,
    watched: bool,
) -> miette::Result<Option<Reading>> {
    let capacities: Vec<u32> =
        machine.map(|machine| machine.cpus().iter().map(|cpu| cpu.capacity).collect()).unwrap_or_default();
    let recorder = || Recorder::new().with_capacities(capacities.clone());
    let analyses = || {
        let (kinds, options) = html::watch(None);
        watched.then(|| Analyses::new(&kinds, &options).with_overview())
    };
    let first = recorder().with_highest_frequencies(highest_khz);
    let mut reading = Reading { recorder: first, analyses: analyses(), ..Reading::default() };
    if reading.read(path, duration)? == Ended::Interrupted {
        return Ok(None);
    }
    // What full speed is comes out on the way, and a file can be read again.
    if reading.recorder.frequencies_were_raised() && path != Path::new("-") {
        let recorder = recorder().with_highest_frequencies_of(&reading.recorder);
        reading = Reading { recorder, analyses: analyses(), ..Reading::default() };
        if reading.read(path, duration)? == Ended::Interrupted {
            return Ok(None);
        }
    }
    if let Some(machine) = machine
        && reading.cpus > machine.nr_cpus()
    {
        let help = "describe all CPUs with --recorded-machine";
        let (has, said) = (reading.cpus, machine.nr_cpus());
        return Err(miette!(help = help, "{} has events of {has} CPUs, and the machine has {said}", path.display()));
    }
    if let Some(machine) = machine {
        reading.recorder.has_cpus(machine.nr_cpus());
    }
    Ok(Some(reading))
}

/// A trace that is being read.
#[derive(Debug, Default)]
pub(in crate::commands) struct Reading {
    pub(in crate::commands) recorder: Recorder,
    summary: Summary,
    pub(in crate::commands) cpus: usize,
    pub(in crate::commands) clock: Clock,
    /// The release of the kernel it was recorded under.
    pub(super) release: Option<String>,
    /// The threads that were there before the first event, if the trace tells.
    forked: Vec<Forked>,
    /// Whether the machine said that the root group's tasks were in autogroups.
    pub(super) autogroup: Option<bool>,
    /// What the recording itself says, for a page.
    pub(super) analyses: Option<Analyses>,
}

impl Reading {
    /// The machine's groups were these when the trace began, and whoever the file does not tell of was in his parent's.
    pub(in crate::commands) fn has_cgroups(&mut self, cgroups: &Cgroups) {
        self.autogroup = Some(cgroups.autogroup());
        let mut cgroups = cgroups.clone();
        cgroups.add_forked(self.forked.iter().map(|forked| (forked.process, forked.thread, forked.parent)));
        self.recorder = std::mem::take(&mut self.recorder).with_cgroups(cgroups);
    }

    /// How the trace is replayed as recorded, on so many CPUs: under the kernel that the user names, else under that of
    /// the trace, or the nearest there is.
    pub(in crate::commands) fn says(&self, path: &Path, named: Option<&str>, cpus: usize) -> Trace {
        // As `uname -r` has it (`6.12.3`, `6.1.0-28-amd64`, `6.12+deb13-amd64`), which tells more than the series.
        let is_release = |named: &&str| {
            let numbers = named.split(['-', '+']).next().unwrap_or_default().split('.');
            numbers.clone().all(|number| number.parse::<u32>().is_ok())
                && (numbers.count() > 2 || named.contains('-'))
                && vruntime_sched::kernel(named).is_err()
                // Features and tunables are a kernel's of the user's own.
                && !named.contains(|letter: char| letter.is_ascii_uppercase() || letter == '=')
        };
        let release = named.filter(is_release).map(str::to_owned).or_else(|| self.release.clone());
        let kernel = match named {
            Some(named) if !is_release(&named) => named.to_owned(),
            _ => recorded_under(path, release.as_deref()),
        };
        let autogroup = self.autogroup.unwrap_or(false);
        Trace { kernel, release, cpus, autogroup, ticks: self.recorder.ticks() }
    }

    /// Reads the file, or `duration` of it.
    fn read(&mut self, path: &Path, duration: Option<u64>) -> miette::Result<Ended> {
        let mut events = open(path)?;
        let mut end = 0;
        while let Some(record) = events.next_record().map_err(|error| explain(path, &error))? {
            let at = self.clock.time(&record);
            if duration.is_some_and(|duration| at > duration) {
                break;
            }
            end = end.max(at);
            self.summary.add(&record);
            if self.summary.events().is_multiple_of(ROUND) && interrupt::asked() {
                return Ok(Ended::Interrupted);
            }
            if let Some(analyses) = &mut self.analyses {
                analyses.add(&record);
            }
            self.cpus = self.cpus.max(record.cpu as usize + 1);
            if self.cpus <= MAX_CPUS
                && let Some(what) = what(&record)
            {
                let vruntime_trace::Record { cpu, pid, tgid, hardirq, .. } = record;
                self.recorder.add(&Event { at, cpu, pid, tgid, hardirq, what });
            }
        }
        if let Some(analyses) = &mut self.analyses {
            analyses.end();
        }
        self.recorder.goes_on_until(end);
        let notes = events.notes();
        self.cpus = self.cpus.max(notes.cpus.unwrap_or(0) as usize);
        self.recorder.has_cpus(self.cpus.min(MAX_CPUS));
        self.release.clone_from(&notes.release);
        self.forked.clone_from(&notes.forked);
        let needs = read::needs(&self.summary, notes);
        if notes.counts_for_time {
            let help = "record with a clock of nanoseconds: trace-cmd record -C mono, or echo mono > /sys/kernel/tracing/trace_clock";
            let why = "its times are counts of a clock without a unit (/sys/kernel/tracing/trace_clock says which)";
            return Err(miette!(help = help, "{} cannot be replayed: {why}", path.display()));
        }
        if let Some(duration) = duration.filter(|_| !needs.replayable && self.summary.count_of("sched_switch") == 0) {
            let seconds = duration as f64 / 1e9;
            let help = "give a longer --duration, or none; if it has none at all, `vruntime trace info` says how to record them";
            return Err(miette!(help = help, "{} has no sched_switch in its first {seconds} s", path.display()));
        }
        if !needs.replayable {
            let why = needs.missing.first().map_or("there is no event in it", String::as_str);
            let help = format!("this records what a replay uses:\n{}", needs.record.join("\n"));
            return Err(miette!(help = help, "{} cannot be replayed, for it lacks {why}", path.display()));
        }
        if self.cpus > MAX_CPUS {
            return Err(miette!("{} has events of CPU {}, and no Linux has so many", path.display(), self.cpus - 1));
        }
        Ok(Ended::Well)
    }
}

/// The kernel that replays a trace of this release as recorded.
fn recorded_under(path: &Path, release: Option<&str>) -> String {
    let Some(release) = release else { return RECORDED_KERNEL.to_owned() };
    // Up to 2.6 the third number was the version.
    let series = match release.strip_prefix("2.6.") {
        Some(rest) => format!("2.6.{}", rest.split(['.', '-']).next().unwrap_or_default()),
        None => series(release),
    };
    match kernel(&series) {
        Ok(_) => series,
        Err(unknown) => {
            let nearest = unknown.neighbours.and(unknown.nearest).unwrap_or(RECORDED_KERNEL);
            let path = path.display();
            output::note(&format!(
                "{path} was recorded under Linux {release}, which is not on offer: {nearest} stands for it (--recorded-kernel names another)"
            ));
            nearest.to_owned()
        }
    }
}

/// What the simulated machine charges for by itself; and what recording took, which no machine takes that is not
/// recorded: two events come with each switch (`sched_switch`, `sched_stat_runtime`) and with each wakeup
/// (`sched_waking`, `sched_wakeup`), and one with each tick.
fn charges(config: &Config, event_ns: u64) -> Charges {
    let costs = &config.machine.costs;
    Charges {
        // Most switches in a trace are to another process.
        switch: costs.switch_ns + costs.mm_switch_ns + 2 * event_ns,
        sleep: costs.syscall_ns + costs.timer_arm_ns + costs.syscall_return_ns,
        enter: costs.syscall_ns + costs.timer_arm_ns,
        interrupt: costs.timer_ns + 2 * event_ns,
        wake: costs.syscall_ns + costs.wakeup_ns + 2 * event_ns,
        fork: costs.syscall_ns + costs.fork_ns + 2 * event_ns,
        ticks: (costs.tick_ns + event_ns) * u64::from(config.machine.hz),
        timer: costs.irq_latency_ns + costs.irq_jitter_ns + costs.timer_ns,
        slack: config.machine.timer_slack_ns,
    }
}

/// What `--cgroups` names.
pub(crate) fn cgroups(path: &Path) -> miette::Result<Cgroups> {
    let bytes = input::contents(path, "name what the script of docs/replay.md wrote")?;
    Ok(Cgroups::read(&path.display().to_string(), &bytes)?)
}
