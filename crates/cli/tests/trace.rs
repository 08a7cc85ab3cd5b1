//! `vruntime trace`.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;

#[path = "trace/damaged.rs"]
mod damaged;
#[path = "trace/groups.rs"]
mod groups;
#[path = "support/recordings.rs"]
mod recordings;

/// Recordings of a real kernel, in the readers' tests.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data");

fn vruntime(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    // Paths in messages are as given, so relative ones are the same everywhere.
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

#[test]
fn what_is_in_a_trace() {
    insta::assert_snapshot!("info-ftrace", well(&["trace", "info", "ftrace-tgid.txt"], b""));
    let (text, binary) =
        (well(&["trace", "info", "trace-dat.txt"], b""), well(&["trace", "info", "trace-v7-zstd.dat"], b""));
    // Only the file itself knows its kernel.
    let rest = |text: &str| -> Vec<String> {
        text.lines().skip(1).filter(|line| !line.starts_with("kernel ")).map(str::to_owned).collect()
    };
    assert_eq!(rest(&text), rest(&binary), "but for names");
    insta::assert_snapshot!("info-perf-script", well(&["trace", "info", "perf-script.txt", "--all"], b""));
}

#[test]
fn the_same_as_json() {
    let json: serde_json::Value =
        serde_json::from_str(&well(&["trace", "info", "ftrace-tgid.txt", "--json"], b"")).expect("it prints JSON");
    assert_eq!(
        (&json["kind"], &json["machine_cpus"], &json["events"]),
        (&"ftrace text".into(), &2.into(), &138.into())
    );
    let by_name = json["events_by_name"].as_object().unwrap();
    assert_eq!(by_name.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 138);
    assert!(by_name["sched_switch"].as_u64().unwrap() > 10);
    assert_eq!(json["replay"]["possible"], true);
    assert!(json["tasks"].as_array().unwrap().iter().any(|task| task["comm"] == "work.sh"));
}

#[test]
fn standard_input_and_losses() {
    let text = "           a-1 [000] 5.000000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> \
                next_comm=b next_pid=2 next_prio=120\n\
                CPU:0 [LOST 12 EVENTS]\n\
                what is this\n\
                b-2 [000] 6.000000: sched_switch: prev_comm=b prev_pid\n\
                b-2 [000] 7.0000";
    let info = well(&["trace", "info", "-"], text.as_bytes());
    for sentence in [
        "events lost in these gaps, as far as the file counts them: 12",
        "lines of unknown content (the first at line 3): 2",
        "events with unexpected fields (the first at line 4): 1",
        "the file ends within line 5",
        "12 lost events",
    ] {
        assert!(info.contains(sentence), "{sentence}: {info}");
    }
}

#[test]
fn what_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let error_of = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        fails(&["trace", "info", &path.display().to_string()], b"")
    };
    let wide: Vec<u8> = "\u{feff}# tracer: nop\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf_16 = error_of("wide.txt", &wide);
    assert!(utf_16.contains("a text in UTF-16 is not read") && utf_16.contains("iconv"), "{utf_16}");
    let blank = error_of("blank.txt", &[b'\n'; 100]);
    assert!(!blank.contains("workload") && blank.contains("has no events in 100 lines"), "{blank}");
    insta::assert_snapshot!("no-trace", fails(&["trace", "info", "README.md"], b""));
    assert!(fails(&["trace", "info", "nowhere.txt"], b"").contains("cannot read nowhere.txt"));
    assert!(fails(&["trace", "info", "-"], b"").contains("the file is empty"));
    assert!(fails(&["trace", "info", "-"], b"\x1f\x8b\x08\0").contains("a file compressed by gzip is not read"));
}

