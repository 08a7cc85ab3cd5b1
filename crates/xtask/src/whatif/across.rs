//! `cargo xtask whatif --across FROM TO...`: records programs under one kernel, predicts others, and measures there.
//!
//! QEMU boots Debian's kernels without KVM, from one initramfs with `vruntime`, the programs and their libraries. All
//! machines run the same script: each program beside two hogs, recorded several times.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum as _;
use miette::{IntoDiagnostic, WrapErr, miette};

use super::changes::{HOG, HOGS};
use super::page::{Comparison, cells};
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

/// A program's CPU time under a kernel.
struct Row {
    program: &'static Program,
    /// The kernel's series.
    kernel: String,
    /// CPU time in the first recording under the first kernel.
    recorded: Share,
    predicted: Share,
    verdict: String,
    measured: Vec<Share>,
}

pub(super) fn run(options: &WhatIf, tool: &Tool) -> miette::Result<String> {
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
    let all = match options.again {
        Some(_) => recorded(&tool.folder, &wanted(options))?,
        None => record(options, tool, &programs)?,
    };
    let mut rows = Vec::new();
    for program in programs {
        match rows_of(tool, program, &all, options.runs) {
            Ok(found) => rows.extend(found),
            // The other programs still count.
            Err(error) => {
                eprintln!("{}: {error:?}", program.name);
                left_out.push(format!("{} ({error})", program.name));
            }
        }
    }
    let kernels: Vec<&str> = all.iter().map(|(_, version)| version.as_str()).collect();
    Ok(page(&rows, &left_out, &kernels, options))
}

/// Returns the series of the kernels on the command line.
fn wanted(options: &WhatIf) -> Vec<String> {
    let names = options.across.iter().filter_map(Release::to_possible_value);
    names.map(|name| name.get_name().to_owned()).collect()
}

/// Recordings of a kernel: their folder, and the kernel's version.
type Recordings = (PathBuf, String);

/// Finds the recordings of each of these series that [`record`] left, in folders such as `0-VERSION`.
fn recorded(folder: &Path, wanted: &[String]) -> miette::Result<Vec<Recordings>> {
    let entries =
        fs::read_dir(folder).into_diagnostic().wrap_err_with(|| format!("cannot read {}", folder.display()))?;
    let versions = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let (number, version) = path.file_name()?.to_str()?.split_once('-')?;
        number.parse::<u32>().ok()?;
        Some((path.clone(), version.to_owned()))
    });
    let all: Vec<Recordings> = versions.collect();
    let of = |name: &String| {
        let mut found = all.iter().filter(|(_, version)| series(version) == name);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.clone()),
            (None, _) => Err(miette!(
                help = "record first: cargo xtask whatif --across FROM TO --keep DIR",
                "{} has no recordings under {name}",
                folder.display()
            )),
            (Some((one, _)), Some((other, _))) => Err(miette!(
                help = "remove one of them",
                "there are two folders for {name}: {} and {}",
                one.display(),
                other.display()
            )),
        }
    };
    wanted.iter().map(of).collect()
}

/// Runs the programs under all kernels.
fn record(options: &WhatIf, tool: &Tool, programs: &[&Program]) -> miette::Result<Vec<Recordings>> {
    let work = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels");
    crate::kernels::make(&work)?;
    let work = work.canonicalize().into_diagnostic().wrap_err_with(|| format!("cannot find {}", work.display()))?;
    let boot = |(number, &release): (usize, &Release)| -> miette::Result<Recordings> {
        let image = kernel(release, &work)?;
        let version = version_of(&image);
        eprintln!("{version} on {SMP} CPUs (log: {})", work.join("console.log").display());
        let content = Content { run: script(programs, options.runs, options.seconds), files: files(programs)? };
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
        let folder = tool.folder.join(format!("{number}-{version}"));
        crate::kernels::make(&folder)?;
        output(command("tar", ["-xzf".as_ref(), sent.as_os_str(), "-C".as_ref(), folder.as_os_str()]), "tar")
            .wrap_err_with(|| {
                format!("the machine left no recordings; {} tells why", work.join("console.log").display())
            })?;
        Ok((folder, version))
    };
    options.across.iter().enumerate().map(boot).collect()
}

