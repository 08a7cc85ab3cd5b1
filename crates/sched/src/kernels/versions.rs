//! The supported kernels around an unsupported version.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::behaviours::Behaviours;
use super::distributions::{NEAREST, vendor};
use super::{Distribution, Kernel, Later, kernels};
pub(crate) use crate::releases::version;

/// The supported kernels around a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbours {
    /// The newest older one.
    pub below: Option<&'static str>,
    /// The oldest newer one.
    pub above: Option<&'static str>,
}

impl Kernel {
    /// Applies what a stable release (`uname -r`) is known to have beyond its kernel's.
    ///
    /// - 6.1.1 to 6.1.159, 6.6.1 to 6.6.119, 6.12.1 to 6.12.64 and 6.18.1 to 6.18.4: without NI_RANDOM. Names with a
    ///   third number of 0 (6.1.0-28-amd64) do not tell the release, and have it.
    /// - 6.18.33+: preemption ([`ForkWaits`](super::Behaviour::ForkWaits) and others that came with 6.19).
    /// - 6.18.44+: what was observed there, such as [`LagByLongest`](super::Behaviour::LagByLongest). 6.18.15 lacks it,
    ///   and the release between them is not known.
    /// - [`VcpuPack`](super::Behaviour::VcpuPack), the patch of a cloud, for releases with the name of its builds
    ///   (`-fc-`). A task that may run on several CPUs ignores idle ones while a used CPU has *room*. Room is at most
    ///   one runnable fair task, and with the new one a utilisation below seven tenths of the capacity. With room, a
    ///   forked task stays on its parent's CPU, and a task that execs on its own (bit 8). A task that an interrupt
    ///   wakes on an idle CPU stays there (1). Other wakeups choose the CPU of a waker about to sleep (2). Else they
    ///   choose, if used and with room, the previous CPU, the waker's, or the first (4).
    ///
    /// ```
    /// use vruntime_sched::kernels::Behaviour;
    /// let mut kernel = vruntime_sched::kernel("6.18").unwrap();
    /// kernel.as_of("6.18.15+deb13-cloud-amd64");
    /// assert!(!kernel.behaviours.has(Behaviour::ForkWaits));
    /// kernel.as_of("6.18.33");
    /// assert!(kernel.behaviours.has(Behaviour::ForkWaits) && !kernel.behaviours.has(Behaviour::LagByLongest));
    /// kernel.as_of("6.18.44");
    /// assert!(kernel.behaviours.has(Behaviour::LagByLongest) && !kernel.behaviours.has(Behaviour::VcpuPack));
    /// kernel.as_of("6.18.44-fc-v657");
    /// assert!(kernel.behaviours.has(Behaviour::VcpuPack));
    /// ```
    pub fn as_of(&mut self, release: &str) {
        let Some(version) = self::version(release) else { return };
        let is_of_series = |later: &Later| version[..2] == later.since[..2];
        let applies = |later: &&Later| {
            is_of_series(later)
                && version >= later.since
                && later.until.is_none_or(|until| version < until)
                && build(release) >= later.build
                && release.contains(later.part)
        };
        for later in self.later.iter().filter(applies) {
            for &one in later.plus {
                self.behaviours.set(one, true);
            }
            for &one in later.minus {
                self.behaviours.set(one, false);
            }
            for &one in later.off {
                self.features.set(one, false);
            }
        }
    }
}

/// Returns the build of a distribution's release: 553 of `4.18.0-553.16.1.el8_10`; 0 without one.
fn build(release: &str) -> u32 {
    let after = release.split_once('-').map_or("", |(_, after)| after);
    let digits = after.split(|letter: char| !letter.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns the name of a release's kernel (`uname -r`), which may not be supported: `6.12` of `6.12.117`. Some
/// [distributions](Distribution) have another scheduler than their numbers say.
///
/// ```
/// use vruntime_sched::kernels::series;
/// assert_eq!(series("6.8.0-45-generic"), "6.8");
/// assert_eq!(series("5.14.0-427.13.1.el9_4.x86_64"), "5.14-el9");
/// assert_eq!(series("5.14.21-150400.24.46-default"), "5.15");
/// ```
pub fn series(release: &str) -> String {
    if let Some(distribution) = Distribution::of(release) {
        return distribution.kernel.to_owned();
    }
    let numbers = release.split(['-', '+']).next().unwrap_or_default();
    let series = numbers.split('.').take(2).collect::<Vec<&str>>().join(".");
    let of_vendor = |row: &&Kernel| {
        !row.vendor.is_empty()
            && row.name.split('-').next() == Some(series.as_str())
            && (release == row.name || release.contains(row.vendor))
    };
    kernels().iter().find(of_vendor).map_or(series, |row| row.name.to_owned())
}

/// Returns the kernels around `name`; None if it is no version, or supported.
pub(super) fn neighbours(name: &str) -> Option<Neighbours> {
    let names: Vec<&str> = kernels().iter().map(|row| row.name).collect();
    among(&names, name)
}

/// As [`neighbours`], with the names of supported kernels.
fn among(names: &[&'static str], name: &str) -> Option<Neighbours> {
    let wanted = version(name)?;
    // A plain number does not mean a patched kernel.
    let offered = || names.iter().filter(|name| !name.contains('-')).filter_map(|&name| Some((version(name)?, name)));
    if offered().any(|(version, _)| version == wanted) {
        return None;
    }
    Some(Neighbours {
        below: offered().filter(|(version, _)| *version < wanted).max().map(|(_, name)| name),
        above: offered().filter(|(version, _)| *version > wanted).min().map(|(_, name)| name),
    })
}

/// For example "no version between 3.18 and 6.1 is supported".
impl fmt::Display for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.below, self.above) {
            (Some(below), Some(above)) => write!(f, "no version between {below} and {above} is supported"),
            (Some(newest), None) => write!(f, "the newest supported version is {newest}"),
            (None, Some(oldest)) => write!(f, "the oldest supported version is {oldest}"),
            (None, None) => write!(f, "no version is supported"),
        }
    }
}

