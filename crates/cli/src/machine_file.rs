//! Machine files of `vruntime calibrate`: a description, and measured costs.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use miette::miette;
use serde::Deserialize;
use vruntime_sim::idle::IdleDepth;
use vruntime_sim::stalls::Stall;
use vruntime_sim::topology::with_capacities;
use vruntime_sim::{Costs, Preempt, plan};
use vruntime_workload::Source;
use vruntime_workload::resident::Resident;

use crate::{machine, output};

/// The name of this machine, for `--machine`.
pub(crate) const HOST: &str = "host";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MachineFile {
    pub(crate) machine: Machine,
    /// Costs by name, nanoseconds. Others are as in the profile `default`.
    #[serde(default)]
    costs: BTreeMap<String, u64>,
    /// Costs of migrations by working set, for readers: the simulator charges one cost.
    #[serde(default)]
    migration: Migration,
    #[serde(default)]
    idle_exit: IdleExit,
    #[serde(default, deserialize_with = "stalls")]
    pub(crate) stalls: Option<Stall>,
    /// Background tasks. `None`: the kernel's threads, by the costs.
    #[serde(rename = "background")]
    pub(crate) residents: Option<Vec<Resident>>,
}

/// Times to leave idleness, beyond `idle_exit_ns`, by idle time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdleExit {
    after_ns: Vec<u64>,
    extra_ns: Vec<u64>,
}

/// A [`Stall`] in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stalls {
    length_ns: u64,
    every_ns: u64,
}

/// Reads both figures: one alone is an error.
fn stalls<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Stall>, D::Error> {
    let Stalls { length_ns, every_ns } = Stalls::deserialize(deserializer)?;
    Ok(Some(Stall { length_ns, every_ns }))
}

/// Costs of migrations, by working set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Migration {
    kib: Vec<u64>,
    /// Extra time of the first read after a migration.
    extra_ns: Vec<u64>,
    /// Time of the second read.
    again_ns: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    /// In hwloc's syntax.
    pub(crate) topology: String,
    /// Capacity of each CPU; empty if equal.
    #[serde(default)]
    pub(crate) capacities: Vec<u32>,
    /// Ticks per second.
    pub(crate) hz: Option<u32>,
    pub(crate) preempt: Option<String>,
    /// Whether the root group's tasks are in autogroups.
    pub(crate) autogroup: Option<bool>,
}

impl MachineFile {
    /// Returns the described machine. `name` is the user's name for it.
    pub(crate) fn known(self, name: &str) -> miette::Result<plan::Machine> {
        let (costs, preempt, idle_depths) = (self.costs()?, self.preempt()?, self.idle_depths());
        let Machine { topology, capacities, hz, autogroup, .. } = self.machine;
        let mut topology = machine::parse(&topology)?;
        if !capacities.is_empty() {
            topology = with_capacities(&topology, &capacities)
                .map_err(|error| miette!(help = error.help, "{name}: {}", error.message))?;
        }
        let (stalls, residents) = (self.stalls, self.residents);
        let machine = plan::Machine::new(name, topology);
        Ok(plan::Machine { costs, preempt, idle_depths, hz, autogroup, stalls, residents, ..machine })
    }

    /// Returns the default costs with the file's changes.
    pub(crate) fn costs(&self) -> miette::Result<Option<Costs>> {
        if self.costs.is_empty() {
            return Ok(None);
        }
        let mut costs = Costs::default();
        for (name, ns) in &self.costs {
            costs.set(name, *ns).map_err(|error| miette!(help = "vruntime calibrate writes such files", "{error}"))?;
        }
        Ok(Some(costs))
    }

    pub(crate) fn idle_depths(&self) -> Vec<IdleDepth> {
        let IdleExit { after_ns, extra_ns } = &self.idle_exit;
        after_ns.iter().zip(extra_ns).map(|(&after_ns, &extra_ns)| IdleDepth { after_ns, extra_ns }).collect()
    }

    pub(crate) fn preempt(&self) -> miette::Result<Option<Preempt>> {
        let Some(name) = &self.machine.preempt else { return Ok(None) };
        let help = "write none, voluntary, lazy or full";
        Preempt::from_name(name).map(Some).ok_or_else(|| miette!(help = help, "there is no preemption model `{name}`"))
    }
}

/// Reads the file that `text` names: a path that ends with .toml, or `host`.
pub(crate) fn named(text: &str) -> miette::Result<Option<MachineFile>> {
    let text = text.trim();
    if text == HOST {
        return host().map(Some);
    }
    let path = Path::new(text);
    let is_file = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    if is_file { read(path).map(Some) } else { Ok(None) }
}

