//! Changes, in a replay and for real.

use std::fs;
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};

use super::programs::{Group, Program};
use crate::command::{command, output};

/// The competing program.
pub(crate) const HOG: &str = "sha256sum";
/// Number of hogs in the recording.
pub(crate) const HOGS: usize = 2;
/// What stands in rules for the names of the program's tasks.
const PROGRAM: &str = "PROGRAM";
/// The group that changes create.
const GROUP: &str = "vruntime-whatif";

/// A change of the hogs or the program's clients.
#[derive(Debug)]
pub(crate) struct Change {
    /// Description for the page.
    pub(crate) what: &'static str,
    /// Rules for a replay: [`Change::arguments`].
    pub(crate) rules: &'static [&'static str],
    pub(super) make: Make,
}

#[derive(Debug)]
pub(super) enum Make {
    Nothing,
    Nice(i32),
    Removed,
    /// Number of hogs.
    Number(usize),
    /// CPU of the hogs.
    Pinned(&'static str),
    /// Weight of a group of hogs.
    Weight(u64),
    /// Limit of a group of hogs, in each 100 ms.
    LimitMs(u64),
    /// A script that `sh` also runs in the program's folder.
    Client(&'static str),
    /// One CPU for program and hogs.
    OneCpu,
    /// `sched_autogroup_enabled` is 0 before program and hogs start, since it matters at a task's creation.
    NoAutogroup,
}

impl Change {
    /// Whether this is [`NOTHING`].
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self.make, Make::Nothing)
    }

    /// Returns the arguments of `vruntime replay`. A rule that begins with `--` is an option. `tasks` are prefixes of
    /// the names of the program's tasks, as [`Program::tasks`].
    pub(crate) fn arguments(&self, tasks: &[&str]) -> Vec<String> {
        let of_rule = |rule: &&str| match rule.split_once(' ') {
            Some((option, value)) if rule.starts_with("--") => [option.to_owned(), value.to_owned()],
            _ => ["--map".to_owned(), rule.replace(PROGRAM, &names(tasks))],
        };
        self.rules.iter().flat_map(of_rule).collect()
    }

    /// Changes the machine's settings, which starting tasks take over.
    pub(super) fn setting(&self) -> miette::Result<Option<Setting>> {
        if !matches!(self.make, Make::NoAutogroup) {
            return Ok(None);
        }
        let cannot = |what| format!("cannot {what} {AUTOGROUP}");
        let before = fs::read_to_string(AUTOGROUP).into_diagnostic().wrap_err_with(|| cannot("read"))?;
        fs::write(AUTOGROUP, "0").into_diagnostic().wrap_err_with(|| cannot("write"))?;
        Ok(Some(Setting { before }))
    }
}

/// Autogroups are off until this is dropped.
#[derive(Debug)]
pub(super) struct Setting {
    before: String,
}

impl Drop for Setting {
    fn drop(&mut self) {
        if fs::write(AUTOGROUP, &self.before).is_err() {
            eprintln!("a change could not be taken back: look at {AUTOGROUP}");
        }
    }
}

/// The recorded state, measured again.
pub(super) const NOTHING: &Change = &Change { what: "nothing", rules: &[], make: Make::Nothing };

pub(super) const OF_HOGS: &[Change] = &[
    Change { what: "hogs at nice 10", rules: &["comm=sha256sum: nice=10"], make: Make::Nice(10) },
    Change { what: "no hogs", rules: &["comm=sha256sum: remove"], make: Make::Removed },
    Change { what: "twice as many hogs", rules: &["comm=sha256sum: copies=2"], make: Make::Number(4) },
    Change { what: "hogs on CPU 0", rules: &["comm=sha256sum: cpus=0"], make: Make::Pinned("0") },
    Change {
        what: "hogs in a group of weight 20",
        rules: &["comm=sha256sum: group=/vruntime-whatif weight=20"],
        make: Make::Weight(20),
    },
    Change {
        what: "hogs in a group of half a CPU",
        rules: &["comm=sha256sum: group=/vruntime-whatif max=50ms/100ms"],
        make: Make::LimitMs(50),
    },
    // Other tasks stay where they were.
    Change { what: "one CPU for all", rules: &["comm={PROGRAM,sha256sum}: cpus=0"], make: Make::OneCpu },
    Change { what: "no autogroups", rules: &["--set sched_autogroup_enabled=0"], make: Make::NoAutogroup },
];

/// Returns the pattern of the names of tasks that begin so. A final `-` ends the name.
fn names(tasks: &[&str]) -> String {
    let pattern = |begin: &&str| begin.strip_suffix('-').map_or_else(|| format!("{begin}*"), str::to_owned);
    tasks.iter().map(pattern).collect::<Vec<_>>().join(",")
}

const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";