/// Standard input may be text, or a format that is read back and forth.
#[test]
fn a_trace_from_standard_input() {
    for file in ["trace-v6.dat", "perf.data", "perf-data.txt"] {
        let bytes = std::fs::read(Path::new(DATA).join(file)).unwrap();
        let named = well(&["trace", "info", file, "--all"], b"");
        let piped = well(&["trace", "info", "-", "--all"], &bytes);
        assert_eq!(
            piped.strip_prefix("-: ").expect("its head"),
            named.strip_prefix(&format!("{file}: ")).expect("its head")
        );
    }
    let bytes = std::fs::read(Path::new(DATA).join("perf.data")).unwrap();
    let replayed = |file: &str, bytes: &[u8]| well(&["replay", file, "--as-recorded"], bytes);
    let (_, named) =
        replayed("perf.data", b"").split_once(": ").map(|(file, rest)| (file.to_owned(), rest.to_owned())).unwrap();
    let (_, piped) =
        replayed("-", &bytes).split_once(": ").map(|(file, rest)| (file.to_owned(), rest.to_owned())).unwrap();
    assert_eq!(named, piped);
}

#[test]
fn a_trace_in_another_format() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let count = |file: &str| -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&well(&["trace", "info", file, "--json"], b"")).unwrap()["events_by_name"].take()
    };
    well(&["trace", "convert", "perf.data", &out("a.txt")], b"");
    let mut counts = count(&out("a.txt"));
    well(&["trace", "convert", &out("a.txt"), &out("b.pftrace")], b"");
    assert_eq!(count(&out("b.pftrace")), counts);
    // perf's records of new names are no events in `perf.data`. In the text they are the kernel's `task_rename`.
    assert!(counts.as_object_mut().unwrap().remove("task_rename").is_some(), "{counts}");
    assert_eq!(counts, count("perf.data"));
    let text = well(&["trace", "convert", "trace-v6.dat", "-", "--to", "text"], b"");
    assert_eq!(text.lines().count(), 176);
    // The machine is as large as it was, and every event has its process.
    let event = "a-7     (    5) [001] d..2. 1.000000: sched_waking: comm=b pid=8 prio=120 target_cpu=001\n";
    let large = format!("# entries-in-buffer/entries-written: 1/1   #P:8\n{event}");
    std::fs::write(out("8.txt"), large).unwrap();
    for (from, to) in [("8.txt", "8.pb"), ("8.txt", "8-2.txt"), ("8-2.txt", "8-3.txt"), ("8.pb", "8-4.txt")] {
        well(&["trace", "convert", &out(from), &out(to)], b"");
        let info: serde_json::Value = serde_json::from_str(&well(&["trace", "info", &out(to), "--json"], b"")).unwrap();
        assert_eq!(info["machine_cpus"], 8, "{to}");
    }
    let again = well(&["trace", "convert", &out("8.pb"), "-", "--to", "text"], b"");
    assert_eq!(again, std::fs::read_to_string(out("8-3.txt")).unwrap());
    assert!(again.contains("a-7     (    5) [001] ....."), "{again}");
    let flags = vruntime(&["trace", "convert", &out("8.txt"), &out("8-5.txt")], b"");
    assert!(String::from_utf8_lossy(&flags.stderr).contains("events with flags (only"));
    let damaged = "a-7 [001] 1.000000: sched_waking: comm=b pid=8\na-7 [001] 1.000001: softirq_raise: vec=1\n";
    std::fs::write(out("damaged.txt"), damaged).unwrap();
    let lossy = vruntime(&["trace", "convert", &out("damaged.txt"), &out("c.pb")], b"");
    assert!(String::from_utf8_lossy(&lossy.stderr).contains("events left out: their fields are unexpected"));
    assert!(fails(&["trace", "convert", "trace-v6.dat", &out("c")], b"").contains("--to"));
    assert!(fails(&["trace", "convert", &out("a.txt"), &out("a.txt")], b"").contains("over itself"));
    assert!(fails(&["trace", "convert", "perf.data", &out("no/where.txt")], b"").contains("cannot write"));
}

/// A loss at the start, an exit after which perf charges a task without a name, and a renaming without a further event.
/// Text and Perfetto keep them.
const ENDING: &str = "\
    c    12/12    [000]     0.000000000: PERF_RECORD_COMM: c:12/12
