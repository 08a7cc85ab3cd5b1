//! The date and machine of measurements.

use std::fs;

use crate::command::{command, output};

#[derive(Clone, Debug)]
pub(crate) struct Here {
    /// The day in UTC, `2026-11-23`.
    pub(crate) date: String,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Such as `2 CPUs, AMD EPYC, virtual`.
    pub(crate) machine: String,
}

impl Here {
    /// # Errors
    /// Without the program `date`.
    pub(crate) fn now() -> miette::Result<Self> {
        let date = output(command("date", ["-u", "+%F"]), "coreutils")?;
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Ok(Self {
            date: String::from_utf8_lossy(&date).trim().to_owned(),
            kernel: kernel.trim().to_owned(),
            machine: machine(cpus, &info),
        })
    }

    /// vruntime's name of the kernel: `6.18` of `6.18.5-cloud-amd64`.
    pub(crate) fn version(&self) -> String {
        self.kernel.split(['.', '-', '+']).take(2).collect::<Vec<_>>().join(".")
    }
}

fn machine(cpus: usize, info: &str) -> String {
    let field = |name: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim())
    };
    let mut words = vec![format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })];
    words.extend(field("model name").map(str::to_owned));
    if field("flags").is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")) {
        words.push("virtual".to_owned());
    }
    words.join(", ")
}

/// Time that the host took from all CPUs since boot (`/proc/stat`), seconds, if known.
pub(crate) fn stolen() -> Option<f64> {
    stolen_of(&fs::read_to_string("/proc/stat").ok()?)
}

fn stolen_of(stat: &str) -> Option<f64> {
    // In ticks of user space, 100 a second on all usual machines.
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    all.split_whitespace().nth(7)?.parse::<f64>().ok().map(|ticks| ticks / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_described() {
        let info = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu hypervisor lm\n";
        assert_eq!(machine(2, info), "2 CPUs, Some CPU @ 2 GHz, virtual");
        assert_eq!(machine(1, "flags : fpu\n"), "1 CPU");
    }

    #[test]
    fn stolen_time_is_the_eighth_column() {
        assert_eq!(stolen_of("cpu  1 2 3 4 5 6 7 19097 0 0\ncpu0 1 2 3 4 5 6 7 8\n"), Some(190.97));
        assert_eq!((stolen_of("cpu  1 2 3\n"), stolen_of("")), (None, None));
    }

    #[test]
    fn versions_are_two_numbers() {
        let here = |kernel: &str| Here { date: String::new(), kernel: kernel.to_owned(), machine: String::new() };
        assert_eq!((here("6.18.5-cloud").version(), here("6.1-rc3").version()), ("6.18".into(), "6.1".into()));
    }
}