pub(crate) fn changes(program: &'static Program) -> impl Iterator<Item = &'static Change> {
    OF_HOGS.iter().chain(&program.clients)
}

/// Running hogs and added clients.
#[derive(Debug, Default)]
pub(crate) struct Hogs {
    processes: Vec<Group>,
    clients: Vec<Group>,
    folder: Option<PathBuf>,
    /// Processes confined to one CPU.
    confined: Vec<u32>,
}

impl Hogs {
    pub(crate) fn start(number: usize) -> miette::Result<Self> {
        let hog = |_| Group::start(HOG, &["/dev/zero"], Path::new("/"));
        let mut hogs = Self::default();
        hogs.processes = (0..number).map(hog).collect::<miette::Result<_>>()?;
        Ok(hogs)
    }

    /// Starts hogs with a change, beside a program that runs in `folder`.
    pub(crate) fn changed(change: &Change, folder: &Path, program: &Group) -> miette::Result<Self> {
        let mut hogs = Self::start(match change.make {
            Make::Removed => 0,
            Make::Number(number) => number,
            _ => HOGS,
        })?;
        match change.make {
            Make::Nice(nice) => hogs.each(|pid| {
                let nice = nice.to_string();
                output(command("renice", ["-n", &nice, "-p", pid]), "bsdutils")
            })?,
            Make::Pinned(cpu) => hogs.each(|pid| output(command("taskset", ["-p", "-c", cpu, pid]), "util-linux"))?,
            Make::Weight(weight) => {
                // `cpu.weight` 100 is `cpu.shares` 1024.
                hogs.group(
                    &[("cpu.weight", weight.to_string())],
                    &[("cpu.shares", (weight * 1024 / 100).to_string())],
                )?;
            }
            Make::LimitMs(limit) => {
                let quota = limit * 1000;
                let old = [("cpu.cfs_period_us", "100000".to_owned()), ("cpu.cfs_quota_us", quota.to_string())];
                hogs.group(&[("cpu.max", format!("{quota} 100000"))], &old)?;
            }
            Make::Client(script) => hogs.clients.push(Group::start("sh", &["-c", script], folder)?),
            Make::OneCpu => {
                hogs.confined = hogs.processes.iter().chain([program]).flat_map(Group::members).collect();
                confine(&hogs.confined, "0")?;
            }
            Make::Nothing | Make::Removed | Make::Number(_) | Make::NoAutogroup => {}
        }
        Ok(hogs)
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = &Group> {
        self.clients.iter()
    }

    fn each<T>(&self, change: impl Fn(&str) -> miette::Result<T>) -> miette::Result<()> {
        self.processes.iter().try_for_each(|hog| change(&hog.pid().to_string()).map(drop))
    }

    /// Moves the hogs into a group with these files of cgroup v2 or v1.
    fn group(&mut self, new: &[(&str, String)], old: &[(&str, String)]) -> miette::Result<()> {
        let (root, files) = hierarchy(new, old)?;
        let folder = root.join(GROUP);
        let write = |name: &str, text: &str| {
            let file = folder.join(name);
            fs::write(&file, text).into_diagnostic().wrap_err_with(|| format!("cannot write {}", file.display()))
        };
        if !folder.is_dir() {
            fs::create_dir(&folder)
                .into_diagnostic()
                .wrap_err_with(|| format!("cannot make {}; are you root?", folder.display()))?;
        }
        self.folder = Some(folder.clone());
        for (name, text) in files {
            write(name, text)?;
        }
        self.each(|pid| write("cgroup.procs", pid))
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        if confine(&self.confined, &format!("0-{}", cpus - 1)).is_err() {
            eprintln!("a change could not be taken back: look at the affinity of processes");
        }
        self.processes.clear();
        self.clients.clear();
        if let Some(folder) = &self.folder {
            // Ended processes leave the group a little later.
            for _ in 0..100 {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

/// Confines all threads of processes to CPUs. Ignores ended processes.
fn confine(processes: &[u32], cpus: &str) -> miette::Result<()> {
    for pid in processes {
        let confined = output(command("taskset", ["-a", "-p", "-c", cpus, &pid.to_string()]), "util-linux");
        if Path::new(&format!("/proc/{pid}")).exists() {
            confined?;
        }
    }
    Ok(())
}

/// Returns the mount of the `cpu` controller, and its kind of files.
fn hierarchy<'a>(
    new: &'a [(&'a str, String)],
    old: &'a [(&'a str, String)],
) -> miette::Result<(PathBuf, &'a [(&'a str, String)])> {
    let mounts = fs::read_to_string("/proc/mounts").into_diagnostic()?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.find_map(|mount| match mount[..] {
        [_, folder, "cgroup", options, ..] if options.split(',').any(|option| option == "cpu") => {
            Some((PathBuf::from(folder), old))
        }
        [_, folder, "cgroup2", ..] => {
            let has = fs::read_to_string(Path::new(folder).join("cgroup.subtree_control")).unwrap_or_default();
            has.split_whitespace().any(|name| name == "cpu").then(|| (PathBuf::from(folder), new))
        }
        _ => None,
    });
    found
        .ok_or_else(|| miette!("no cgroup hierarchy with the controller cpu is mounted; mount one, or leave these out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_all_names_the_programs_tasks() {
        let change = OF_HOGS.iter().find(|change| matches!(change.make, Make::OneCpu)).unwrap();
        assert_eq!(change.arguments(&["cc1", "sh-"]), ["--map", "comm={cc1*,sh,sha256sum}: cpus=0"]);
    }
}
