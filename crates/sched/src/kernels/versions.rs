//! Which kernels on offer are next to one that is not.

use core::fmt;

use super::{Eevdf, KERNELS, Kernel};

/// A version's numbers, those left out as 0: `6.12` is `[6, 12, 0]`.
type Version = [u32; 3];

/// The kernels on offer that are next to a version, below and above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neighbours {
    /// The newest that is older.
    pub below: Option<&'static str>,
    /// The oldest that is newer.
    pub above: Option<&'static str>,
}

/// `6.12`, `v6.12.3`, `6.13-rc1`; nothing if it is no version.
fn version(name: &str) -> Option<Version> {
    let name = name.trim().trim_start_matches(['v', 'V']);
    let numbers = name.split(['-', '+']).next().unwrap_or(name);
    let mut version = [0; 3];
    for (at, number) in numbers.split('.').enumerate() {
        let number = number.parse().ok()?;
        *version.get_mut(at)? = number;
    }
    Some(version)
}

/// Used to less than so many percent, a CPU keeps the tasks that wake on it: see [`Kernel::as_of`].
const PACK_PCT: u32 = 70;

impl Kernel {
    /// Whether it is of that version or a later one.
    ///
    /// ```
    /// let kernel = vruntime_sched::kernel("2.6.23").unwrap();
    /// assert!(kernel.is_at_least([2, 6, 23]) && !kernel.is_at_least([3, 0, 0]));
    /// ```
    pub fn is_at_least(&self, version: [u32; 3]) -> bool {
        self::version(self.name).is_some_and(|own| own >= version)
    }

    /// Makes it the release that calls itself `release` (`uname -r`), where releases of one kernel are known to differ.
    ///
    /// Known is that under 6.18.44 a new task does not preempt its parent, and under 6.18.15 it does (Debian's, emulated: 81 of 164
    /// times, 0.6 ms into the parent's slice). Which release between them changed it, or whose patch, is not.
    ///
    /// And under 6.18.44, a cloud's own build with `sched_vcpu_pack=15` on its command line, a task stays where it slept, with an idle CPU of
    /// the same cache beside it, as long as that CPU's utilisation is small and no more than one task can run there. Traced on 2 CPUs, tasks
    /// that wake beside another's work while the other CPU is idle: with 30, 45 and 60 % of work on both CPUs it went there 2 of 166, 4 of 308
    /// and 1 of 219 times (where `select_idle_sibling` would have it go each time); beside 52 % of work on its own CPU alone 3 of 275 times,
    /// beside 65 % and more always, beside 60 % now and then; where both are used to 75 % never again (`SIS_UTIL`, as in every kernel). Beside a hog it goes from
    /// a moment on: 15 to 20 ms after a fork (which begins with half of a CPU's utilisation), 57, 53 and 47 ms after a long sleep, the
    /// task itself using 1, 5 and 20 %: always the moment at which the CPU's utilisation comes to seven tenths, within two hundredths. Two workloads
    /// of several such tasks (24 November 2026), by what was on the CPU: one task that ran and a utilisation below seven tenths 0 of 936
    /// times, above 4 of 8; a second one that waited, at 15 to 70 % of utilisation, 245 of 262 times (of the other 17 most within microseconds of another's going
    /// there). One whose dequeue is delayed is no second one: counted as such, 43 of 448 would have gone beside one that ran alone. What
    /// the patch itself looks at is not known, nor what the 15 means. It is taken for that of releases that name that cloud's builds (`-fc-`), not for a
    /// distribution's or one that names nobody: who builds a stable release himself has not got it.
    ///
    /// ```
    /// let mut kernel = vruntime_sched::kernel("6.18").unwrap();
    /// kernel.as_of("6.18.15+deb13-cloud-amd64");
    /// assert!(kernel.forks_preempt);
    /// kernel.as_of("6.18.44");
    /// assert!(!kernel.forks_preempt && kernel.pack_pct == 0);
    /// kernel.as_of("6.18.44-fc-v657");
    /// assert_eq!(kernel.pack_pct, 70);
    /// ```
    pub fn as_of(&mut self, release: &str) {
        if self.eevdf == Eevdf::V6_18 && self::version(release).is_some_and(|release| release >= [6, 18, 44]) {
            self.forks_preempt = false;
            if release.contains("-fc-") {
                self.pack_pct = PACK_PCT;
            }
        }
    }
}

/// The kernels next to `name`, by their numbers; nothing if it is no version, or on offer.
pub(super) fn neighbours(name: &str) -> Option<Neighbours> {
    let wanted = version(name)?;
    // Patched kernels are not what somebody meant who wrote a number.
    let offered =
        || KERNELS.iter().filter(|row| !row.name.contains('-')).filter_map(|row| Some((version(row.name)?, row.name)));
    if offered().any(|(version, _)| version == wanted) {
        return None;
    }
    Some(Neighbours {
        below: offered().filter(|(version, _)| *version < wanted).max().map(|(_, name)| name),
        above: offered().filter(|(version, _)| *version > wanted).min().map(|(_, name)| name),
    })
}

/// Why there is none: "none between 3.18 and 6.1 is on offer".
impl fmt::Display for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.below, self.above) {
            (Some(below), Some(above)) => write!(f, "none between {below} and {above} is on offer"),
            (Some(newest), None) => write!(f, "the newest on offer is {newest}"),
            (None, Some(oldest)) => write!(f, "the oldest on offer is {oldest}"),
            (None, None) => write!(f, "none is on offer"),
        }
    }
}

impl Neighbours {
    /// The nearer one: of the same series before one of another, then by the numbers.
    pub(super) fn nearest(self, name: &str) -> Option<&'static str> {
        let wanted = version(name)?;
        let far = |other: &str| {
            let other = version(other).unwrap_or_default();
            [0, 1, 2].map(|at| wanted[at].abs_diff(other[at]))
        };
        self.below.into_iter().chain(self.above).min_by_key(|name| far(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        for (name, below, above, nearest) in [
            ("6.13", Some("6.12"), Some("6.18"), "6.12"),
            ("6.17", Some("6.12"), Some("6.18"), "6.18"),
            ("5.15", Some("3.18"), Some("6.1"), "6.1"),
            ("4.4", Some("3.18"), Some("6.1"), "3.18"),
            ("2.6.32", Some("2.6.23"), Some("3.10"), "2.6.23"),
            ("6.12.57", Some("6.12"), Some("6.18"), "6.12"),
            ("v6.19-rc1", Some("6.18"), None, "6.18"),
            ("7", Some("6.18"), None, "6.18"),
            ("2.4", None, Some("2.6.15"), "2.6.15"),
        ] {
            let found = neighbours(name).expect(name);
            assert_eq!((found.below, found.above, found.nearest(name)), (below, above, Some(nearest)), "{name}");
        }
        for name in ["6.12", "latest", "", "6.x", "6.1.2.3"] {
            assert_eq!(neighbours(name), None, "{name}");
        }
    }
}
