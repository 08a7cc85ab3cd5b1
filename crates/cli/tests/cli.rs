//! What the command prints, where, and how it ends.

#[path = "cli/comparisons.rs"]
mod comparisons;
#[path = "cli/counts.rs"]
mod counts;
#[cfg(unix)]
#[path = "support/for_all.rs"]
mod for_all;
#[path = "cli/runs.rs"]
mod runs;
#[path = "cli/saved.rs"]
mod saved;
#[path = "cli/scenarios.rs"]
mod scenarios;
#[path = "../../../tests/skip.rs"]
mod skip;
#[cfg(unix)]
#[path = "cli/stopped.rs"]
mod stopped;
mod support;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use support::*;

/// Of the command and of all its subcommands.
#[test]
fn help_of_every_command() {
    let (mut asked, mut names) = (vec![Vec::new()], Vec::new());
    while let Some(command) = asked.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = well(&arguments);
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        // Two screens: of 24 lines for `-h`, and of 50 lines for the help of the command itself.
        let short: Vec<&str> = command.iter().map(String::as_str).chain(["-h"]).collect();
        let short = well(&short);
        assert!(short.lines().count() <= 48, "{} lines: {short}", short.lines().count());
        assert!(!command.is_empty() || help.lines().count() <= 100, "{help}");
        let name = command.join("-");
        insta::assert_snapshot!(format!("help-{name}"), help);
        names.push(name);
        let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
        for line in listed.lines().take_while(|line| !line.is_empty()) {
            // What a command is for may need more lines than one.
            let word = line
                .strip_prefix("  ")
                .and_then(|line| line.split_whitespace().next().filter(|_| !line.starts_with(' ')));
            if let Some(word) = word.filter(|word| *word != "help") {
                asked.push([&command[..], &[word.to_owned()]].concat());
            }
        }
    }
    // A trace is no file that says how it is to be run.
    assert!(!well(&["replay", "--help"]).contains("the file's"));
    names.sort();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let kept = fs::read_dir(folder).expect("there are snapshots").flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        Some(name.strip_prefix("cli__help-")?.strip_suffix(".snap")?.to_owned())
    });
    let mut kept: Vec<String> = kept.collect();
    kept.sort();
    assert_eq!(names, kept, "a snapshot for each");
}

#[test]
fn mistakes_are_reported_with_a_way_to_mend_them() {
    let cases: &[(&str, &[&str])] = &[
        ("no such file", &["run", "nowhere.json"]),
        ("no such kernel", &["run", "beat.json", "--kernel", "2.4"]),
        ("no such machine", &["run", "beat.json", "--machine", "pack:2 cor:4"]),
        ("no such feature", &["run", "beat.json", "--feature", "NO_RUN_TO_PARTY"]),
        ("no such tunable", &["run", "beat.json", "--set", "base_slise_ns=1"]),
        ("no number", &["run", "beat.json", "--set", "base_slice_ns=3ms"]),
        ("no such costs", &["run", "beat.json", "--costs", "emulate"]),
        ("no such command", &["rum", "beat.json"]),
        ("no such option", &["run", "beat.json", "--kernle", "6.1"]),
        ("too small a machine", &["run", "beat.json", "--machine", "1"]),
        ("nothing to compare", &["compare", "beat.json"]),
        ("repeat nothing", &["run", "beat.json", "--repeat", "0"]),
        ("no length", &["run", "beat.json", "--duration", "0s"]),
        ("too long", &["run", "beat.json", "--duration", "999999999h"]),
        ("look at the end", &["run", "beat.json", "--machine", "2", "--duration", "20ms", "--debug-at", "20ms"]),
        ("repeat less than nothing", &["run", "beat.json", "--repeat", "-1"]),
        ("bad json", &["run", "bad.json"]),
        ("bad toml", &["run", "bad.toml"]),
        ("no recordings", &["fidelity", "."]),
        ("no such scenario", &["fidelity", "--scenario", "five-on-3"]),
    ];
    for (name, arguments) in cases {
        // The list of kernels grows.
        let error = fails(arguments);
        let error = error.split("; there are 2.6.15").next().unwrap_or_default();
        insta::assert_snapshot!(format!("mistake-{}", name.replace(' ', "-")), error);
    }
}

