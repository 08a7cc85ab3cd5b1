//! Ctrl-C takes effect during waits for input, in endless files, and inside a real task's instruction.
#![cfg(target_os = "linux")]

#[path = "../../../tests/seed.rs"]
mod seed;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use seed::any_seed;
use support::data;

/// The polling interval, and a number of polls that only an endless command exceeds.
const LOOK: Duration = Duration::from_millis(10);
const FOR_EVER: u32 = 6_000;

/// Returns the status of a command that ends by itself; kills it if it does not.
fn end_of(child: &mut Child, looks: u32) -> Option<ExitStatus> {
    looks_to_end(child, looks).map(|(status, _)| status)
}

/// As [`end_of`], with the number of polls.
fn looks_to_end(child: &mut Child, looks: u32) -> Option<(ExitStatus, u32)> {
    for look in 0..looks {
        if let Some(status) = child.try_wait().unwrap() {
            return Some((status, look));
        }
        std::thread::sleep(LOOK);
    }
    child.kill().unwrap();
    None
}

/// Whether a process catches Ctrl-C, by its signal mask.
fn catches(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (2 - 1) & 1 == 1
}

fn begun(folder: &Path, arguments: &[&str]) -> Child {
    begun_with(folder, arguments, Stdio::null(), Stdio::null())
}

/// As [`begun`], with these outputs.
fn begun_with(folder: &Path, arguments: &[&str], stdout: impl Into<Stdio>, stderr: impl Into<Stdio>) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .expect("it runs")
}

/// Waits until the command catches Ctrl-C, and for `pause`. Returns whether it still works.
fn works_after(child: &mut Child, pause: Duration) -> bool {
    (0..FOR_EVER).take_while(|_| !catches(child.id())).for_each(|_| std::thread::sleep(LOOK));
    std::thread::sleep(pause);
    child.try_wait().unwrap().is_none()
}

fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Sends Ctrl-C to the working command, which must end with the status of an interrupt.
fn ends(mut child: Child, what: &[&str]) {
    assert!(works_after(&mut child, Duration::from_millis(500)), "{what:?} continues until it is interrupted");
    interrupt(&child);
    let status = end_of(&mut child, FOR_EVER).unwrap_or_else(|| panic!("{what:?} does not end"));
    assert_eq!(status.code(), Some(130), "{what:?}");
}

const READERS: [&[&str]; 5] = [
    &["trace", "info", "FILE"],
    &["trace", "analyse", "FILE"],
    &["trace", "convert", "FILE", "out.pftrace"],
    &["replay", "FILE"],
    &["diff", "FILE", "FILE2"],
];

fn of<'a>(reader: &[&'a str], file: &'a str) -> Vec<&'a str> {
    let second = if file == "-" { "trace.txt" } else { file };
    reader
        .iter()
        .map(|&word| {
            if word == "FILE" {
                file
            } else if word == "FILE2" {
                second
            } else {
                word
            }
        })
        .collect()
}

#[test]
fn commands_that_wait_for_input_end() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read(data("../../../trace/tests/data/ftrace.txt")).unwrap();
    fs::write(folder.path().join("trace.txt"), &text).unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    for reader in READERS {
        // No byte arrives, or no more after half a trace.
        let silent = of(reader, "-");
        ends(begun(folder.path(), &silent), &silent);
        let mut half = begun(folder.path(), &silent);
        half.stdin.as_mut().unwrap().write_all(&text[..text.len() / 2]).unwrap();
        ends(half, &silent);
        for file in ["pipe", "/dev/zero"] {
            let words = of(reader, file);
            ends(begun(folder.path(), &words), &words);
        }
    }
    for words in [&["run", "pipe"][..], &["compare", "pipe", "pipe"], &["run", "-"]] {
        ends(begun(folder.path(), words), words);
    }
}

/// The part of a stream before Ctrl-C is analysed.
#[test]
fn an_interrupted_stream_is_analysed() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read(data("../../../trace/tests/data/ftrace.txt")).unwrap();
    let out = folder.path().join("out.txt");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .args(["trace", "analyse", "-", "latency"])
        .stdin(Stdio::piped())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(&text).unwrap();
    ends(child, &["trace", "analyse", "-"]);
    let printed = fs::read_to_string(out).unwrap();
    assert!(printed.contains("Max delay"), "{printed}");
}

