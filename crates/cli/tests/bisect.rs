//! `vruntime bisect`, `vruntime kernels --behaviours`, and behaviours that are forced.

#[path = "../../../tests/seed.rs"]
mod seed;
mod support;

use std::fs;

use seed::any_seed;
use serde_json::Value;
use support::*;
use vruntime_sched::kernels::behaviours::{Area, BEHAVIOURS};
use vruntime_sched::kernels::{Behaviour, PolicyKind};
use vruntime_sched::{Kernel, kernels as all_kernels};

/// Rounds of half a CPU beside a hog.
const HALF: &str = r#"
duration = "2s"
machine = "1"
[[task]]
name = "hog"
run = "100s"
[[task]]
name = "half"
steps = [{ run = "1ms" }, { sleep = "1ms" }]
"#;

/// A real-time hog and a fair one on one of four CPUs.
const URGENT: &str = r#"
duration = "3s"
machine = "4"
[[task]]
name = "urgent"
policy = "rr"
priority = 10
cpus = [0]
run = "100s"
[[task]]
name = "fair"
cpus = [0]
run = "100s"
"#;

/// Two groups whose limits some of their tasks use up.
const LIMITED: &str = r#"
duration = "1s"
machine = "pack:2 core:2 pu:2"
[groups."/a"]
max = "1"
[groups."/b"]
max = "500m"
[[task]]
name = "a"
instance = 6
group = "/a"
steps = [{ run = "3ms" }, { sleep = "1ms" }]
[[task]]
name = "b"
instance = 3
group = "/b"
steps = [{ run = "700us" }, { sleep = "2ms" }]
[[task]]
name = "c"
instance = 5
steps = [{ run = "2ms" }, { sleep = "3ms" }]
"#;

fn bisect(text: &str, from: &str, to: &str, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = folder.path().join("bisect.toml");
    fs::write(&file, text).expect("it can be written");
    let file = file.display().to_string();
    let arguments = [&["bisect", &file, "--from", from, "--to", to, "--json"], more].concat();
    serde_json::from_str(&well(&arguments)).expect("it is JSON")
}

fn explained_by(text: &str, from: &str, to: &str, more: &[&str]) -> Vec<String> {
    let found = bisect(text, from, to, more);
    let names = found["explained_by"].as_array().expect("it is a list");
    names.iter().map(|name| name.as_str().expect("it is a name").to_owned()).collect()
}

#[test]
fn the_known_causes_are_named() {
    // CFS lets a sleeper preempt, EEVDF does not.
    assert_eq!(explained_by(HALF, "5.15", "6.8", &["--metric", "share(half)"]), ["EEVDF"]);
    assert_eq!(explained_by(HALF, "6.4", "6.6", &[]), ["EEVDF"]);
    // 5.10 switched the feature off.
    assert_eq!(explained_by(URGENT, "5.4", "5.10", &["--metric", "share(fair)"]), ["RT_RUNTIME_SHARE"]);
    let found = bisect(URGENT, "5.4", "5.10", &["--metric", "share(fair)"]);
    assert_eq!(found["explained_share"].as_f64().map(|share| (100.0 * share).round()), Some(100.0));
}

/// A tunable in a kernel's name is a difference, and no innocent one is blamed for it.
#[test]
fn a_tunable_in_a_kernels_name_is_found() {
    let short = ["--metric", "share(fair)", "--seeds", "1"];
    assert_eq!(explained_by(URGENT, "5.10", "5.10+sched_rt_runtime_us=-1", &short), ["sched_rt_runtime_us"]);
    let more = ["--metric", "share(half)", "--seeds", "2"];
    assert_eq!(explained_by(HALF, "6.12", "6.14+base_slice_ns=30000000", &more), ["base_slice_ns"]);
}

/// Either of two differences makes the change. One is named, and then the other.
#[test]
fn the_answer_names_other_causes() {
    let to = "5.10+sched_rt_runtime_us=-1+RT_RUNTIME_SHARE";
    let found = bisect(URGENT, "5.10", to, &["--metric", "share(fair)", "--seeds", "1"]);
    let named = |field: &str| found[field].as_array().map(Vec::len);
    assert_eq!((named("explained_by"), named("explained_alone_by")), (Some(1), Some(1)), "{found}");
    assert!(found["answer"].as_str().is_some_and(|answer| answer.ends_with(" alone makes as much.")), "{found}");
}

