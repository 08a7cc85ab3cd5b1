//! What the command says of input that is unusable, or has another effect than meant.

#[path = "complaints/messages.rs"]
mod messages;
mod support;
#[path = "complaints/words.rs"]
mod words;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use support::*;

/// Checks that the error about a file without line breaks is short.
fn of_one_line(arguments: &[&str], place: &str) {
    let error = fails(arguments);
    assert!(error.contains(place), "{arguments:?}: {error}");
    assert!(error.lines().all(|line| line.chars().count() <= 200), "{arguments:?}: {error}");
    assert!(error.len() < 4000, "{arguments:?}: {error}");
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("it can be written");
    path.display().to_string()
}

#[test]
fn errors_in_files_without_line_breaks_show_what_is_near_them() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = |name: &str, text: &str| written(folder.path(), name, text);
    let wide = " ".repeat(99_990);
    let json = file("long.json", &format!("{{{wide}\"tasks\":{{\"a\":{{\"run\":\"x\"}}}}}}"));
    of_one_line(&["run", &json], "long.json:1:100012]");
    let json =
        file("multibyte.json", &format!("{{/*{}*/\"tasks\":{{\"a\":{{\"run\":\"x\"}}}}}}", "\u{1f600}".repeat(99_990)));
    of_one_line(&["run", &json], "multibyte.json:1:100016]");
    let key = file("key.json", &format!("{{\"tasks\":{{\"a\":{{\"{}\":1}}}}}}", "k".repeat(1_000_000)));
    of_one_line(&["run", &key, "--strict"], "key.json:1:16]");
    let toml = file("long.toml", &format!("task = [{}{{foo = 1}}]\n", "{name = \"a\", run = \"1ms\"},".repeat(8000)));
    of_one_line(&["run", &toml], "long.toml:1:");
    let kernel = file("kernel.toml", &format!("{wide}kernel = \"9.9\"\ntask = [{{name = \"a\", run = \"1ms\"}}]\n"));
    of_one_line(&["run", &kernel], "kernel.toml:1:100000]");
    let machine = file("machine.toml", &format!("machine = {{ topology = {wide}3 }}\n"));
    let xml = file("machine.xml", &format!("<topology><object type=\"Machine\">{wide}<object type=\"X\" </topology>"));
    let yml = file("plat_info.yml", &format!("a: [{wide}}}"));
    let beat = data("beat.json").display().to_string();
    for (named, place) in
        [(&machine, "machine.toml:1:100014]"), (&xml, "machine.xml:1:100041]"), (&yml, "plat_info.yml:1:99995]")]
    {
        of_one_line(&["run", &beat, "--machine", named], place);
    }
    let rules = file("rules.toml", &format!("rule = [{wide}{{ nothing = 3 }}]\n"));
    let groups = file("groups", &format!("/proc/7/task/7/cgroup:{}\n", "x".repeat(99_990)));
    let trace = data("../../../trace/tests/data/ftrace.txt").display().to_string();
    of_one_line(&["replay", &trace, "--map", &rules], "rules.toml:1:100001]");
    of_one_line(&["replay", &trace, "--map", &format!("{wide}x: y")], "[the rule:1:99994]");
    of_one_line(&["replay", &trace, "--cgroups", &groups], "groups:1:23]");
}

#[test]
fn the_error_for_a_trace_names_replay() {
    for (file, kind) in [
        ("ftrace.txt", "ftrace text"),
        ("trace-cmd-report.txt", "text of trace-cmd report"),
        ("perf-script.txt", "text of perf script"),
        ("trace-v6.dat", "trace.dat of trace-cmd"),
        ("perf.data", "perf.data"),
        ("compact.pftrace", "Perfetto trace"),
    ] {
        let path = data("../../../trace/tests/data").join(file).display().to_string();
        for command in ["run", "real"] {
            let error = on_one_line(&fails(&[command, &path]));
            assert!(error.contains(&format!("is a recorded trace ({kind}), no workload")), "{command} {file}: {error}");
            assert!(error.contains("`vruntime replay "), "{command} {file}: {error}");
        }
    }
}

#[test]
fn the_error_for_a_workload_names_run() {
    for command in [&["replay"][..], &["trace", "info"], &["trace", "analyse"]] {
        let error = on_one_line(&fails(&[command, &["beat.json"]].concat()));
        assert!(
            error.contains("it looks like a workload, which `vruntime run beat.json` runs"),
            "{command:?}: {error}"
        );
    }
}