/// Predicts a program under each kernel from the first recording under the first. Uses the first `most` recordings,
/// since a kept folder may have older ones.
fn rows_of(tool: &Tool, program: &'static Program, all: &[Recordings], most: u32) -> miette::Result<Vec<Row>> {
    let Some(((before, from), others)) = all.split_first() else { return Ok(Vec::new()) };
    let (first, machine) = (recording(before, program, 0), before.join("machine.toml"));
    let measured = |folder: &Path, from: u32| -> miette::Result<Vec<Share>> {
        let files = (from..most).map(|run| recording(folder, program, run)).take_while(|file| file.exists());
        files.map(|file| tool.measured(&file, program)).collect()
    };
    if !first.exists() {
        return Err(miette!("it was not recorded under {from}"));
    }
    let recorded = tool.measured(&first, program)?;
    let machine = machine.to_string_lossy();
    let row = |kernel: &str, verdict: String, predicted: Share, measured: Vec<Share>| Row {
        program,
        kernel: series(kernel).to_owned(),
        recorded,
        predicted,
        verdict,
        measured,
    };
    let mut rows = Vec::new();
    let again = measured(before, 1)?;
    for (folder, to) in others {
        let arguments = ["--recorded-machine", &machine, "--kernel", series(to)];
        let (verdict, replayed, predicted) = tool.predicted_with(&first, program, &arguments)?;
        if rows.is_empty() && !again.is_empty() {
            rows.push(row(from, verdict.clone(), replayed, again.clone()));
        }
        let measured = measured(folder, 0)?;
        if measured.is_empty() {
            return Err(miette!("it was not recorded under {to}"));
        }
        rows.push(row(to, verdict, predicted, measured));
    }
    Ok(rows)
}

fn recording(folder: &Path, program: &Program, run: u32) -> PathBuf {
    folder.join(format!("{}.{run}.dat", program.name))
}

/// Returns the version without its third number: `6.12` of `6.12.107+deb13-cloud-amd64`.
fn series(version: &str) -> &str {
    let end = version.match_indices(['.', '-', '+']).nth(1).map_or(version.len(), |(at, _)| at);
    &version[..end]
}

/// Returns the files of all programs, by their paths here and there.
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

/// Returns the part of the machine's script that records all programs.
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