CPU:0 [LOST 3 EVENTS]
    a    10/10    [000] 48097.000000000: sched:sched_stat_runtime: comm=a pid=10 runtime=9000 [ns]
    a    10/10    [000] 48097.000100000: sched:sched_waking: comm=b pid=11 prio=120 target_cpu=000
    a    10/10    [000] 48097.000101000: sched:sched_wakeup: comm=b pid=11 prio=120 target_cpu=000
    a    10/10    [000] 48097.000200000: sched:sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=11 next_prio=120
    b    11/11    [000] 48097.000300000: sched:sched_waking: comm=c pid=12 prio=120 target_cpu=000
    b    11/11    [000] 48097.000301000: sched:sched_wakeup: comm=c pid=12 prio=120 target_cpu=000
  :-1    -1/-1    [000] 48097.001000000: sched:sched_stat_runtime: comm=b pid=11 runtime=700000 [ns]
  :-1    -1/-1    [000] 48097.001001000: sched:sched_switch: prev_comm=b prev_pid=11 prev_prio=120 prev_state=X ==> next_comm=a next_pid=10 next_prio=120
    a    10/10    [000] 48097.002000000: sched:sched_stat_runtime: comm=a pid=10 runtime=900000 [ns]
    a    10/10    [000] 48097.002001000: sched:sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=c next_pid=12 next_prio=120
    d    12/12    [000] 48097.002500000: PERF_RECORD_COMM: d:12/12
    b    13/13    [001] 48097.002900000: PERF_RECORD_LOST lost 12
    b    13/13    [001] 48097.003000000: sched:sched_stat_runtime: comm=b pid=13 runtime=1000 [ns]
";

/// Conversion keeps all that analyses use.
#[test]
fn a_converted_trace_is_analysed_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(out("ending.txt"), ENDING).unwrap();
    let ending = out("ending.txt");
    for file in [ending.as_str(), "perf.data", "perf-script-tgid.txt", "trace-v6.dat", "ftrace-tgid.txt"] {
        let analysed = |file: &str| {
            let kinds =
                ["latency", "antagonists", "idle-while-waiting", "runqueue", "migrations", "summary", "timehist"];
            let arguments = [&["trace", "analyse", file, "--json", "--each-task"][..], &kinds].concat();
            serde_json::from_str::<serde_json::Value>(&well(&arguments, b"")).unwrap()
        };
        for to in ["c.txt", "c.pftrace"] {
            if to == "c.pftrace" && file == "ftrace-tgid.txt" {
                // Its times are microseconds, and Perfetto's order of one time is that of CPUs.
                continue;
            }
            well(&["trace", "convert", file, &out(to)], b"");
            let (mut before, mut after) = (analysed(file), analysed(&out(to)));
            // ftrace names the running task beside each event. Perfetto has no field for that, and derives it from
            // switches.
            if to == "c.pftrace" && file == "trace-v6.dat" {
                for json in [&mut before, &mut after] {
                    let rows = json["tables"]["timehist"].as_array_mut().unwrap();
                    for row in rows {
                        row["task"].take();
                    }
                }
            }
            // Perfetto does not count lost events.
            if to == "c.pftrace" {
                assert_eq!(after["faults"]["lost"], 0);
                before["faults"]["lost"] = 0.into();
            }
            for (name, table) in before["tables"].as_object().unwrap() {
                assert!(after["tables"][name] == *table, "{file} as {to}: {name}");
            }
            assert_eq!(
                (&after["faults"], &after["elapsed_ns"]),
                (&before["faults"], &before["elapsed_ns"]),
                "{file} as {to}"
            );
        }
    }
    let text = well(&["trace", "analyse", &ending], b"");
    assert!(text.contains("d-12") || text.contains("d "), "its name in the end: {text}");
    assert!(text.contains("gaps where events were lost: 2"), "{text}");
    assert!(!text.contains("has come there") && !text.contains("had not come"), "no gap: {text}");
}