#[test]
fn no_run_is_of_no_length() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    };
    for command in ["run", "compare", "replay", "real"] {
        if cfg!(target_os = "linux") || command != "real" {
            let error = fails(&[command, "beat.json", "--duration", "0s"]);
            assert!(error.contains("'--duration <TIME>': expected a time above 0, such as"), "{command}: {error}");
        }
    }
    let task = "[[task]]\nname = \"a\"\nrun = \"1ms\"\n";
    let scenario = written("none.toml", &format!("duration = \"0ms\"\n{task}"));
    let error = fails(&["run", &scenario]);
    assert!(error.contains("`duration` is \"0ms\"") && error.contains("expected a time above 0"), "{error}");
    // To rt-app it says that the run is over when all tasks are.
    let rtapp =
        written("none.json", r#"{ "tasks": { "a": { "loop": 2, "run": 1000 } }, "global": { "duration": 0 } }"#);
    assert_eq!(json(&["run", &rtapp, "--json"])["observed"][0]["tasks"]["a"]["loops"], 2);
}

/// Endless forks are refused at once, not when the machine is full. Forks with an end are allowed.
#[test]
fn forks_without_end_are_refused_before_they_begin() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("bomb.json");
    fs::write(&path, r#"{ "tasks": { "a": { "loop": 4, "fork": "a", "run": 1000 } } }"#).expect("it can be written");
    let path = path.display().to_string();
    let error = fails(&["run", &path]);
    assert!(error.contains("task `a` is forked without end, and the run has no duration"), "{error}");
    assert!(error.contains("bomb.json:1:14") && error.contains("--duration"), "{error}");
    well(&["run", &path, "--duration", "20ms"]);
}

/// With a duration the run ends at the limit of live tasks, long before they fill the memory.
#[test]
fn a_fork_bomb_is_stopped_with_a_remedy() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let [bomb, scenario] = ["bomb.json", "bomb.toml"].map(|name| folder.path().join(name).display().to_string());
    let text = r#"{ "global": { "duration": 1 }, "tasks": { "a": { "loop": -1, "fork": "a", "sleep": 10 } } }"#;
    fs::write(&bomb, text).expect("it can be written");
    let refused = |arguments: &[&str]| {
        let error = fails(&[&["run"], arguments].concat());
        error.split_whitespace().filter(|word| *word != "│").collect::<Vec<&str>>().join(" ")
    };
    let error = refused(&[&bomb, "--threads-max", "500"]);
    for part in ["cannot be forked (EAGAIN): 500 tasks are alive", "bomb.json:1:43", "--threads-max 1000"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    fs::write(&scenario, "threads_max = 700\n[[workload]]\nrtapp = \"bomb.json\"\n").expect("it can be written");
    assert!(refused(&[&scenario]).contains("(EAGAIN): 700 tasks are alive"));
    assert!(refused(&[&scenario, "--threads-max", "300"]).contains("(EAGAIN): 300 tasks are alive"));
}

/// Help and version are results, too.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_reported() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data/ftrace-tgid.txt");
    let helps = [&["--help"][..], &["help", "trace"], &["run", "--help"], &["--version"]];
    let results = [
        &["kernels"][..],
        &["kernels", "--json"],
        &["run", "beat.json", "--duration", "1s"],
        &["run", "beat.json", "--duration", "1s", "--json"],
        &["compare", "beat.json", "--duration", "1s", "--kernel", "6.6", "--kernel", "6.12"],
        &["trace", "info", trace],
        &["trace", "convert", trace, "-", "--to", "text"],
        &["trace", "convert", trace, "-", "--to", "perfetto"],
        &["completions", "bash"],
        &["init", "-"],
    ];
    let program = Command::cargo_bin("vruntime").expect("cargo has built it");
    let refused = |arguments: &[&str], stdout: fs::File, why: &str| {
        let mut command = std::process::Command::new(program.get_program());
        command.current_dir(data("")).env("VRUNTIME_MESSAGES", "json").args(arguments).stdout(stdout);
        let output = command.output().expect("it runs");
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        let last = serde_json::from_str::<serde_json::Value>(stderr.lines().last().unwrap_or_default());
        let last = last.unwrap_or_else(|_| panic!("{arguments:?}: {stderr}"));
        assert_eq!(last["level"], "error", "{arguments:?}: {stderr}");
        let message = last["message"].as_str().unwrap_or_default();
        assert!(
            message.starts_with("cannot write to standard output") && message.contains(why),
            "{arguments:?}: {stderr}"
        );
        assert!(last["help"].as_str().is_some_and(|help| help.contains("standard output")), "{arguments:?}: {stderr}");
    };
    for arguments in helps.iter().chain(&results) {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        refused(arguments, full, "No space left on device");
    }
    for arguments in results {
        // A descriptor that is only for reading.
        refused(arguments, fs::File::open("/dev/null").expect("it is there"), "Bad file descriptor");
    }
}

