//! Replays with the machine's groups, sessions and CPUs.

use super::*;

/// `compare` takes a machine's group file as `replay` does.
#[test]
fn traces_are_compared_in_the_groups_they_were_in() {
    let cgroups = ["--cgroups", CGROUPS, "--costs", "vm"];
    let replayed = json(&[&["replay", GROUPS, "--json"], &cgroups[..]].concat(), b"");
    let compare = ["compare", GROUPS, "--kernel", "6.1", "--kernel", "6.18"];
    let compared = json(&[&compare[..], &cgroups, &["--json"]].concat(), b"");
    assert_eq!(compared["replays"][0]["check"], replayed["check"]);
    let capped = compared["cells"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|cell| cell["class"] == "capped" && cell["metric"] == "share");
    let capped = capped.expect("it is compared");
    for side in 0..2 {
        let share = capped["values"][side]["mean"].as_f64().expect("a number");
        assert!((0.18..=0.22).contains(&share), "its limit holds: {capped}");
    }
    let error = fails(&[&compare[..], &cgroups, &cgroups[..2], &cgroups[..2]].concat(), b"");
    assert!(error.contains("3 times --cgroups for 1 trace") && error.contains("once for each"), "{error}");
    let error = fails(&["compare", "no.json", "--cgroups", CGROUPS], b"");
    assert!(error.contains("none of these files is a"), "{error}");
}

/// `compare` applies rules to a trace as `replay` does.
#[test]
fn traces_are_compared_under_rules() {
    let given = ["--cgroups", CGROUPS, "--costs", "vm", "--repeat", "1"];
    let with = |more: &[&'static str]| [&["compare", GROUPS], &given[..], more].concat();
    let lift = "cgroup=/vr-capped: max=max";
    for rule in [lift, "comm=mover: remove", "comm=job1: copies=2 nice=5"] {
        let replayed = json(&[&["replay", GROUPS, "--json"], &given[..], &["--map", rule]].concat(), b"");
        let compared = json(&with(&["--map", rule, "--json"]), b"");
        assert_eq!(compared["variants"], serde_json::json!(["the file", "the what-if"]));
        let what_if = &compared["runs"][1];
        assert_eq!(what_if["observed"][0]["digest"], replayed["digests"][1], "{rule}: {what_if}");
        assert_eq!(what_if["changes"], serde_json::json!([rule]));
    }
    let words = well(&with(&["--map", lift]), b"").split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(
        words.contains("Without the change, group `/vr-capped` got") && words.contains("it was throttled in"),
        "{words}"
    );

    let varied = json(
        &with(&["--vary", "cgroup=/vr-capped: max=20ms/100ms,max", "--vary", "comm=job1: copies=1,2", "--json"]),
        b"",
    );
    assert_eq!(varied["variants"].as_array().map(Vec::len), Some(4), "{}", varied["variants"]);

    let unknown = fails(&[&with(&[])[..], &[GROUPS, "--map", "comm=nothing: nice=3"]].concat(), b"");
    let words = unknown.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(words.contains("groups.pftrace") && words.contains("comm=nothing"), "{unknown}");
    let elsewhere = fails(&with(&["--map", "comm=job1: cpus=5"]), b"");
    assert!(elsewhere.contains("there is no CPU 5: the machine has 2, 0 to 1"), "{elsewhere}");
    let refused = fails(
        &with(&[
            "--strict",
            "--map",
            "comm=job*: policy=deadline:90ms/100ms/100ms",
            "--map",
            "comm=web*: policy=deadline:90ms/100ms/100ms",
        ]),
        b"",
    );
    assert!(refused.contains("requested here"), "the error names the rule: {refused}");
}

/// `What stands out` names the limit that throttled a group.
#[test]
fn a_replay_explains_entitlements() {
    let given = ["replay", GROUPS, "--cgroups", CGROUPS, "--costs", "vm"];
    let words = |text: &str| text.split_whitespace().collect::<Vec<&str>>().join(" ");
    let limit = "all that its CPU limit of 0.2 CPUs (20.0 ms in each 100 ms) allows: it was throttled in ";
    let explanation = words(&well(&given, b""));
    assert!(explanation.contains("Group `/vr-capped` got ") && explanation.contains(limit), "{explanation}");
    let replayed = json(&[&given[..], &["--map", "cgroup=/vr-capped: max=max", "--json"]].concat(), b"");
    let explanation = replayed["what_if"].as_str().expect("a sentence");
    assert!(
        explanation.contains("As recorded, group `/vr-capped` got ") && explanation.contains(limit),
        "{explanation}"
    );
    assert!(!explanation.contains("In the what-if, group `/vr-capped`"), "nothing throttles it: {explanation}");
    let twice = json(&[&given[..], &["--map", "cgroup=/vr-web: max=500m", "--repeat", "2", "--json"]].concat(), b"");
    let explanation = twice["what_if"].as_str().expect("a sentence");
    let limit = "all that its CPU limit of 0.5 CPUs (50.0 ms in each 100 ms) allows: it was throttled in ";
    assert!(
        explanation.contains("In the what-if, group `/vr-web` got ") && explanation.contains(limit),
        "{explanation}"
    );
}

/// Heads name the run of each column. Groups have their waits in both runs.
#[test]
fn the_tables_of_groups_say_which_run_they_are_of() {
    let lift = ["replay", GROUPS, "--cgroups", CGROUPS, "--costs", "vm", "--map", "cgroup=/vr-capped: max=max"];
    let text = well(&[&lift[..], &["--repeat", "1"]].concat(), b"");
    let (check, what_if) = text.split_once("\nWhat if: ").expect("there is one");
    let head = |text: &str| text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, groups) = check.split_once("\ngroup ").expect("there is a table of groups");
    let heads = "CPU % recorded CPU % replayed entitled replayed waited replayed throttled replayed";
    assert_eq!(head(groups), heads, "{groups}");
    let (_, groups) = what_if.split_once("\ngroup   ").expect("there is a table of groups");
    let heads = "CPU % replayed CPU % what if entitled replayed entitled what if waited replayed waited what if";
    assert_eq!(head(groups), heads, "{groups}");
    let (_, limited) = groups.split_once("\nlimited group ").expect("there is a table of those with a limit");
    let rows: Vec<&str> = limited.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 3, "a head, a rule and the one that had a limit: {limited}");
    assert!(head(limited) == "throttled replayed throttled what if" && rows[2].starts_with("/vr-capped"), "{limited}");
}

