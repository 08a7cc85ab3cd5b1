//! Machines under QEMU's software emulation.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use miette::{IntoDiagnostic, WrapErr, miette};

use super::initramfs::DONE;
use crate::command::command;

/// The interval of checks whether the machine is off.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    /// QEMU's `-smp`.
    pub(crate) smp: &'a str,
    pub(crate) memory_mib: u32,
    /// The folder for the console's log and the sent file.
    pub(crate) work: &'a Path,
    pub(crate) timeout: Duration,
}

/// Boots the machine, waits until it is off, and returns the file that it sent.
pub(crate) fn boot(machine: &Machine<'_>) -> miette::Result<PathBuf> {
    let (log, sent) = (machine.work.join("console.log"), machine.work.join("sent.tar.gz"));
    let console = File::create(&log).into_diagnostic().wrap_err_with(|| format!("cannot write {}", log.display()))?;
    let mut qemu = command(
        "qemu-system-x86_64",
        // Programs read the time stamp counter without a system call.
        [
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            "max",
            "-append",
            "console=ttyS0 quiet tsc=reliable clocksource=tsc panic=-1",
        ],
    );
    qemu.args(["-nographic", "-no-reboot", "-monitor", "none", "-net", "none", "-serial", "stdio"])
        .args(["-serial", &format!("file:{}", sent.display())])
        .args(["-smp", machine.smp, "-m", &format!("{}M", machine.memory_mib)])
        .arg("-kernel")
        .arg(machine.kernel)
        .arg("-initrd")
        .arg(machine.initramfs)
        .stdout(console);
    let mut child = qemu
        .spawn()
        .into_diagnostic()
        .wrap_err("cannot start qemu-system-x86_64; on Debian: apt-get install qemu-system-x86")?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().into_diagnostic().wrap_err("QEMU is lost")? {
            break status;
        }
        if began.elapsed() > machine.timeout {
            // Both fail only if the process has ended.
            let (_killed, _gone) = (child.kill(), child.wait());
            return Err(miette!(
                help = "give it longer with --timeout, or run less with --scenario",
                "the machine was not done after {} s; {} has its console",
                machine.timeout.as_secs(),
                log.display()
            ));
        }
        thread::sleep(LOOK);
    };
    let console = fs::read(&log).into_diagnostic().wrap_err_with(|| format!("cannot read {}", log.display()))?;
    if !status.success() || !String::from_utf8_lossy(&console).contains(DONE) {
        return Err(miette!("the machine did not come to its end ({status}); {} has its console", log.display()));
    }
    Ok(sent)
}