#[test]
fn the_error_for_results_names_compare() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_owned();
    well(&["run", "beat.json", "--duration", "20ms", "--out", &out]);
    let results = format!("{out}/results.json");
    let error = on_one_line(&fails(&["replay", &results]));
    assert!(error.contains("it has the results of a run") && error.contains("vruntime compare"), "{error}");
    let error = on_one_line(&fails(&["compare", &out, &out])).replace(' ', "");
    assert!(error.contains(&format!("nametheresultsinit:{results}")), "{error}");
}

#[test]
fn recordings_that_there_are_none_of() {
    let error_of = |arguments: &[&str]| on_one_line(&fails(&[&["fidelity"], arguments].concat()));
    let all = error_of(&["--scenario", "nosuch"]);
    assert!(all.contains("no recorded scenario has `nosuch` in its name"), "{all}");
    assert!(all.contains("there are batch-idle, five-on-2, ") && all.contains(", three-hogs, "), "{all}");
    assert!(error_of(&["--scenario", "three-hog-s"]).contains("did you mean `three-hogs`?"));
    let under = error_of(&["--scenario", "quota-hogs", "--kernel", "6.18"]);
    assert!(under.contains("no scenario recorded under 6.18 has `quota-hogs`"), "{under}");
    assert!(under.contains("help: under 6.1, 6.12 there is"), "{under}");
    let kernel = error_of(&["--kernel", "5.99", "--scenario", "three-hogs"]);
    assert!(kernel.contains("there is no recording of kernel 5.99"), "{kernel}");
    assert!(kernel.contains("there are recordings of 6.1, 6.12, 6.18"), "{kernel}");
    assert!(error_of(&["--kernel", "2.6.23"]).contains("there is no recording of kernel 2.6.23"));
}

#[test]
fn errors_on_numbers_state_the_range() {
    for (arguments, expected) in [
        (&["--repeat", "-1"][..], "invalid value '-1' for '--repeat <N>': expected a whole number from 1 to 1000"),
        (&["--repeat", "x"], "expected a whole number from 1 to 1000"),
        (&["--repeat", "1001"], "expected a whole number from 1 to 1000"),
        (&["--hz", "-5"], "invalid value '-5' for '--hz <HZ>': expected a whole number from 1 to 10000"),
        (&["--seed", "-1"], "expected a whole number from 0 to 18446744073709551615"),
        (&["--duration", "-1s"], "invalid value '-1s' for '--duration <TIME>': a time is a number and a unit"),
    ] {
        let error = fails(&[&["run", "beat.json"], arguments].concat());
        assert!(error.contains(expected) && !error.contains("tip:"), "{arguments:?}: {error}");
    }
}