/// A group with only groups counts. The error for an unknown group lists the known ones.
#[test]
fn a_rule_may_be_of_a_group_without_tasks_of_its_own() {
    let of = |rule: &'static str| ["replay", GROUPS, "--cgroups", CGROUPS, "--costs", "vm", "--map", rule];
    let replayed = json(&[&of("cgroup=/vr-batch: weight=1000")[..], &["--json"]].concat(), b"");
    let groups = replayed["groups"].as_array().expect("a list");
    let batch = groups.iter().find(|group| group["path"] == "/vr-batch").expect("it is there");
    let cpu = |run: &str| batch[run]["cpu_ns"].as_u64().expect("a number");
    assert!(cpu("what_if") > 2 * cpu("replayed"), "{batch}");
    let error = fails(&of("cgroup=/vr-cap: max=max"), b"");
    let error = error.split_whitespace().collect::<Vec<&str>>().join(" ");
    assert!(error.contains("did you mean `/vr-capped`? the groups are /, /vr-batch,"), "{error}");
}

/// Settings of the machine that an older kernel lacks are no error.
#[test]
fn clamps_and_partitions_are_left_out_under_kernels_without_them() {
    let folder = tempfile::tempdir().expect("there is room");
    let snapshot = folder.path().join("cgroups.txt");
    let mut text = std::fs::read_to_string(CGROUPS).expect("it is there");
    text.push_str("/sys/fs/cgroup/cpu/vr-web/cpu.uclamp.max:50.00\n");
    std::fs::write(&snapshot, text).expect("it can be written");
    let snapshot = snapshot.to_str().expect("it is UTF-8");
    let output = vruntime(&["replay", GROUPS, "--cgroups", snapshot, "--kernel", "3.10", "--costs", "vm"], b"");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("utilisation clamps of 1 group are left out: Linux 3.10 lacks them"), "{stderr}");
}

