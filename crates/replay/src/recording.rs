//! Reads the trace of a replay, and makes its programs.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use vruntime_sched::{Topology, kernel};
use vruntime_sim::plan::{Trace, series};
use vruntime_sim::{Config, SwitchCosts};
use vruntime_trace::read::{self, Events, Forked, Summary};
use vruntime_trace::{Record, Tracepoint};
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::program::Policy;

use crate::Error;
use crate::event::{Clock, MAX_CPUS, what};
use crate::recorded::{Context, Coupling, Event, Lateness, Prepared, Reads, Reason, Recorded, Recorder};
use crate::source::Source;

/// The kernel of traces without one.
const RECORDED_KERNEL: &str = "6.18";

/// Choices for making programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct How {
    /// How closely tasks that wake each other stay together.
    pub(crate) coupling: Coupling,
    /// Whether wakeups are synchronous where the trace allows it.
    pub(crate) sync: bool,
    /// Pools whose members do each other's work, as in [`Recorder::with_pools`].
    pub(crate) pools: u32,
    /// Whether closed loops continue after the recorded work.
    pub(crate) goes_on: bool,
}

/// Prepares the programs for a machine.
pub(crate) fn prepare(recorder: Recorder, config: &Config, reads: Reads) -> Prepared {
    let recorder = match reads {
        Reads::Times => recorder.keep_times(),
        Reads::Wakeups => recorder,
        Reads::Messages => recorder.with_messages(),
    };
    recorder.prepare(&lateness(config))
}

/// Makes prepared programs for a machine. Cpusets may name missing CPUs without events.
pub(crate) fn programs(prepared: &Prepared, config: &Config, how: How) -> Recorded {
    let mut recorded = prepared.programs((how.coupling, how.sync), how.pools, how.goes_on);
    if !config.autogroup {
        recorded.workload.sessions.clear();
        for task in &mut recorded.workload.tasks {
            task.session = None;
        }
    }
    recorded
}

/// Knowledge about a trace before reading.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// Nanoseconds to read from the start. None: all.
    pub duration: Option<u64>,
    /// The recorded machine. None: the CPUs that the trace names, of equal capacity.
    pub machine: Option<Topology>,
    /// Highest frequency of each CPU, kHz. 0, or missing: as the trace shows.
    pub highest_khz: Vec<u32>,
    /// The cost of recording an event, nanoseconds, which is subtracted from the work of tasks. 0: nothing is.
    pub event_cost: u64,
    /// Costs of switches and wakeups on the recorded machine. A replay as recorded may charge them for its own, if that
    /// is nearer to the recording. None: the recorded ones are always part of the work.
    pub switch_costs: Option<SwitchCosts>,
}

/// Takes records in file order, as [`Recording::open`], for programs that examine records, or read other formats.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    name: String,
    options: ReadOptions,
    source: Source,
    /// The same, with charged switches.
    charging: Option<Source>,
    summary: Summary,
    cpus: usize,
    clock: Clock,
    end: u64,
    /// Whether this is the second pass.
    again: bool,
}

impl Reader {
    /// Returns a reader. `name` is for messages.
    pub fn new(name: &str, options: &ReadOptions) -> Self {
        Self::with_frequencies(name, options, |recorder| recorder.with_highest_frequencies(options.highest_khz.clone()))
    }

    fn with_frequencies(name: &str, options: &ReadOptions, frequencies: impl Fn(Recorder) -> Recorder) -> Self {
        let machine = options.machine.as_ref();
        let capacities =
            machine.map(|machine| machine.cpus().iter().map(|cpu| cpu.capacity).collect()).unwrap_or_default();
        let recorder = frequencies(Recorder::new().with_capacities(capacities)).with_event_cost(options.event_cost);
        let charging = options.switch_costs.map(|costs| Source::new(recorder.clone().charge_switches(costs)));
        let source = Source::new(recorder);
        Self { name: name.to_owned(), options: options.clone(), source, charging, ..Self::default() }
    }

