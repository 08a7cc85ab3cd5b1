//! `vruntime record`, and replays of its recordings. If the machine does not permit recording, the tests are skipped
//! with a message.
#![cfg(target_os = "linux")]

#[path = "../../../tests/skip.rs"]
mod skip;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use assert_cmd::Command;
use assert_cmd::cargo::CommandCargoExt as _;
use serde_json::Value;

/// Far above any duration here: a hanging test should fail.
const HANGS: Duration = Duration::from_secs(300);

fn vruntime(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::cargo_bin("vruntime").expect("the command is built");
    command.current_dir(folder).env("HOME", folder).env("NO_COLOR", "1").env("COLUMNS", "400").args(arguments);
    let output = command.timeout(HANGS).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Whether the user may record here; prints if not.
fn records() -> bool {
    let instances = Path::new("/sys/kernel/tracing/instances");
    let name = instances.join(format!("vruntime-test-{}", std::process::id()));
    let made = fs::create_dir(&name).and_then(|()| fs::remove_dir(&name));
    let may = made.is_ok() || made.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists);
    if !may {
        skip::skip(&format!("no tracing instance can be made ({made:?})"));
    }
    may
}

/// The tracing instances of a process.
fn instances(pid: u32) -> Vec<PathBuf> {
    let begins = format!("vruntime-{pid}-");
    let entries = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&begins)).map(|entry| entry.path()).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    const LOOK: Duration = Duration::from_millis(10);
    let waited = (0..HANGS.as_millis() / LOOK.as_millis()).all(|_| {
        std::thread::sleep(LOOK);
        !is_so()
    });
    assert!(!waited, "waited for: {what}");
}