/// An output that cannot be written is an error before the input is read, and names the argument.
#[test]
fn a_converted_trace_has_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (input, taken) = (path("in.txt"), path("taken.txt"));
    well(&["trace", "convert", "perf.data", &input], b"");
    std::fs::create_dir(&taken).unwrap();
    let before = std::fs::read(&input).unwrap();
    let mut refused = vec![
        (input.clone(), "would be written over itself"),
        (taken, "it is a folder"),
        (path("no/where.txt"), "there is no folder"),
    ];
    if cfg!(target_os = "linux") {
        // Only root may try.
        let why = if rustix::process::geteuid().is_root() {
            "the file system at /proc takes no new files"
        } else {
            "permission denied in /proc"
        };
        refused.push(("/proc/x.txt".to_owned(), why));
    }
    for (out, why) in refused {
        let complaint = fails(&["trace", "convert", &input, &out], b"");
        // Lines are broken where a terminal ends.
        let complaint = complaint.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(complaint.contains(why) && complaint.contains("name another file as OUT"), "{complaint}");
        // The same complaint without an input.
        let nothing = path("nothing.txt");
        let complaint = fails(&["trace", "convert", &nothing, &out], b"");
        assert!(out == input || complaint.contains("as OUT"), "{complaint}");
    }
    assert_eq!(std::fs::read(&input).unwrap(), before, "it is left as it was");
}

/// Perfetto refuses files with events of CPUs from 1024 on. A note says that the file lacks them.
#[test]
fn what_a_perfetto_trace_does_not_have_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let notes = |command: &str, cpu: u32| {
        let scenario = format!(
            "machine = \"1100\"\nduration = \"5ms\"\nkernel = [\"6.1\", \"6.12\"]\n\
             [[task]]\nname = \"a\"\ncpus = \"{cpu}\"\nrun = \"1ms\"\nsleep = \"1ms\"\n"
        );
        let output = vruntime(&[command, "-", "--out", &out], scenario.as_bytes());
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for command in ["run", "compare"] {
        let note = notes(command, 1090);
        assert!(note.contains("events of CPUs from 1024 on are not in trace.perfetto-trace"), "{command}: {note}");
        assert!(!notes(command, 1000).contains("1024"), "{command}");
    }
}

/// If several tasks have the name, a note names the path's task. For an unknown name, the message lists the others.
#[test]
fn a_note_names_the_task_of_a_critical_path() {
    let scenario = "machine = \"1\"\nduration = \"100ms\"\n[[task]]\nname = \"web\"\ninstance = 2\nrun = \"1ms\"\nsleep = \"3ms\"\n\
        [[task]]\nname = \"batch\"\nrun = \"1ms\"\nsleep = \"3ms\"\n";
    let switch = |at: u32, prev: &str, next: &str| {
        format!("x-1 [000] 1.{at:06}: sched_switch: {prev} prev_prio=120 prev_state=S ==> {next} next_prio=120\n")
    };
    let (first, second) =
        (["prev_comm=a prev_pid=7", "next_comm=a next_pid=7"], ["prev_comm=a prev_pid=8", "next_comm=a next_pid=8"]);
    let trace = [switch(1, first[0], second[1]), switch(2, second[0], first[1])].concat();
    let stderr_of = |arguments: &[&str], input: &str| {
        let output = vruntime(arguments, input.as_bytes());
        String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<&str>>().join(" ")
    };
    let note = stderr_of(&["trace", "analyse", "-", "critical-path:a"], &trace);
    assert_eq!(note, "note: 2 tasks are called `a`; the critical path is that of a-7, others are a-8");
    assert_eq!(stderr_of(&["trace", "analyse", "-", "critical-path:a-8"], &trace), "");
    // In a scenario, the name is that of a class.
    let run = stderr_of(&["run", "-", "--analyse", "critical-path:web"], scenario);
    assert!(run.starts_with("note: 2 tasks are called `web`; the critical path is that of web-"), "{run}");
    assert!(run.contains("web-0-1000") && run.contains("web-1-1001"), "{run}");
    let unknown = stderr_of(&["run", "-", "--analyse", "critical-path:db"], scenario);
    assert!(
        unknown.contains("no task with the name or pid `db`") && unknown.contains("there are batch, web"),
        "{unknown}"
    );
    assert!(!unknown.contains("trace info"), "{unknown}");
}

