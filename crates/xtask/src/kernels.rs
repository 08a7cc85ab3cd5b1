//! `cargo xtask kernels`: the fidelity suite under other kernels and on other machines.
//!
//! apt downloads and verifies Debian's cloud images. QEMU boots them without KVM, from an initramfs with busybox and
//! `vruntime`. A second serial line returns the files of `vruntime fidelity --record`.

pub(crate) mod boot;
pub(crate) mod debian;
pub(crate) mod initramfs;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use clap::{Args, ValueEnum};
use miette::{IntoDiagnostic, WrapErr, miette};

use crate::command::{build, command, output};
use debian::Release;
use initramfs::{Content, Suite};

#[derive(Debug, Args)]
pub(crate) struct Kernels {
    /// Only this kernel; can be repeated
    #[arg(long, value_name = "VERSION")]
    kernel: Vec<Release>,
    /// Only this machine, in the words of QEMU's -smp; can be repeated
    #[arg(long, value_name = "TOPOLOGY", default_values = ["2", "4,sockets=1,cores=4,threads=1", "8,sockets=2,cores=4,threads=1"])]
    smp: Vec<String>,
    /// How much of the suite
    #[arg(long, default_value = "quick")]
    suite: Extent,
    /// The command that records [default: built with --release]
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    scenario: Option<String>,
    /// Where recordings go: a folder for each machine, in it one for each kernel
    #[arg(long, value_name = "DIR", default_value = "target/kernels/recordings")]
    out: PathBuf,
    /// Memory of the machines, MiB
    #[arg(long, value_name = "MIB", default_value = "1024")]
    memory: u32,
    /// When to give a machine up, seconds
    #[arg(long, value_name = "SECONDS", default_value = "3600")]
    timeout: u64,
}

/// As `vruntime fidelity --suite` has it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Extent {
    Quick,
    Full,
}

impl Kernels {
    pub(crate) fn run(&self) -> miette::Result<()> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(miette!("kernels are booted on x86-64 Linux only: the images are Debian's for amd64"));
        }
        let work = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels");
        make(&work)?;
        let work = work.canonicalize().into_diagnostic().wrap_err_with(|| format!("cannot find {}", work.display()))?;
        let vruntime = self.command.clone().map_or_else(build, Ok)?;
        let releases = if self.kernel.is_empty() { Release::value_variants() } else { &self.kernel };
        for &release in releases {
            let kernel = debian::kernel(release, &work)?;
            for smp in &self.smp {
                self.record(&kernel, smp, &vruntime, &work)?;
            }
        }
        eprintln!("compare them: vruntime fidelity {}/MACHINE", self.out.display());
        Ok(())
    }

    fn record(&self, kernel: &Path, smp: &str, vruntime: &Path, work: &Path) -> miette::Result<()> {
        let name = debian::version_of(kernel);
        eprintln!("{name} on {smp} CPUs (log: {})", work.join("console.log").display());
        let extent = match self.suite {
            Extent::Quick => "quick",
            Extent::Full => "full",
        };
        let suite = Suite { extent, scenario: self.scenario.as_deref() };
        let content = Content { run: suite.script(), files: Vec::new() };
        let initramfs = initramfs::make(work, vruntime, kernel, &content)?;
        let began = Instant::now();
        let recorded = boot::boot(&boot::Machine {
            kernel,
            initramfs: &initramfs,
            smp,
            memory_mib: self.memory,
            work,
            timeout: Duration::from_secs(self.timeout),
        })?;
        // Shells would require quotes for commas.
        let folder = self.out.join(smp.replace([',', '='], "-"));
        make(&folder)?;
        let before = recordings(&folder);
        let archive = command("tar", ["-xzf".as_ref(), recorded.as_os_str(), "-C".as_ref(), folder.as_os_str()]);
        let none = || format!("the machine left no recordings; {} tells why", work.join("console.log").display());
        output(archive, "tar").wrap_err_with(none)?;
        if recordings(&folder) == before {
            return Err(miette!("{}", none()));
        }
        eprintln!("  {} in {} s", folder.display(), began.elapsed().as_secs());
        Ok(())
    }
}

/// Returns all recordings below `folder`, with their times.
fn recordings(folder: &Path) -> Vec<(PathBuf, Option<SystemTime>)> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = entries(folder).flat_map(|kernel| entries(&kernel).collect::<Vec<_>>());
    let made = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).ok();
    let mut found: Vec<_> = files.map(|path| (path.clone(), made(&path))).collect();
    found.sort();
    found
}

pub(crate) fn make(folder: &Path) -> miette::Result<()> {
    fs::create_dir_all(folder).into_diagnostic().wrap_err_with(|| format!("cannot make {}", folder.display()))
}