fn read(path: &Path) -> miette::Result<MachineFile> {
    let name = path.display().to_string();
    let bytes = crate::input::contents(path, "`vruntime calibrate` writes such files")?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    parse(&name, &text)
}

pub(crate) fn parse(name: &str, text: &str) -> miette::Result<MachineFile> {
    let wrong = |span, message: &str| {
        let help = "vruntime calibrate writes such files: [machine] with topology, capacities, hz, preempt, autogroup, [costs], [[background]], \
                    [idle_exit] with after_ns, extra_ns, [stalls] with length_ns, every_ns, and [migration] with kib, extra_ns, again_ns";
        Source::new(name, text).error_at(span, message, "here", help)
    };
    let file: MachineFile =
        toml::from_str(text).map_err(|error| wrong(error.span().unwrap_or(0..0), error.message()))?;
    let Migration { kib, extra_ns, again_ns } = &file.migration;
    if extra_ns.len() != kib.len() || again_ns.len() != kib.len() {
        let at = text.find("[migration]").unwrap_or(0);
        let lists = "the lists of [migration] differ in length: each has a value a working set";
        return Err(wrong(at..at + "[migration]".len(), lists).into());
    }
    let IdleExit { after_ns, extra_ns } = &file.idle_exit;
    if after_ns.len() != extra_ns.len() || !after_ns.is_sorted_by(|a, b| a < b) {
        let at = text.find("[idle_exit]").unwrap_or(0);
        let lists = "[idle_exit] has as many after_ns as extra_ns, from short times to long ones";
        return Err(wrong(at..at + "[idle_exit]".len(), lists).into());
    }
    Ok(file)
}

/// Returns the default output path of `vruntime calibrate`.
pub(crate) fn saved() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let folder = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute()).or_else(home)?;
    Some(folder.join("vruntime").join("machine.toml"))
}

/// Returns this machine as calibrated, or as the kernel describes it.
fn host() -> miette::Result<MachineFile> {
    if let Some(path) = saved().filter(|path| path.is_file()) {
        return read(&path);
    }
    described()
}

#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps)] // elsewhere there is nothing to describe
fn described() -> miette::Result<MachineFile> {
    let host = vruntime_linux::describe();
    output::note("this machine was not calibrated (vruntime calibrate): the costs are the default costs");
    for note in &host.notes {
        output::note(note);
    }
    if host.preempt.is_none() {
        output::note(&format!("the preemption model is not known, and simulated as voluntary: {}", host.preempt_from));
    }
    Ok(MachineFile {
        machine: machine(&host),
        costs: BTreeMap::new(),
        migration: Migration::default(),
        idle_exit: IdleExit::default(),
        stalls: None,
        residents: None,
    })
}

#[cfg(not(target_os = "linux"))]
fn described() -> miette::Result<MachineFile> {
    Err(miette!(help = "describe the machine; see `vruntime machines`", "`host` is known only where Linux runs"))
}