/// Two spinners pinned to CPU 0, one on CPU 1: only the machine's file has that. A rule need not name the first one's
/// children.
#[test]
fn tasks_are_pinned_as_the_machine_says() {
    let cpus: [&[i32]; 2] = [&[11, 12], &[21]];
    let text = spinning(&cpus);
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("cgroups.txt");
    let machine_files: String = [(11, "0"), (12, "0"), (21, "1")]
        .map(|(pid, list)| format!("/proc/{pid}/task/{pid}/status:Cpus_allowed_list:\t{list}\n"))
        .concat();
    std::fs::write(&file, machine_files).expect("it can be written");
    let json = json(
        &["replay", "-", "--costs", "vm", "--cgroups", file.to_str().expect("it is UTF-8"), "--json"],
        text.as_bytes(),
    );
    let confined: Vec<(&str, u64)> = json["tasks"]
        .as_array()
        .expect("there are tasks")
        .iter()
        .filter_map(|task| Some((task["name"].as_str()?, task["confined_to"].as_u64()?)))
        .collect();
    assert_eq!(confined.len(), 3, "{json}");
    assert!(json["notes"].to_string().contains("3 tasks have a recorded affinity"), "{}", json["notes"]);
    assert!(json["check"]["worst_cpu_share_off"].as_f64().is_some_and(|off| off < 0.03), "{}", json["check"]);
}

/// Percent of a CPU for each task: recorded, replayed, and what-if.
fn shares(json: &Value) -> std::collections::BTreeMap<String, [f64; 3]> {
    let elapsed = json["duration_ns"]["recorded"].as_f64().expect("it says how long the recording is");
    let percent = |task: &Value, run: &str| 100.0 * task[run]["cpu_ns"].as_f64().unwrap_or(0.0) / elapsed;
    let tasks = json["tasks"].as_array().expect("it has tasks").iter();
    tasks
        .map(|task| {
            let name = task["name"].as_str().expect("it has a name").split('-').next().unwrap_or_default();
            (name.to_owned(), ["recorded", "replayed", "what_if"].map(|run| percent(task, run)))
        })
        .collect()
}

/// Linux 6.18 gave two tasks of a heavy group 60 and 57 % of a CPU, and two of a light one 15. A limited task had 20,
/// and one that moved from the light to the heavy group 31.
#[test]
fn tasks_are_replayed_in_the_groups_they_were_in() {
    let groups = ["replay", GROUPS, "--costs", "vm", "--json", "--cgroups", CGROUPS];
    // Chance decides which task is on which CPU, and one seed is up to 9 points off. In the recording, too, chance
    // decides which of two alike has more.
    let seeds = ["1", "2", "3", "4", "5"].map(|seed| shares(&json(&[&groups[..], &["--seed", seed]].concat(), b"")));
    for alike in [&["web1", "web2"][..], &["job1", "job2"], &["capped"], &["mover"]] {
        let mean = |of: &dyn Fn(&str) -> f64| alike.iter().map(|name| of(name)).sum::<f64>() / alike.len() as f64;
        let recorded = mean(&|name| seeds[0][name][0]);
        let replayed = mean(&|name| seeds.iter().map(|shares| shares[name][1]).sum::<f64>() / seeds.len() as f64);
        assert!((recorded - replayed).abs() < 1.2, "{alike:?}: {recorded} {replayed}");
    }
    // Without the file, the limit is unknown.
    let [recorded, replayed, _] = shares(&json(&groups[..5], b""))["capped"];
    assert!((recorded - 20.0).abs() < 1.0 && replayed > 30.0, "{recorded} {replayed}");
    // The kernel had throttled it in 57 of 59 periods, for 3.24 s: half of them are in these three seconds.
    let groups_json = &json(&groups, b"")["groups"];
    let capped = groups_json.as_array().and_then(|all| all.iter().find(|group| group["path"] == "/vr-capped"));
    let capped = capped.expect("it is among the groups");
    let had = capped["recorded_cpu_ns"].as_f64().unwrap_or(0.0);
    assert!((had / 3.015e9 - 0.2).abs() < 0.01, "{capped}");
    let capped = &capped["replayed"];
    let [cpu_ns, times, throttled_ns] =
        ["cpu_ns", "nr_throttled", "throttled_ns"].map(|key| capped[key].as_f64().unwrap_or(0.0));
    assert!((cpu_ns / 3.015e9 - 0.2).abs() < 0.01, "{capped}");
    assert!((27.0..=31.0).contains(&times) && (1.5e9..=1.8e9).contains(&throttled_ns), "{capped}");
    // What if the limit were gone: it has its third of what its group of weight 100 may have beside 200 and 50.
    let [_, _, lifted] =
        shares(&json(&[&groups[..], &["--map", "cgroup=/vr-capped: max=max"]].concat(), b""))["capped"];
    assert!(lifted > 45.0, "{lifted}");
    let error = fails(&["replay", GROUPS, "--map", "cgroup=/vr-missing: nice=3"], b"");
    assert!(error.contains("no task of the trace fits this rule"), "{error}");
    let error = fails(&["replay", "perf-data.txt", "--map", "cgroup=/web: nice=3"], b"");
    assert!(error.contains("--cgroups FILE") && error.contains("find /proc"), "{error}");
    let error = fails(&["replay", GROUPS, "--cgroups", "perf-data.txt"], b"");
    assert!(error.contains("this is not FILE:CONTENT"), "{error}");
}