const BUILD: &str = include_str!("../../../scenarios/examples/build.toml");
const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo/demo.toml");

/// Tasks fare the same, and the machine balances half as often.
#[test]
fn a_change_that_only_the_machine_shows_is_named() {
    let found = bisect(BUILD, "6.8", "6.8+-BUSY_FACTOR_16+CLAMPS_LAST", &[]);
    assert_eq!(found["metric"], "balance_attempts", "{found}");
    assert_eq!(found["explained_by"], serde_json::json!(["BUSY_FACTOR_16"]), "{found}");
}

/// Behaviours that move no figure of the demo in the mean of 24 seeds, and first seeds of four whose ranges are apart.
const CHANCES: [(&str, &str, &str); 2] = [("5.10", "GROUP_LOAD_RATE_LIMIT", "9000"), ("6.18", "BUDDY_IN_PICK", "3000")];

/// Each seed draws other figures. With these, one of hundreds is apart by chance, and not with others.
#[test]
fn what_stands_out_by_chance_has_no_cause() {
    for (kernel, behaviour, seed) in CHANCES {
        let to = format!("{kernel}+{behaviour}");
        let arguments = ["bisect", DEMO, "--from", kernel, "--to", &to, "--seed", seed];
        let found: Value = serde_json::from_str(&well(&[&arguments[..], &["--json"]].concat())).expect("it is JSON");
        assert_eq!((found["metric"].is_null(), &found["explained_by"]), (true, &serde_json::json!([])), "{found}");
        assert_eq!((&found["events_differ"], found["effects"].as_array().map(Vec::len)), (&true.into(), Some(1)));
        assert_eq!(found["effects"][0]["difference"], behaviour, "{found}");
        let says = well(&arguments);
        assert!(
            says.contains("no figure that both have stands out") && says.contains(&format!("`{behaviour}`")),
            "{says}"
        );
    }
}

/// The answer tells kernels of equal runs from those whose runs differ a little.
#[test]
fn equal_runs_are_called_equal() {
    let found = bisect(HALF, "6.8", "6.8+LAZY_PREEMPTION", &["--seeds", "1", "--duration", "100ms"]);
    assert_eq!((&found["events_differ"], &found["effects"]), (&false.into(), &serde_json::json!([])), "{found}");
    assert!(found["answer"].as_str().is_some_and(|answer| answer.contains("Not one event differs")), "{found}");
}

/// What changed outside the scheduler is named, too.
#[test]
fn changes_of_kernel_paths_are_found() {
    let pipe = include_str!("../../../scenarios/reports/pipe.toml");
    let more = ["--metric", "loops(stress-ng-writer)", "--seeds", "2", "--duration", "300ms", "--preempt", "lazy"];
    let found = bisect(pipe, "6.12", "6.14", &more);
    let names = found["explained_by"].to_string();
    assert!(names.contains("LAZY_PREEMPTION") || names.contains("PIPE_WAKES_IN_VAIN"), "{found}");
    let full = include_str!("../../../scenarios/history/benchmarks.toml");
    let more = ["--metric", "switches_per_s(hackbench-sender)", "--seeds", "1", "--duration", "50ms"];
    let found = bisect(full, "6.14", "6.14+PIPE_WAKES_IN_VAIN", &more);
    assert_eq!(found["effects"][0]["difference"], "PIPE_WAKES_IN_VAIN", "{found}");
}

/// The answer has the release of a feature, and a command for the kernel's release.
#[test]
fn the_answer_has_releases_and_commands() {
    let short = ["--seeds", "1", "--duration", "300ms"];
    let says = |from: &str, to: &str, metric: &str| {
        let found = bisect(LIMITED, from, to, &[&short[..], &["--metric", metric]].concat());
        found["effects"].as_array().expect("it is a list").clone()
    };
    let of = |effects: &[Value], name: &str, field: &str| {
        let effect = effects.iter().find(|effect| effect["difference"] == name);
        effect.map(|effect| effect[field].as_str().unwrap_or_default().to_owned())
    };
    let effects = says("6.11", "6.12", "switches_per_s(a)");
    assert_eq!(of(&effects, "DELAY_DEQUEUE", "releases").as_deref(), Some("6.12+"), "{effects:?}");
    let off = "echo NO_DELAY_DEQUEUE > /sys/kernel/debug/sched/features";
    assert_eq!(of(&effects, "DELAY_DEQUEUE", "switch").as_deref(), Some(off));
    let effects = says("6.12", "6.12+NO_DELAY_DEQUEUE", "switches_per_s(a)");
    assert_eq!(of(&effects, "DELAY_DEQUEUE", "releases").as_deref(), Some("on in 6.12"));
    let effects = says("5.10", "5.10+NO_GENTLE_FAIR_SLEEPERS", "switches_per_s(a)");
    let on = "echo GENTLE_FAIR_SLEEPERS > /sys/kernel/debug/sched_features";
    assert_eq!(of(&effects, "GENTLE_FAIR_SLEEPERS", "switch").as_deref(), Some(on), "{effects:?}");
}