#[test]
fn names_do_not_speak_to_the_terminal() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = folder.path().join("names.json");
    let red = r#""a\u001b[31mRED\u001b[2J" : { "run" : 1000, "sleep" : 1000 }, "x\ny\u202e" : { "run" : 1000 }"#;
    fs::write(&file, format!(r#"{{ "tasks" : {{ {red} }}, "global" : {{ "duration" : 1 }} }}"#))
        .expect("it can be written");
    let file = file.display().to_string();
    for arguments in [
        &["run", &file, "--machine", "1"][..],
        &["run", &file, "--machine", "1", "--detect", "--analyse", "latency"],
        &["run", &file, "--machine", "1", "--debug-at", "10ms"],
        &["compare", &file, "--machine", "1", "--kernel", "6.1", "--kernel", "6.12", "--all"],
    ] {
        let output = well(arguments);
        assert!(output.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{arguments:?}: {output}");
        assert!(output.contains(r"a\u{1b}[31m"), "{arguments:?}: {output}");
        assert!(!output.lines().any(|line| line.starts_with('y')), "{arguments:?}: {output}");
    }
    let run = json(&["run", &file, "--machine", "1", "--json"]);
    assert!(run["observed"][0]["tasks"]["x\ny\u{202e}"].is_object(), "JSON has the true names");
    // Files are opened in editors and browsers.
    let [page, out] = ["page.html", "out"].map(|name| folder.path().join(name));
    let [page_text, out_text] = [&page, &out].map(|path| path.display().to_string());
    well(&["run", &file, "--machine", "1", "--html", &page_text, "--out", &out_text]);
    let results = fs::read_to_string(out.join("results.json")).expect("it was written");
    assert!(results.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{results}");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    assert!(results["observed"][0]["tasks"]["x\ny\u{202e}"].is_object(), "JSON has the true names");
    let page = fs::read_to_string(page).expect("it was written");
    assert!(!page.contains(['\u{1b}', '\u{202e}']) && page.contains(r"a\\u{1b}[31mRED"), "escapes are visible");
    let output = fails(&["run", &file, "--machine", "1", "--kernel", "6\u{1b}[2J"]);
    assert!(output.contains(r"6\u{1b}[2J") && !output.contains('\u{1b}'), "{output}");
}

/// Each gap of the table of kernels: the error names the kernels around it, and the nearer one.
#[test]
fn a_kernel_that_is_not_on_offer_gets_its_neighbours() {
    let version = |name: &str| -> Option<(u32, u32)> {
        let (major, minor) = name.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    let all = vruntime_sched::kernels::kernels().iter();
    let offered: Vec<(&str, (u32, u32))> = all.filter_map(|row| Some((row.name, version(row.name)?))).collect();
    let mut gaps = 0;
    for pair in offered.windows(2) {
        let [(below, (major, low)), (above, (above_major, high))] = [pair[0], pair[1]];
        if major != above_major || high.saturating_sub(low) < 3 {
            continue;
        }
        gaps += 1;
        for (kernel, nearest) in [(low + 1, below), (high - 1, above)] {
            let kernel = format!("{major}.{kernel}");
            let error = fails(&["run", "beat.json", "--kernel", &kernel]);
            let why = format!("there is no kernel `{kernel}`: no version between {below} and {above} is supported");
            assert!(error.contains(&why) && error.contains(&format!("the nearest is {nearest};")), "{error}");
        }
    }
    assert!(gaps > 0, "{offered:?}");
    let newest = offered.last().unwrap().0;
    let error = fails(&["run", "beat.json", "--kernel", "99.0"]);
    assert!(error.contains(&format!("there is no kernel `99.0`: the newest supported version is {newest}")), "{error}");
}

#[test]
fn settings_that_the_kernel_refuses_are_errors() {
    for (arguments, why) in [
        (&["--set", "sched_util_clamp_min=5000"][..], "sched_util_clamp_min cannot be 5000: expected 0 to 1024"),
        (&["--set", "fair_server/period=1"], "fair_server/period cannot be 1: expected 100000 to 4194304000"),
        (&["--set", "base_slice_ns=0"], "base_slice_ns cannot be 0: expected 1 to 4294967295"),
        (&["--set", "latency_ns=6000000"], "Linux 6.12 has no latency_ns: 3.10 to 6.4 have it"),
        (&["--set", "CPU_RC_LOAD_SCALE=3"], "Linux 6.12 has no CPU_RC_LOAD_SCALE: 2.6.15-cpurc has it"),
        (
            &["--kernel", "6.1", "--set", "fair_server/runtime=3"],
            "Linux 6.1 has no fair_server/runtime: 6.12 to 7.2 have it",
        ),
        (&["--kernel", "6.12+base_slice_ns=0"], "base_slice_ns cannot be 0"),
    ] {
        let error = fails(&[&["run", "beat.json", "--machine", "2"][..], arguments].concat());
        assert!(error.contains(why), "{arguments:?}: {error}");
    }
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let scenario = |set: &str| {
        let file = folder.path().join("set.toml");
        let text = format!("kernel = \"6.12\"\n[set]\n{set}\n[[task]]\nname = \"a\"\nrun = \"1ms\"\n");
        fs::write(&file, text).expect("it can be written");
        fails(&["run", &file.display().to_string()])
    };
    let error = scenario("sched_util_clamp_min = 5000");
    assert!(error.contains("set.toml:3:24]") && error.contains("expected 0 to 1024"), "{error}");
    let error = scenario("latency_ns = 6000000");
    assert!(error.contains("set.toml:3:1]") && error.contains("Linux 6.12 has no latency_ns"), "{error}");
}

#[test]
fn what_the_machine_refuses_is_reported_with_its_place() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let error_of = |name: &str, text: &str, arguments: &[&str]| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("it can be written");
        fails(&[&["run", &file.display().to_string()], arguments].concat())
    };
    let task = "[[task]]\nname = \"a\"\nrun = \"1ms\"\n";
    for (text, place, why) in [
        (format!("{task}cpus = [0, 9]\n"), "4:8]", "is to run on CPU 9, but the machine has 2"),
        (format!("{task}[[hotplug]]\nat = \"1ms\"\ncpu = 7\nonline = false\n"), "6:7]", "there is no CPU 7"),
        (
            format!(
                "{task}[[hotplug]]\nat = \"1ms\"\ncpu = 0\nonline = false\n[[hotplug]]\nat = \"2ms\"\ncpu = 1\nonline = false\n"
            ),
            "10:7]",
            "CPU 1 cannot go offline: it is the last online CPU",
        ),
        (format!("{task}[[change]]\nat = \"1ms\"\ntask = \"a\"\ncpus = [9]\n"), "7:8]", "CPU 9"),
        (format!("{task}group = \"/g\"\n[groups.\"/g\"]\nrt_runtime = \"2s\"\n"), "6:14]", "rt_runtime"),
        (
            format!(
                "kernel = \"2.6.15-cpurc\"\n{task}[groups.\"/g\"]\nguarantee = 60\n[groups.\"/h\"]\nguarantee = 50\n"
            ),
            "8:13]",
            "50 %",
        ),
        (
            format!("{task}policy = \"SCHED_DEADLINE\"\nruntime = \"2ms\"\ndeadline = \"9ms\"\nperiod = \"5ms\"\n"),
            "6:12]",
            "a runtime of 2000 us",
        ),
        (format!("{task}util_min = 800\nutil_max = 100\n"), "4:12]", "a `util_min` of 800 is above"),
        (format!("machine = {{ lstopo = \"nofile.xml\" }}\n{task}"), "1:22]", "cannot read"),
        (format!("machine = {{ topology = \"2\", capacities = [446] }}\n{task}"), "1:43]", "1 capacity for 2 CPUs"),
    ] {
        let error = error_of(
            "refused.toml",
            &format!("duration = \"10ms\"\n{text}"),
            &["--machine", "2"][..if text.starts_with("machine") { 0 } else { 2 }],
        );
        let (line, column) = place.split_once(':').expect("a line and a column");
        let line = line.parse::<usize>().expect("a number") + 1;
        assert!(error.contains(&format!("refused.toml:{line}:{column}")) && error.contains(why), "{text}\n{error}");
    }
    let error = error_of(
        "refused.json",
        "{ \"tasks\" : {\n  \"a\" : { \"run\" : 1000, \"cpus\" : [9] } }, \"global\" : { \"duration\" : 1 } }",
        &["--machine", "2"],
    );
    assert!(error.contains("refused.json:2:") && error.contains("CPU 9"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_reported_with_the_one_that_was_meant() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    fs::write(folder.path().join("web.json"), "{}").expect("it can be written");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let meant = on_one_line(&fails(&["run", &at("wbe.json")]));
    assert!(meant.contains("did you mean") && meant.ends_with("web.json?"), "{meant}");
    let inside = on_one_line(&fails(&["run", &at("")]));
    assert!(inside.contains("it is a folder: name an rt-app file"), "{inside}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(at("gone.json"), at("link.json")).expect("it can be made");
        assert!(on_one_line(&fails(&["run", &at("link.json")])).contains("a link to a missing file"));
    }
    let above = on_one_line(&fails(&["run", &at("no/web.json")]));
    assert!(above.contains("there is no folder") && !above.contains("did you mean"), "{above}");
    fs::create_dir_all(folder.path().join("scenarios/demo")).expect("it can be made");
    fs::write(at("scenarios/demo/web.json"), "{}").expect("it can be written");
    let misspelt = on_one_line(&fails(&["run", &at("scenaros/demo/web.json")]));
    assert!(misspelt.contains("did you mean") && misspelt.ends_with("scenarios/demo/web.json?"), "{misspelt}");
    let not_in_it = on_one_line(&fails(&["run", &at("scenaros/web.json")]));
    assert!(not_in_it.ends_with("scenarios?"), "{not_in_it}");
    assert!(on_one_line(&fails(&["fidelity", &at("zzzzzzzz")])).contains("--record DIR"));
    assert!(on_one_line(&fails(&["trace", "info", &at("zzzzzzzz")])).contains("trace.dat"));
}

#[test]
fn what_is_given_twice_is_reported() {
    let web = data("beat.json").display().to_string();
    let warnings_of = |options: &[&str]| {
        let arguments: Vec<&str> = ["run", &web, "--machine", "2"].into_iter().chain(options.iter().copied()).collect();
        on_one_line(&text(&vruntime(&arguments).stderr))
    };
    let with = |features: &[&str]| {
        let options = features.iter().flat_map(|feature| ["--feature", feature]);
        warnings_of(&["--kernel", "6.12"].into_iter().chain(options).collect::<Vec<_>>())
    };
    let stderr = with(&["RUN_TO_PARITY", "WA_BIAS", "NO_RUN_TO_PARITY"]);
    assert!(
        stderr.contains("--feature RUN_TO_PARITY has no effect: --feature NO_RUN_TO_PARITY overrides it"),
        "{stderr}"
    );
    assert!(!with(&["RUN_TO_PARITY", "NO_WA_BIAS"]).contains("no effect"));
    assert!(!with(&["NO_RUN_TO_PARITY", "NO_RUN_TO_PARITY"]).contains("no effect"));
    let slices = warnings_of(&["--set", "base_slice_ns=1000000", "--set", "base_slice_ns=2000000"]);
    assert!(
        slices.contains("--set base_slice_ns=1000000 has no effect: --set base_slice_ns=2000000 overrides it"),
        "{slices}"
    );
    let kernel = warnings_of(&["--kernel", "6.12+NO_WA_BIAS+base_slice_ns=1000000+WA_BIAS"]);
    assert!(
        kernel.contains("+NO_WA_BIAS of --kernel 6.12+NO_WA_BIAS+base_slice_ns=1000000+WA_BIAS has no effect"),
        "{kernel}"
    );
    assert!(!warnings_of(&["--kernel", "6.12+NO_WA_BIAS+base_slice_ns=1000000"]).contains("no effect"));
}

#[test]
fn what_would_never_happen_is_warned_of() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = folder.path().join("late.toml");
    let task = "[[task]]\nname = \"a\"\nrun = \"1ms\"\nloops = 20\n";
    let late = "[[change]]\nat = \"2s\"\ntask = \"a\"\nnice = 3\n[[hotplug]]\nat = \"3s\"\ncpu = 1\nonline = false\n";
    let path = file.display().to_string();
    for head in ["duration = \"10ms\"\n", ""] {
        fs::write(&file, format!("{head}{task}{late}")).expect("it can be written");
        let output = vruntime(&["run", &path, "--machine", "2"]);
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(stderr.contains("this [[change]] is at 2 s, and the run ends at 0.0"), "{stderr}");
        assert!(stderr.contains("this [[hotplug]] is at 3 s"), "{stderr}");
        let output = vruntime(&["run", &path, "--machine", "2", "--strict"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("2 problems; the first"), "{}", text(&output.stderr));
    }
    assert!(text(&vruntime(&["run", &path, "--machine", "2", "--duration", "4s"]).stderr).is_empty());
    fs::write(&file, format!("duration = \"1s\"\n{task}start = \"5s\"\n")).expect("it can be written");
    let stderr = text(&vruntime(&["run", &path, "--machine", "2"]).stderr);
    assert!(
        stderr.contains("`a` starts at 5 s, and the run ends at 1 s") && stderr.contains("late.toml:6:"),
        "{stderr}"
    );
}

/// All instances of a task are late by one offset: of a file, in a workload, or of the workload itself.
#[test]
fn a_delay_beyond_the_end_is_warned_of_where_it_is_written() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("it can be written");
        path.display().to_string()
    };
    let tasks =
        "\"a\" : { \"run\" : 1000, \"sleep\" : 1000 },\n\"b\" : { \"instance\" : 3,\n\"delay\" : 20000, \"run\" : 10 }";
    let rtapp = write("late.json", &format!("{{ \"tasks\" : {{ {tasks} }},\n\"global\" : {{ \"duration\" : 1 }} }}"));
    let stderr_of = |path: &str, ms: &str| text(&vruntime(&["run", path, "--machine", "2", "--duration", ms]).stderr);
    let stderr = stderr_of(&rtapp, "10ms");
    assert!(stderr.contains("`b-0` starts at 0.02 s, and the run ends at 0.01 s"), "{stderr}");
    assert!(stderr.contains("late.json:3:11]") && stderr.matches("starts at").count() == 1, "{stderr}");
    assert!(stderr_of(&rtapp, "30ms").is_empty());
    let strict = fails(&["run", &rtapp, "--duration", "10ms", "--strict"]);
    assert!(strict.contains("`b-0` starts at 0.02 s"), "{strict}");
    let within = write("within.toml", "[[workload]]\nrtapp = \"late.json\"\nstart = \"15ms\"\n");
    let stderr = stderr_of(&within, "10ms");
    assert!(stderr.contains("`a` starts at 0.015 s") && stderr.contains("within.toml:3:9]"), "{stderr}");
    assert!(stderr.contains("`b-0` starts at 0.035 s") && stderr.contains("late.json:3:11]"), "{stderr}");
    let stderr = stderr_of(&within, "30ms");
    assert!(!stderr.contains("`a` starts") && stderr.contains("`b-0` starts at 0.035 s"), "{stderr}");
}

/// Undoes the wrapping for the terminal.
fn on_one_line(text: &str) -> String {
    text.replace('\u{2502}', " ").split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// A long run does not begin if its results could not be written.
#[test]
fn places_that_cannot_be_written_are_reported_before_anything_runs() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let failing = |arguments: &[&str]| on_one_line(&fails(arguments));
    let (page, out, file) = (path("none/page.html"), path("out"), path("file"));
    fs::write(&file, "before").expect("it can be written");
    let trace = data("../../../trace/tests/data/ftrace.txt").display().to_string();
    let two = ["--kernel", "6.1", "--kernel", "6.12"];
    // What the command would complain of later, or leave, tells how far it came.
    for (wrong, why) in [(["--html", &page], "there is no folder"), (["--tables", &file], "file is no folder")] {
        for arguments in [
            &["run", "beat.json", "--duration", "1ms", "--out", &out][..],
            &[&["compare", "beat.json", "--duration", "1ms", "--out", &out][..], &two].concat(),
            &["replay", "there-is-no-trace"],
            &["trace", "analyse", "there-is-no-trace"],
        ] {
            let error = failing(&[arguments, &wrong].concat());
            assert!(error.contains("cannot write") && error.contains(why) && error.contains(wrong[0]), "{error}");
        }
    }
    let error = failing(&["fidelity", "--scenario", "none", "--html", &page]);
    assert!(error.contains("there is no folder"), "{error}");
    for option in ["--out", "--rtapp-log"] {
        let error = failing(&["run", "there-is-no-file.json", option, &file]);
        assert!(error.contains("file is no folder") && error.contains(option), "{error}");
    }
    // One of the folders of compare is known only when its sides are.
    fs::create_dir(&out).and_then(|()| fs::write(path("out/6.12"), "")).expect("it can be written");
    let error = failing(&[&["compare", "beat.json", "--duration", "1ms", "--out", &out][..], &two].concat());
    assert!(error.contains("6.12 is no folder"), "{error}");
    assert_eq!(fs::read_dir(path("out")).expect("a folder").count(), 1, "nothing was run");
    // Whatever was there before is still there after a run that fails.
    fails(&["run", "there-is-no-file.json", "--html", &file]);
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "before");
    // A page in a folder that the run makes.
    let page = path("new/page.html");
    well(&["run", "beat.json", "--duration", "1ms", "--out", &path("new"), "--html", &page]);
    assert!(fs::read_to_string(&page).expect("it is there").contains("<html"));
    well(&["trace", "analyse", &trace, "--html", &page]);
}

/// Opening a named pipe waits for a reader, after the run.
#[cfg(unix)]
#[test]
fn named_pipes_are_refused_and_pipes_of_the_shell_are_not() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let pipe = folder.path().join("pipe").display().to_string();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("there is mkfifo").success());
    let run = ["run", "beat.json", "--duration", "1ms"];
    for arguments in [&[&run[..], &["--html", &pipe]].concat()[..], &["calibrate", "--out", &pipe]] {
        let command = assert_cmd::Command::cargo_bin("vruntime")
            .expect("cargo has built it")
            .args(arguments)
            .current_dir(data(""))
            .timeout(std::time::Duration::from_secs(60))
            .output();
        let stderr = on_one_line(&text(&command.expect("it runs").stderr));
        assert!(stderr.contains("it is a named pipe") && stderr.contains("name another file with"), "{stderr}");
    }
    let page = well(&[&run[..], &["--html", "/dev/stdout"]].concat());
    assert!(page.contains("<html") && page.contains("under Linux 6.12"), "page and table");
}

