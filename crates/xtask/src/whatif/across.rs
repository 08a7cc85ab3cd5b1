//! `cargo xtask whatif --across FROM TO`: records programs under one kernel, predicts another, and measures there.
//!
//! QEMU boots Debian's kernels without KVM, from one initramfs with `vruntime`, the programs and their libraries. Both
//! machines run the same script: each program beside two hogs, recorded several times.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use miette::{IntoDiagnostic, WrapErr, miette};

use super::changes::{HOG, HOGS};
use super::programs::{PROGRAMS, Program, find_program};
use super::{Share, Tool, WhatIf};
use crate::command::{command, output};
use crate::kernels::boot::{Machine, boot};
use crate::kernels::debian::{Release, kernel, version_of};
use crate::kernels::initramfs::{Content, make};

/// Programs that run in the emulated machine, which has neither a network nor users.
const EMULATED: [&str; 4] = ["redis", "hackbench", "pool", "sysbench"];
const SMP: &str = "2";
const MEMORY_MIB: u32 = 2048;
/// An emulated program needs this many times as long to start.
const SLOWER: u64 = 5;
/// When to give a machine up.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// What `vruntime record` enables: systems of events, and an event.
const TRACED: [&str; 7] = ["sched", "task", "cgroup", "power", "cpuhp", "sock", "syscalls/sys_enter_sched_yield"];
/// The folder of Python's modules, and its folders without use here.
const PYTHON: (&str, &[&str]) = ("/usr/lib", &["test", "idlelib", "tkinter", "ensurepip", "lib2to3", "__pycache__"]);

/// A program's CPU time under two kernels.
struct Row {
    program: &'static Program,
    /// Measurements under the first kernel. The first is the recording of the prediction.
    before: Vec<Share>,
    replayed: Share,
    predicted: Share,
    verdict: String,
    /// Measurements under the other kernel.
    measured: Vec<Share>,
}

pub(super) fn run(options: &WhatIf, tool: &Tool, from: Release, to: Release) -> miette::Result<String> {
    let (mut programs, mut left_out) = (Vec::new(), Vec::new());
    for program in PROGRAMS.iter().filter(|program| EMULATED.contains(&program.name)) {
        let chosen = options.only.is_empty() || options.only.iter().any(|name| name == program.name);
        let lacks = program.lacks();
        if chosen && lacks.is_empty() {
            programs.push(program);
        } else if chosen {
            eprintln!("{}: left out; on Debian: apt-get install {}", program.name, lacks.join(" "));
            left_out.push(format!("{} (this machine lacks {})", program.name, lacks.join(", ")));
        }
    }
    if programs.is_empty() {
        return Err(miette!(
            help = format!("these run there: {}", EMULATED.join(", ")),
            "no program runs in the emulated machine"
        ));
    }
    let work = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels");
    crate::kernels::make(&work)?;
    let work = work.canonicalize().into_diagnostic().wrap_err_with(|| format!("cannot find {}", work.display()))?;
    let mut folders = Vec::new();
    for (number, release) in [from, to].into_iter().enumerate() {
        let image = kernel(release, &work)?;
        eprintln!("{} on {SMP} CPUs (log: {})", version_of(&image), work.join("console.log").display());
        let content = Content { run: script(&programs, options.runs, options.seconds), files: files(&programs)? };
        let initramfs = make(&work, &tool.vruntime, &image, &content)?;
        let machine = Machine {
            kernel: &image,
            initramfs: &initramfs,
            smp: SMP,
            memory_mib: MEMORY_MIB,
            work: &work,
            timeout: TIMEOUT,
        };
        let sent = boot(&machine)?;
        let folder = tool.folder.join(format!("{number}-{}", version_of(&image)));
        crate::kernels::make(&folder)?;
        output(command("tar", ["-xzf".as_ref(), sent.as_os_str(), "-C".as_ref(), folder.as_os_str()]), "tar")
            .wrap_err_with(|| {
                format!("the machine left no recordings; {} tells why", work.join("console.log").display())
            })?;
        folders.push((folder, version_of(&image)));
    }
    let [(before, from), (behind, to)] = &folders[..] else { return Err(miette!("two kernels are needed")) };
    let mut rows = Vec::new();
    for program in programs {
        match row(tool, program, before, behind, to) {
            Ok(row) => rows.push(row),
            // The other programs still count.
            Err(error) => {
                eprintln!("{}: {error:?}", program.name);
                left_out.push(format!("{} ({error})", program.name));
            }
        }
    }
    Ok(page(&rows, &left_out, (from, to), options))
}