/// Runs under a kernel that was not compared with its source have a note, in text and JSON.
#[test]
fn unverified_kernels_have_a_note() {
    let short = ["--duration", "20ms", "--json"];
    let note = "Not verified for 5.15: ";
    for first in [vec!["run", "web", "--kernel", "5.15+TASK_THROTTLE"], vec!["compare", "web", "--kernel", "5.15"]] {
        let more: &[&str] = if first[0] == "run" { &[] } else { &["--kernel", "6.12", "--repeat", "1"] };
        let arguments = [&first[..], more, &short].concat();
        let out = vruntime(&arguments);
        let (json, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(json.matches(note).count(), 1, "{json}");
        assert!(stderr.contains(note), "{stderr}");
    }
    for kernel in all_kernels().iter().filter(|kernel| !kernel.unverified.is_empty()) {
        let printed = well(&["kernels", kernel.name]).split_whitespace().collect::<Vec<_>>().join(" ");
        let note = printed.split_once("Not verified for ").map_or("", |(_, note)| note);
        let note = note.split_once(" feature (").map_or(note, |(note, _)| note);
        assert!(note.contains("were read in sources or recorded"), "{printed}");
    }
    let verified = vruntime(&["run", "web", "--kernel", "6.12", "--duration", "20ms", "--json"]);
    assert!(!String::from_utf8_lossy(&verified.stdout).contains("Not verified"));
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups.pftrace");
    let replayed = vruntime(&["replay", trace, "--kernel", "5.15", "--json"]);
    assert!(String::from_utf8_lossy(&replayed.stdout).contains(note), "in replay's JSON");
}

/// A change within the noise has no cause and no shares.
#[test]
fn nothing_explains_a_change_within_the_noise() {
    let more = ["--metric", "share(c)", "--duration", "100ms", "--seeds", "3"];
    let found = bisect(LIMITED, "6.12", "6.12+TASK_THROTTLE", &more);
    assert_eq!(found["within_noise"], true, "{found}");
    assert_eq!(found["explained_by"], serde_json::json!([]), "{found}");
    assert!(found["explained_share"].is_null(), "{found}");
    let effects = found["effects"].as_array().expect("it is a list");
    assert!(!effects.is_empty() && effects.iter().all(|effect| effect["share"].is_null()), "{found}");
}

/// A few more switches a second are below what `compare` shows, and yet beyond the spread. The user asked for them.
#[test]
fn a_figure_that_the_user_names_has_no_least_change() {
    let more = ["bisect", "web", "--from", "7.2", "--to", "7.2+-LAZY_OR_FULL", "--metric", "switches_per_s(collector)"];
    let found: Value = serde_json::from_str(&well(&[&more[..], &["--json"]].concat())).expect("it is JSON");
    let mean = |side: &str| found[side]["mean"].as_f64().expect("it is a number");
    assert!((mean("to") - mean("from")).abs() < 10.0, "{found}");
    assert_eq!(found["within_noise"], false, "{found}");
    assert_eq!(found["explained_by"], serde_json::json!(["LAZY_OR_FULL"]), "{found}");
}

/// The budget counts simulated events, so the search ends at the same run each time.
#[test]
fn a_budget_ends_the_search() {
    let more = ["--metric", "switches_per_s(a)", "--seeds", "2", "--budget", "1"];
    let found = bisect(LIMITED, "6.1", "6.18", &more);
    assert_eq!(found["ended_early"], true, "{found}");
    assert!(found["answer"].as_str().is_some_and(|says| says.contains("ended early, after 1 million")), "{found}");
    let again = bisect(LIMITED, "6.1", "6.18", &more);
    assert_eq!(found, again);
}

/// The runs of both sides leave most of the budget to the search: there are fewer seeds, and a note says so.
#[test]
fn a_small_budget_has_fewer_seeds() {
    let more = ["--metric", "switches_per_s(a)", "--seeds", "100", "--budget", "1"];
    let found = bisect(LIMITED, "6.1", "6.18", &more);
    let seeds = found["seeds"].as_u64().expect("it is a number");
    assert!((2..100).contains(&seeds), "{found}");
    assert_eq!(found["from"]["values"].as_array().map(Vec::len), Some(seeds as usize), "{found}");
    let notes = found["notes"].to_string();
    assert!(notes.contains("instead of 100 seeds"), "{notes}");
}

/// Two kernels differ in one behaviour: bisect finds that behaviour only.
#[test]
fn one_behaviour_flipped_by_hand_is_found() {
    for (kernel, flipped) in [
        ("6.12", "TASK_THROTTLE"),
        ("6.17", "TASK_THROTTLE"),
        ("6.18", "-TASK_THROTTLE"),
        ("6.12", "-GROUP_LOAD_RATE_LIMIT"),
        ("5.10", "-IMBALANCE_PCT_117"),
        ("5.15", "-BUSY_FACTOR_16"),
        ("6.4", "-LIMIT_PERIODS_APART"),
        ("6.1", "LIMIT_PERIODS_APART"),
        ("6.14", "-REWEIGHT_PLACES"),
        ("5.4", "-GROUPS_BY_UTILISATION"),
        ("6.6", "GROUP_LOAD_RATE_LIMIT"),
        ("7.1", "-DELAYED_KEEPS_DEBT"),
        ("7.1", "NO_HRTICK"),
        ("6.12", "NO_DELAY_DEQUEUE"),
        ("6.1", "NO_GENTLE_FAIR_SLEEPERS"),
        ("6.6", "NO_RUN_TO_PARITY"),
    ] {
        let to = format!("{kernel}+{flipped}");
        let name = flipped.trim_start_matches("NO_").trim_start_matches('-');
        let found = bisect(LIMITED, kernel, &to, &["--metric", "switches_per_s(a)", "--seeds", "2"]);
        assert_eq!(found["differences"], 1, "{to}: {found}");
        let effects = found["effects"].as_array().expect("it is a list");
        assert!(effects.iter().all(|one| one["difference"] == name), "{to}: {found}");
        assert_eq!(effects.len(), 1, "{to} changes nothing here");
        let blamed: &[&str] = if found["within_noise"] == true { &[] } else { &[name] };
        assert_eq!(found["explained_by"], serde_json::json!(blamed), "{to}: {found}");
    }
}

/// Random numbers (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % most as u64).expect("it is below a usize")
    }

    /// Flips a random behaviour of the kernel. Returns it as `--kernel K+FLIP` takes it.
    fn flip(&mut self, kernel: &mut Kernel) -> Option<(&'static str, String)> {
        let row = &BEHAVIOURS[self.below(BEHAVIOURS.len())];
        let base = [Behaviour::Eevdf, Behaviour::Early, Behaviour::ByType];
        let on = !kernel.behaviours.has(row.behaviour);
        let mut flipped = kernel.clone();
        flipped.force(row.behaviour, on);
        // Without an interface, the simulator rejects the workload.
        if row.area == Area::Interface || base.contains(&row.behaviour) || flipped.check().is_err() {
            return None;
        }
        *kernel = flipped;
        Some((row.name, format!("{}{}", if on { "" } else { "-" }, row.name)))
    }
}