/// The error about a file with a wrong extension does not rest on its first character alone.
#[test]
fn a_name_that_does_not_fit_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| written(folder.path(), name, text);
    let scenario = file("mine.json", "[scenario]\nkernel = \"6.12\"\n");
    assert!(on_one_line(&fails(&["run", &scenario])).contains("it looks like a scenario; their names end with .toml"));
    let workload = file("mine.toml", "{\"tasks\": {\"a\": {\"run\": 1}}}");
    assert!(
        on_one_line(&fails(&["run", &workload])).contains("it looks like an rt-app file; their names end with .json")
    );
    // Nor is what is read written over.
    let both = file("results.json", "{\"tasks\": {\"a\": {\"run\": 1, \"loop\": 1}}}");
    let error = on_one_line(&fails(&["run", &both, "--html", &both]));
    assert!(error.contains("would be written over itself"), "{error}");
}

/// The first character alone does not make a file a scenario.
#[test]
fn a_file_that_is_neither_says_what_it_should_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let error_of = |name: &str, text: &str| on_one_line(&fails(&["run", &written(folder.path(), name, text)]));
    for text in ["[]\n", "[1, 2]\n", "[{\"run\": 1}]\n", "\"text\"\n", "[true]\n"] {
        let error = error_of("list.json", text);
        assert!(!error.contains("scenario; their names"), "{text}: {error}");
        assert!(
            error.contains("list.json:1:1]") && error.contains("expected an object with `tasks`"),
            "{text}: {error}"
        );
        assert!(error.contains("an rt-app file is one JSON object, such as { \"tasks\" : {"), "{text}: {error}");
    }
    let workload = "{\"tasks\": {\"a\": {\"run\": 1}}}\n";
    for text in [format!("# mine\n{workload}"), format!("\n  # [mine]\n#\n{workload}")] {
        let error = error_of("comment.json", &text);
        assert!(!error.contains("looks like a scenario"), "{error}");
        assert!(
            error.contains("found `#`") && error.contains("comments are /* ... */, or // up to the end"),
            "{error}"
        );
    }
    // The comment is a scenario's if what follows it is.
    for text in ["# mine\n[scenario]\nkernel = \"6.12\"\n", "\n# mine\nkernel = \"6.12\"\n", "[[task]]\nname = \"a\"\n"]
    {
        let error = error_of("mine.json", text);
        assert!(error.contains("it looks like a scenario; their names end with .toml"), "{text}: {error}");
    }
}