/// A run's traces only have flags that formats keep, so there is no note.
#[test]
fn of_a_run_nothing_is_lost_from_one_trace_to_the_other() {
    let scenario = "machine = \"1\"\nduration = \"100ms\"\n[[task]]\nname = \"a\"\nrun = \"1ms\"\nsleep = \"3ms\"\n";
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    well(&["run", "-", "--kernel", "6.12", "--out", &out("run")], scenario.as_bytes());
    for (from, to) in [("run/trace.txt", "a.pftrace"), ("run/trace.perfetto-trace", "b.txt")] {
        let converted = vruntime(&["trace", "convert", &out(from), &out(to)], b"");
        assert_eq!(String::from_utf8_lossy(&converted.stderr), "", "{from}");
        let path = well(&["trace", "analyse", &out(to), "critical-path:a"], b"");
        assert!(path.contains("sleeps until an interrupt"), "{path}");
    }
}

/// Conversion keeps the recorded kernel, or a note says that it does not.
#[test]
fn a_converted_trace_is_replayed_under_its_own_kernel() {
    let scenario = "machine = \"1\"\nduration = \"100ms\"\n[[task]]\nname = \"a\"\nrun = \"1ms\"\nsleep = \"3ms\"\n";
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name).display().to_string();
    let release = |file: &str| -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&well(&["trace", "info", file, "--json"], b"")).unwrap()["release"]
            .take()
    };
    well(&["run", "-", "--kernel", "6.1", "--out", &out("new")], scenario.as_bytes());
    well(&["run", "-", "--kernel", "3.18", "--out", &out("old")], scenario.as_bytes());
    for (from, to) in [("new/trace.txt", "a.txt"), ("a.txt", "b.pftrace"), ("b.pftrace", "c.txt")] {
        well(&["trace", "convert", &out(from), &out(to)], b"");
        assert_eq!(release(&out(to)), "6.1.0-vruntime", "{to}");
    }
    let replay = well(&["replay", &out("c.txt")], b"");
    assert!(replay.contains("replayed as recorded under 6.1 "), "{replay}");
    for (from, to) in [("trace-v6.dat", "d.txt"), ("perf.data", "e.pftrace")] {
        well(&["trace", "convert", from, &out(to)], b"");
        assert_eq!(release(&out(to)), release(from), "{to}");
    }
    // Perfetto would misread the states of older kernels.
    let old = vruntime(&["trace", "convert", &out("old/trace.txt"), &out("f.pftrace")], b"");
    let stderr = String::from_utf8_lossy(&old.stderr);
    assert!(stderr.contains("the release of its kernel, 3.18.0-vruntime, is not in"), "{stderr}");
    assert_eq!(release(&out("f.pftrace")), serde_json::Value::Null);
}

#[test]
fn analyses_of_a_real_trace() {
    insta::assert_snapshot!("analyse-perf-script", well(&["trace", "analyse", "perf-script.txt", "--rows", "4"], b""));
    let json = |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&well(arguments, b"")).unwrap() };
    let latency = |file: &str| json(&["trace", "analyse", file, "latency", "--json"])["tables"]["latency"].take();
    let (binary, text) = (latency("perf.data"), latency("perf-data.txt"));
    assert_eq!(binary, text, "the same events in another format");
    let task = binary[0]["task"].as_str().unwrap().to_owned();
    let path = json(&["trace", "analyse", "perf.data", &format!("critical-path:{task}"), "--json"]);
    assert!(!path["tables"]["critical_path"].as_array().unwrap().is_empty(), "{path}");
    assert!(fails(&["trace", "analyse", "perf.data", "critical-path:nobody"], b"").contains("no task with the name"));
    assert!(fails(&["trace", "analyse", "perf.data", "lateness"], b"").contains("there is no analysis `lateness`"));
    assert!(fails(&["trace", "analyse", "-"], b"").contains("the file is empty"));
}

