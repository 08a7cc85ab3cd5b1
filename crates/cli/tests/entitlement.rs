//! Entitlements of task groups, and whether groups got them.

mod support;

use std::fs;

use support::*;

const GROUPS: &str = "machine = '1'\nduration = '4s'\ncosts = 'zero'\n[groups.'/a']\n[groups.'/b']\n";

/// On one CPU without costs a group gets its entitlement, whatever changes.
#[test]
fn what_groups_are_entitled_to_is_what_they_get() {
    let hog = |name: &str, more: &str| format!("[[task]]\nname = '{name}'\nrun = '1ms'\n{more}\n");
    let (a, b) = (hog("a", "group = '/a'"), hog("b", "group = '/b'"));
    let idle_group = GROUPS.replace("[groups.'/a']", "[groups.'/a']\nidle = true");
    for (what, scenario, part) in [
        ("an idle group", format!("{idle_group}{a}{b}"), 3.0 / 1027.0),
        ("a late task", format!("{GROUPS}{b}{}", hog("a", "group = '/a'\nstart = '2s'")), 0.25),
        ("idle tasks", format!("{GROUPS}{a}{b}{}", hog("i", "policy = 'SCHED_IDLE'")), 0.5),
        (
            "a deadline task",
            format!(
                "{GROUPS}{a}{b}[[task]]\nname = 'd'\ngroup = '/a'\npolicy = 'SCHED_DEADLINE'\nruntime = '50ms'\n\
                 period = '100ms'\nrun = '50ms'\nsleep = '50ms'\n"
            ),
            0.75,
        ),
        (
            "a nice value that lasted",
            format!("{GROUPS}{a}{}[[change]]\nat = '3999ms'\ntask = 'n'\nnice = 19\n", hog("n", "nice = -20")),
            1024.0 / 89_785.0,
        ),
        ("a task that leaves", format!("{GROUPS}{a}{b}[[change]]\nat = '2s'\ntask = 'a'\ngroup = '/'\n"), 0.25),
        (
            "a limit that is removed",
            format!(
                "{}{a}{b}[[change]]\nat = '2s'\ngroup = '/a'\nmax = 'max'\n",
                GROUPS.replace("[groups.'/a']", "[groups.'/a']\nmax = '20ms/100ms'")
            ),
            0.35,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("groups.toml");
        fs::write(&file, scenario).unwrap();
        let run = json(&["run", file.to_str().unwrap(), "--json"]);
        let group = &run["observed"][0]["groups"]["/a"];
        let of = |field: &str| group[field].as_f64().expect("a number") / 4e9;
        assert!((of("cpu_ns") - part).abs() < 0.005, "{what}: got {}, by hand {part}", of("cpu_ns"));
        assert!((of("entitled_ns") - part).abs() < 0.005, "{what}: entitled to {}, by hand {part}", of("entitled_ns"));
    }
}

/// No entitlement exceeds the demand, however long the task waits.
#[test]
fn a_small_demand_limits_the_entitlement() {
    let task = |name: &str, more: &str| format!("[[task]]\nname = '{name}'\n{more}\n");
    let a = |more: &str| task("a", &format!("group = '/a'\n{more}"));
    let (b, two) = (task("b", "group = '/b'\nrun = '1ms'"), GROUPS.replace("'1'", "'2'"));
    for (what, scenario, entitled) in [
        ("twenty that end", format!("{GROUPS}{b}{}", a("instance = 20\nloops = 1\nrun = '2ms'")), 0.04),
        ("a burst now and then", format!("{GROUPS}{b}{}", a("instance = 9\nrun = '3ms'\nsleep = '3s'")), 0.054),
        // The task waits 300 ms, three pieces, for the task on its CPU, while another CPU is idle.
        (
            "a burst that waits long",
            format!(
                "kernel = '6.6'\n{two}{}{}{b}cpus = '1'\n",
                a("loops = 1\nrun = '2ms'\ncpus = '0'"),
                task("fifo", "policy = 'SCHED_FIFO'\ncpus = '0'\nloops = 1\nrun = '300ms'")
            ),
            0.002,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("little.toml");
        fs::write(&file, scenario).unwrap();
        let run = json(&["run", file.to_str().unwrap(), "--json"]);
        let of = |field: &str| run["observed"][0]["groups"]["/a"][field].as_f64().expect("a number") / 1e9;
        assert!((of("cpu_ns") - entitled).abs() < 1e-4, "{what}: got {}", of("cpu_ns"));
        assert!((of("entitled_ns") - entitled).abs() < 1e-4, "{what}: entitled to {}", of("entitled_ns"));
    }
}

/// A task woken by a clock demands the same however long it waits. One that sleeps after each burst demands less after
/// a wait, and is entitled to its use without waits.
#[test]
fn whose_sleeps_begin_late_is_entitled_to_what_it_missed() {
    let workload = |sleep: &str| {
        format!(
            "kernel = '6.6'\n{}[[workload]]\ngroup = '/a'\nrtapp_inline = \"\"\"{{ 'tasks': {{ 'a': {{ 'cpus': [0], 'loop': -1, \
             'run': 2000, {sleep} }} }} }}\"\"\"\n[[workload]]\nrtapp_inline = \"\"\"{{ 'tasks': {{ 'fifo': {{ 'policy': 'SCHED_FIFO', \
             'cpus': [0], 'loop': -1, 'run': 3500, 'timer': {{ 'ref': 'f', 'period': 7100 }} }} }} }}\"\"\"\n[[task]]\nname = 'b'\n\
             group = '/b'\ncpus = '1'\nrun = '1ms'\n",
            GROUPS.replace("'1'", "'2'")
        )
    };
    let of = |sleep: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("late.toml");
        fs::write(&file, workload(sleep)).unwrap();
        let run = json(&["run", file.to_str().unwrap(), "--json"]);
        let group = &run["observed"][0]["groups"]["/a"];
        ["cpu_ns", "entitled_ns"].map(|field| group[field].as_f64().expect("a number") / 1e9)
    };
    let [got, entitled] = of("'timer': { 'ref': 't', 'period': 10000 }");
    assert!((got - 0.8).abs() < 0.01 && (entitled - got).abs() < 0.01, "by a clock: {got}, entitled to {entitled}");
    let [got, entitled] = of("'sleep': 8000");
    assert!(got < 0.72 && (entitled - 0.8).abs() < 0.02, "asleep: {got}, entitled to {entitled}");
}

/// Under the CPU resource controller guarantees take the place of weights, and the root's tasks have the rest.
#[test]
fn classes_are_entitled_to_their_guarantees() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("classes.toml");
    let hog = |name: &str, more: &str| format!("[[task]]\nname = '{name}'\nrun = '10ms'\n{more}\n");
    let scenario = format!(
        "kernel = '2.6.15-cpurc'\nmachine = '1'\nhz = 1000\nduration = '20s'\ncosts = 'zero'\n[groups.'/a']\nguarantee = 60\n\
         [groups.'/b']\nguarantee = 10\n{}{}{}",
        hog("a", "group = '/a'"),
        hog("b", "group = '/b'"),
        hog("r", "instance = 3")
    );
    fs::write(&file, scenario).unwrap();
    let run = json(&["run", file.to_str().unwrap(), "--json"]);
    let groups = &run["observed"][0]["groups"];
    let entitled = |group: &str| groups[&format!("/{group}")]["entitled_ns"].as_f64().expect("a number") / 1e9;
    assert!((entitled("a") - 12.0).abs() < 0.1 && (entitled("b") - 2.0).abs() < 0.1, "{groups}");
    assert_eq!(groups["/a"]["guarantee"], 0.6, "{groups}");
    let table = well(&["run", file.to_str().unwrap()]);
    assert!(table.lines().any(|line| line.starts_with("/a ") && line.contains("60 %")), "{table}");
}

/// It waits for its next period beside seven idle CPUs, none of which could run it.
#[test]
fn a_deadline_task_that_has_used_up_its_runtime_is_nobodys_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spent.toml");
    let spent = "duration = '2s'\nmachine = '8'\n[[task]]\nname = 'hog'\ninstance = 2\nrun = '10ms'\n[[task]]\nname = 'dl'\n\
                 instance = 2\nrun = '2500us'\npolicy = 'SCHED_DEADLINE'\nruntime = '1ms'\nperiod = '20ms'\n";
    fs::write(&file, spent).unwrap();
    let analyse = ["run", file.to_str().unwrap(), "--analyse", "idle-while-waiting", "--json"];
    let waits = json(&analyse)["observed"][0]["analyses"]["idle_while_waiting"].to_string();
    assert!(!waits.contains("dl-"), "{waits}");
    for kernel in ["3.18", "6.1", "6.12", "6.18"] {
        let text = well(&["run", file.to_str().unwrap(), "--kernel", kernel, "--detect"]);
        assert!(text.contains("no violation in "), "{kernel}: {text}");
    }
}