/// A file that is no workload at all is named as what it is, whatever its name says.
#[test]
fn a_file_that_is_no_workload_says_what_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = data("../../../trace/tests/data");
    let ctf = folder.path().join("ctf/kernel");
    std::fs::create_dir_all(&ctf).expect("a folder");
    std::fs::write(ctf.join("metadata"), b"\x75\xd1\x1d\x57").expect("a file");
    std::fs::create_dir(folder.path().join("plain")).expect("a folder");
    for name in ["empty", "empty.json", "empty.toml"] {
        std::fs::write(folder.path().join(name), b" \n").expect("a file");
    }
    std::fs::write(folder.path().join("program"), b"\x7fELF\x02\x01\x01\0\0\0").expect("a file");
    std::fs::write(folder.path().join("bytes.toml"), b"\x00\x01\xfe").expect("a file");
    for (from, to) in [("ftrace.txt", "ftrace.toml"), ("ftrace.txt", "ftrace.json"), ("perf.data", "perf.toml")] {
        std::fs::copy(traces.join(from), folder.path().join(to)).expect("a copy");
    }
    for (name, text) in [
        ("pod.yaml", "# a pod\n---\napiVersion: v1\nkind: Pod\nspec:\n  containers: []\n"),
        ("compose.yaml", "services:\n  web:\n    cpus: 0.5\n"),
        ("web.service", "[Unit]\nDescription=Web\n[Service]\nCPUQuota=50%\n"),
        ("tasks.yaml", "tasks:\n  a:\n    run: 1000\n"),
        ("cgroup", "12:blkio:/a.slice\n0::/a.slice\n"),
        ("bench.sh", "#!/bin/sh\nschbench -m 16 -t 32\n"),
    ] {
        written(folder.path(), name, text);
    }
    for command in ["run", "real"] {
        for (name, what, help) in [
            ("pod.yaml", "is a manifest of Kubernetes, and no workload", "docs/how-to/kubernetes.md"),
            ("compose.yaml", "is a file of Docker Compose, and no workload", "cpu_shares as `weight`"),
            ("web.service", "is a unit of systemd, and no workload", "CPUQuota as `max`"),
            ("tasks.yaml", "is YAML, and no workload", "json.dump(yaml.safe_load"),
            ("cgroup", "is the list of a process's cgroups, and no workload", "--cgroups FILE"),
            ("bench.sh", "is a script, and no workload", "vruntime record -- COMMAND"),
            ("ctf", "is no workload: a CTF trace", "trace-cmd record"),
            ("plain", "Is a directory", "name an rt-app file (JSON) or a scenario (TOML)"),
            ("empty", "empty is empty", "vruntime init"),
            ("empty.json", "is empty", "vruntime init"),
            ("empty.toml", "is empty", "vruntime init"),
            ("program", "is a program (ELF), and no workload", "name an rt-app file"),
            ("bytes.toml", "is a binary file, and no workload", "name an rt-app file"),
            ("ftrace.toml", "is a recorded trace (ftrace text)", "`vruntime replay "),
            ("ftrace.json", "is a recorded trace (ftrace text)", "`vruntime replay "),
            ("perf.toml", "is a recorded trace (perf.data)", "`vruntime replay "),
        ] {
            let error = on_one_line(&fails(&[command, &folder.path().join(name).display().to_string()]));
            assert!(error.contains(what) && error.contains(help), "{command} {name}: {error}");
        }
    }
}