/// Returns the output and the error output of a command that Ctrl-C stops while it waits for more of its input.
fn stopped(folder: &Path, arguments: &[&str], input: &[u8]) -> [String; 2] {
    let files = ["stdout", "stderr"].map(|name| folder.join(name));
    let [stdout, stderr] = files.each_ref().map(|path| fs::File::create(path).unwrap());
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("vruntime"))
        .current_dir(folder)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap();
    child.stdin.as_mut().unwrap().write_all(input).unwrap();
    ends(child, arguments);
    files.map(|path| fs::read_to_string(path).unwrap())
}

/// Returns the beginning of a trace, up to the middle of a line.
fn half_a_trace() -> Vec<u8> {
    let mut text = fs::read(data("../../../trace/tests/data/ftrace.txt")).unwrap();
    text.truncate(text.len() / 2);
    while text.pop() != Some(b'\n') {}
    text.extend(b"\n           <idle>-0       [001] d..2.  2063.99");
    text
}

/// An interrupted conversion keeps the old file.
#[test]
fn an_interrupted_conversion_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["out.txt", "out.pftrace"] {
        let out = folder.path().join(name);
        fs::write(&out, "old").unwrap();
        let [_, stderr] = stopped(folder.path(), &["trace", "convert", "-", name], &half_a_trace());
        assert!(stderr.contains("stopped early at ") && stderr.contains(&format!("{name} is not written")), "{stderr}");
        assert_eq!(fs::read_to_string(&out).unwrap(), "old");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "no temporary file is left");
    let [printed, stderr] = stopped(folder.path(), &["trace", "convert", "-", "-", "--to", "text"], &half_a_trace());
    assert!(printed.contains("sched_switch") && stderr.contains("the output lacks the rest of the trace"), "{stderr}");
}

/// Ctrl-C is no damage of the trace, and all outputs say that they lack its rest.
#[test]
fn an_interrupted_reading_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    for command in ["info", "analyse"] {
        let text = stopped(folder.path(), &["trace", command, "-"], &half_a_trace()).concat();
        let json = stopped(folder.path(), &["trace", command, "-", "--json", "--tables", "tables"], &half_a_trace());
        for output in [&text, &json[0], &file("tables/notes.csv")] {
            assert!(output.contains("stopped early at "), "{output}");
            assert!(!output.contains("cut off") && !output.contains("could not be read"), "{output}");
        }
        fs::remove_dir_all(folder.path().join("tables")).unwrap();
    }
    stopped(folder.path(), &["trace", "analyse", "-", "--html", "page.html"], &half_a_trace());
    assert!(file("page.html").contains("stopped early at "));
}