fn begin(folder: &Path) -> Child {
    let mut command = std::process::Command::cargo_bin("vruntime").expect("the command is built");
    command.current_dir(folder).env("HOME", folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.args(["record", "--duration", "1000s", "--no-calibrate"]).spawn().expect("it starts");
    let recording = |instance: &Path| fs::read_to_string(instance.join("tracing_on")).is_ok_and(|on| on.trim() == "1");
    until("a recording", || instances(child.id()).iter().any(|instance| recording(instance)));
    child
}

/// Wakeups through a pipe between `yes` and `head`.
const COMMAND: [&str; 3] = ["sh", "-c", "yes | head -c 20000000 > /dev/null; sleep 0.05"];

#[test]
fn a_command_is_recorded_and_replayed_without_options() {
    if !records() {
        return;
    }
    let folder = folder();
    let (code, out, err) =
        vruntime(folder.path(), &[&["record", "--no-calibrate", "-o", "r.dat", "--json", "--"], &COMMAND[..]].concat());
    assert_eq!(code, Some(0), "{err}");
    let recorded: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((recorded["lost"].as_u64(), recorded["stopped"].as_str()), (Some(0), Some("command")), "{recorded}");
    assert_eq!(
        (recorded["command_exit"].as_i64(), recorded["replaced"].as_bool()),
        (Some(0), Some(false)),
        "{recorded}"
    );
    assert_eq!(recorded["bytes"].as_u64(), Some(fs::metadata(folder.path().join("r.dat")).unwrap().len()));
    let (code, out, err) = vruntime(folder.path(), &["trace", "info", "r.dat", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let info: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(info["events"].as_u64(), recorded["events"].as_u64(), "each event that was counted is in the file");
    for name in ["sched_switch", "sched_waking", "sched_process_fork", "sched_process_exit"] {
        assert!(info["events_by_name"][name].as_u64() > Some(0), "{name}: {}", info["events_by_name"]);
    }
    let recording = &info["recording"];
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(recording["release"].as_str(), Some(release.trim()), "{recording}");
    assert!(recording["tasks"].as_u64() > Some(2), "{recording}");
    assert_eq!(recording["command"][0].as_str(), Some("sh"));
    let names: Vec<&str> = info["tasks"].as_array().unwrap().iter().filter_map(|task| task["comm"].as_str()).collect();
    assert!(["yes", "head"].iter().all(|name| names.contains(name)), "{names:?}");
    // Nothing has to be said: groups and kernel are known.
    let (code, out, err) = vruntime(folder.path(), &["replay", "r.dat", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let replay: Value = serde_json::from_str(&out).unwrap();
    let run = &replay["runs"][0];
    assert_eq!(run["hz"].as_u64(), recording["hz"].as_u64(), "{run}");
    if let Some(preempt) = recording["preempt"].as_str() {
        assert_eq!(run["preempt"].as_str(), Some(preempt), "{run}");
    }
    let notes = replay["notes"].to_string();
    assert!(!notes.contains("says which kernel") && !notes.contains("--cgroups tells"), "{notes}");
    // The command line takes precedence.
    let (code, out, err) = vruntime(folder.path(), &["replay", "r.dat", "--json", "--hz", "100", "--preempt", "lazy"]);
    assert_eq!(code, Some(0), "{err}");
    let run = &serde_json::from_str::<Value>(&out).unwrap()["runs"][0];
    assert_eq!((run["hz"].as_u64(), run["preempt"].as_str()), (Some(100), Some("lazy")), "{run}");
}

#[test]
fn trace_cmd_reads_the_events() {
    if !records() {
        return;
    }
    let folder = folder();
    let (code, out, err) =
        vruntime(folder.path(), &[&["record", "--no-calibrate", "--json", "--"], &COMMAND[..]].concat());
    assert_eq!(code, Some(0), "{err}");
    let recorded: Value = serde_json::from_str(&out).unwrap();
    let mut report = std::process::Command::new("trace-cmd");
    report.args(["report", "-i"]).arg(folder.path().join("vruntime.dat"));
    let Ok(report) = report.output() else {
        skip::skip("there is no trace-cmd");
        return;
    };
    let text = String::from_utf8_lossy(&report.stdout);
    let events = text.lines().filter(|line| line.contains("] ") && line.contains(": ")).count() as u64;
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    assert_eq!(Some(events), recorded["events"].as_u64(), "it sees all events");
}

#[test]
fn the_machine_is_measured_and_the_file_replaced() {
    if !records() {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("vruntime.dat"), "before").unwrap();
    let (code, out, err) = vruntime(folder.path(), &["record", "--duration", "200ms"]);
    assert_eq!(code, Some(0), "{err}");
    for words in [
        "vruntime.dat (replaced the file that was there)",
        "ns an event",
        "Replay it with: vruntime replay vruntime.dat",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    let (_, out, err) = vruntime(folder.path(), &["trace", "info", "vruntime.dat", "--json"]);
    let recording = &serde_json::from_str::<Value>(&out).unwrap_or_else(|_| panic!("{err}"))["recording"];
    assert_eq!(recording["calibrated"].as_bool(), Some(true), "{recording}");
    assert!(recording["event_cost_ns"].as_u64().is_some(), "{recording}");
}

#[test]
fn ctrl_c_keeps_what_there_is() {
    if !records() {
        return;
    }
    let folder = folder();
    let child = begin(folder.path());
    std::thread::sleep(Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("until it was interrupted"));
    assert_eq!(instances(id), Vec::<PathBuf>::new());
    let (code, _, err) = vruntime(folder.path(), &["replay", "vruntime.dat"]);
    assert_eq!(code, Some(0), "{err}");
}

/// Before the recording begins there is no file, and the status is that of an interrupt, too.
#[test]
fn ctrl_c_during_the_calibration_is_an_interrupt() {
    if !records() {
        return;
    }
    let folder = folder();
    let mut command = std::process::Command::cargo_bin("vruntime").expect("the command is built");
    command.current_dir(folder.path()).env("HOME", folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.args(["record", "--duration", "1000s"]).spawn().expect("it starts");
    let catches = |status: String| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:").map(str::trim).map(str::to_owned));
        mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).is_some_and(|mask| mask >> 1 & 1 == 1)
    };
    let path = format!("/proc/{}/status", child.id());
    until("a handler", || fs::read_to_string(&path).is_ok_and(&catches));
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert!(stderr.contains("interrupted before the recording began"), "{stderr}");
}

/// After SIGKILL another process cleans up.
#[test]
fn nothing_is_left_of_a_recording_that_is_killed() {
    if !records() {
        return;
    }
    let folder = folder();
    for _ in 0..3 {
        let mut child = begin(folder.path());
        child.kill().unwrap();
        child.wait().unwrap();
        until("an end of the instance", || instances(child.id()).is_empty());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left either");
}

#[test]
fn what_cannot_be_recorded_is_reported() {
    let folder = folder();
    let fails = |arguments: &[&str]| {
        let (code, _, err) = vruntime(folder.path(), arguments);
        assert_eq!(code, Some(1), "{err}");
        err
    };
    let err = fails(&["record", "-o", "none/r.dat"]);
    assert!(err.contains("there is no folder none"), "{err}");
    let err = fails(&["record", "--cgroup", "/no/such/group"]);
    assert!(err.contains("there is no such group") && err.contains("/proc/PID/cgroup"), "{err}");
    let err = fails(&["record", "--max-size", "3 parsecs"]);
    assert!(err.contains("such as 500MB or 2GB"), "{err}");
    if records() {
        let err = fails(&["record", "--no-calibrate", "--", "/no/such/program"]);
        assert!(err.contains("cannot run /no/such/program"), "{err}");
        assert!(!folder.path().join("vruntime.dat").exists());
    }
}

/// Runs the command as an ordinary user with these capabilities.
fn as_user(capabilities: &str, arguments: &[&str]) -> Option<(Option<i32>, String, String, tempfile::TempDir)> {
    if !rustix::process::geteuid().is_root() {
        skip::skip("only root can give its privileges up to see what is recorded then");
        return None;
    }
    let folder = folder();
    // The command itself may be where no other user may read.
    let copy = folder.path().join("vruntime");
    fs::copy(assert_cmd::cargo::cargo_bin("vruntime"), &copy).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder.path(), mode).unwrap();
    let mut run = std::process::Command::new("setpriv");
    run.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    if !capabilities.is_empty() {
        run.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
    }
    run.arg(&copy).args(arguments).current_dir(folder.path()).env("NO_COLOR", "1").env("COLUMNS", "400");
    let Ok(output) = run.output() else {
        skip::skip("there is no setpriv");
        return None;
    };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Some((output.status.code(), text(output.stdout), text(output.stderr), folder))
}

/// The level of users' permissions for perf_event_open. Higher ones permit less.
fn perf_event_paranoid() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// Whether users may record all tasks: at 0 and below.
fn users_may_record_all() -> bool {
    let may = perf_event_paranoid().is_some_and(|level| level <= 0);
    if may {
        skip::skip("this kernel lets users record all tasks (kernel.perf_event_paranoid)");
    }
    may
}

/// The level from which perf_event_open refuses users, and whether this kernel is below.
fn users_may_record_their_own(level: i32) -> bool {
    let may = perf_event_paranoid().is_some_and(|paranoid| paranoid < level);
    if !may {
        skip::skip("this kernel refuses perf_event_open to users (kernel.perf_event_paranoid)");
    }
    may
}

/// Without privileges the error names the missing ones, and how to get them.
#[test]
fn without_privileges_the_missing_ones_are_named() {
    if users_may_record_all() {
        return;
    }
    let Some((code, _, err, _folder)) = as_user("", &["record", "--no-calibrate", "--duration", "100ms"]) else {
        return;
    };
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("the kernel's events cannot be recorded: tracefs: Permission denied"), "{err}");
    assert!(err.contains("sudo vruntime record") && err.contains("CAP_SYS_ADMIN"), "{err}");
    assert!(err.contains("vruntime record -- COMMAND"), "{err}");
}

/// Reads a recording that was made without tracefs, and replays it. Returns `vruntime trace info` and the notes.
fn reads(folder: &Path) -> (Value, String) {
    let (code, out, err) = vruntime(folder, &["trace", "info", "vruntime.dat", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let info: Value = serde_json::from_str(&out).unwrap();
    let (code, out, err) = vruntime(folder, &["replay", "vruntime.dat", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let replay: Value = serde_json::from_str(&out).unwrap();
    let (code, _, err) = vruntime(folder, &["replay", "vruntime.dat", "--map", "*: nice=10"]);
    assert_eq!(code, Some(0), "{err}");
    (info, replay["notes"].to_string())
}

#[test]
fn without_privileges_a_command_is_recorded() {
    if !users_may_record_their_own(3) || users_may_record_all() {
        return;
    }
    let record = [&["record", "--no-calibrate", "--json", "--"], &COMMAND[..]].concat();
    let Some((code, out, err, folder)) = as_user("", &record) else { return };
    assert_eq!(code, Some(0), "{err}");
    for words in ["it has only the command's tasks", "sudo vruntime record", "kernel.perf_event_paranoid=0"] {
        assert!(err.contains(words), "{words}: {err}");
    }
    let recorded: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((recorded["source"].as_str(), recorded["lost"].as_u64()), (Some("perf-command"), Some(0)), "{recorded}");
    let (info, notes) = reads(folder.path());
    assert_eq!(info["events"], recorded["events"], "each event that was counted is in the file");
    assert_eq!(info["recording"]["source"].as_str(), Some("perf-command"));
    let names: Vec<&str> = info["tasks"].as_array().unwrap().iter().filter_map(|task| task["comm"].as_str()).collect();
    assert!(["yes", "head"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(notes.contains("recorded without the necessary privileges: it has only the command's tasks"), "{notes}");
}

/// CAP_PERFMON alone, without tracefs.
#[test]
fn with_perf_all_switches_are_recorded() {
    let Some((code, out, err, folder)) =
        as_user("+perfmon", &["record", "--no-calibrate", "--json", "--duration", "200ms"])
    else {
        return;
    };
    if code != Some(0) {
        assert!(err.contains("cannot be recorded") || err.contains("setpriv"), "{err}");
        skip::skip(&format!("CAP_PERFMON is not enough here ({})", err.trim()));
        return;
    }
    let recorded: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (recorded["source"].as_str(), recorded["lost"].as_u64()),
        (Some("perf-switches"), Some(0)),
        "{recorded}"
    );
    assert!(err.contains("it has no wakeups") && err.contains("sudo vruntime record"), "{err}");
    let (info, notes) = reads(folder.path());
    let count = |name: &str| info["events_by_name"][name].as_u64().unwrap_or(0);
    assert!(count("sched_switch") > 0 && count("sched_waking") == 0, "{}", info["events_by_name"]);
    assert!(notes.contains("it has no wakeups"), "{notes}");
}

/// With a tracefs that is mounted read-only, as in containers, root records the same events by perf.
#[test]
fn with_a_readable_tracefs_nothing_is_missing() {
    if !records() {
        return;
    }
    let folder = folder();
    let script = "mount -o remount,bind,ro /sys/kernel/tracing && exec \"$@\"";
    let mut run = std::process::Command::new("unshare");
    run.args(["--mount", "sh", "-c", script, "sh"]).arg(assert_cmd::cargo::cargo_bin("vruntime"));
    run.args(["record", "--no-calibrate", "--json", "--"]).args(COMMAND).current_dir(folder.path());
    let Ok(output) = run.env("NO_COLOR", "1").env("COLUMNS", "400").output() else {
        skip::skip("there is no unshare");
        return;
    };
    let err = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(0) {
        assert!(err.contains("unshare") || err.contains("mount"), "{err}");
        skip::skip(&format!("tracefs cannot be mounted read-only here ({})", err.trim()));
        return;
    }
    assert!(err.contains("tracepoints by perf_event_open") && err.contains("tracefs: Read-only file system"), "{err}");
    let recorded: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (recorded["source"].as_str(), recorded["lost"].as_u64()),
        (Some("perf-tracepoints"), Some(0)),
        "{recorded}"
    );
    let (info, notes) = reads(folder.path());
    assert_eq!(info["events"], recorded["events"], "each event that was counted is in the file");
    for name in ["sched_switch", "sched_waking", "sched_wakeup", "sched_process_fork", "sched_process_exit"] {
        assert!(info["events_by_name"][name].as_u64() > Some(0), "{name}: {}", info["events_by_name"]);
    }
    assert!(!notes.contains("privileges"), "{notes}");
}
