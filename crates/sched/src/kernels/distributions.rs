//! Kernels of distributions whose names (`uname -r`) do not tell their scheduler.

use core::fmt;

/// A release of a distribution, and the kernel that is simulated for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution {
    /// The kernel in the table.
    pub kernel: &'static str,
    /// The distribution.
    pub name: &'static str,
    /// The release's first two numbers; `None` if `name` says which kernel it is.
    pub series: Option<[u32; 2]>,
    /// How its scheduler differs from the kernel's.
    pub why: &'static str,
}

/// Releases with a kernel of their own.
struct Named {
    /// The beginning of the releases' names.
    begins: &'static str,
    /// A part of the names; empty: all have it.
    part: &'static str,
    kernel: &'static str,
    name: &'static str,
    why: &'static str,
}

const fn named(
    begins: &'static str,
    part: &'static str,
    kernel: &'static str,
    name: &'static str,
    why: &'static str,
) -> Named {
    Named { begins, part, kernel, name, why }
}

pub(super) const NEAREST: &str = "the nearest kernel on offer";
const BACKPORTS: &str = "which lacks the changes that the distribution took from later releases";

/// The first row that matches counts.
const NAMED: &[Named] = &[
    named("3.10.0-", ".el7", "3.10", "Red Hat Enterprise Linux 7", BACKPORTS),
    named("4.18.0-", ".an8", "4.18-el8", "Anolis OS 8", "whose sources it shares"),
    named("4.12.14-", "", "4.19", "SUSE Linux Enterprise 12 or 15", NEAREST),
    named("5.3.18-", "-default", "5.4", "SUSE Linux Enterprise 15 SP2 or SP3", NEAREST),
    named("5.3.18-", "-azure", "5.4", "SUSE Linux Enterprise 15 SP2 or SP3", NEAREST),
    named("5.3.18-", "-preempt", "5.4", "SUSE Linux Enterprise 15 SP2 or SP3", NEAREST),
    named("5.3.18-", "cray_shasta", "5.4", "SUSE Linux Enterprise 15 SP2 or SP3", NEAREST),
    named("5.14.21-1504", "", "5.15", "SUSE Linux Enterprise 15 SP4", NEAREST),
    named("5.14.21-1505", "", "5.15", "SUSE Linux Enterprise 15 SP5", NEAREST),
    named("4.14.", "uek", "4.19", "Oracle's UEK 5", NEAREST),
    named("4.14.", "amzn", "4.19", "Amazon Linux 2", NEAREST),
];

/// Parts of releases' names, and whose these are. The first that matches counts.
const VENDORS: &[(&str, &str)] = &[
    ("-liquorix", "Liquorix"),
    ("deb", "Debian"),
    ("bpo", "Debian"),
    ("-amd64", "Debian"),
    ("-arm64", "Debian"),
    (".fc", "Fedora"),
    ("-pve", "Proxmox VE"),
    ("-linuxkit", "LinuxKit"),
    ("-7606", "Pop!_OS"),
    ("-perf", "Android"),
    ("android", "Android"),
    ("-generic", "Ubuntu"),
    ("-lowlatency", "Ubuntu"),
    ("-oem", "Ubuntu"),
    ("-aws", "Ubuntu"),
    ("-azure", "Ubuntu"),
    ("-gcp", "Ubuntu"),
    ("-gke", "Ubuntu"),
    ("-oracle", "Ubuntu"),
    ("-ibm", "Ubuntu"),
    ("-kvm", "Ubuntu"),
    ("-raspi", "Ubuntu"),
    ("-arch", "Arch Linux"),
    ("-zen", "Arch Linux"),
    ("-MANJARO", "Manjaro"),
    ("-default", "openSUSE"),
    ("-gentoo", "Gentoo"),
    ("-xanmod", "XanMod"),
    (".elrepo", "ELRepo"),
    ("-talos", "Talos Linux"),
    ("-flatcar", "Flatcar"),
    ("-microsoft-standard", "WSL"),
    ("rpi", "Raspberry Pi OS"),
];

impl Distribution {
    /// Returns a row of the table of names.
    pub(super) fn named(release: &str) -> Option<Self> {
        let named = NAMED.iter().find(|row| release.starts_with(row.begins) && release.contains(row.part));
        named.map(|&Named { kernel, name, why, .. }| Self { kernel, name, series: None, why })
    }
}