/// Predicts a program under the kernel of the folder `behind` from its first recording in `before`.
fn row(tool: &Tool, program: &'static Program, before: &Path, behind: &Path, to: &str) -> miette::Result<Row> {
    let all = |folder: &Path| -> miette::Result<Vec<Share>> {
        let files = (0..).map(|run| recording(folder, program, run)).take_while(|file| file.exists());
        files.map(|file| tool.measured(&file, program)).collect()
    };
    let (first, machine) = (recording(before, program, 0), before.join("machine.toml"));
    let arguments = ["--recorded-machine", &machine.to_string_lossy(), "--kernel", series(to)].map(str::to_owned);
    let (before, measured) = (all(before)?, all(behind)?);
    if before.is_empty() || measured.is_empty() {
        return Err(miette!("it was not recorded under both kernels"));
    }
    let (verdict, replayed, predicted) = tool.predicted_with(&first, program, &arguments)?;
    Ok(Row { program, before, replayed, predicted, verdict, measured })
}

fn recording(folder: &Path, program: &Program, run: u32) -> PathBuf {
    folder.join(format!("{}.{run}.dat", program.name))
}

/// The version without its third number: `6.12` of `6.12.107+deb13-cloud-amd64`.
fn series(version: &str) -> &str {
    let end = version.match_indices(['.', '-', '+']).nth(1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}

/// The files of all programs, by their paths here and there.
fn files(programs: &[&Program]) -> miette::Result<Vec<(PathBuf, PathBuf)>> {
    let needs = programs.iter().flat_map(|program| program.needs).map(|(name, _)| *name).chain([HOG]);
    let names: BTreeSet<&str> = needs.collect();
    let mut files = Vec::new();
    for name in names {
        let path = find_program(name).ok_or_else(|| miette!("there is no program {name}"))?;
        files.push((path, Path::new("/usr/bin").join(name)));
        if name == "python3" {
            python(&mut files)?;
        }
    }
    Ok(files)
}

/// Adds the modules of Debian's Python.
fn python(files: &mut Vec<(PathBuf, PathBuf)>) -> miette::Result<()> {
    let version = output(
        command("/usr/bin/python3", ["-c", "import sys; print('python%d.%d' % sys.version_info[:2])"]),
        "python3-minimal",
    )?;
    let folder = Path::new(PYTHON.0).join(String::from_utf8_lossy(&version).trim());
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).into_diagnostic().wrap_err_with(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry.into_diagnostic()?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.extend((!PYTHON.1.contains(&&*name)).then_some(path));
            } else {
                files.push((path.clone(), path));
            }
        }
    }
    Ok(())
}

/// The part of the machine's script that records all programs.
fn script(programs: &[&Program], runs: u32, seconds: u32) -> String {
    // Debian's kernels differ in this default.
    let mut script = "echo 1 >/proc/sys/kernel/sched_autogroup_enabled\nmkdir -p /dev/shm\nmount -t tmpfs shm /dev/shm\nip link set lo up\n\
                      vruntime calibrate --out /out/machine.toml\n"
        .to_owned();
    // The kernel changes its code when the first and the second trace instance enable an event. QEMU sometimes executes
    // the breakpoint of such a change, and the kernel panics. So two instances enable all events before any program
    // runs.
    let _written = writeln!(
        script,
        "cd /sys/kernel/tracing/instances\nfor instance in first second; do mkdir $instance; echo 0 >$instance/tracing_on;\n\
         for event in {}; do echo 1 >$instance/events/$event/enable; done; done\ncd /",
        TRACED.join(" ")
    );
    for program in programs {
        let name = program.name;
        let start = program.script_of().replace('\'', "'\\''");
        // Writing to a string cannot fail.
        let _written = write!(
            script,
            "echo '{name}'\nmkdir -p /tmp/{name}\ncd /tmp/{name}\n\
             setsid sh -c '{start}' >/tmp/{name}.log 2>&1 &\nprogram=$!\nsleep {begins}\nhogs=\n\
             for hog in $(seq {HOGS}); do {HOG} /dev/zero & hogs=\"$hogs $!\"; done\nsleep 2\n\
             for run in $(seq 0 {last}); do vruntime record --no-calibrate --duration {seconds}s -o /out/{name}.$run.dat; sleep 1; done\n\
             kill -9 $hogs\nkill -9 -$program\ntail -3 /tmp/{name}.log\ncd /\n",
            begins = program.begins_s * SLOWER,
            last = runs.saturating_sub(1),
        );
    }
    script
}