    fn sources(&mut self) -> impl Iterator<Item = &mut Source> {
        std::iter::once(&mut self.source).chain(&mut self.charging)
    }

    /// Takes the next record. Returns false if it and all later ones are beyond the [duration](ReadOptions::duration).
    pub fn add(&mut self, record: &Record<'_>) -> bool {
        let at = self.clock.time(record);
        if self.options.duration.is_some_and(|duration| at > duration) {
            return false;
        }
        self.end = self.end.max(at);
        self.summary.add(record);
        self.cpus = self.cpus.max(record.highest_cpu() as usize + 1);
        let what = what(record).filter(|_| self.cpus <= MAX_CPUS);
        let written = (self.options.event_cost > 0 && is_written(record)).then(|| reason(record));
        let &Record { cpu, pid, tgid, context, .. } = record;
        for source in self.sources() {
            if let Some(what) = what {
                source.add(&Event { at, cpu, pid, tgid, context, what });
            }
            if let Some(reason) = written {
                source.recorder.written(at, cpu, reason);
            }
        }
        true
    }

    /// Returns a reader for a more exact second pass, if a CPU had a higher frequency late in the trace. Then its
    /// earlier work was not at full speed.
    pub fn again(&self) -> Option<Self> {
        let first = &self.source.recorder;
        if self.again || !first.frequencies_were_raised() {
            return None;
        }
        let again =
            Self::with_frequencies(&self.name, &self.options, |recorder| recorder.with_highest_frequencies_of(first));
        Some(Self { again: true, ..again })
    }

    /// Ends the trace. `notes` are those of the records' [`Events`].
    ///
    /// # Errors
    /// If a replay needs more than the trace has, times have no unit, or the machine has fewer CPUs.
    pub fn finish(mut self, notes: &read::Notes) -> Result<Recording, Error> {
        let end = self.end;
        self.sources().for_each(|source| source.end(end));
        let name = &self.name;
        let cpus = self.cpus.max(notes.cpus.unwrap_or(0) as usize);
        let needs = read::needs(&self.summary, notes);
        if notes.counts_for_time {
            let help = "record with a clock of nanoseconds: trace-cmd record -C mono, or echo mono > /sys/kernel/tracing/trace_clock";
            let why = "its times have no unit (/sys/kernel/tracing/trace_clock names the clock)";
            return Err(Error::new(format!("{name} cannot be replayed: {why}")).with_help(help));
        }
        let has_no_switch = !needs.replayable && self.summary.count_of("sched_switch") == 0;
        if let Some(duration) = self.options.duration.filter(|_| has_no_switch) {
            let seconds = duration as f64 / 1e9;
            let help = "give a longer --duration, or none; if the whole trace has none, `vruntime trace info` prints how to record them";
            return Err(Error::new(format!("{name} has no sched_switch in its first {seconds} s")).with_help(help));
        }
        if !needs.replayable {
            let why = needs.missing.first().map_or("it has no events", String::as_str);
            let command = format!("this command records the events that a replay needs:\n{}", needs.record.join("\n"));
            let help = notes.damage().into_iter().chain([command]).collect::<Vec<String>>().join("\n");
            return Err(Error::new(format!("{name} cannot be replayed, for it lacks {why}")).with_help(help));
        }
        if cpus > MAX_CPUS {
            return Err(Error::new(format!(
                "{name} has events of CPU {}, which is beyond the limit of Linux",
                cpus - 1
            )));
        }
        let mut recording = Recording {
            name: self.name,
            source: self.source,
            charging: self.charging,
            cpus,
            jumps: self.clock.jumps(),
            release: notes.release.clone(),
            forked: notes.forked.clone(),
            autogroup: None,
        };
        recording.has_cpus(cpus);
        let there = notes.forked.iter().filter(|forked| forked.process > 0);
        let mut recording = recording.with_processes(there.map(|it| (it.thread, (it.process, it.parent))));
        if let Some(machine) = &self.options.machine {
            let described = machine.nr_cpus();
            if cpus > described {
                let message =
                    format!("{} names CPU {}, and the machine has {described} CPUs", recording.name, cpus - 1);
                return Err(Error::new(message).with_help("describe all CPUs with --recorded-machine"));
            }
            recording.has_cpus(described);
        }
        Ok(recording)
    }
}