/// Rust opens `/dev/null` in place of a closed standard output. To write there is an error all the same.
#[cfg(target_os = "linux")]
#[test]
fn a_closed_standard_output_is_an_error() {
    for (redirected, status) in [(">&-", 1), ("> /dev/null", 0)] {
        for arguments in ["kernels", "--help", "kernels --json"] {
            let script = format!("\"$VRUNTIME\" {arguments} {redirected}");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).env("VRUNTIME", env!("CARGO_BIN_EXE_vruntime")).env("LC_ALL", "C");
            let output = command.output().expect("it runs");
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(status), "{script}: {stderr}");
            assert_eq!(stderr.contains("cannot write to standard output"), status == 1, "{script}: {stderr}");
        }
    }
}

#[test]
fn warnings_are_errors_if_strict() {
    let lenient = vruntime(&["run", "trailing.json", "--machine", "1"]);
    assert!(lenient.status.success(), "{}", text(&lenient.stderr));
    assert!(fails(&["run", "trailing.json", "--machine", "1", "--strict"]).contains("trailing.json"));
}

#[test]
fn lists_of_kernels_and_machines() {
    let kernels = well(&["kernels"]);
    for kernel in ["6.1", "6.6", "6.12", "6.18"] {
        assert!(kernels.lines().any(|line| line.starts_with(&format!("{kernel} "))), "{kernels}");
        assert!(well(&["kernels", "--features", kernel]).contains("WAKEUP_PREEMPTION"));
    }
    insta::assert_snapshot!("machines", well(&["machines"]));
    insta::assert_snapshot!("machine-drawn", well(&["machines", "pack:2 core:2 pu:2"]));
}

#[test]
fn lists_for_programs() {
    let kernels = json(&["kernels", "--json"]);
    let listed = well(&["kernels"]);
    let rows = kernels.as_array().expect("an array");
    assert!(rows.iter().all(|row| listed.contains(row["kernel"].as_str().expect("a name"))) && rows.len() > 10);
    let of = |kernel: &serde_json::Value| {
        json(&["kernels", "--features", kernel["kernel"].as_str().expect("a name"), "--json"])
    };
    for kernel in rows {
        let one = of(kernel);
        assert_eq!(one["policy"], kernel["policy"]);
        assert!(one["tunables"].as_array().is_some_and(|tunables| !tunables.is_empty()), "{kernel}");
    }
    let eevdf = of(&rows[rows.len() - 1]);
    let feature = eevdf["features"].as_array().and_then(|all| all.iter().find(|row| row["feature"] == "PLACE_LAG"));
    assert_eq!(feature.map(|row| (&row["on"], &row["has_effect"])), Some((&true.into(), &true.into())));
    let all = json(&["kernels", "--features", "--json"]);
    assert!(
        all.as_array().is_some_and(|all| all.iter().any(|row| row["kernels"] == serde_json::json!(["6.6", "7.2"])))
    );

    let machines = json(&["machines", "--json"]);
    assert!(machines.as_array().is_some_and(|all| all.iter().any(|row| row["machine"] == "server")));
    let cpus = json(&["machines", "pack:2 core:1(capacity=1024,446) pu:1", "--json"]);
    assert_eq!(cpus[1]["package"], 1);
    assert_eq!((&cpus[0]["capacity"], &cpus[1]["capacity"]), (&1024.into(), &446.into()));
}

#[test]
fn features_are_reported_with_the_kernels_that_have_them() {
    let all = well(&["kernels", "--features"]);
    assert!(all.contains("GENTLE_FAIR_SLEEPERS") && all.contains("3.10 to 6.4 "), "{all}");
    let one = well(&["kernels", "--features", "6.12"]);
    assert!(one.contains("RUN_TO_PARITY") && !one.contains("GENTLE_FAIR_SLEEPERS"), "{one}");
    // Each tunable once, though it can be set by the name of its sysctl, too.
    for kernel in ["3.10", "3.12", "3.17", "3.18", "6.1"] {
        let listed = well(&["kernels", "--features", kernel]);
        assert!(
            listed.contains("\nwakeup_granularity_ns ") && !listed.contains("sched_wakeup_granularity_ns"),
            "{listed}"
        );
        assert!(!listed.contains("2.6.23:"), "{listed}");
    }
    let run = ["run", "groups.toml", "--kernel", "6.12", "--duration", "1ms", "--feature"];
    let note = |feature| text(&vruntime(&[&run[..], &[feature]].concat()).stderr);
    assert!(note("NO_GENTLE_FAIR_SLEEPERS").contains("Linux 6.12 has no GENTLE_FAIR_SLEEPERS: 3.10 to 6.4 have it"));
    assert!(note("TTWU_QUEUE").contains("makes no difference here"));
    assert!(!note("NO_RUN_TO_PARITY").contains("has no"));
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(well(&["completions", shell]).contains("fidelity"), "{shell}");
    }
}