/// Returns the distribution that has releases with such names.
pub(super) fn vendor(release: &str) -> Option<&'static str> {
    VENDORS.iter().find(|(part, _)| release.contains(part)).map(|&(_, name)| name)
}

/// For example "Ubuntu's 6.5 is simulated as Linux 6.4, the nearest kernel on offer".
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, name, series, why } = self;
        f.write_str(name)?;
        if let Some([major, minor]) = series {
            write!(f, "'s {major}.{minor}")?;
        }
        write!(f, " is simulated as Linux {kernel}, {why}")
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
            ("6.2.0-39-generic", "6.1"),
            ("6.5.0-45-generic", "6.4"),
            ("6.9.7+bpo-amd64", "6.8"),
            ("6.19.11+deb13-amd64", "7.0"),
        ] {
            assert_eq!(series(release), name, "{release}");
            assert!(kernel(name).is_ok(), "{name}");
        }
        let says = |release| Distribution::of(release).map(|found| found.to_string()).unwrap_or_default();
        let ubuntu = "Ubuntu's 6.5 is simulated as Linux 6.4, the nearest kernel on offer";
        assert_eq!(says("6.5.0-45-generic"), ubuntu);
        assert!(says("3.10.0-1160.el7.x86_64").contains("took from later releases"));
        for release in
            ["5.14.0-427.13.1.el9_4.x86_64", "6.12.117+deb13-amd64", "4.18.0-553.el8_10.x86_64", "6.5", "6.5.13"]
        {
            assert_eq!(says(release), "", "{release}");
        }
    }

    /// Names of real machines: most from public reports, a few by their distribution's pattern. `(name, kernel, whether
    /// a note names another kernel)`.
    #[test]
    fn names_of_real_machines_select_their_kernel() {
        for (release, name, is_other) in [
            ("5.15.0-100.96.32.el8uek.x86_64", "5.15", false),
            ("5.15.0-101.103.2.1.el9uek.x86_64", "5.15", false),
            ("6.12.0-105.51.5.el9uek.x86_64", "6.12", false),
            ("5.4.17-2102.202.5.el8uek.x86_64", "5.4", false),
            ("4.18.0-477.10.1.el8_8.x86_64", "4.18-el8", false),
            ("5.14.0-570.23.1.el9_6.x86_64", "5.14-el9", false),
            ("5.14.0-70.13.1.0.3.el9_0.x86_64", "5.14-el9", false),
            ("6.12.0-55.9.1.el10_0.x86_64", "6.12", false),
            ("3.10.0-1160.el7.x86_64", "3.10", true),
            ("6.4.0-150600.23.53-default", "6.4", false),
            ("6.4.0-150600.23.125_15.0.27-cray_shasta_c", "6.4", false),
            ("5.14.21-150400.24.46-default", "5.15", true),
            ("6.8.0-1042-gke", "6.8", false),
            ("7.0.0-27-generic", "7.0", false),
            ("5.15.0-181-generic", "5.15", false),
            ("6.12.55+", "6.12", false),
            ("6.1.85+", "6.1", false),
            ("6.6.20+rpt-rpi-v8", "6.6", false),
            ("6.6.0-rc3-v8+", "6.6", false),
            ("5.4.51-v7", "5.4", false),
            ("5.15.59", "5.15", false),
            ("6.18.48", "6.18", false),
            ("6.18.40.1-microsoft-standard-WSL2", "6.18", false),
            ("5.10.16.3-microsoft-standard-WSL2", "5.10", false),
            ("6.1.157-android14-11-gbd23337e42e7-ab14791245", "6.1", false),
            ("6.1.145-android14-11-maybe-dirty", "6.1", false),
            ("5.15.123-android13-6", "5.15", false),
            ("6.1.128-136.201.amzn2023.x86_64", "6.1", false),
            ("5.10.233-224.894.amzn2.x86_64", "5.10", false),
            ("6.12.3-gentoo", "6.12", false),
            ("6.12.25-talos", "6.12", false),
            ("6.18.44-fc-v657", "6.18", false),
            ("5.10.0-182.0.0.95.oe2203sp3.x86_64", "5.10", false),
            ("6.17.8-300.fc43.x86_64", "6.17", false),
            ("6.5.11-7-pve", "6.4", true),
        ] {
            assert_eq!(series(release), name, "{release}");
            assert!(kernel(name).is_ok(), "{name}");
            assert_eq!(Distribution::of(release).is_some(), is_other, "{release}");
        }
    }

    /// Older versions and newer ones than the table's get an error.
    #[test]
    fn only_versions_between_kernels_have_a_kernel_like_them() {
        for release in ["4.9.0-13-amd64", "2.6.32-5-amd64", "3.2.0-4-amd64", "9.1.0-3-generic"] {
            assert_eq!(Distribution::of(release), None, "{release}");
        }
    }

    #[test]
    fn kernels_of_one_version_have_the_names_of_their_distributions() {
        for (release, vendor, name) in [
            ("6.5.0-0.deb12.4-amd64", "Debian's 6.5", "6.4"),
            ("6.5.0-1-amd64", "Debian's 6.5", "6.4"),
            ("5.19.0-0.deb11.2-amd64", "Debian's 5.19", "6.1"),
            ("4.15.0-3-amd64", "Debian's 4.15", "4.19"),
            ("5.13.0-1-amd64", "Debian's 5.13", "5.15"),
            ("5.3.18-3-pve", "Proxmox VE's 5.3", "5.4"),
            ("5.13.0-1031-aws", "Ubuntu's 5.13", "5.15"),
            ("6.5.0-1024-azure", "Ubuntu's 6.5", "6.4"),
            ("5.8.0-63-generic", "Ubuntu's 5.8", "5.10"),
            ("5.3.0-76-generic", "Ubuntu's 5.3", "5.4"),
            ("5.0.0-65-generic", "Ubuntu's 5.0", "4.19"),
            ("4.18.0-25-generic", "Ubuntu's 4.18", "4.19"),
            ("5.14.0-1059-oem", "Ubuntu's 5.14", "5.15"),
            ("6.10.11+bpo-amd64", "Debian's 6.10", "6.11"),
            ("6.7.12+bpo-amd64", "Debian's 6.7", "6.8"),
            ("6.16.8+deb13-amd64", "Debian's 6.16", "6.14"),
            ("6.2.16-20-pve", "Proxmox VE's 6.2", "6.1"),
            ("6.5.13-6-pve", "Proxmox VE's 6.5", "6.4"),
            ("4.15.18-30-pve", "Proxmox VE's 4.15", "4.19"),
            ("6.5.6-300.fc39.x86_64", "Fedora's 6.5", "6.4"),
            ("6.2.9-300.fc38.x86_64", "Fedora's 6.2", "6.1"),
            ("6.9.3-76060903-generic", "Pop!_OS's 6.9", "6.8"),
            ("6.10.14-linuxkit", "LinuxKit's 6.10", "6.11"),
            ("4.12.14-122.231-default", "SUSE Linux Enterprise 12 or 15", "4.19"),
            ("4.14.190-perf+", "Android's 4.14", "4.19"),
            ("5.3.18-150300.38.50-azure", "SUSE Linux Enterprise 15 SP2 or SP3", "5.4"),
            ("6.16.8-arch3-1", "Arch Linux's 6.16", "6.14"),
            ("6.9.7-zen1-1-zen", "Arch Linux's 6.9", "6.8"),
            ("6.5.13-7-MANJARO", "Manjaro's 6.5", "6.4"),
            ("6.2.12-1-default", "openSUSE's 6.2", "6.1"),
            ("6.10.3-1-liquorix-amd64", "Liquorix's 6.10", "6.11"),
            ("6.9.7-1.el9.elrepo.x86_64", "ELRepo's 6.9", "6.8"),
            ("5.11.4-1.el8.elrepo.x86_64", "ELRepo's 5.11", "5.10"),
        ] {
            let found = Distribution::of(release).expect(release).to_string();
            assert!(
                found.starts_with(&alloc::format!("{vendor} is simulated as Linux {name}, ")),
                "{release}: {found}"
            );
            assert_eq!(series(release), name, "{release}");
        }
    }
}