/// Tasks `spin-PID` that compute for a second: each CPU runs these in turn, 4 ms each.
fn spinning(cpus: &[&[i32]]) -> String {
    let mut text = String::new();
    for slice in 0..=250_usize {
        for (cpu, pids) in cpus.iter().enumerate() {
            let of = |slice: usize| ("spin", pids[slice % pids.len()]);
            let idle = ("swapper", 0);
            let (prev, next) =
                (if slice == 0 { idle } else { of(slice - 1) }, if slice == 250 { idle } else { of(slice) });
            if prev == next {
                continue;
            }
            let at = slice * 4000 + cpu;
            let (prev, next) = (
                format!("prev_comm={} prev_pid={}", prev.0, prev.1),
                format!("next_comm={} next_pid={}", next.0, next.1),
            );
            let time = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
            let who = if slice == 0 { "swapper-0".to_owned() } else { format!("spin-{}", of(slice - 1).1) };
            let _ = writeln!(
                text,
                "  {who} [{cpu:03}] {time}: sched_switch: {prev} prev_prio=120 prev_state=R ==> {next} next_prio=120"
            );
        }
    }
    text
}

/// Percent of a CPU for the tasks of [`spinning`], replayed as recorded with the machine's file.
fn spun<const N: usize>(cpus: &[&[i32]], machine_files: &str, pids: [i32; N]) -> [u64; N] {
    let file = tempfile::NamedTempFile::new().expect("there is room");
    std::fs::write(file.path(), machine_files).expect("it can be written");
    let path = file.path().display().to_string();
    let replayed = json(&["replay", "-", "--json", "--cgroups", &path], spinning(cpus).as_bytes());
    pids.map(|pid| (permille(&replayed, &format!("spin-{pid}"), "replayed") + 5) / 10)
}

/// Two builds of one session together have the share of another session's shell, as on the machine.
#[test]
fn tasks_are_replayed_in_the_autogroups_they_were_in() {
    let threads: String = [11, 12, 13].map(|pid| format!("/proc/{pid}/task/{pid}/cgroup:0::/\n")).concat();
    let autogroups = |nice: i8| {
        format!(
            "{threads}/proc/11/autogroup:/autogroup-7 nice 0\n/proc/12/autogroup:/autogroup-7 nice 0\n/proc/13/autogroup:/autogroup-9 nice {nice}\n"
        )
    };
    let shares = |machine_files: &str| spun(&[&[11, 12, 13]], machine_files, [11, 12, 13]);
    let near = |shares: [u64; 3], expected: [u64; 3]| {
        let near = shares.iter().zip(expected).all(|(share, expected)| share.abs_diff(expected) <= 2);
        assert!(near, "{shares:?} instead of {expected:?}");
    };
    near(shares(&autogroups(0)), [25, 25, 50]);
    // Of weight 335 beside 1024.
    near(shares(&autogroups(5)), [38, 38, 25]);
    let switch = |enabled: u8| format!("/proc/sys/kernel/sched_autogroup_enabled:{enabled}\n{}", autogroups(0));
    near(shares(&switch(1)), [25, 25, 50]);
    near(shares(&switch(0)), [33, 33, 33]);
    near(shares(&threads), [33, 33, 33]);
    // Where the group is another than the root, there is no autogroup.
    let grouped = autogroups(0).replace("/proc/12/task/12/cgroup:0::/", "/proc/12/task/12/cgroup:0::/web");
    near(shares(&format!("{grouped}/sys/fs/cgroup/web/cpu.weight:100\n")), [33, 33, 33]);
    // An older kernel has no autogroups, and the replay requests none.
    let file = tempfile::NamedTempFile::new().expect("there is room");
    std::fs::write(file.path(), autogroups(0)).expect("it can be written");
    let path = file.path().display().to_string();
    let trace = spinning(&[&[11, 12, 13]]);
    let old = json(&["replay", "-", "--json", "--cgroups", &path, "--kernel", "2.6.23"], trace.as_bytes());
    assert!(permille(&old, "spin-13", "what_if") < 400, "{old}");
    assert!(old["notes"].to_string().contains("3 tasks begin in recorded autogroups"), "{old}");
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("spin.txt");
    std::fs::write(&file, trace).expect("it can be written");
    let file = file.to_str().expect("it is UTF-8");
    let compared = json(&["compare", file, "--kernel", "6.12", "--kernel", "6.18", "--json", "--cgroups", &path], b"");
    assert!(compared["replays"][0]["notes"].to_string().contains("autogroups"), "{compared}");
}