/// In 20 random cases, bisect finds the behaviour that moves the figure, and none of up to four others.
#[test]
fn a_random_behaviour_is_found_among_others() {
    const CASES: usize = 20;
    let mut draw = Draw(any_seed());
    let rows: Vec<&str> = all_kernels()
        .iter()
        .filter(|row| matches!(row.policy, PolicyKind::Cfs | PolicyKind::Eevdf))
        .map(|row| row.name)
        .collect();
    let more = ["--metric", "switches_per_s(a)", "--seeds", "2", "--duration", "300ms"];
    let mut cases = 0;
    for _ in 0..200 {
        let name = rows[draw.below(rows.len())];
        let (mut silent, mut moving) = (Vec::new(), Vec::new());
        let base = vruntime_sched::kernel(name).expect("it is on offer");
        for _ in 0..12 {
            let Some((behaviour, flip)) = draw.flip(&mut base.clone()) else { continue };
            let found = bisect(LIMITED, name, &format!("{name}+{flip}"), &more);
            let effects = found["effects"].as_array().expect("it is a list");
            let moves = found["within_noise"] == false;
            if effects.is_empty() && silent.len() < 4 {
                silent.push((behaviour, flip));
            } else if moves && moving.is_empty() {
                moving.push((behaviour, flip));
            }
        }
        let Some((behaviour, flip)) = moving.pop() else { continue };
        let mut kernel = base.clone();
        let mut to = format!("{name}+{flip}");
        kernel.feature(&flip).expect("it is a behaviour");
        for (other, flip) in silent.iter().filter(|(other, _)| *other != behaviour) {
            let mut with = kernel.clone();
            with.feature(flip).expect("it is a behaviour");
            if with.check().is_err() || to.contains(other) {
                continue;
            }
            // Alone it moves nothing. Beside the moving one it may, and then it is found rightly.
            let more_of_it = format!("{to}+{flip}");
            if bisect(LIMITED, &to, &more_of_it, &more)["effects"].as_array().is_some_and(Vec::is_empty) {
                (to, kernel) = (more_of_it, with);
            }
        }
        let found = bisect(LIMITED, name, &to, &more);
        // The others may matter together with it, until nothing is left of the difference.
        if found["within_noise"] == true {
            continue;
        }
        assert_eq!(found["explained_by"], serde_json::json!([behaviour]), "{name} to {to}: {found}");
        cases += 1;
        if cases == CASES {
            return;
        }
    }
    panic!("only {cases} cases were found");
}