/// Why the machine wrote this event.
fn reason(record: &Record<'_>) -> Reason {
    match record.point {
        Tracepoint::Switch { .. } | Tracepoint::StatRuntime { .. } => Reason::Switch,
        Tracepoint::Waking(_) | Tracepoint::Wakeup(_) if record.context != Some(Context::Hardirq) => Reason::Wakeup,
        _ => Reason::Other,
    }
}

/// Whether the recorded machine wrote this event. A reader adds some.
fn is_written(record: &Record<'_>) -> bool {
    !matches!(record.point, Tracepoint::Lost { .. }) && !record.name.starts_with(b"PERF_RECORD_")
}

/// Beginnings of a trace, as if the recording had ended there.
/// A trace.
#[derive(Clone, Debug)]
pub struct Recording {
    name: String,
    pub(crate) source: Source,
    /// The same, with charged switches. None: their costs are not known.
    pub(crate) charging: Option<Source>,
    cpus: usize,
    jumps: u64,
    /// The kernel's release.
    release: Option<String>,
    /// Threads from before the first event, if known.
    forked: Vec<Forked>,
    /// Whether the root group had autogroups, if known.
    pub(crate) autogroup: Option<bool>,
}

/// A replacement for an unavailable kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Substitute {
    /// The trace's release.
    pub release: String,
    /// The kernel that replaces it.
    pub kernel: String,
}

