//! `vruntime replay`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

#[path = "replay/groups.rs"]
mod groups;
#[path = "replay/hotplug.rs"]
mod hotplug;
#[path = "replay/machines.rs"]
mod machines;
#[path = "support/recordings.rs"]
mod recordings;
#[path = "replay/repeats.rs"]
mod repeats;
#[path = "../../../tests/skip.rs"]
mod skip;

/// Recordings of a real kernel, in the readers' tests.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data");

/// A recording of tasks in cgroups: see data/README.md.
const GROUPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups.pftrace");
const CGROUPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups-cgroups.txt");

fn vruntime(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    command.current_dir(DATA).env("NO_COLOR", "1").env("COLUMNS", "100").args(arguments).write_stdin(input);
    command.output().expect("it runs")
}

fn well(arguments: &[&str], input: &[u8]) -> String {
    let output = vruntime(arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

fn fails(arguments: &[&str], input: &[u8]) -> String {
    let output = vruntime(arguments, input);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(output.stderr).expect("it prints UTF-8")
}

/// Two spinners share CPU 0 for a second, with nice 0 and 5 (weights 1024 and 335).
fn spinners() -> String {
    let line = |at: u64, context: &str, what: String| {
        format!("  {context} [000] {}.{:06}: {what}\n", at / 1_000_000, at % 1_000_000)
    };
    let (a, b) = ("comm=heavy pid=5 prio=120", "comm=light pid=6 prio=125");
    let mut text = line(0, "<idle>-0", format!("sched_waking: {a} target_cpu=000"));
    text += &line(1, "<idle>-0", format!("sched_waking: {b} target_cpu=000"));
    let mut running = ("swapper/0", 0, 120);
    for slice in 0..250_u64 {
        let next = if slice % 4 == 3 { ("light", 6, 125) } else { ("heavy", 5, 120) };
        if next != running {
            let (prev, next_text) = (running, next);
            text += &line(
                10 + slice * 4000,
                &format!("{}-{}", prev.0, prev.1),
                format!(
                    "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state=R ==> next_comm={} next_pid={} next_prio={}",
                    prev.0, prev.1, prev.2, next_text.0, next_text.1, next_text.2
                ),
            );
            running = next;
        }
    }
    text
}

fn json(arguments: &[&str], input: &[u8]) -> Value {
    serde_json::from_str(&well(arguments, input)).expect("it prints JSON")
}

/// A task's CPU time in a run, in thousandths of the trace.
fn permille(json: &Value, name: &str, run: &str) -> u64 {
    let tasks = json["tasks"].as_array().expect("it has tasks");
    let task = tasks.iter().find(|task| task["name"] == name).unwrap_or_else(|| panic!("{name} is there: {json}"));
    task[run]["cpu_ns"].as_u64().expect("a number") * 1000 / json["duration_ns"]["recorded"].as_u64().expect("a number")
}

/// An idle end of the recording counts, too.
#[test]
fn a_replay_is_as_long_as_its_recording() {
    let text = spinners() + "  <idle>-0 [001] 1.500000: cpu_idle: state=1 cpu_id=1\n";
    let file = tempfile::Builder::new().suffix(".txt").tempfile().unwrap();
    std::fs::write(file.path(), &text).unwrap();
    let path = file.path().to_str().expect("it is UTF-8");
    let info: Value = serde_json::from_str(&well(&["trace", "info", path, "--json"], b"")).expect("it is JSON");
    let replay: Value =
        serde_json::from_str(&well(&["replay", path, "--as-recorded", "--json"], b"")).expect("it is JSON");
    assert_eq!(info["span_ns"], 1_500_000_000);
    assert_eq!(replay["duration_ns"]["recorded"], info["span_ns"]);
    assert_eq!(replay["duration_ns"]["replayed"], info["span_ns"]);
}

#[test]
fn a_replay_as_recorded_and_what_if() {
    let text = spinners();
    let recorded = json(&["replay", "-", "--json"], text.as_bytes());
    for (name, weight) in [("heavy-5", 1024), ("light-6", 335)] {
        let share = permille(&recorded, name, "replayed");
        assert!(share.abs_diff(weight * 1000 / 1359) <= 10, "{name} has its weight's share: {share}");
    }
    assert_eq!(recorded["tasks"][0]["what_if"], Value::Null);
    let equal = json(&["replay", "-", "--json", "--map", "l*: nice=0", "--repeat", "1"], text.as_bytes());
    for name in ["heavy-5", "light-6"] {
        let share = permille(&equal, name, "what_if");
        assert!(share.abs_diff(500) <= 10, "{name}: {share}");
    }
    assert_eq!(recorded["tasks"][0]["replayed"], equal["tasks"][0]["replayed"], "the check is the same");
    let room = json(&["replay", "-", "--json", "--machine", "2"], text.as_bytes());
    assert!(permille(&room, "heavy-5", "what_if") > 980 && permille(&room, "light-6", "what_if") > 950, "{room}");
}

#[test]
fn a_real_trace_as_people_see_it() {
    insta::assert_snapshot!("replay-perf-data", well(&["replay", "perf-data.txt", "--kernel", "6.1"], b""));
    // Both formats have the same events. Only the binary one marks the wakeups by interrupts.
    let recorded = |file: &str| {
        let tasks = json(&["replay", file, "--json"], b"")["tasks"].take();
        let tasks =
            tasks.as_array().expect("a list").iter().map(|task| (task["name"].clone(), task["recorded"].clone()));
        tasks.collect::<Vec<_>>()
    };
    assert_eq!(recorded("perf.data"), recorded("perf-data.txt"));
}

#[test]
fn what_cannot_be_replayed_says_what_is_missing() {
    let wakeups = b"  bash-7 [001] 0.000001: sched_waking: comm=make pid=8 prio=120 target_cpu=000\n";
    let message = fails(&["replay", "-"], wakeups);
    assert!(message.contains("sched_switch") && message.contains("trace-cmd record"), "{message}");
    assert!(fails(&["replay", "-"], b"").contains("the file is empty"));
    let message = fails(&["replay", "-", "--map", "nobody: nice=3"], spinners().as_bytes());
    assert!(message.contains("no task of the trace fits this rule") && message.contains("nobody: nice=3"), "{message}");
    assert!(fails(&["replay", "-", "--map", "x: nice=20"], b"").contains("-20 to 19"));
    assert!(fails(&["replay", "-", "--map", "missing.toml"], b"").contains("cannot read missing.toml"));
}

/// Notes name each assumption for which the trace lacks the facts.
#[test]
fn notes_name_what_the_trace_lacks() {
    let notes = |arguments: &[&str], input: &[u8]| {
        let json = json(&[&["replay", "--json"], arguments].concat(), input);
        json["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
    };
    let (kernel, groups) =
        ("the trace does not name its kernel: 6.18 is assumed", "2 task groups of unknown weight and limit");
    let text = spinners();
    assert!(notes(&["-"], text.as_bytes()).contains(kernel));
    assert!(!notes(&["-", "--recorded-kernel", "6.12"], text.as_bytes()).contains("which kernel"));
    let folder = tempfile::tempdir().expect("there is room");
    let scenario = "duration = \"200ms\"\nkernel = \"6.12\"\n[groups.\"/a/b\"]\nweight = 300\n\
                    [[task]]\nname = \"t\"\ngroup = \"/a/b\"\nrun = \"1ms\"\nsleep = \"1ms\"\n";
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("s.toml"), scenario).expect("it can be written");
    well(&["run", &file("s.toml"), "--out", &file("out")], b"");
    let bare = notes(&[&file("out/trace.perfetto-trace")], b"");
    assert!(bare.contains(groups) && !bare.contains("which kernel"), "{bare}");
    let text = notes(&[&file("out/trace.txt")], b"");
    assert!(!text.contains("task groups of which"), "{text}");
    let given = notes(&[GROUPS, "--cgroups", CGROUPS], b"");
    assert!(!given.contains("task groups of which"), "{given}");
}

/// A group's limit and weight, copies, a real-time policy, and a neighbour from another file.
#[test]
fn rules_and_neighbours() {
    let text = spinners();
    let folder = tempfile::tempdir().expect("there is room");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    };
    let rules = write(
        "rules.toml",
        "[[rule]]\ncomm = \"heavy\"\ngroup = \"/batch\"\ncopies = 2\n[groups.\"/batch\"]\nmax = \"10ms/50ms\"\n",
    );
    // With seed 0 a period begins with the run, so that the run has no part of another period.
    let limited = json(&["replay", "-", "--json", "--seed", "0", "--map", &rules], text.as_bytes());
    let both = permille(&limited, "heavy-5", "what_if") + permille(&limited, "heavy-5#2", "what_if");
    assert!(both.abs_diff(200) <= 10, "two of them share 20 %: {both}");
    let urgent = json(&["replay", "-", "--json", "--map", "light: policy=fifo:5"], text.as_bytes());
    assert!(permille(&urgent, "light-6", "what_if") > 940, "{urgent}");

    let noise = write("noise.json", r#"{"tasks":{"heavy-5":{"loop":-1,"run":1000}},"global":{"duration":1}}"#);
    let beside = json(&["replay", "-", "--json", "--beside", &noise], text.as_bytes());
    let shares = ["heavy-5", "heavy-5#2", "light-6"].map(|name| permille(&beside, name, "what_if"));
    for (share, weight) in shares.into_iter().zip([1024, 1024, 335]) {
        assert!(share.abs_diff(weight * 1000 / 2383) <= 10, "{shares:?}");
    }
    let gone = json(&["replay", "-", "--json", "--map", "heavy: remove"], text.as_bytes());
    assert_eq!((permille(&gone, "heavy-5", "what_if"), permille(&gone, "light-6", "what_if") > 950), (0, true));
}

/// All wakeups keep their times, and no task has a timer.
#[test]
fn wakeups_can_keep_their_times() {
    let habits = |wakeups: &str| {
        let replay = json(&["replay", "perf-data.txt", "--json", "--wakeups", wakeups], b"");
        let tasks = replay["tasks"].as_array().expect("there are tasks").iter();
        tasks
            .map(|task| task["sleeps"].as_str().expect("each task has it").to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert!(habits("recorded").is_subset(&["recorded", "awake"].map(String::from).into()));
    assert!(habits("inferred").len() > 2);
}

/// Four spinners of nice 0, 0, 5 and 10 on one CPU: see README.md of the readers' tests.
#[test]
fn spinners_of_a_real_kernel_get_their_shares() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = recordings::whole("nice", folder.path());
    let replay = json(&["replay", &path, "--json", "--map", "spin: nice=0", "--costs", "vm"], b"");
    for name in ["spin-13423", "spin-13424", "spin-13425", "spin-13426"] {
        let (recorded, replayed) = (permille(&replay, name, "recorded"), permille(&replay, name, "replayed"));
        assert!(recorded.abs_diff(replayed) <= 5, "{name}: {recorded} and {replayed} thousandths");
        let equal = permille(&replay, name, "what_if");
        assert!(equal.abs_diff(250) <= 5, "{name}: {equal} thousandths");
    }
    assert!(replay["check"]["switches_off"].as_f64().expect("there are switches").abs() <= 0.1, "{}", replay["check"]);
}

/// A trace beside a workload, and under two kernels.
#[test]
fn traces_are_compared_as_workloads_are() {
    let folder = tempfile::tempdir().expect("there is room");
    let (trace, other) = (folder.path().join("spinners.txt"), folder.path().join("one.json"));
    std::fs::write(&trace, spinners()).expect("it can be written");
    std::fs::write(&other, r#"{"tasks":{"heavy":{"loop":-1,"run":1000}},"global":{"duration":1}}"#)
        .expect("it can be written");
    let (trace, other) = (trace.to_str().expect("it is UTF-8"), other.to_str().expect("it is UTF-8"));
    let compared = json(&["compare", trace, other, "--machine", "1", "--json"], b"");
    let text = compared.to_string();
    assert!(text.contains("spinners") && text.contains("light"), "{text}");
    let table = well(&["compare", trace, "--kernel", "6.1", "--kernel", "6.12"], b"");
    assert!(table.contains("under Linux 6.1 on 1 CPU") && table.contains("under Linux 6.12 on 1 CPU"), "{table}");
    assert!(!table.contains("loop"), "a trace knows no loops: {table}");
}

/// Before the comparison, the output tells how well the trace itself is reproduced.
#[test]
fn traces_are_checked_before_they_are_compared() {
    let kernels = ["--kernel", "6.1", "--kernel", "6.12"];
    let replayed = json(&["replay", "perf-data.txt", "--recorded-kernel", "6.12", "--json"], b"");
    let compare = |more: &[&'static str]| {
        let mut arguments = vec!["compare", "perf-data.txt", "--recorded-kernel", "6.12"];
        arguments.extend(kernels.iter().chain(more));
        arguments
    };
    let compared = json(&compare(&["--json"]), b"");
    assert_eq!(compared["replays"][0]["check"], replayed["check"], "the same check");
    assert_eq!(compared["replays"][0]["notes"], replayed["notes"]);
    let summary = replayed["check"]["summary"].as_str().expect("a sentence");
    let text = well(&compare(&[]), b"");
    let check = text.find(summary).expect("the text has it");
    assert!(text.contains("perf-data.txt replayed as recorded, on 2 CPUs under 6.12"), "{text}");
    assert!(check < text.find("\ntasks").expect("there is a table"), "before what is compared: {text}");
    let files = ["compare", "perf-data.txt", "perf-script.txt", "--json"];
    assert_eq!(json(&files, b"")["replays"].as_array().map(Vec::len), Some(2), "one each");
    let page = tempfile::NamedTempFile::new().expect("there is room");
    let path = page.path().display().to_string();
    well(&[&compare(&["--html"])[..], &[&path]].concat(), b"");
    assert!(std::fs::read_to_string(&path).expect("it is there").contains("perf-data.txt replayed as recorded"));
}

/// A task that waits for its waker's progress waits in an inbox. The output never uses that word.
#[test]
fn notes_do_not_show_how_a_replay_is_made() {
    let line = |at: &str, who: &str, what: &str| format!(" {who} [000] {at}: {what}\n");
    let switch = |at: &str, prev: &str, state: &str, next: &str| {
        let (prev_comm, prev_pid) = prev.split_once('-').expect("a name and a pid");
        let (next_comm, next_pid) = next.split_once('-').expect("a name and a pid");
        let what = format!(
            "sched_switch: prev_comm={prev_comm} prev_pid={prev_pid} prev_prio=120 prev_state={state} \
             ==> next_comm={next_comm} next_pid={next_pid} next_prio=120"
        );
        line(at, prev, &what)
    };
    let mut trace = line("0.000000", "swapper-0", "sched_waking: comm=make pid=7 prio=120 target_cpu=000");
    trace += &switch("0.000001", "swapper-0", "R", "make-7");
    trace += &line("0.400000", "make-7", "sched_waking: comm=cc pid=8 prio=120 target_cpu=000");
    trace += &switch("0.400010", "make-7", "S", "cc-8");
    trace += &switch("0.500000", "cc-8", "S", "swapper-0");
    trace += &line("1.000000", "swapper-0", "sched_waking: comm=make pid=7 prio=120 target_cpu=000");
    let folder = tempfile::tempdir().expect("there is room");
    let hog = folder.path().join("hog.json");
    let text = r#"{"tasks":{"hog":{"policy":"SCHED_FIFO","priority":50,"delay":100000,"loop":-1,"run":1000}},"global":{"duration":1}}"#;
    std::fs::write(&hog, text).expect("it can be written");
    let output = vruntime(&["replay", "-", "--beside", hog.to_str().expect("it is UTF-8")], trace.as_bytes());
    cc_is_said_to_wait(&output);
}

/// The note names tasks only, and no object of the replay.
fn cc_is_said_to_wait(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("task `cc-8` waits for a task that wakes it, from"), "{stderr}");
    assert!(!stderr.contains("inbox"), "{stderr}");
}

/// The waker is slightly too late for the replay's end; the what-if lacks the waiting task.
#[test]
fn notes_do_not_show_it_where_a_rule_removes_tasks() {
    let mut trace = line(0, "0.000000", "<idle>-0", "sched_waking: comm=make pid=7 prio=120 target_cpu=000");
    trace += &switch(0, "0.000001", "swapper/0-0", "R", "make-7");
    // `make` sleeps once, so it does not continue forever.
    trace += &switch(0, "0.150000", "make-7", "S", "swapper/0-0");
    trace += &line(0, "0.210000", "<idle>-0", "sched_waking: comm=make pid=7 prio=120 target_cpu=000");
    trace += &switch(0, "0.210001", "swapper/0-0", "R", "make-7");
    trace += &line(0, "0.400000", "make-7", "sched_waking: comm=cc pid=8 prio=120 target_cpu=000");
    trace += &switch(0, "0.400001", "make-7", "S", "cc-8");
    let output = vruntime(&["replay", "-", "--map", "cc: remove", "--costs", "vm"], trace.as_bytes());
    cc_is_said_to_wait(&output);
}

/// A clock without a unit, a beginning without a switch, a compressed file.
#[test]
fn what_cannot_be_replayed_for_other_reasons() {
    let waking = |at: &str| line(0, at, "<idle>-0", "sched_waking: comm=sh pid=4 prio=120 target_cpu=000");
    let ticks = waking("170000000000000") + &switch(0, "170000000090000", "swapper/0-0", "R", "sh-4");
    let error = fails(&["replay", "-"], ticks.as_bytes());
    assert!(error.contains("its times have no unit") && error.contains("trace-cmd record -C mono"), "{error}");
    let output = vruntime(&["trace", "analyse", "-"], ticks.as_bytes());
    let noted = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && noted.contains("times have no unit: they are read as nanoseconds"), "{noted}");
    let late = waking("1.000000") + &switch(0, "1.100000", "swapper/0-0", "R", "sh-4");
    let error = fails(&["replay", "-", "--duration", "1ms"], late.as_bytes());
    assert!(error.contains("no sched_switch in its first 0.001 s") && error.contains("a longer --duration"), "{error}");
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("trace.dat.gz");
    std::fs::write(&file, b"\x1f\x8b\x08\0\0\0\0\0").expect("it can be written");
    let error = fails(&["replay", file.to_str().expect("it is UTF-8")], b"");
    assert!(error.contains("compressed by gzip") && error.contains("gunzip"), "{error}");
}

/// A spinner is preempted at a tick. A replay has the recording's ticks for any seed, if charges show them.
#[test]
fn ticks_come_when_they_came() {
    let mut text = spinners();
    let charge = |slice: u64| {
        let at = 30 + slice * 4000;
        line(
            0,
            &format!("{}.{:06}", at / 1_000_000, at % 1_000_000),
            "heavy-5",
            "sched_stat_runtime: comm=heavy pid=5 runtime=1 [ns]",
        )
    };
    // The ticks without a switch: every fourth switches to the other task, and the next one back.
    let charges: String = (0..250).filter(|slice| [1, 2].contains(&(slice % 4))).map(charge).collect();
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("it is UTF-8");
    let switches = |text: &str, seed: &str, more: &[&str]| {
        let arguments = [&["replay", "-", "--as-recorded", "--seed", seed, "--out", out], more].concat();
        let has_note = well(&arguments, text.as_bytes());
        let trace = std::fs::read_to_string(folder.path().join("replayed/trace.txt")).expect("it was left");
        let heavy = trace.lines().filter(|line| line.contains("prev_comm=heavy") && line.contains("sched_switch:"));
        let times: BTreeSet<u64> = heavy
            .filter_map(|line| {
                line.split_once(": sched_switch")?.0.split_whitespace().next_back()?.replace('.', "").parse().ok()
            })
            .map(|us: u64| us % 4000)
            .collect();
        assert!(!times.is_empty(), "{trace}");
        (has_note.contains("250 ticks a second are at the recorded times (from"), times)
    };
    assert!(!switches(&text, "1", &[]).0, "nothing shows them");
    text += &charges;
    let mut lines: Vec<&str> = text.lines().collect();
    let time = |line: &str| line.split_once("] ").and_then(|(_, rest)| rest.split(':').next()).map(str::to_owned);
    lines.sort_by_key(|line| time(line));
    let text = lines.join("\n") + "\n";
    for seed in ["1", "2", "3"] {
        let (has_note, times) = switches(&text, seed, &[]);
        assert!(has_note && times.iter().all(|us| (20..100).contains(us)), "{has_note} {times:?}");
    }
    assert!(!switches(&text, "1", &["--hz", "100"]).0, "another machine's");
}

fn line(cpu: u32, at: &str, context: &str, what: &str) -> String {
    format!("  {context} [{cpu:03}] {at}: {what}\n")
}

fn switch(cpu: u32, at: &str, prev: &str, state: &str, next: &str) -> String {
    let split =
        |task: &str| task.rsplit_once('-').map(|(comm, pid)| (comm.to_owned(), pid.to_owned())).expect("comm-pid");
    let ((prev_comm, prev_pid), (next_comm, next_pid)) = (split(prev), split(next));
    let what = format!(
        "sched_switch: prev_comm={prev_comm} prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> next_comm={next_comm} \
         next_pid={next_pid} next_prio=120"
    );
    line(cpu, at, prev, &what)
}

/// A child is born, gets another name, ends; its pid is given to another child.
#[test]
fn births_ends_names_and_pids() {
    let mut text = line(0, "1.000000", "<idle>-0", "sched_waking: comm=sh pid=4 prio=120 target_cpu=000");
    text += &switch(0, "1.000010", "swapper/0-0", "R", "sh-4");
    for (child, name, at) in [(1, "ls", 100_u64), (2, "make", 300)] {
        let time = |us: u64| format!("1.{us:06}");
        let at = at * 1000;
        text += &line(0, &time(at), "sh-4", "sched_process_fork: comm=sh pid=4 child_comm=sh child_pid=7");
        text += &line(0, &time(at + 10), "sh-4", "sched_wakeup_new: comm=sh pid=7 prio=120 target_cpu=001");
        text += &switch(1, &time(at + 20), "swapper/1-0", "R", "sh-7");
        text +=
            &line(1, &time(at + 50), "sh-7", &format!("task_rename: pid=7 oldcomm=sh newcomm={name} oom_score_adj=0"));
        text += &switch(1, &time(at + 20 + child * 20_000), &format!("{name}-7"), "X", "swapper/1-0");
    }
    text += &switch(0, "1.400000", "sh-4", "S", "swapper/0-0");
    let replay = json(&["replay", "-", "--json", "--costs", "zero", "--map", "make: copies=2"], text.as_bytes());
    let cpu = |name: &str, run: &str| {
        let tasks = replay["tasks"].as_array().expect("there are tasks");
        let task = tasks.iter().find(|task| task["name"] == name).unwrap_or_else(|| panic!("no {name}: {replay}"));
        task[run]["cpu_ns"].as_u64().unwrap_or(0)
    };
    // Two tasks of one pid, each with its last name, which work as long as they did.
    for (name, worked) in [("ls-7", 20_000_000), ("make-7", 40_000_000), ("sh-4", 399_990_000)] {
        assert_eq!(cpu(name, "recorded"), worked, "{name}");
        assert!(cpu(name, "replayed").abs_diff(worked) <= worked / 1000, "{name}: {}", cpu(name, "replayed"));
    }
    assert_eq!((cpu("make-7", "what_if"), cpu("make-7#2", "what_if")), (40_000_000, 40_000_000));
    let notes = replay["notes"].to_string();
    assert!(notes.contains("1 pid was given to a second task"), "{notes}");
    // The shell is not woken again: it ends when it has done what it did.
    assert!(replay["duration_ns"]["replayed"].as_u64().expect("it has a length") <= 401_000_000);
}

#[test]
fn hostile_traces_end_in_an_error_or_with_the_loss_reported() {
    // All at one time: no task works, and the replay ends.
    let mut at_once = line(0, "5.000000", "<idle>-0", "sched_waking: comm=a pid=1 prio=120 target_cpu=000");
    for _ in 0..5_000 {
        at_once += &switch(0, "5.000000", "a-1", "S", "b-2");
        at_once += &line(0, "5.000000", "b-2", "sched_waking: comm=a pid=1 prio=120 target_cpu=000");
        at_once += &switch(0, "5.000000", "b-2", "S", "a-1");
        at_once += &line(0, "5.000000", "a-1", "sched_waking: comm=b pid=2 prio=120 target_cpu=000");
    }
    let replay = json(&["replay", "-", "--json", "--kernel", "6.1"], at_once.as_bytes());
    assert_eq!(replay["tasks"][0]["recorded"]["cpu_ns"], 0, "{}", replay["tasks"]);

    let far = switch(100_000, "5.000000", "a-1", "S", "b-2");
    assert!(
        fails(&["replay", "-"], far.as_bytes()).contains("events of CPU 100000, which is beyond the limit of Linux")
    );

    // Times before the beginning, far jumps, and a loss.
    let mut odd = spinners();
    odd += &switch(0, "0.000001", "light-6", "R", "heavy-5");
    odd += &switch(0, "99999999.000000", "heavy-5", "R", "light-6");
    odd += "CPU:0 [LOST 77 EVENTS]\n";
    odd += &switch(0, "99999999.100000", "heavy-5", "S", "swapper/0-0");
    let notes = json(&["replay", "-", "--json"], odd.as_bytes())["notes"].to_string();
    for damage in ["earlier than the event before", "the clock jumped", "lost events"] {
        assert!(notes.contains(damage), "{damage}: {notes}");
    }
    // A line of 50 MB is no event, and no harm.
    let mut long = vec![b'x'; 50_000_000];
    long.push(b'\n');
    long.extend(spinners().into_bytes());
    assert!(permille(&json(&["replay", "-", "--json"], &long), "heavy-5", "recorded") > 700);
    // Cut off anywhere, the part is replayed, or the error says what is missing.
    let whole = spinners();
    for cut in (0..2_000).step_by(37) {
        let output = vruntime(&["replay", "-"], &whole.as_bytes()[..cut]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{cut}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A rule that the kernel refuses is an error at the rule, with its remedy. A note reports an empty group.
#[test]
fn rules_that_cannot_work_say_so() {
    // A second CPU is idle all along, and each waits for 24 ms beside it: they are taken to be confined.
    let mut text =
        switch(1, "0.000020", "swapper/1-0", "R", "brief-7") + &switch(1, "0.000030", "brief-7", "S", "swapper/1-0");
    let mut prev = "swapper/0-0";
    for round in 0..30 {
        let next = if round % 2 == 0 { "heavy-5" } else { "light-6" };
        text += &switch(0, &format!("0.{:06}", 1000 + round * 24_000), prev, "R", next);
        prev = next;
    }
    let rule = ["replay", "-", "--map", "light: policy=deadline:2ms/10ms nice=1"];
    let error = fails(&rule, text.as_bytes());
    for part in ["the rule:1:15", "requested here", "allowed on", "here 1 of 2", "add cpus=all to the rule"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    well(&["replay", "-", "--map", "light: policy=deadline:2ms/10ms cpus=all"], text.as_bytes());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.toml");
    let note = |rules: &str| {
        std::fs::write(&file, rules).unwrap();
        let output = vruntime(&["replay", "-", "--map", file.to_str().unwrap()], text.as_bytes());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).contains("the rule for [groups.\"/c\"] matches no tasks")
    };
    let nice = "[[rule]]\ncomm = \"heavy\"\nnice = 3\n";
    assert!(note("[groups.\"/c\"]\nweight = 30\n"));
    assert!(note(&format!("{nice}[groups.\"/c\"]\nweight = 30\n")));
    assert!(!note(&format!("{nice}group = \"/c/d\"\n[groups.\"/c\"]\nweight = 30\n")));
    // Rules are no workload; what is, has each key once.
    std::fs::write(&file, nice).unwrap();
    let error = fails(&["replay", "-", "--beside", file.to_str().unwrap()], text.as_bytes());
    assert!(error.contains("kernel") && error.matches("kernel,").count() == 1, "{error}");
}

/// A task outside the recording has no recorded value, which is not 0.
#[test]
fn a_task_only_in_the_what_if_has_no_recorded_values() {
    let folder = tempfile::tempdir().unwrap();
    let (noise, out) = (folder.path().join("noise.toml"), folder.path().join("out"));
    std::fs::write(&noise, "[[task]]\nname = \"noise\"\nrun = \"1ms\"\nsleep = \"9ms\"\n").unwrap();
    let (noise, out) = (noise.to_str().unwrap(), out.to_str().unwrap());
    let what_if = ["replay", "-", "--map", "heavy: copies=2", "--beside", noise, "--repeat", "1", "--tables", out];
    let printed = well(&what_if, spinners().as_bytes());
    let what_if = printed.split_once("What if").expect("there is one").1;
    for name in ["noise", "heavy-5#2"] {
        let row = what_if.lines().find(|line| line.starts_with(name)).expect("it is in the table");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells[1], cells[3], cells[5]), ("-", "-", "-"), "{row}");
        assert_ne!(cells[2], "-", "{row}");
    }
    let csv = std::fs::read_to_string(format!("{out}/replay_tasks.csv")).unwrap();
    let row = csv.lines().find(|line| line.starts_with("heavy-5#2")).expect("it is in the file");
    assert!(row.starts_with("heavy-5#2,,,,0."), "{row}");
}

/// `trace info` and `replay` count one jump of two CPUs once.
#[test]
fn a_jump_of_the_clock_is_one_for_all() {
    let mut text = String::new();
    for start in ["1", "5001"] {
        for (ms, cpu) in [(0, 0), (1, 1), (20, 0), (21, 1)] {
            let at = |us: u32| format!("{start}.{:06}", ms * 1000 + us);
            let idle = format!("swapper/{cpu}-0");
            let task = format!("t{cpu}-{}", 5 + cpu);
            text += &switch(cpu, &at(1), &idle, "R", &task);
            text += &switch(cpu, &at(900), &task, "S", &idle);
        }
    }
    let info: Value = serde_json::from_str(&well(&["trace", "info", "-", "--json"], text.as_bytes())).unwrap();
    let notes = json(&["replay", "-", "--json"], text.as_bytes())["notes"].to_string();
    assert!(notes.contains("\"1 time the clock jumped"), "{notes}");
    assert!(info.to_string().contains("\"jumps\":1"), "{info}");
    let analysed = well(&["trace", "analyse", "-"], text.as_bytes());
    assert!(analysed.contains("later times are shifted: 1\n"), "{analysed}");
}

#[test]
fn as_recorded_is_no_what_if() {
    let file = ["replay", "perf-data.txt", "--as-recorded"];
    assert!(!well(&file, b"").contains("What if"));
    let error = fails(&[&file[..], &["--kernel", "6.1"]].concat(), b"");
    assert!(error.contains("cannot be used with"), "{error}");
}

/// A replay's traces are of the reported runs, and compare with the recording.
#[test]
fn replays_leave_traces() {
    let folder = tempfile::tempdir().expect("there is room");
    let (out, file) = (folder.path().join("out"), folder.path().join("trace.txt"));
    std::fs::write(&file, spinners()).expect("it can be written");
    let (out, file) = (out.to_str().expect("it is text"), file.to_str().expect("it is text"));
    let text = well(&["replay", file, "--map", "comm=*: nice=0", "--out", out], b"");
    assert!(text.contains("traces of the replay are in"), "{text}");
    for run in ["replayed", "what-if"] {
        for trace in ["trace.txt", "trace.perfetto-trace"] {
            let tasks = tasks_of(&format!("{out}/{run}/{trace}"));
            for recorded in [("heavy", 5), ("light", 6)] {
                assert!(tasks.iter().any(|(comm, pid, _)| (comm.as_str(), *pid) == recorded), "{run}: {tasks:?}");
            }
        }
    }
    for trace in ["trace.txt", "trace.perfetto-trace"] {
        let diff = vruntime(&["diff", file, &format!("{out}/replayed/{trace}"), "--json"], b"");
        assert_eq!(diff.status.code(), Some(2), "they differ, as costs do: {}", String::from_utf8_lossy(&diff.stderr));
        let diff: Value = serde_json::from_slice(&diff.stdout).expect("JSON");
        let number = |value: &Value| value.as_u64().expect("a number");
        let (alike, events) = (number(&diff[0]["alike"]), number(&diff[0]["events"][0]));
        assert!(alike * 10 >= events * 9, "{alike} of {events} alike in {trace}");
    }
    let taken = fails(&["replay", file, "--out", file], b"");
    assert!(taken.contains("--out"), "{taken}");
}

/// Each task's name, thread and process.
fn tasks_of(trace: &str) -> Vec<(String, i64, Option<i64>)> {
    let info: Value = serde_json::from_str(&well(&["trace", "info", trace, "--json"], b"")).expect("JSON");
    let task = |task: &Value| {
        let comm = task["comm"].as_str().expect("a name").to_owned();
        (comm, task["pid"].as_i64().expect("a pid"), task["tgid"].as_i64())
    };
    info["tasks"].as_array().expect("an array").iter().map(task).collect()
}

/// The traces have the recording's names and ids. Other tasks have unused pids.
#[test]
fn replayed_traces_have_the_recorded_pids() {
    let folder = tempfile::tempdir().expect("there is room");
    let (out, beside) = (folder.path().join("out"), folder.path().join("beside.json"));
    std::fs::write(&beside, r#"{"tasks": {"noise": {"loop": 9, "run": 1000, "sleep": 1000}}}"#).expect("it is written");
    let (out, beside) = (out.to_str().expect("it is text"), beside.to_str().expect("it is text"));
    well(&["replay", "perf-data.txt", "--map", "comm=lto*: copies=3", "--beside", beside, "--out", out], b"");
    let recorded = tasks_of("perf-data.txt");
    for (run, copies) in [("replayed", 1), ("what-if", 3)] {
        for trace in ["trace.txt", "trace.perfetto-trace"] {
            let tasks = tasks_of(&format!("{out}/{run}/{trace}"));
            let pids: BTreeSet<i64> = tasks.iter().map(|(_, pid, _)| *pid).collect();
            assert_eq!(pids.len(), tasks.len(), "{run}/{trace}: {tasks:?}");
            let lto: Vec<_> = tasks.iter().filter(|(comm, ..)| comm.starts_with("lto")).collect();
            assert_eq!(lto.len(), copies, "{run}/{trace}: {tasks:?}");
            for (comm, pid, tgid) in &tasks {
                let Some((name, _, process)) = recorded.iter().find(|(_, recorded, _)| recorded == pid) else {
                    continue;
                };
                assert_eq!(comm, name, "{run}/{trace}: {pid}");
                // The simulator's stoppers have no process.
                let stopper = comm.starts_with("migration/");
                assert!(stopper || process.is_none() || tgid == process, "{run}/{trace}: {pid} {tgid:?} {process:?}");
            }
            let known = tasks.iter().filter(|(_, pid, _)| recorded.iter().any(|(_, recorded, _)| recorded == pid));
            assert!(known.count() >= 15, "{run}/{trace}: {tasks:?}");
            assert_eq!(tasks.iter().any(|(comm, ..)| comm == "noise"), run == "what-if", "{tasks:?}");
        }
    }
}

/// Runs a workload on two CPUs. Returns its trace's path.
fn ran(folder: &Path, workload: &str) -> String {
    let (file, out) = (folder.join("app.json"), folder.join("out"));
    std::fs::write(&file, workload).unwrap();
    let arguments =
        ["run", file.to_str().unwrap(), "--machine", "2", "--kernel", "6.18", "--out", out.to_str().unwrap()];
    well(&arguments, b"");
    out.join("trace.txt").to_str().unwrap().to_owned()
}

/// `cons` waits for the periodic `prod`. A limit that slows `prod` down slows `cons` down too.
#[test]
fn a_waiter_slows_down_with_the_task_it_awaits() {
    let folder = tempfile::tempdir().unwrap();
    let chain = r#"{"tasks": {"prod": {"loop": -1, "cpus": [0], "run": 2000, "resume": "q", "sleep": 3000},
        "cons": {"loop": -1, "cpus": [1], "suspend": "q", "run": 1000}}, "global": {"duration": 1}}"#;
    let trace = ran(folder.path(), chain);
    for trace in [trace.clone(), trace.replace("trace.txt", "trace.perfetto-trace")] {
        let json = json(&["replay", &trace, "--map", "prod*: group=/p max=10ms/100ms", "--json"], b"");
        let share = |name: &str, run: &str| permille(&json, name, run);
        assert_eq!((share("prod-1000", "recorded"), share("cons-1001", "recorded")), (396, 198));
        let (prod, cons) = (share("prod-1000", "what_if"), share("cons-1001", "what_if"));
        assert!((100..=120).contains(&prod) && (50..=60).contains(&cons), "{trace}: {prod} and {cons}");
    }
}

/// Two tasks share CPU 0 beside a CPU without events, and stay there.
#[test]
fn a_cpu_without_events_was_idle() {
    let folder = tempfile::tempdir().unwrap();
    let pinned = r#"{"tasks": {"a": {"loop": -1, "cpus": [0], "run": 1000}, "b": {"loop": -1, "cpus": [0], "run": 1000}},
        "global": {"duration": 1}}"#;
    let trace = ran(folder.path(), pinned);
    for trace in [trace.clone(), trace.replace("trace.txt", "trace.perfetto-trace")] {
        let json = json(&["replay", &trace, "--as-recorded", "--json"], b"");
        for task in ["a-1000", "b-1001"] {
            assert!(permille(&json, task, "replayed").abs_diff(500) <= 5, "{task} of {trace}: {json}");
        }
        assert_eq!(json["busy_ns"]["recorded"].as_array().map(Vec::len), Some(2), "{trace}");
    }
}