#[cfg(target_os = "linux")]
fn machine(host: &vruntime_linux::Host) -> Machine {
    Machine {
        topology: host.topology.clone(),
        capacities: host.capacities.clone(),
        hz: Some(host.hz),
        preempt: host.preempt.clone(),
        autogroup: Some(host.autogroup),
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn write(calibration: &vruntime_linux::Calibration) -> String {
    let host = &calibration.host;
    let this = machine(host);
    // An empty list must precede all tables.
    let nothing = calibration.residents.as_ref().is_some_and(Vec::is_empty);
    let nothing = if nothing { "# Nothing else ran while this process slept.\nbackground = []\n\n" } else { "" };
    let mut text = format!(
        "# Made by `vruntime calibrate` under Linux {}. For --machine: the path of this file, or `host`.\n\n{nothing}[machine]\ntopology = \"{}\"\n",
        host.kernel, this.topology
    );
    // Writing to a String cannot fail.
    if !this.capacities.is_empty() {
        let _ = writeln!(text, "capacities = {:?}", this.capacities);
    }
    let _ = writeln!(text, "hz = {}", host.hz);
    let _ = match &this.preempt {
        Some(preempt) => writeln!(text, "preempt = \"{preempt}\" # {}", host.preempt_from),
        None => writeln!(text, "# preempt is not known, and simulated as voluntary: {}", host.preempt_from),
    };
    let _ = writeln!(text, "autogroup = {}\n\n# Nanoseconds.\n[costs]", host.autogroup);
    for cost in &calibration.costs {
        let _ = writeln!(text, "{} = {} # {}", cost.name, cost.ns, cost.how);
    }
    if let Some(residents) = &calibration.residents {
        text.push_str(&background(residents));
    }
    text.push_str(&idle_exits(&calibration.idle_exits));
    text.push_str(&stalled(calibration.stalls));
    text.push_str(&migrations(&calibration.migrations));
    text.push_str(&timer_slacks(&calibration.timer_slacks));
    if !host.features.is_empty() {
        let _ = write!(text, "\n# The kernel's features: {}\n", host.features.join(" "));
    }
    for (name, value) in &host.tunables {
        let _ = writeln!(text, "# {name} = {value}");
    }
    text
}

#[cfg(target_os = "linux")]
fn background(residents: &[Resident]) -> String {
    let of_a_cpu = 100.0 * residents.iter().map(Resident::taken).sum::<f64>();
    let rate: f64 = residents.iter().map(Resident::rate).sum();
    let lead = format!(
        "\n# Other tasks that ran during the measurement: {rate:.1} wakeups a second, {of_a_cpu:.2} % of a CPU. They run beside every workload.\n\
         # Remove tasks that do not belong to the machine.\n"
    );
    if residents.is_empty() {
        return String::new(); // the head of the file has a comment
    }
    let tables = toml::to_string(&BTreeMap::from([("background", residents)])).unwrap_or_default();
    format!("{lead}{tables}")
}

#[cfg(target_os = "linux")]
fn idle_exits(measured: &[vruntime_linux::IdleExit]) -> String {
    columns(
        "# After an idle time of after_ns, a CPU takes extra_ns more than idle_exit_ns to wake up. Measured as the lateness of sleeps of this\n\
         # length on an idle CPU, beyond that on a busy CPU. Medians; lengths without a longer exit have no column.\n\
         [idle_exit]\n",
        measured,
        &[("after_ns", |exit| exit.after_ns), ("extra_ns", |exit| exit.extra_ns)],
    )
}

#[cfg(target_os = "linux")]
fn stalled(measured: Option<vruntime_linux::Stalls>) -> String {
    let Some(vruntime_linux::Stalls { count, total_ns, watched_ns }) = measured else { return String::new() };
    let (length, every) = (total_ns / count, watched_ns.saturating_sub(total_ns) / count);
    format!(
        "\n# Stalls: computing threads stopped without a preemption, {count} times in {:.1} s, because the host ran another machine or the kernel\n\
         # was busy. Each CPU stops for length_ns, and runs for every_ns until the next stall.\n[stalls]\nlength_ns = {length}\nevery_ns = {every}\n",
        watched_ns as f64 / 1e9
    )
}

#[cfg(target_os = "linux")]
fn migrations(measured: &[vruntime_linux::MigrationCost]) -> String {
    columns(
        "# The cost of a migration by working set: reading this many KiB again takes again_ns on the same CPU, and extra_ns more on another.\n\
         # Medians. The simulator charges migration_ns, the cost for 64 KiB, for every size.\n\
         [migration]\n",
        measured,
        &[
            ("kib", |cost| cost.bytes as u64 >> 10),
            ("extra_ns", |cost| cost.extra_ns),
            ("again_ns", |cost| cost.again_ns),
        ],
    )
}

/// The name of a list, and its value for each row.
#[cfg(target_os = "linux")]
type Field<T> = (&'static str, fn(&T) -> u64);

/// Formats a table of lists below its lead; empty without measurements.
#[cfg(target_os = "linux")]
fn columns<T>(lead: &str, measured: &[T], fields: &[Field<T>]) -> String {
    if measured.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{lead}");
    for (name, value) in fields {
        let values: Vec<String> = measured.iter().map(|row| format!("{:>8}", value(row))).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:8} = [{}]", values.join(", "));
    }
    text
}

#[cfg(target_os = "linux")]
fn timer_slacks(measured: &[vruntime_linux::TimerSlack]) -> String {
    let Some(shortest) = measured.last() else { return String::new() };
    let own = measured.iter().find(|slack| slack.ns != shortest.ns);
    let value = own.map_or("none (a real-time one has none)".to_owned(), |own| format!("{} ns", own.ns));
    let mut text = format!(
        "\n# Timer slack of this process: {value}. Sleeps beside a busy thread return late, on average and at least:\n"
    );
    for slack in measured {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "#   with {} ns: {} ns, {} ns", slack.ns, slack.mean_late_ns, slack.least_late_ns);
    }
    text
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use vruntime_linux::{Calibration, Host, MeasuredCost, MigrationCost, TimerSlack};

    use super::*;

    fn calibration(preempt: Option<&str>) -> Calibration {
        let host = Host {
            kernel: "6.12.1".to_owned(),
            topology: "pack:1 core:2".to_owned(),
            hz: 250,
            preempt: preempt.map(str::to_owned),
            preempt_from: "as the \"test\" says".to_owned(),
            ..Host::default()
        };
        Calibration {
            host,
            costs: vec![MeasuredCost { name: "migration_ns", ns: 7, how: "guessed" }],
            migrations: [(4, 10, 20), (4096, 30_000, 400_000)]
                .map(|(kib, extra_ns, again_ns)| MigrationCost { bytes: kib << 10, extra_ns, again_ns })
                .to_vec(),
            timer_slacks: [(50_000, 60_000), (1, 9_000)]
                .map(|(ns, late)| TimerSlack { ns, least_late_ns: late - 1000, mean_late_ns: late })
                .to_vec(),
            idle_exits: [(1_000_000, 20_000), (3_000_000, 60_000)]
                .map(|(after_ns, extra_ns)| vruntime_linux::IdleExit { after_ns, extra_ns })
                .to_vec(),
            stalls: Some(vruntime_linux::Stalls { count: 4, total_ns: 8_000_000, watched_ns: 5_000_000_000 }),
            residents: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = write(&calibration(Some("lazy")));
        let file = parse("m.toml", &text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        assert_eq!(file.machine.preempt.as_deref(), Some("lazy"));
        assert_eq!(file.costs.get("migration_ns"), Some(&7), "{text}");
        assert_eq!(file.idle_depths().last(), Some(&IdleDepth { after_ns: 3_000_000, extra_ns: 60_000 }), "{text}");
        assert_eq!(file.stalls, Some(Stall { length_ns: 2_000_000, every_ns: 1_248_000_000 }), "{text}");
        let migration = file.migration;
        assert_eq!((migration.kib, migration.extra_ns), (vec![4, 4096], vec![10, 30_000]), "{text}");
        assert_eq!(migration.again_ns, [20, 400_000]);
        let slack = "# Timer slack of this process: 50000 ns. Sleeps beside a busy thread return late, on average and at least:\n\
                     #   with 50000 ns: 60000 ns, 59000 ns\n#   with 1 ns: 9000 ns, 8000 ns\n";
        assert!(text.contains(slack), "{text}");
        let mut real_time = calibration(None);
        real_time.timer_slacks.remove(0);
        let text = write(&real_time);
        assert!(
            text.contains("of this process: none (a real-time one has none). ") && parse("m.toml", &text).is_ok(),
            "{text}"
        );
    }

    #[test]
    fn what_else_runs_is_written_and_read_back() {
        let resident = |name: &str, cpus| Resident {
            name: name.to_owned(),
            policy: vruntime_workload::program::Policy::Fifo { priority: 3 },
            cpus,
            period: 500_000_000,
            work: 10_000_000,
        };
        let all = [None, Some(vec![]), Some(vec![resident("a \"b\"\u{7}", None), resident("c", Some(vec![0, 2]))])];
        for residents in all {
            let calibration = Calibration { residents: residents.clone(), ..calibration(None) };
            let text = write(&calibration);
            let file = parse("m.toml", &text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(file.residents, residents, "{text}");
            let expected_line = "during the measurement: 4.0 wakeups a second, 4.00 % of a CPU";
            assert_eq!(text.contains(expected_line), residents.is_some_and(|residents| residents.len() == 2), "{text}");
        }
    }

    #[test]
    fn an_unknown_preemption_model_is_reported() {
        let text = write(&calibration(None));
        assert!(
            text.contains("\n# preempt is not known, and simulated as voluntary: as the \"test\" says\n"),
            "{text}"
        );
        assert!(parse("m.toml", &text).unwrap().preempt().unwrap().is_none(), "{text}");
    }

    #[test]
    fn uneven_lists_are_an_error() {
        let text = "[machine]\ntopology = \"2\"\n[migration]\nkib = [4, 16]\nextra_ns = [1]\nagain_ns = [1, 2]\n";
        let error = parse("m.toml", text).unwrap_err();
        assert!(error.to_string().contains("differ in length"), "{error:?}");
        assert!(parse("m.toml", &text.replace("[1]", "[1, 2]")).is_ok());
        let text = "[machine]\ntopology = \"2\"\n[idle_exit]\nafter_ns = [16, 4]\nextra_ns = [1, 2]\n";
        let error = parse("m.toml", text).unwrap_err();
        assert!(error.to_string().contains("from short times to long ones"), "{error:?}");
        assert!(parse("m.toml", &text.replace("[16, 4]", "[4, 16]")).is_ok());
        let text = "[machine]\ntopology = \"2\"\n[stalls]\nlength_ns = 1\n";
        let error = parse("m.toml", text).unwrap_err();
        assert!(error.to_string().contains("missing field `every_ns`"), "{error:?}");
    }
}