/// A run's own events, and its trace.
#[test]
fn a_run_and_its_trace_are_analysed_alike() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().display().to_string();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo/demo.toml");
    let json = |arguments: &[&str]| -> serde_json::Value { serde_json::from_str(&well(arguments, b"")).unwrap() };
    let words = "latency,antagonists,runqueue,migrations,critical-path:web/database-0";
    let run = ["run", scenario, "--duration", "1s", "--out", &out, "--json", "--analyse", words];
    let live = json(&run)["observed"][0]["analyses"]["tables"].take();
    let file = format!("{out}/trace.perfetto-trace");
    let words: Vec<&str> = words.split(',').collect();
    let read = json(&[&["trace", "analyse", &file, "--json"], &words[..]].concat())["tables"].take();
    for name in ["latency", "antagonists", "runqueue", "critical_path"] {
        assert!(live[name].as_array().is_some_and(|rows| !rows.is_empty()), "{name}: {live}");
    }
    assert_eq!(live["latency"], read["latency"]);
    // In a trace, the cause of a migration is derived from the events around it.
    let count = |tables: &serde_json::Value, causes: &[&str]| -> u64 {
        let rows = tables["migrations"].as_array().unwrap();
        let fitting = rows.iter().filter(|row| causes.contains(&row["cause"].as_str().unwrap()));
        fitting.map(|row| row["count"].as_u64().unwrap()).sum()
    };
    assert_eq!(count(&live, &["wakeup"]), count(&read, &["wakeup"]));
    let causes = ["newidle", "periodic", "nohz_idle", "idle"];
    assert_eq!(count(&live, &causes), count(&read, &causes), "{live} {read}");
    let newidle = (count(&live, &["newidle"]), count(&read, &["newidle"]));
    assert!(newidle.0 > 10 && newidle.0.abs_diff(newidle.1) * 20 <= newidle.0, "{newidle:?}");
}

/// perf's lines stand alone: notes go to standard error.
#[test]
fn lines_for_machines_are_alone() {
    let text = b"  a-7 [000] 1.000000: sched_waking: comm=b pid=8 prio=120 target_cpu=000\n\
        \x20 c-9 [000] 1.000100: sched_switch: prev_comm=c prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n";
    let output = vruntime(&["trace", "analyse", "-", "timehist"], text);
    let (lines, notes) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !lines.contains("Notes"), "{lines}");
    assert!(notes.contains("note: switches away from a task that was not running"), "{notes}");
}

/// Without `--rows`, timehist prints all lines.
#[test]
fn rows_limits_the_lines_of_timehist() {
    let lines = |more: &[&str]| {
        let text = well(&[&["trace", "analyse", "perf-data.txt", "timehist"], more].concat(), b"");
        (text.lines().filter(|line| line.contains("] ") && line.contains(" [0")).count(), text)
    };
    let (all, _) = lines(&[]);
    assert!(all > 100, "{all}");
    let (few, text) = lines(&["--rows", "3"]);
    assert_eq!(few, 3);
    assert!(text.contains(&format!("and {} more switches (--all shows them)", all - 3)), "{text}");
    assert_eq!(lines(&["--rows", "3", "--all"]).0, all);
}

/// perf's names before the first event have times but are no events: the recording starts at the first event.
#[test]
fn a_converted_trace_is_as_long_as_it_was() {
    let text = b"x 7 [000] 1.000000000: PERF_RECORD_COMM exec: early:7/7\n\
        early 7 [000] 3.000000000: sched:sched_switch: early:7 [120] S ==> swapper/0:0 [120]\n\
        late 8 [001] 3.500000000: PERF_RECORD_COMM exec: late:8/8\n\
        late 8 [001] 4.000000000: sched:sched_switch: late:8 [120] S ==> swapper/1:0 [120]\n";
    let span = |json: &str| {
        let json: serde_json::Value = serde_json::from_str(json).unwrap();
        (json["span_ns"].clone(), json["events_by_name"]["task_rename"].clone())
    };
    let before = span(&well(&["trace", "info", "-", "--json"], text));
    assert_eq!(before.0, 1_000_000_000, "{before:?}");
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.txt", "a.pftrace"] {
        let out = folder.path().join(name).display().to_string();
        well(&["trace", "convert", "-", &out], text);
        let (length, renames) = span(&well(&["trace", "info", &out, "--json"], b""));
        assert_eq!((length, renames.as_u64()), (before.0.clone(), Some(1)), "{name}");
    }
}
