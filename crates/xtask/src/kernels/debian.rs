//! Fetches Debian's kernels with a separate apt configuration, and checks signatures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use miette::{IntoDiagnostic, WrapErr, miette};

use crate::command::{command, output};

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Release {
    /// Debian 11's: CFS that balances by kind of imbalance
    #[value(name = "5.10")]
    Bullseye,
    /// Debian 12's: CFS
    #[value(name = "6.1")]
    Bookworm,
    /// Debian 13's: EEVDF with delayed dequeue
    #[value(name = "6.12")]
    Trixie,
    /// Debian 13's backports: EEVDF with protection by virtual time
    #[value(name = "6.18")]
    Backports6_18,
    /// Debian 13's backports: EEVDF that protects the slice of the running task
    #[value(name = "7.0")]
    Backports7_0,
    /// Debian 13's backports: EEVDF with slices that a timer ends
    #[value(name = "7.1")]
    Backports7_1,
    /// Debian unstable's: EEVDF that keeps the threads of a process in one cache
    #[value(name = "7.2")]
    Sid7_2,
}

impl Release {
    const fn suite(self) -> &'static str {
        match self {
            Self::Bullseye => "bullseye",
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
            Self::Backports6_18 | Self::Backports7_0 | Self::Backports7_1 => "trixie-backports",
            Self::Sid7_2 => "sid",
        }
    }

    fn folder(self) -> String {
        format!("{}-{}", self.suite(), self.version().trim_end_matches('.'))
    }

    const fn version(self) -> &'static str {
        match self {
            Self::Bullseye => "5.10.",
            Self::Bookworm => "6.1.",
            Self::Trixie => "6.12.",
            Self::Backports6_18 => "6.18.",
            Self::Backports7_0 => "7.0.",
            Self::Backports7_1 => "7.1.",
            Self::Sid7_2 => "7.2.",
        }
    }
}

/// Returns the image of a release's newest kernel, unpacked below `work`.
pub(crate) fn kernel(release: Release, work: &Path) -> miette::Result<PathBuf> {
    let folder = work.join(release.folder());
    if let Some(image) = image(&folder) {
        return Ok(image);
    }
    let apt = Apt::new(release, work)?;
    eprintln!("fetching Debian's Linux {}x", release.version());
    output(apt.command("apt-get", &["update"]), "apt")?;
    // 7.1+: linux-image depends on a separate package with the image.
    let mut names = String::new();
    for kind in ["binary", "image"] {
        let prefix = format!("linux-{kind}-{}", release.version());
        let found = output(apt.command("apt-cache", &["pkgnames", &prefix]), "apt")?;
        names = String::from_utf8_lossy(&found).into_owned();
        if newest(names.lines()).is_some() {
            break;
        }
    }
    let newest = newest(names.lines())
        .ok_or_else(|| miette!("{} has no package linux-image-{}*-cloud-amd64", release.suite(), release.version()))?;
    output(apt.command("apt-get", &["download", newest]), "apt")?;
    let fetched = entries(&apt.folder)?.into_iter().find(|path| path.extension().is_some_and(|kind| kind == "deb"));
    let package = fetched.ok_or_else(|| miette!("apt-get has downloaded no {newest}"))?;
    output(command("dpkg-deb", ["-x".as_ref(), package.as_os_str(), folder.as_os_str()]), "dpkg")?;
    image(&folder).ok_or_else(|| miette!("there is no kernel in {}", package.display()))
}

fn entries(folder: &Path) -> miette::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(folder).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    entries.into_diagnostic().wrap_err_with(|| format!("cannot read {}", folder.display()))
}

/// Returns the kernel of a package: `boot/vmlinuz-VERSION`, 7.2+: `usr/lib/modules/VERSION/vmlinuz`.
fn image(folder: &Path) -> Option<PathBuf> {
    let is_image = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"));
    let in_boot = entries(&folder.join("boot")).ok().and_then(|paths| paths.into_iter().find(is_image));
    let beside_modules = || {
        let versions = entries(&folder.join("usr/lib/modules")).ok()?;
        versions.into_iter().map(|version| version.join("vmlinuz")).find(|image| image.is_file())
    };
    in_boot.or_else(beside_modules)
}

/// Returns the version of an image, by its path.
pub(crate) fn version_of(image: &Path) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name(image).strip_prefix("vmlinuz-") {
        Some(version) => version.to_owned(),
        None => image.parent().map(name).unwrap_or_default(),
    }
}

/// Returns the configuration of a kernel, if its package has it.
pub(crate) fn config_of(image: &Path) -> Option<PathBuf> {
    let config = image.parent()?.join(format!("config-{}", version_of(image)));
    config.is_file().then_some(config)
}

/// Returns the newest kernel for clouds, by the numbers in its name.
fn newest<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let numbers = |name: &str| -> Vec<u32> {
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
    };
    names.filter(|name| name.ends_with("-cloud-amd64")).max_by_key(|name| numbers(name))
}

struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(release: Release, work: &Path) -> miette::Result<Self> {
        let this = Self { folder: work.join(format!("{}-apt", release.folder())) };
        for part in ["lists/partial", "cache/archives/partial"] {
            super::make(&this.folder.join(part))?;
        }
        let suite = release.suite();
        let line = |archive: &str, suite: &str| {
            format!("deb [signed-by={KEYRING}] http://deb.debian.org/{archive} {suite} main\n")
        };
        let mut sources = line("debian", suite);
        // Backports and sid have no security archive.
        if !suite.ends_with("-backports") && suite != "sid" {
            sources += &line("debian-security", &format!("{suite}-security"));
        }
        let list = this.folder.join("sources.list");
        fs::write(&list, sources).into_diagnostic().wrap_err_with(|| format!("cannot write {}", list.display()))?;
        Ok(this)
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let folder = self.folder.display();
        let options = [
            format!("Dir::Etc::SourceList={folder}/sources.list"),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={folder}/lists"),
            format!("Dir::Cache={folder}/cache"),
            "Acquire::Languages=none".to_owned(),
            // Lists and downloads are in the user's folder, not apt's.
            "APT::Sandbox::User=root".to_owned(),
        ];
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]);
        let mut command = command(program, options.chain(arguments.iter().map(|&argument| argument.to_owned())));
        command.current_dir(&self.folder);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_found_where_their_packages_have_them() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        assert_eq!(image(folder.path()), None);
        let new = put("usr/lib/modules/7.2.13+deb14-cloud-amd64/vmlinuz");
        assert_eq!(image(folder.path()), Some(new.clone()));
        assert_eq!((version_of(&new).as_str(), config_of(&new)), ("7.2.13+deb14-cloud-amd64", None));
        let old = put("boot/vmlinuz-5.10.0-46-cloud-amd64");
        let config = put("boot/config-5.10.0-46-cloud-amd64");
        assert_eq!(image(folder.path()), Some(old.clone()));
        assert_eq!((version_of(&old).as_str(), config_of(&old)), ("5.10.0-46-cloud-amd64", Some(config)));
    }

    #[test]
    fn the_newest_is_the_one_with_the_greatest_numbers() {
        let names = ["6.12.94+deb13-cloud-amd64", "6.12.107+deb13-cloud-amd64", "6.12.107+deb13-amd64"];
        assert_eq!(newest(names.into_iter()), Some("6.12.107+deb13-cloud-amd64"));
        assert_eq!(newest(["6.1.0-9-cloud-amd64", "6.1.0-56-cloud-amd64"].into_iter()), Some("6.1.0-56-cloud-amd64"));
        assert_eq!(newest(["6.1.0-9-amd64"].into_iter()), None);
    }
}