#[test]
fn the_setting_that_did_it_is_named() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("it can be written");
        file.display().to_string()
    };
    let from = write("a.toml", LIMITED);
    // Three settings differ. The name of a file and the length of a sleep move little.
    let to = LIMITED.replace("max = \"1\"", "max = \"200m\"").replace("sleep = \"3ms\"", "sleep = \"3001us\"");
    let to = write("b.toml", &format!("kernel = \"6.18\"\n{to}"));
    let page = folder.path().join("page.html").display().to_string();
    let arguments = ["bisect", "--from", &from, "--to", &to, "--metric", "share(a)", "--json", "--html", &page];
    let found: Value = serde_json::from_str(&well(&arguments)).expect("it is JSON");
    assert_eq!(found["differences"], 3, "{found}");
    assert_eq!(found["explained_by"], serde_json::json!(["groups.\"/a\".max"]), "{found}");
    let runs = found["runs"].as_array().expect("it is a list");
    assert!(runs.iter().all(|run| run["values"].as_array().is_some_and(|values| values.len() == 4)), "{found}");
    let html = fs::read_to_string(&page).expect("it was written");
    assert!(html.contains("What moved the figure") && html.contains("becomes"), "the page has a chart and a table");
    // A setting that is no scenario alone takes the others of its table along.
    let other = LIMITED.replace("steps = [{ run = \"2ms\" }, { sleep = \"3ms\" }]", "run = \"2ms\"\nsleep = \"9ms\"");
    let other = write("c.toml", &other);
    let found: Value = serde_json::from_str(&well(&[
        "bisect", "--from", &from, "--to", &other, "--metric", "share(c)", "--seeds", "1", "--json",
    ]))
    .expect("it is JSON");
    let joint = 100.0 * found["explained_share"].as_f64().expect("it is a number");
    assert!((90.0..110.0).contains(&joint), "{found}");
    let error = fails(&["bisect", "--from", "6.1", "--to", "6.12"]);
    assert!(error.contains("there is no workload to run") && error.contains("--from A.toml --to B.toml"), "{error}");
}