fn page(rows: &[Row], left_out: &[String], kernels: &[&str], options: &WhatIf) -> String {
    let program = |row: &Row| Comparison::new(row.predicted, &row.measured, |share| share.program);
    let hogs = |row: &Row| Comparison::new(row.predicted, &row.measured, |share| share.hogs);
    let from = kernels.first().copied().unwrap_or_default();
    let names: Vec<&str> = kernels.iter().map(|kernel| series(kernel)).collect();
    let kernels: Vec<String> = kernels.iter().map(|kernel| format!("- Linux {kernel}")).collect();
    let changed = || rows.iter().filter(|row| row.kernel != series(from));
    let mut page = format!(
        "# What-if predictions across kernels\n\n\
         `cargo xtask whatif --across {names} --runs {runs} --seconds {seconds} --out FILE` has\n\
         written this page.\n\n\
         Each program ran beside two hogs (`sha256sum /dev/zero`) in a machine with {SMP} CPUs that QEMU\n\
         emulated. Autogroups were enabled: the program is in one, and the hogs are in the root group.\n\
         Each of these kernels recorded it {runs} times for {seconds} s:\n\n{kernels}\n\n\
         The predictions are from the first recording under the first kernel. Near is within 10 % of the\n\
         measured mean, or within the measured range. Of {all} predictions for other kernels, {near} are near for\n\
         the program's CPU time, and {both} also for the hogs'.\n\n\
         CPU time is in percent of a CPU. A row of {series} compares the replay as recorded with the other\n\
         recordings under the same kernel.\n\n\
         | program | kernel | recorded | predicted | measured | off | near | hogs predicted | measured | near | verdict |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
        kernels = kernels.join("\n"),
        names = names.join(" "),
        runs = options.runs,
        seconds = options.seconds,
        all = changed().count(),
        near = changed().filter(|row| program(row).is_near()).count(),
        both = changed().filter(|row| program(row).is_near() && hogs(row).is_near()).count(),
        series = series(from),
    );
    for row in rows {
        let (program, hogs) = (program(row), hogs(row));
        // Writing to a string cannot fail.
        let _written = writeln!(
            page,
            "| {} | {} | {:.1} | {} | {} |",
            row.program.name,
            row.kernel,
            row.recorded.program,
            cells(program, hogs),
            row.verdict,
        );
    }
    let mut programs: Vec<_> = rows.iter().map(|row| (row.program.name, row.program.what)).collect();
    programs.dedup();
    page.push_str("\nPrograms:\n\n");
    for (name, what) in programs {
        let _written = writeln!(page, "- {name}: {what}");
    }
    for program in left_out {
        let _written = write!(page, "\nLeft out: {program}.\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

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
        let share = |program, hogs| Share { program, hogs, speed: None };
        let row = |kernel: &str, predicted: Share| Row {
            program: &PROGRAMS[0],
            kernel: kernel.to_owned(),
            recorded: share(50.0, 150.0),
            predicted,
            verdict: "good".to_owned(),
            measured: vec![share(60.0, 140.0), share(62.0, 138.0)],
        };
        let rows = [row("6.1", share(50.5, 149.0)), row("6.12", share(60.0, 160.0)), row("7.2", share(61.0, 139.0))];
        let options = Parsed::parse_from(["x", "--runs", "2"]).whatif;
        let left_out = ["pool (this machine lacks python3)".to_owned()];
        let kernels = ["6.1.0-56-cloud-amd64", "6.12.107+deb13", "7.2.1"];
        let page = page(&rows, &left_out, &kernels, &options);
        let name = PROGRAMS[0].name;
        let expected = format!(
            "| {name} | 6.12 | 50.0 | 60.0 | 61.0 (60.0 to 62.0) | -2 % | yes | 160.0 | 139.0 (138.0 to 140.0) | no | good |"
        );
        for text in [
            expected.as_str(),
            "Of 2 predictions for other kernels, 2 are near for\nthe program's CPU time, and 1 also for the hogs'.",
            "`cargo xtask whatif --across 6.1 6.12 7.2 --runs 2 --seconds 2 --out FILE`",
            "- Linux 6.12.107+deb13\n",
            "Left out: pool (this machine lacks python3).",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
    }

    #[test]
    fn kept_recordings_are_found_in_the_order_of_the_kernels() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["6.1", "6.12"].map(str::to_owned);
        let error = recorded(folder.path(), &names).unwrap_err().to_string();
        assert!(error.contains("has no recordings under 6.1"), "{error}");
        for name in ["1-6.12.107+deb13", "0-6.1.0-56", "2-7.2", "notes"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let all = recorded(folder.path(), &names).unwrap();
        let versions: Vec<&str> = all.iter().map(|(_, version)| version.as_str()).collect();
        assert_eq!(versions, ["6.1.0-56", "6.12.107+deb13"], "others were not asked for");
        fs::create_dir(folder.path().join("0-6.1.0-57")).unwrap();
        let error = recorded(folder.path(), &names).unwrap_err().to_string();
        assert!(error.contains("two folders for 6.1"), "{error}");
    }

    #[derive(Debug, clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        whatif: WhatIf,
    }
}