/// An autogroup's recorded time is known if its tasks are. It is their time outside task groups.
#[test]
fn what_autogroups_had_is_reported() {
    let machine_files = "/proc/11/task/11/cgroup:0::/\n/proc/12/task/12/cgroup:0::/web\n/proc/13/task/13/cgroup:0::/\n/sys/fs/cgroup/web/cpu.weight:100\n\
        /proc/11/autogroup:/autogroup-7 nice 0\n/proc/12/autogroup:/autogroup-7 nice 0\n/proc/13/autogroup:/autogroup-9 nice 0\n";
    let had = |machine_files: &str| -> Vec<(String, Option<u64>)> {
        let file = tempfile::NamedTempFile::new().expect("there is room");
        std::fs::write(file.path(), machine_files).expect("it can be written");
        let path = file.path().display().to_string();
        let trace = spinning(&[&[11, 12, 13]]);
        let replayed = json(&["replay", "-", "--json", "--cgroups", &path], trace.as_bytes());
        let groups = replayed["groups"].as_array().expect("there are some").iter();
        let had = |group: &serde_json::Value| group["recorded_cpu_ns"].as_u64();
        groups.map(|group| (group["path"].as_str().expect("text").to_owned(), had(group))).collect()
    };
    let of = |had: &[(String, Option<u64>)], path: &str| {
        had.iter()
            .find(|(known, _)| known == path)
            .and_then(|(_, had)| *had)
            .unwrap_or_else(|| panic!("{path}: {had:?}"))
    };
    let grouped = had(machine_files);
    let [all, web, seven, nine] = ["/", "/web", "/autogroup-7", "/autogroup-9"].map(|path| of(&grouped, path));
    assert!(seven > 0 && nine > 0 && web > 0 && all == web + seven + nine, "{grouped:?}");
    // Without the group its task is one more of that autogroup.
    let root = had(&machine_files.replace("/cgroup:0::/web\n", "/cgroup:0::/\n"));
    assert_eq!((of(&root, "/autogroup-7"), of(&root, "/autogroup-9")), (seven + web, nine), "{root:?}");
}

/// Two tasks share CPU 0, the only one of their cpuset.
#[test]
fn tasks_are_replayed_on_the_cpus_of_their_cpusets() {
    let cpus: [&[i32]; 2] = [&[21, 22], &[23]];
    let threads = "/proc/21/task/21/cgroup:0::/a/b\n/proc/22/task/22/cgroup:0::/a/b\n/proc/23/task/23/cgroup:0::/\n";
    let group = "/sys/fs/cgroup/a/cpuset.cpus:0\n/sys/fs/cgroup/a/b/cpuset.cpus:\n";
    let near = |machine_files: String, expected: [u64; 3]| {
        let shares = spun(&cpus, &machine_files, [21, 22, 23]);
        let near = shares.iter().zip(expected).all(|(share, expected)| share.abs_diff(expected) <= 2);
        assert!(near, "{machine_files}: {shares:?} instead of {expected:?}");
    };
    let weights = "/sys/fs/cgroup/a/cpu.weight:100\n/sys/fs/cgroup/a/b/cpu.weight:100\n";
    near(format!("{threads}{group}{weights}"), [50, 50, 100]);
    // The same where only the `cpuset` controller is enabled, and no group weighs anything.
    near(format!("{threads}{group}/sys/fs/cgroup/c/cpu.weight:100\n"), [50, 50, 100]);
    // CPUs that the trace does not show are of no use.
    near(format!("{threads}{weights}/sys/fs/cgroup/a/cpuset.cpus:0,6-7\n"), [50, 50, 100]);
}