/// Features of a file are settings of their own, and two kernels are what differs between them.
#[test]
fn features_and_kernels_of_files_are_taken_apart() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let write = |name: &str, head: &str| {
        let file = folder.path().join(name);
        fs::write(&file, format!("{head}{HALF}")).expect("it can be written");
        file.display().to_string()
    };
    let explained = |from: &str, to: &str| {
        let (from, to) = (write("a.toml", from), write("b.toml", to));
        let results =
            well(&["bisect", "--from", &from, "--to", &to, "--metric", "share(half)", "--seeds", "2", "--json"]);
        let results: Value = serde_json::from_str(&results).expect("it is JSON");
        (results["explained_by"].clone(), results["differences"].as_u64().unwrap_or(0))
    };
    let features = "kernel = \"6.1\"\nfeatures = [\"NO_WAKEUP_PREEMPTION\", \"NO_WA_BIAS\", \"NO_UTIL_EST\"]\n";
    let found = explained("kernel = \"6.1\"\n", features);
    assert_eq!(found, (serde_json::json!(["features.WAKEUP_PREEMPTION"]), 3));
    let (explained_by, differences) = explained("kernel = \"6.4\"\n", "kernel = \"6.8\"\n");
    assert_eq!(explained_by, serde_json::json!(["EEVDF"]));
    assert!(differences > 10, "{differences}");
}

/// Their tasks differ, so they have no figure in common.
#[test]
fn files_without_a_common_figure_are_not_called_equal() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let [from, to] = [("a.toml", "hog"), ("b.toml", "other")].map(|(name, task)| {
        let file = folder.path().join(name);
        let text = format!("duration = \"10ms\"\nmachine = \"1\"\n[[task]]\nname = \"{task}\"\nrun = \"1s\"\n");
        fs::write(&file, text).expect("it can be written");
        file.display().to_string()
    });
    let page = folder.path().join("page.html");
    fs::write(&page, "an older page").expect("it can be written");
    let html = page.display().to_string();
    let says = well(&["bisect", "--from", &from, "--to", &to, "--seeds", "1", "--html", &html]);
    assert!(says.contains("no figure that both have stands out"), "{says}");
    let html = fs::read_to_string(&page).expect("it was written");
    assert!(html.contains("no figure that both have stands out") && !html.contains("1 seeds"), "{html}");
    assert!(well(&["bisect", "--from", &from, "--to", &from, "--seeds", "1"]).contains("nothing differs"));
}

#[test]
fn recordings_are_bisected() {
    let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups.pftrace");
    let cgroups = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups-cgroups.txt");
    let arguments = ["bisect", trace, "--cgroups", cgroups, "--from", "6.12", "--to", "6.12+NO_RUN_TO_PARITY"];
    let found: Value = serde_json::from_str(&well(
        &[&arguments[..], &["--metric", "share(/vr-web)", "--seeds", "1", "--json"]].concat(),
    ))
    .expect("it is JSON");
    assert_eq!(found["differences"], 1, "{found}");
    assert_eq!(found["effects"][0]["difference"], "RUN_TO_PARITY", "{found}");
    let notes = found["notes"].to_string();
    assert!(notes.contains("replayed as recorded"), "{notes}");
}

#[test]
fn a_wrong_metric_or_kernel_is_an_error() {
    let error = fails(&["bisect", "web", "--from", "6.1", "--to", "6.12", "--metric", "shar(web)"]);
    assert!(
        error.contains("there is no metric `shar(web)`") && error.contains("did you mean `share(CLASS)`?"),
        "{error}"
    );
    let error = fails(&["bisect", "web", "--from", "2.6.22", "--to", "6.12"]);
    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(error.contains("cannot bisect Linux 2.6.22 and Linux 6.12: they have different schedulers"), "{error}");
    assert!(error.contains("choose two kernels from 2.6.15 to 2.6.22, or two from 3.10 on"), "{error}");
}