/// Real tasks inside one instruction of hours.
#[test]
fn real_tasks_end_in_the_middle_of_an_instruction() {
    let folder = tempfile::tempdir().unwrap();
    let memory = r#"{"resources": {}, "tasks": {"a": {"mem": 1000000000000000, "loop": 1}}}"#;
    for (name, text) in [
        ("run", r#"{"tasks": {"a": {"run": 2000000000, "loop": 1}}}"#),
        ("runtime", r#"{"tasks": {"a": {"runtime": 2000000000, "loop": 1}}}"#),
        ("sleep", r#"{"tasks": {"a": {"sleep": 2000000000, "loop": 1}}}"#),
        ("iorun", r#"{"tasks": {"a": {"iorun": 1000000000000000, "loop": 1}}}"#),
        ("mem", memory),
    ] {
        let file = format!("{name}.json");
        fs::write(folder.path().join(&file), text).unwrap();
        let words = ["real", file.as_str()];
        ends(begun(folder.path(), &words), &words);
        // The end of the run ends it as well.
        let mut child = begun(folder.path(), &["real", &file, "--duration", "300ms"]);
        assert!(end_of(&mut child, FOR_EVER).is_some(), "{name} continues beyond --duration");
    }
}

/// 100,000 tasks begin under a kernel whose balancer needs a whole queue's load at every start.
#[test]
fn many_tasks_begin_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let text = "kernel = '3.12'\nmachine = 'core:8'\nduration = '1ms'\n\
                [[task]]\nname = 't'\ninstance = 100000\nrun = '1ms'\nsleep = '10ms'\n";
    fs::write(folder.path().join("many.toml"), text).unwrap();
    let mut child = begun(folder.path(), &["run", "many.toml"]);
    let status = end_of(&mut child, 3 * FOR_EVER).expect("the time does not grow with the square of the tasks");
    assert_eq!(status.code(), Some(0));
}

/// Ctrl-C while 100,000 tasks are made: a note says that there are no results, unless the run has begun.
#[test]
fn an_interrupted_start_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let text = "machine = 'core:8'\nduration = '100s'\n\
                [[task]]\nname = 't'\ninstance = 100000\nrun = '1ms'\nsleep = '10ms'\n";
    fs::write(folder.path().join("many.toml"), text).unwrap();
    for command in [&["run"][..], &["compare", "--kernel", "3.12", "--kernel", "6.1"]] {
        let files = ["out", "err"].map(|name| folder.path().join(name));
        let [out, err] = files.each_ref().map(|file| fs::File::create(file).unwrap());
        let mut child = begun_with(folder.path(), &[command, &["many.toml"]].concat(), out, err);
        works_after(&mut child, Duration::from_secs(1));
        interrupt(&child);
        let status = end_of(&mut child, FOR_EVER).expect("it ends");
        let [out, err] = files.map(|file| fs::read_to_string(file).unwrap());
        assert_eq!(status.code(), Some(130), "{err}");
        assert!(!out.is_empty() || err.contains("interrupted"), "{command:?} printed nothing");
    }
}

/// Complete runs are printed, also if that takes longer than other results may. The test interrupts before the runs,
/// between them, and while all are printed.
#[test]
fn complete_runs_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let text = "machine = 'core:8'\nduration = '200ms'\n\
                [[task]]\nname = 't'\ninstance = 500\nrun = '100us'\nsleep = '100us'\n";
    fs::write(folder.path().join("many.toml"), text).unwrap();
    let mut finished = Vec::new();
    for pause in (0..12).map(|step| Duration::from_millis(50 << step)) {
        let out = folder.path().join("out.json");
        let arguments = ["run", "many.toml", "--repeat", "100", "--json"];
        let mut child = begun_with(folder.path(), &arguments, fs::File::create(&out).unwrap(), Stdio::null());
        let works = works_after(&mut child, pause);
        if works {
            interrupt(&child);
        }
        let status = end_of(&mut child, FOR_EVER).expect("it ends");
        let printed = fs::read(out).unwrap();
        // Before the runs, the input is read, and nothing is printed.
        if printed.is_empty() && finished.iter().all(|runs| *runs == 0) {
            assert_eq!(status.code(), Some(130));
            continue;
        }
        let printed: serde_json::Value = serde_json::from_slice(&printed).expect("all of it is printed");
        let runs = printed["finished"].as_u64().unwrap();
        assert_eq!(status.code(), Some(if runs == 100 { 0 } else { 130 }), "{runs} runs after {pause:?}");
        finished.push(runs);
        if !works {
            break;
        }
    }
    assert!(finished.iter().any(|runs| (1..100).contains(runs)), "one is interrupted between its runs: {finished:?}");
}

/// Commands whose outputs an interrupt may cut, and their files.
const WRITERS: [&[&str]; 6] = [
    &["run", "many.toml", "--repeat", "2", "--json", "--out", "out", "--html", "page.html", "--tables", "tables"],
    &[
        "compare",
        "many.toml",
        "--kernel",
        "6.1",
        "--kernel",
        "6.12",
        "--repeat",
        "2",
        "--json",
        "--out",
        "out",
        "--html",
        "page.html",
        "--tables",
        "tables",
    ],
    &["replay", "trace.txt", "--json", "--out", "out", "--html", "page.html", "--tables", "tables"],
    &["bisect", "many.toml", "--from", "6.1", "--to", "6.6", "--budget", "4", "--json", "--html", "page.html"],
    &["trace", "analyse", "trace.txt", "--json", "--html", "page.html", "--tables", "tables"],
    &["diff", "trace.txt", "other.txt", "--json", "--tables", "tables"],
];

/// Returns the files below a folder by their paths, with their contents.
fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            let content = fs::read(&path).unwrap();
            files.insert(path, content);
        }
    }
    files
}