impl Neighbours {
    /// Returns the nearer one, preferring one of the same series.
    pub(super) fn nearest(self, name: &str) -> Option<&'static str> {
        let wanted = version(name)?;
        let far = |other: &str| {
            let other = version(other).unwrap_or_default();
            [0, 1, 2].map(|at| wanted[at].abs_diff(other[at]))
        };
        self.below.into_iter().chain(self.above).min_by_key(|name| far(name))
    }
}

impl Distribution {
    /// Returns the distribution of a release, if its kernel is not the one of its numbers, or has backports.
    ///
    /// A version that is not on offer gets the neighbour with the fewest other behaviours.
    ///
    /// ```
    /// use vruntime_sched::kernels::Distribution;
    /// let of = |release| Distribution::of(release).map(|found| found.kernel);
    /// assert_eq!(of("5.14.21-150400.24.46-default"), Some("5.15"));
    /// assert_eq!(of("6.5.0-45-generic"), Some("6.4"));
    /// assert_eq!(of("6.8.0-45-generic"), None);
    /// assert_eq!(of("6.5"), None);
    /// ```
    pub fn of(release: &str) -> Option<Self> {
        if let Some(named) = Self::named(release) {
            return Some(named);
        }
        let name = vendor(release)?;
        let [major, minor, _] = version(release)?;
        let is_offered = |row: &Kernel| row.name.split('-').next().and_then(version) == Some([major, minor, 0]);
        let is_own = |row: &Kernel| is_offered(row) && (row.vendor.is_empty() || release.contains(row.vendor));
        if kernels().iter().any(is_own) {
            return None;
        }
        let kernel = alike([major, minor, 0])?;
        Some(Self { kernel, name, series: Some([major, minor]), why: NEAREST })
    }
}

/// Returns the kernel before or after a version that differs from the version in fewer behaviours. `None`: the version
/// is older than the distributions' here, or newer than all kernels.
fn alike(wanted: [u32; 3]) -> Option<&'static str> {
    const OLDEST: [u32; 3] = [4, 14, 0];
    let rows =
        || kernels().iter().filter(|row| !row.name.contains('-')).filter_map(|row| Some((version(row.name)?, row)));
    let (_, below) =
        rows().filter(|(version, _)| *version < wanted && wanted >= OLDEST).max_by_key(|(version, _)| *version)?;
    let (_, above) = rows().filter(|(version, _)| *version > wanted).min_by_key(|(version, _)| *version)?;
    let others = |row: &Kernel| Behaviours::at(row.release).differing(Behaviours::of(wanted));
    Some(if others(below) < others(above) { below.name } else { above.name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_select_their_kernel() {
        for (release, name) in [
            ("6.8.0-45-generic", "6.8"),
            ("6.17.0-14-generic", "6.17"),
            ("5.15.0-1065-aws", "5.15"),
            ("5.4.0-216-generic", "5.4"),
            ("4.18.0-553.16.1.el8_10.x86_64", "4.18-el8"),
            ("4.19.191-gki", "4.19"),
            ("5.14.0-427.13.1.el9_4.x86_64", "5.14-el9"),
            ("5.10.0-28-amd64", "5.10"),
            ("5.10.223-212.873.amzn2.x86_64", "5.10"),
            ("5.15.148-android13-8-00008-gb8c4a0", "5.15"),
            ("6.12.0-55.9.1.el10_0.x86_64", "6.12"),
            ("6.4.0-150600.23.25-default", "6.4"),
            ("7.2.3+deb14-amd64", "7.2"),
            ("6.6.87.2-microsoft-standard-WSL2", "6.6"),
            ("5.10.0-rc3+", "5.10"),
        ] {
            assert_eq!(series(release), name, "{release}");
            assert!(crate::kernel(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        // A list of its own, which new kernels do not change.
        let names = [
            "2.6.15",
            "2.6.15-cpurc",
            "2.6.23",
            "3.10",
            "3.18",
            "4.18-el8",
            "4.19",
            "5.4",
            "5.15",
            "6.1",
            "6.12",
            "6.14",
            "6.17",
            "6.18",
            "7.0",
            "7.1",
            "7.2",
        ];
        for (name, below, above, nearest) in [
            ("6.13", Some("6.12"), Some("6.14"), "6.12"),
            ("6.16", Some("6.14"), Some("6.17"), "6.17"),
            ("5.16", Some("5.15"), Some("6.1"), "5.15"),
            ("4.4", Some("3.18"), Some("4.19"), "4.19"),
            ("5.0", Some("4.19"), Some("5.4"), "5.4"),
            ("2.6.32", Some("2.6.23"), Some("3.10"), "2.6.23"),
            ("6.12.57", Some("6.12"), Some("6.14"), "6.12"),
            ("v6.19-rc1", Some("6.18"), Some("7.0"), "6.18"),
            ("7.0.13", Some("7.0"), Some("7.1"), "7.0"),
            ("7.3", Some("7.2"), None, "7.2"),
            ("2.4", None, Some("2.6.15"), "2.6.15"),
        ] {
            let found = among(&names, name).expect(name);
            assert_eq!((found.below, found.above, found.nearest(name)), (below, above, Some(nearest)), "{name}");
        }
        assert!(among(&names, "6.13.2.3").is_some());
        for name in ["6.12", "latest", "", "6.x", "6.1.2.x"] {
            assert_eq!(among(&names, name), None, "{name}");
        }
    }
}