#[test]
fn behaviours_are_listed_and_compared() {
    let all = well(&["kernels", "--behaviours"]);
    assert!(all.contains("TASK_THROTTLE") && all.contains("6.18+") && all.contains("recorded"), "{all}");
    assert!(all.contains("3.2 to before 3.16, 4.18 to before 5.4") && all.contains("de53fd7aedb1"), "{all}");
    let json: Value = serde_json::from_str(&well(&["kernels", "--behaviours", "--json"])).expect("JSON");
    for row in json.as_array().expect("it is a list") {
        let has = |field: &str| row[field].as_str().is_some_and(|text| !text.is_empty());
        assert!(has("source") && has("certainty"), "{row}");
    }
    let of_one = well(&["kernels", "--behaviours", "5.10"]);
    assert!(of_one.contains("BALANCE_BY_TYPE") && !of_one.contains("TASK_THROTTLE"), "{of_one}");
    assert!(of_one.contains("Not verified for 5.10"), "{of_one}");
    let json: Value =
        serde_json::from_str(&well(&["kernels", "--behaviours", "6.17", "6.18", "--json"])).expect("JSON");
    let only = |name: &str| {
        let rows = json.as_array().expect("it is a list");
        rows.iter().find(|row| row["behaviour"] == name).map(|row| row["only"].clone())
    };
    assert_eq!(only("TASK_THROTTLE"), Some("6.18".into()));
    assert_eq!(only("NEWIDLE_COST_RISES"), Some("6.17".into()));
    assert_eq!(only("EEVDF"), None);
    // Features and tunables are differences, too.
    let json: Value = serde_json::from_str(&well(&["kernels", "--behaviours", "6.6", "6.12", "--json"])).expect("JSON");
    let row = |name: &str| {
        let rows = json.as_array().expect("it is a list");
        rows.iter().find(|row| row["behaviour"] == name).cloned().unwrap_or_default()
    };
    assert_eq!([&row("DELAY_DEQUEUE")["only"], &row("PREEMPT_SHORT")["releases"]], ["6.12", "6.12+"], "{json}");
    assert_eq!(row("base_slice_ns")["only"], "750000 to 700000", "{json}");
    let counted = bisect(HALF, "6.6", "6.12", &["--seeds", "1", "--duration", "10ms"])["differences"].clone();
    assert_eq!(json.as_array().map(Vec::len), counted.as_u64().map(|all| all as usize));
    assert!(well(&["kernels", "--behaviours", "6.6", "6.12"]).contains("DELAY_DEQUEUE"));
}

#[test]
fn behaviours_can_be_forced() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let file = folder.path().join("limited.toml");
    fs::write(&file, LIMITED).expect("it can be written");
    let file = file.display().to_string();
    let digest = |kernel: &str, more: &[&str]| {
        let arguments = [&["run", &file, "--duration", "300ms", "--json", "--kernel", kernel], more].concat();
        let output: Value = serde_json::from_str(&well(&arguments)).expect("it is JSON");
        let digest = output["observed"][0]["digest"].clone();
        assert!(digest.is_string(), "{output}");
        digest
    };
    let off = "-TASK_THROTTLE";
    assert_eq!(digest("6.12", &["--feature", off]), digest("6.12", &[]), "6.12 has it not");
    assert_ne!(digest("6.18", &["--feature", off]), digest("6.18", &[]));
    assert_eq!(digest("6.18", &["--feature", off]), digest(&format!("6.18+{off}"), &[]));
    assert_eq!(digest("6.12", &["--feature", "+TASK_THROTTLE"]), digest("6.12+TASK_THROTTLE", &[]));
    for (kernel, feature, problem, help) in [
        (
            "7.0",
            "-PROTECTS_SHORTEST_SLICE",
            "needs PROTECTS_SHORTEST_SLICE",
            "leave out -PROTECTS_SHORTEST_SLICE, or add -WAKEUP_SHORTENS_PROTECTION",
        ),
        (
            "6.1",
            "+NUMA_ALLOWS_PAIR",
            "NUMA_ALLOWS_PAIR excludes NUMA_IMBALANCE_BY_CACHES",
            "leave out +NUMA_ALLOWS_PAIR, or add -NUMA_IMBALANCE_BY_CACHES",
        ),
        (
            "6.6",
            "+DELAYED_COUNTS",
            "DELAYED_COUNTS needs DELAY_DEQUEUE",
            "add +DELAY_DEQUEUE, or leave out +DELAYED_COUNTS",
        ),
        ("6.11", "+DELAYED_KEEPS_DEBT", "DELAYED_KEEPS_DEBT needs DELAY_DEQUEUE", "add +DELAY_DEQUEUE"),
        (
            "6.6",
            "+IDLE_LEAVES_FITTING",
            "IDLE_LEAVES_FITTING excludes BALANCE_BY_TYPE",
            "leave out +IDLE_LEAVES_FITTING",
        ),
        ("5.10", "+YIELD_FORFEITS", "YIELD_FORFEITS means nothing to CFS", "--behaviours"),
        ("6.12", "+TASK_THROTLE", "there is no feature `TASK_THROTLE`", "did you mean `TASK_THROTTLE`?"),
    ] {
        let output = fails(&["run", "web", "--kernel", kernel, "--feature", feature]);
        let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(output.contains(problem) && output.contains(help), "{output}");
    }
}