/// The documented line of shell works, and its output is accepted.
#[cfg(target_os = "linux")]
#[test]
fn what_a_machine_writes_down_of_its_groups_is_read() {
    if !Path::new("/proc/self/cgroup").exists() {
        skip::skip("this kernel has no cgroups");
        return;
    }
    let folder = tempfile::tempdir().expect("there is room");
    let mut shell = Command::new("sh");
    // Threads that end meanwhile are none of its business, nor is its exit status ours.
    shell.current_dir(&folder).args(["-c", vruntime_workload::cgroups::COMMAND]).output().expect("there is a shell");
    let file = folder.path().join("cgroups.txt");
    let text = std::fs::read_to_string(&file).expect("it wrote the file");
    assert!(text.lines().any(|line| line.starts_with("/proc/") && line.contains("/cgroup:")), "{text}");
    // The file of a process without an autogroup is empty. Without sessions, no process has one.
    if std::fs::read_to_string("/proc/self/autogroup").is_ok_and(|machine_files| !machine_files.is_empty()) {
        assert!(text.lines().any(|line| line.contains("/autogroup:/autogroup-")), "{text}");
    }
    let file = file.to_str().expect("it is UTF-8");
    let output = vruntime(&["replay", GROUPS, "--cgroups", file], b"");
    let stderr = String::from_utf8_lossy(&output.stderr);
    // Inside a container it may not see where it is.
    if stderr.contains("outside of containers") {
        skip::skip("inside a container what the machine wrote down of its groups cannot be replayed");
        return;
    }
    assert!(output.status.success(), "{stderr}");
}

/// A task moves to another group half-way: each group has the task's time from its own part.
#[test]
fn a_moved_task_counts_for_each_of_its_groups() {
    let scenario = b"machine = \"1\"\nduration = \"1s\"\n[groups.\"/one\"]\n[groups.\"/two\"]\n\
        [[task]]\nname = \"hog\"\nrun = \"1ms\"\ngroup = \"/one\"\n\
        [[task]]\nname = \"beat\"\nrun = \"100us\"\nsleep = \"9ms\"\n\
        [[change]]\nat = \"250ms\"\ntask = \"hog\"\ngroup = \"/two\"\n";
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("it is UTF-8");
    well(&["run", "-", "--out", out], scenario);
    let json = json(&["replay", &format!("{out}/trace.txt"), "--json"], b"");
    let groups = json["groups"].as_array().expect("it has groups");
    for (path, share) in [("/", 1.0), ("/one", 0.25), ("/two", 0.75)] {
        let group = groups.iter().find(|group| group["path"] == path).expect("it is there");
        for had in [&group["recorded_cpu_ns"], &group["replayed"]["cpu_ns"]] {
            let had = had.as_f64().expect("a number") / 1e9;
            assert!((had - share).abs() < 0.02, "{path}: {group}");
        }
    }
}

/// The file does not mention autogroups, but the shares do: two tasks of one process have another's third together.
#[test]
fn whether_there_were_autogroups_shows() {
    let with_processes = |turns: &[i32]| {
        let of = [("spin-11 [", "spin-11 (11) ["), ("spin-12 [", "spin-12 (11) ["), ("spin-13 [", "spin-13 (13) [")];
        of.iter().fold(spinning(&[turns]), |text, (from, to)| text.replace(from, to))
    };
    let (grouped, alike) = (with_processes(&[11, 13, 12, 13]), with_processes(&[11, 12, 13]));
    let note = "the trace does not say whether autogroup was on: it is assumed";
    let replayed = |trace: &str, more: &[&str]| json(&[&["replay", "-", "--json"], more].concat(), trace.as_bytes());
    let has_note = |replayed: &serde_json::Value| replayed["notes"].to_string().contains(note);
    let share = |replayed: &serde_json::Value| (permille(replayed, "spin-13", "replayed") + 5) / 10;
    let [found, enabled, disabled, even] = [
        replayed(&grouped, &[]),
        replayed(&grouped, &["--autogroup"]),
        replayed(&grouped, &["--no-autogroup"]),
        replayed(&alike, &[]),
    ];
    assert_eq!([&found, &enabled, &disabled, &even].map(has_note), [true, false, false, false], "{}", found["notes"]);
    assert_eq!([&found, &enabled, &disabled, &even].map(share), [50, 50, 33, 33]);
    assert_eq!(found["tasks"], enabled["tasks"]);
    assert_eq!(found["runs"][0]["autogroup"], true);
    let folder = tempfile::tempdir().expect("there is room");
    let file = folder.path().join("spin.txt");
    std::fs::write(&file, grouped).expect("it can be written");
    let compared =
        json(&["compare", file.to_str().expect("it is UTF-8"), "--kernel", "6.12", "--kernel", "6.18", "--json"], b"");
    assert!(compared["replays"][0]["notes"].to_string().contains(note), "{compared}");
}