/// Several mistakes in a file are listed, each as if it were the only one.
#[test]
fn several_errors_are_reported_alike() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let text = "duration = \"1s\"\n[[task]]\nname = \"a\"\nrun = \"1xs\"\nsleep = \"1yms\"\nfoo = 1\n";
    let error = fails(&["run", &written(folder.path(), "three.toml", text)]);
    assert_eq!(error.lines().filter(|line| line.starts_with("  × ")).count(), 3, "{error}");
    assert!(error.contains("unknown key `foo`") && !error.contains("Error:"), "{error}");
    // Wrapped in what the file's name tells.
    let error = fails(&["run", &written(folder.path(), "three.json", text)]);
    assert!(error.contains("it looks like a scenario") && !error.contains("Error:"), "{error}");
}

#[test]
fn a_wrong_form_is_reported_with_the_right_one() {
    let error_of = |arguments: &[&str]| on_one_line(&fails(arguments));
    let kernels = error_of(&["run", "beat.json", "--kernel", "6.1,6.12"]);
    assert!(
        kernels.contains("several are compared with `vruntime compare FILE --kernel 6.1 --kernel 6.12`"),
        "{kernels}"
    );
    for name in ["kernel", "machine"] {
        let option = format!("--{name}");
        let twice = error_of(&["run", "beat.json", &option, "6.1", &option, "6.12"]);
        let tip = format!("tip: to compare several, `vruntime compare FILE {option} ONE {option} OTHER` runs each");
        assert!(twice.contains(&tip), "{twice}");
    }
    let nothing = error_of(&["run", "beat.json", "--kernel", "6.12+"]);
    assert!(nothing.contains("a + of `6.12+` is followed by nothing"), "{nothing}");
    let machine = error_of(&["run", "beat.json", "--machine", "-4"]);
    assert!(machine.contains("`-4` is not a number of CPUs") && !machine.contains("-4:2"), "{machine}");
    let trace = data("../../../trace/tests/data/ftrace.txt").display().to_string();
    let words = error_of(&["trace", "analyse", &trace, "latency,runqueue"]);
    assert!(words.contains("separate words by spaces: latency runqueue"), "{words}");
}