/// `50.1 (49.0 to 51.2)`.
fn range(all: &[Share], which: fn(&Share) -> f64) -> String {
    let values: Vec<f64> = all.iter().map(which).collect();
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{mean:.1} ({least:.1} to {most:.1})")
}

fn page(rows: &[Row], left_out: &[String], (from, to): (&str, &str), options: &WhatIf) -> String {
    let mut page = format!(
        "# What-if across kernels\n\n\
         Each program ran beside two hogs (`sha256sum /dev/zero`) in a machine with {SMP} CPUs, which QEMU emulated.\n\
         Autogroups were enabled. Each kernel recorded it {} times for {} s: Linux {from},\n\
         and {to}. The prediction of {t} is from the first recording under {f}.\n\
         CPU time is in percent of a CPU: mean, and range of the recordings.\n\n\
         | program | {f} measured | {f} replayed | {t} predicted | {t} measured | hogs: {f} measured | {t} predicted | {t} measured | verdict |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        options.runs,
        options.seconds,
        f = series(from),
        t = series(to),
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _written = writeln!(
            page,
            "| {} | {} | {:.1} | {:.1} | {} | {} | {:.1} | {} | {} |",
            row.program.what,
            range(&row.before, |share| share.program),
            row.replayed.program,
            row.predicted.program,
            range(&row.measured, |share| share.program),
            range(&row.before, |share| share.hogs),
            row.predicted.hogs,
            range(&row.measured, |share| share.hogs),
            row.verdict,
        );
    }
    for program in left_out {
        let _written = write!(page, "\nLeft out: {program}.\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_two_numbers() {
        let of = ["6.12.107+deb13-cloud-amd64", "6.1.0-56-cloud-amd64", "7.2"].map(series);
        assert_eq!(of, ["6.12", "6.1", "7.2"]);
    }

    #[test]
    fn a_script_records_each_program_and_ends_it() {
        let redis = PROGRAMS.iter().find(|program| program.name == "redis").unwrap();
        let script = script(&[redis], 3, 2);
        assert!(script.contains("--save '\\'''\\'' & sleep 0.5"), "quotes stay quotes: {script}");
        assert!(script.contains("for run in $(seq 0 2); do vruntime record --no-calibrate --duration 2s"), "{script}");
        assert!(script.contains("kill -9 $hogs\nkill -9 -$program\n"), "{script}");
    }

    #[test]
    fn a_page_has_predictions_beside_measurements() {
        let program = &PROGRAMS[0];
        let share = |program, hogs| Share { program, hogs, speed: None };
        let row = Row {
            program,
            before: vec![share(50.0, 150.0), share(52.0, 148.0)],
            replayed: share(50.5, 149.0),
            predicted: share(60.0, 140.0),
            verdict: "good".to_owned(),
            measured: vec![share(61.0, 139.0)],
        };
        let range = range(&row.before, |share| share.program);
        assert_eq!(range, "51.0 (50.0 to 52.0)");
        let options = <super::tests::Parsed as clap::Parser>::parse_from(["x", "--runs", "2"]).whatif;
        let page = page(
            &[row],
            &["pool (this machine lacks python3)".to_owned()],
            ("6.1.0-56-cloud-amd64", "6.12.107+deb13"),
            &options,
        );
        assert!(
            page.contains("| 51.0 (50.0 to 52.0) | 50.5 | 60.0 | 61.0 (61.0 to 61.0) | 149.0 (148.0 to 150.0) |"),
            "{page}"
        );
        assert!(
            page.contains("Left out: pool (this machine lacks python3).") && page.contains("2 times for 2 s"),
            "{page}"
        );
    }

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        whatif: WhatIf,
    }
}
