//! Kernels of distributions whose names (`uname -r`) do not tell their scheduler.

use core::fmt;

/// Releases of a distribution, and the kernel that is simulated for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Distribution {
    /// The beginning of the releases' names.
    begins: &'static str,
    /// A part of the names; empty: all have it.
    part: &'static str,
    /// The kernel in the table.
    pub kernel: &'static str,
    /// The distribution.
    pub name: &'static str,
    /// How its scheduler differs from the kernel's.
    pub why: &'static str,
}

const fn row(
    begins: &'static str,
    part: &'static str,
    kernel: &'static str,
    name: &'static str,
    why: &'static str,
) -> Distribution {
    Distribution { begins, part, kernel, name, why }
}

const NEAREST: &str = "the nearest kernel on offer";
const BACKPORTS: &str = "which lacks the changes that the distribution took from later releases";

/// The table. The first row that matches counts.
const DISTRIBUTIONS: &[Distribution] = &[
    row("3.10.0-", ".el7", "3.10", "Red Hat Enterprise Linux 7", BACKPORTS),
    row("4.18.0-", ".an8", "4.18-el8", "Anolis OS 8", "whose sources it shares"),
    row("5.3.18-", "", "5.4", "SUSE Linux Enterprise 15 SP2 or SP3", NEAREST),
    row("5.14.21-1504", "", "5.15", "SUSE Linux Enterprise 15 SP4", NEAREST),
    row("5.14.21-1505", "", "5.15", "SUSE Linux Enterprise 15 SP5", NEAREST),
    row("4.14.", "uek", "4.19", "Oracle's UEK 5", NEAREST),
    row("4.14.", "amzn", "4.19", "Amazon Linux 2", NEAREST),
    row("4.15.0-", "", "4.19", "Ubuntu 18.04", NEAREST),
    row("5.11.0-", "", "5.10", "Ubuntu 21.04", NEAREST),
    row("5.13.0-", "", "5.15", "Ubuntu 21.10", NEAREST),
    row("5.19.0-", "", "6.1", "Ubuntu 22.10", NEAREST),
    row("6.2.0-", "", "6.4", "Ubuntu 23.04", NEAREST),
    // 6.5 is the last release with CFS.
    row("6.5.0-", "", "6.4", "Ubuntu 23.10", "the nearest kernel with CFS"),
    row("6.9.", "deb", "6.8", "Debian's backport of 6.9", NEAREST),
    row("6.9.", "bpo", "6.8", "Debian's backport of 6.9", NEAREST),
    row("6.19.", "deb", "7.0", "Debian's backport of 6.19", NEAREST),
];

impl Distribution {
    /// Returns the distribution of a release, if its kernel is not the one of its numbers, or has backports.
    ///
    /// ```
    /// use vruntime_sched::kernels::Distribution;
    /// let of = |release| Distribution::of(release).map(|found| found.kernel);
    /// assert_eq!(of("5.14.21-150400.24.46-default"), Some("5.15"));
    /// assert_eq!(of("6.5.0-45-generic"), Some("6.4"));
    /// assert_eq!(of("6.8.0-45-generic"), None);
    /// ```
    pub fn of(release: &str) -> Option<&'static Self> {
        DISTRIBUTIONS.iter().find(|row| release.starts_with(row.begins) && release.contains(row.part))
    }
}

/// For example "Ubuntu 23.10 is simulated as Linux 6.4, the nearest kernel with CFS".
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, name, why, .. } = self;
        write!(f, "{name} is simulated as Linux {kernel}, {why}")
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::kernels::{kernel, series};

    #[test]
    fn releases_of_distributions_select_the_nearest_kernel() {
        for (release, name) in [
            ("3.10.0-1160.119.1.el7.x86_64", "3.10"),
            ("4.18.0-553.5.1.an8.x86_64", "4.18-el8"),
            ("4.19.91-27.an8.x86_64", "4.19"),
            ("5.10.134-16.an8.x86_64", "5.10"),
            ("5.3.18-24.107-default", "5.4"),
            ("5.3.18-150300.59.93-default", "5.4"),
            ("5.14.21-150400.24.46-default", "5.15"),
            ("5.14.21-150500.55.52-default", "5.15"),
            ("4.14.35-2047.520.3.el7uek.x86_64", "4.19"),
            ("4.14.336-257.562.amzn2.x86_64", "4.19"),
            ("4.15.0-213-generic", "4.19"),
            ("5.11.0-49-generic", "5.10"),
            ("5.13.0-52-generic", "5.15"),
            ("5.19.0-50-generic", "6.1"),
            ("6.2.0-39-generic", "6.4"),
            ("6.5.0-45-generic", "6.4"),
            ("6.9.7+bpo-amd64", "6.8"),
            ("6.19.11+deb13-amd64", "7.0"),
        ] {
            assert_eq!(series(release), name, "{release}");
            assert!(kernel(name).is_ok(), "{name}");
        }
        let says = |release| Distribution::of(release).map(ToString::to_string).unwrap_or_default();
        let ubuntu = "Ubuntu 23.10 is simulated as Linux 6.4, the nearest kernel with CFS";
        assert_eq!(says("6.5.0-45-generic"), ubuntu);
        assert!(says("3.10.0-1160.el7.x86_64").contains("took from later releases"));
        for release in ["5.14.0-427.13.1.el9_4.x86_64", "6.12.117+deb13-amd64", "4.18.0-553.el8_10.x86_64"] {
            assert_eq!(says(release), "", "{release}");
        }
    }
}