#[test]
fn names_and_numbers_in_tables_are_whole() {
    let text = well(&["kernels", "--features", "6.12"]);
    assert!(!text.lines().any(|line| line.starts_with(' ')), "in a pipe a row is one line: {text}");
    for name in ["sched_rr_timeslice_ms ", "sched_util_clamp_min_rt_default"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(text.lines().any(|line| line.starts_with("base_slice_ns") && line.ends_with("2800000")), "{text}");
}

/// On a terminal tables fit any width; `script` provides a terminal.
#[cfg(target_os = "linux")]
#[test]
fn tables_fit_the_terminal() {
    let shell = |columns: u16, command: &str| {
        let program = Command::cargo_bin("vruntime").expect("cargo has built it");
        let program = program.get_program().to_string_lossy().into_owned();
        let line = format!("stty cols {columns}; {program} {command} 2>/dev/null");
        let output = std::process::Command::new("script").args(["-qec", &line, "/dev/null"]).output().ok()?;
        assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
        Some(text(&output.stdout))
    };
    let run =
        |scenario: &str| format!("run {} --duration 100ms", data("../../../../scenarios").join(scenario).display());
    // A long name, limits, a long line above the table.
    let runs = [run("demo/demo.toml"), run("limits/shop.toml"), run("wasted-cores/overload-on-wakeup.toml")];
    let commands = [
        ("kernels --features 6.12", "base_slice_ns"),
        (&runs[0], "web/worker x12"),
        (&runs[1], "/shop/web"),
        (&runs[2], "NUMA"),
    ];
    for (columns, (command, has)) in
        [80, 100].into_iter().flat_map(|columns| commands.map(|command| (columns, command)))
    {
        let Some(text) = shell(columns, command) else {
            skip::skip("there is no `script`");
            return;
        };
        assert!(text.contains(has), "{text}");
        for line in text.lines() {
            assert!(line.trim_end().chars().count() <= usize::from(columns), "{columns}: {line}");
        }
    }
}

/// A note of several runs is printed once, even if its times differ.
#[test]
fn notes_are_reported_once() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("waits.toml");
    let text_of =
        "duration = \"20ms\"\n[[task]]\nname = \"a\"\nsteps = [{ run = \"1ms\" }, { wait_event = \"never\" }]\n";
    fs::write(&path, text_of).expect("it can be written");
    let path = path.display().to_string();
    let kernels = ["--kernel", "6.1", "--kernel", "6.12", "--feature", "LAST_BUDDY"];
    let two = ["compare", &path, "--machine", "1", "--machine", "2", "--repeat", "3"];
    let output = vruntime(&[&two[..], &kernels].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stderr = text(&output.stderr);
    let waits = stderr.lines().filter(|line| line.contains("task `a` waits for")).count();
    assert_eq!(waits, 1, "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.contains("6.12 has no LAST_BUDDY")).count(), 1, "{stderr}");
}

#[test]
fn kernels_without_lazy_preemption_say_so() {
    let of = |kernel| {
        json(&["run", "beat.json", "--kernel", kernel, "--preempt", "lazy", "--json"])["observed"][0]["notes"]
            .to_string()
    };
    assert!(of("6.12").contains("lazy preemption came with 6.13"), "{}", of("6.12"));
    assert!(!of("6.18").contains("lazy"), "{}", of("6.18"));
    let of = |kernel, model: &[&str]| {
        let output = vruntime(&[&["run", "beat.json", "--kernel", kernel, "--json"], model].concat());
        let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let simulated = run["preempt"].as_str().unwrap_or_default().to_owned();
        (simulated, text(&output.stderr))
    };
    let (model, notes) = of("7.1", &["--preempt", "voluntary"]);
    assert!(model == "lazy" && notes.contains("Linux 7.1 has no voluntary preemption"), "{model}: {notes}");
    for (kernel, model) in [("6.18", "voluntary"), ("7.0", "lazy"), ("7.2", "lazy")] {
        let (simulated, notes) = of(kernel, &[]);
        assert!(simulated == model && !notes.contains("preemption"), "{kernel}: {simulated} {notes}");
    }
}

/// Releases of distributions have the nearest kernel, and a note.
#[test]
fn kernels_of_distributions_say_what_is_simulated() {
    for (release, note) in [
        ("6.5.0-45-generic", "Ubuntu's 6.5 is simulated as Linux 6.4, the nearest kernel on offer"),
        ("3.10.0-1160.el7.x86_64", "Red Hat Enterprise Linux 7 is simulated as Linux 3.10"),
    ] {
        let output = vruntime(&["run", "beat.json", "--kernel", release, "--duration", "10ms"]);
        let notes = text(&output.stderr);
        assert!(notes.contains(note), "{notes}");
    }
}