#[test]
fn what_says_nothing_to_do_is_an_error_and_what_never_ends_is_reported_once() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = |name: &str, text: &str| written(folder.path(), name, text);
    let empty = fails(&["run", &file("empty.json", "{\"tasks\":{}}")]);
    assert!(empty.contains("there are no tasks") && empty.contains("empty.json:1:10]"), "{empty}");
    let quoted = "{\"tasks\":{\"a\":{\"run\":1000,\"priority\":\"5\"}},\"global\":{\"duration\":1}}";
    let quoted = fails(&["run", &file("quoted.json", quoted)]);
    assert!(
        quoted.contains("help: remove the quotes") && quoted.contains("expected a nice value, a number"),
        "{quoted}"
    );
    let endless = "[[task]]\nname = \"a\"\nrun = \"1ms\"\nsleep = \"1ms\"\n";
    let endless = fails(&["run", &file("endless.toml", endless)]);
    assert!(endless.contains("task `a` loops for ever, and the run has no duration"), "{endless}");
    assert!(!endless.contains('⚠') && endless.matches("for ever").count() == 1, "{endless}");
}

#[test]
fn what_has_no_effect_on_this_machine_is_reported() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let text =
        "duration = \"10ms\"\n[machine]\ntopology = \"4\"\nsmt_speedup = 1.3\n[[task]]\nname = \"a\"\nrun = \"1ms\"\n";
    let output = vruntime(&["run", &written(folder.path(), "siblings.toml", text)]);
    let stderr = String::from_utf8(output.stderr).expect("it prints UTF-8");
    assert!(output.status.success() && stderr.contains("note: smt_speedup has no effect"), "{stderr}");
}