impl Recording {
    /// Reads a trace in any format of [`vruntime_trace::read`].
    ///
    /// # Errors
    /// If the file cannot be read, or as [`Reader::finish`].
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let open = || read::open(path).map_err(|error| Error::read(&name, error));
        Self::read(&name, &open, options)
    }

    /// Reads the bytes of a trace. `name` is for messages.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_bytes(name: &str, bytes: &[u8], options: &ReadOptions) -> Result<Self, Error> {
        let open = || -> Result<Box<dyn Events + '_>, Error> {
            if read::is_text(&bytes[..bytes.len().min(16)]) {
                return Ok(Box::new(read::TextReader::new(Cursor::new(bytes))));
            }
            read::from_reader(Cursor::new(bytes.to_vec())).map_err(|error| Error::read(name, error))
        };
        Self::read(name, &open, options)
    }

    fn read<'a>(
        name: &str,
        open: &dyn Fn() -> Result<Box<dyn Events + 'a>, Error>,
        options: &ReadOptions,
    ) -> Result<Self, Error> {
        let mut reader = Reader::new(name, options);
        loop {
            let mut events = open()?;
            while let Some(record) = events.next_record().map_err(|error| Error::read(name, error))? {
                if !reader.add(&record) {
                    break;
                }
            }
            match reader.again() {
                Some(again) => reader = again,
                None => return reader.finish(events.notes()),
            }
        }
    }

    /// Adds the machine's groups at the beginning. Unlisted threads were in their parents' groups.
    #[must_use]
    pub fn with_cgroups(mut self, cgroups: &Cgroups) -> Self {
        self.autogroup = Some(cgroups.autogroup());
        let mut cgroups = cgroups.clone();
        cgroups.add_forked(self.forked.iter().map(|forked| (forked.process, forked.thread, forked.parent)));
        self.changed(cgroups, Recorder::with_cgroups)
    }

    /// Adds processes and their parents, (thread, (process, parent)), which ftrace lacks.
    #[must_use]
    pub fn with_processes(self, processes: impl IntoIterator<Item = (i32, (i32, i32))>) -> Self {
        let processes: Vec<_> = processes.into_iter().collect();
        self.changed(processes, Recorder::with_processes)
    }

    /// Adds policies and slices at the beginning, by thread id.
    #[must_use]
    pub fn with_policies(self, policies: BTreeMap<i32, Policy>) -> Self {
        self.changed(policies, Recorder::with_policies)
    }

    /// Applies `add` to the trace and its beginning.
    fn changed<T: Clone>(mut self, known: T, add: impl Fn(Recorder, T) -> Recorder) -> Self {
        for source in self.sources() {
            source.change(|recorder| add(recorder, known.clone()));
        }
        self
    }

    fn has_cpus(&mut self, cpus: usize) {
        self.cpus = cpus;
        for source in self.sources() {
            source.change(|mut recorder| {
                recorder.has_cpus(cpus);
                recorder
            });
        }
    }

    fn sources(&mut self) -> impl Iterator<Item = &mut Source> {
        std::iter::once(&mut self.source).chain(&mut self.charging)
    }

    /// Returns the kernel of the replay as recorded.
    pub fn kernel(&self) -> String {
        self.says(None).0.kernel
    }

    /// Returns whether groups are known.
    pub fn has_groups(&self) -> bool {
        self.autogroup.is_some()
    }

    /// Returns the name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Returns the number of clock jumps, in which no time passes.
    pub fn clock_jumps(&self) -> u64 {
        self.jumps
    }

    /// Returns the kernel's release (`uname -r`), if known.
    pub fn release(&self) -> Option<&str> {
        self.release.as_deref()
    }

    /// Returns the plan's input: under the `named` kernel, the trace's, or the nearest.
    pub(crate) fn says(&self, named: Option<&str>) -> (Trace, Option<Substitute>) {
        // A release (`6.12.3`, `6.1.0-28-amd64`, `6.12+deb13-amd64`) is more exact than a series.
        let is_release = |named: &&str| {
            let numbers = named.split(['-', '+']).next().unwrap_or_default().split('.');
            numbers.clone().all(|number| number.parse::<u32>().is_ok())
                && (numbers.count() > 2 || named.contains('-'))
                && vruntime_sched::kernel(named).is_err()
                // Features and tunables belong to a user's own kernel.
                && !named.contains(|letter: char| letter.is_ascii_uppercase() || letter == '=')
        };
        let release = named.filter(is_release).map(str::to_owned).or_else(|| self.release.clone());
        let (kernel, substitute) = match named {
            Some(named) if !is_release(&named) => (named.to_owned(), None),
            _ => recorded_under(release.as_deref()),
        };
        let autogroup = self.autogroup.unwrap_or(false);
        let ticks = self.source.recorder.ticks();
        let switch_costs = SwitchCosts::default();
        (Trace { kernel, release, cpus: self.cpus, autogroup, ticks, switch_costs }, substitute)
    }
}

/// Returns the kernel for a trace of this release.
fn recorded_under(release: Option<&str>) -> (String, Option<Substitute>) {
    let Some(release) = release else { return (RECORDED_KERNEL.to_owned(), None) };
    // Up to 2.6, the third number was the version.
    let series = match release.strip_prefix("2.6.") {
        Some(rest) => format!("2.6.{}", rest.split(['.', '-']).next().unwrap_or_default()),
        None => series(release),
    };
    match kernel(&series) {
        Ok(_) => (series, None),
        Err(unknown) => {
            let nearest = unknown.neighbours.and(unknown.nearest).unwrap_or(RECORDED_KERNEL);
            let substitute = Substitute { release: release.to_owned(), kernel: nearest.to_owned() };
            (nearest.to_owned(), Some(substitute))
        }
    }
}

fn lateness(config: &Config) -> Lateness {
    let costs = &config.machine.costs;
    Lateness {
        timer: costs.irq_latency_ns + costs.irq_jitter_ns + costs.timer_ns,
        slack: config.machine.timer_slack_ns,
    }
}