/// Whether an output mentions the interrupt.
fn is_marked(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    ["interrupt", "stopped early", "Ctrl-C"].iter().any(|mark| text.contains(mark))
}

/// Interrupts commands at random moments. Each ends with its own status or 130. Every output is that of the whole
/// command, mentions the interrupt, or is missing. `cargo xtask seeds --count 17 --only random_moments` has 204.
#[test]
fn interrupts_at_random_moments_leave_no_file_that_looks_complete() {
    const EACH: u64 = 2;
    let first = any_seed();
    let inputs = tempfile::tempdir().unwrap();
    let text = "machine = 'core:4'\nduration = '1s'\n\
                [[task]]\nname = 't'\ninstance = 40\nrun = '200us'\nsleep = '1ms'\n";
    fs::write(inputs.path().join("many.toml"), text).unwrap();
    for (seed, name) in [("1", "trace.txt"), ("2", "other.txt")] {
        let out = inputs.path().join("made");
        let mut child =
            begun(inputs.path(), &["run", "many.toml", "--seed", seed, "--duration", "250ms", "--out", "made"]);
        assert_eq!(end_of(&mut child, FOR_EVER).and_then(|status| status.code()), Some(0));
        fs::rename(out.join("trace.txt"), inputs.path().join(name)).unwrap();
        fs::remove_dir_all(out).unwrap();
    }
    for (command, arguments) in WRITERS.iter().enumerate() {
        let mut whole = None;
        for number in 0..=EACH {
            let folder = tempfile::tempdir().unwrap();
            for (path, content) in files_below(inputs.path()) {
                fs::write(folder.path().join(path.file_name().unwrap()), content).unwrap();
            }
            let [out, err] = ["stdout", "stderr"].map(|name| fs::File::create(folder.path().join(name)).unwrap());
            let mut child = begun_with(folder.path(), arguments, out, err);
            // The first run of a command is a whole one, and tells the time for the others.
            if let Some((_, _, looks)) = &whole {
                let moment = any_number(first, command as u64 * EACH + number) % 1000;
                std::thread::sleep(LOOK * (looks + 2) * moment as u32 / 1000);
                if child.try_wait().unwrap().is_none() {
                    interrupt(&child);
                }
            }
            let end = looks_to_end(&mut child, FOR_EVER);
            let (status, looks) = end.unwrap_or_else(|| panic!("{arguments:?} does not end"));
            let mut files: BTreeMap<PathBuf, Vec<u8>> = files_below(folder.path())
                .into_iter()
                .map(|(path, content)| (path.strip_prefix(folder.path()).unwrap().to_owned(), content))
                .collect();
            let stderr = String::from_utf8(files.remove(Path::new("stderr")).unwrap()).unwrap();
            assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
            let Some((usual, complete, _)) = &whole else {
                assert!(matches!(status.code(), Some(0 | 2)), "{arguments:?}: {status} {stderr}");
                whole = Some((status, files, looks));
                continue;
            };
            let printed = &files[Path::new("stdout")];
            let killed = status.signal() == Some(2) && printed.is_empty();
            assert!(killed || status.code() == Some(130) || status == *usual, "{arguments:?}: {status} {stderr}");
            assert!(
                printed.is_empty() || serde_json::from_slice::<serde_json::Value>(printed).is_ok(),
                "{arguments:?}"
            );
            for (path, content) in &files {
                let known = complete.get(path);
                assert!(known.is_some() || path.ends_with("notes.csv"), "{arguments:?} leaves {}", path.display());
                // The list of a folder's files has the time of each.
                if path.ends_with(".vruntime-files") {
                    continue;
                }
                let in_notes = files.get(&path.with_file_name("notes.csv")).is_some_and(|notes| is_marked(notes));
                let nothing = content.is_empty() && path == Path::new("stdout");
                assert!(
                    nothing || known == Some(content) || is_marked(content) || in_notes,
                    "{arguments:?}: {} looks complete: {stderr}",
                    path.display()
                );
            }
        }
    }
}

/// Draws a number (SplitMix64).
fn any_number(seed: u64, draw: u64) -> u64 {
    let mut bits = seed.wrapping_mul(1_000_003).wrapping_add(draw + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