/// 50 instead of 50 % is 50 CPUs.
#[test]
fn a_limit_above_the_machine_is_reported() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let notes_with = |max: &str| {
        let text = format!(
            "duration = \"10ms\"\nmachine = \"4\"\n[groups.\"/app\"]\nmax = {max}\n[[task]]\nname = \"a\"\ngroup = \"/app\"\nrun = \"1ms\"\n"
        );
        let output =
            vruntime(&["compare", &written(folder.path(), "max.toml", &text), "--kernel", "6.1", "--kernel", "6.12"]);
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let fifty = notes_with("\"50\"");
    assert_eq!(
        fifty.matches("`max` of group `/app` is 50 CPUs, but the machine has 4, so it has no effect").count(),
        1,
        "{fifty}"
    );
    for at_most in ["\"4\"", "\"500m\"", "[50000, 100000]"] {
        assert!(!notes_with(at_most).contains("limits nothing"), "{at_most}");
    }
}

/// Standard input can be read only once.
#[test]
fn standard_input_is_read_once() {
    for arguments in [&["compare", "-", "-"][..], &["replay", "-", "--beside", "-"], &["diff", "-", "-"]] {
        let error = on_one_line(&fails(arguments));
        assert!(error.contains("standard input can be read only once"), "{arguments:?}: {error}");
        assert!(error.contains("help: `-` can be given once"), "{arguments:?}: {error}");
    }
    // Two kernels are two runs of one file.
    let mut command = Command::cargo_bin("vruntime").expect("cargo has built it");
    let arguments = ["compare", "-", "--kernel", "6.1", "--kernel", "6.12", "--duration", "10ms"];
    let workload = fs::read(data("beat.json")).expect("it is there");
    command.args(arguments).write_stdin(workload).assert().success();
}
