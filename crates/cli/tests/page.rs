//! `--html`: pages as a browser shows them, and `--tables`.
//!
//! These load pages in a headless Chromium. Where there is none they say so and are skipped; `make test` sees to one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use assert_cmd::Command as Tested;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo/demo.toml");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data");

fn well(arguments: &[&str], input: &str) -> String {
    let mut command = Tested::cargo_bin("vruntime").expect("cargo has built it");
    let output = command.current_dir(DATA).env("NO_COLOR", "1").args(arguments).write_stdin(input).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

/// The page after its script has run; none where there is no browser.
fn load(page: &Path, dark: bool) -> Option<String> {
    let named = std::env::var("CHROMIUM").ok();
    let names = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let browser = named
        .into_iter()
        .chain(names)
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    let Some(browser) = browser else {
        eprintln!("skipped: there is no Chromium here (apt-get install chromium, or set CHROMIUM)");
        return None;
    };
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,900", "--virtual-time-budget=8000"])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--blink-settings=preferredColorScheme={}", i32::from(!dark)))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("Chromium runs");
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{log}");
    // What a page logs comes with its place; all else is the browser's own business.
    assert!(!log.contains("CONSOLE"), "{log}");
    Some(dom.into_owned())
}

/// What stands behind each `name="`, up to the next quote.
fn attributes<'a>(dom: &'a str, name: &str) -> Vec<&'a str> {
    dom.split(&format!("{name}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Nothing went wrong, and every chart has something in it.
fn drawn(dom: &str, canvases: usize) {
    assert_eq!(attributes(dom, "data-errors"), ["0"], "{:?}", attributes(dom, "data-error"));
    let colours: Vec<u32> =
        attributes(dom, "data-colours").into_iter().map(|count| count.parse().expect("a number")).collect();
    assert_eq!(colours.len(), canvases, "{colours:?}");
    assert!(colours.iter().all(|&count| count >= 3), "every chart is drawn: {colours:?}");
}

#[test]
fn a_comparison_is_drawn_light_and_dark() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let path = page.display().to_string();
    well(&["compare", SCENARIO, "--duration", "1s", "--html", &path], "");
    let size = std::fs::metadata(&page).unwrap().len();
    assert!(size < 4_000_000, "{size} bytes");
    for dark in [false, true] {
        let Some(dom) = load(&page, dark) else { return };
        // Delays; busy CPUs and a timeline of each run.
        drawn(&dom, 1 + 2 + 2);
        assert!(dom.contains("What stands out: ") && dom.contains("web/database"), "the summary and the tables");
        assert!(dom.matches("<tr>").count() > 60, "{} rows", dom.matches("<tr>").count());
    }
}

#[test]
fn fidelity_is_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let printed =
        well(&["fidelity", "--kernel", "6.18", "--scenario", "three", "--html", &page.display().to_string()], "");
    let count = printed.lines().last().expect("the count").to_owned();
    let Some(dom) = load(&page, false) else { return };
    drawn(&dom, 0);
    assert!(dom.contains(&count) && dom.contains("Linux 6.18 on 2 CPUs") && dom.contains("Every cell"), "{count}");
    // Nine cells under a head.
    assert!(dom.matches("<tr>").count() >= 10, "{} rows", dom.matches("<tr>").count());
}

#[test]
fn a_run_and_a_replay_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let path = page.display().to_string();
    well(&["run", SCENARIO, "--duration", "200ms", "--html", &path], "");
    let Some(dom) = load(&page, false) else { return };
    drawn(&dom, 3);
    assert!(dom.contains("CPU time of groups") && dom.contains("/desktop"));
    well(&["replay", "perf-data.txt", "--kernel", "6.1", "--html", &path], "");
    // The recording, its replay and the what-if: how late and how busy each; and the CPU time of all.
    drawn(&load(&page, true).unwrap(), 7);
}

/// The name of a group beside its bar takes no more than half of the room, however long it is.
#[test]
fn groups_with_long_names_have_bars() {
    let pod = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{0}.slice/cri-containerd-{0}.scope",
        "0f9a1f0e8e1e4f57".repeat(4)
    );
    let scenario = format!(
        "duration = \"50ms\"\nmachine = \"1\"\n[[task]]\nname = \"web\"\ngroup = \"{pod}\"\nrun = \"3ms\"\nsleep = \"1ms\"\n"
    );
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("pods.toml"), folder.path().join("page.html"));
    std::fs::write(&file, scenario).unwrap();
    well(&["run", &file.display().to_string(), "--html", &page.display().to_string()], "");
    let Some(dom) = load(&page, false) else { return };
    drawn(&dom, 3);
    let widths: Vec<u32> = attributes(&dom, "data-width").into_iter().map(|width| width.parse().unwrap()).collect();
    assert!(widths.len() >= 4 && widths.iter().all(|&width| width > 200), "{widths:?}");
}

/// On a page of a replay every task has the name and the number that it was recorded with.
#[test]
fn replayed_tasks_are_called_as_they_were_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    well(&["replay", "perf-data.txt", "--map", "comm=work.sh: copies=2", "--html", &page.display().to_string()], "");
    let text = std::fs::read_to_string(&page).unwrap();
    let data = text.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>")).expect("the data").0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let names = |run: usize| -> BTreeSet<String> {
        let tasks = data["runs"][run]["overview"]["timeline"]["tasks"].as_array().unwrap().iter();
        let names = tasks.map(|name| name.as_str().unwrap().to_owned());
        // The migration threads are the simulator's own; workers change their names.
        names.filter(|name| !name.starts_with("migration/") && !name.starts_with("kworker/")).collect()
    };
    let recorded = names(0);
    assert!(names(1).is_subset(&recorded), "{:?} in {recorded:?}", names(1));
    assert!(recorded.contains("work.sh-12691") && names(2).contains("work.sh-12691"), "{recorded:?}");
    assert!(names(2).contains("work.sh-12691#2"), "a copy is in no recording: {:?}", names(2));
}

/// A task may be called anything; on the page that is what is read, and nothing else happens.
#[test]
fn a_task_called_like_markup_breaks_nothing() {
    let nasty = "</script>";
    let mut trace = String::new();
    for round in 0..20_u32 {
        let at = |us: u32| format!("0.{:06}", round * 1000 + us);
        let lines = format!(
            "  <idle>-0 [000] {}: sched_waking: comm={nasty} pid=5 prio=120 target_cpu=000\n\
             <idle>-0 [000] {}: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm={nasty} next_pid=5 next_prio=120\n\
             {nasty}-5 [000] {}: sched_switch: prev_comm={nasty} prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120\n",
            at(100),
            at(110 + round),
            at(700)
        );
        trace.push_str(&lines);
    }
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    well(&["trace", "analyse", "-", "--html", &page.display().to_string()], &trace);
    assert_eq!(std::fs::read_to_string(&page).unwrap().matches(nasty).count(), 3, "those of the page itself");
    let Some(dom) = load(&page, false) else { return };
    drawn(&dom, 3);
    assert!(dom.contains("<td class=\"text\">&lt;/script&gt;</td>"), "it is read as it is written");
}

#[test]
fn every_table_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for (format, ending) in [("csv", "csv"), ("json", "json"), ("parquet", "parquet")] {
        let out = folder.path().join(format);
        let out = out.display().to_string();
        well(
            &["run", SCENARIO, "--duration", "100ms", "--analyse", "latency", "--tables", &out, "--format", format],
            "",
        );
        for table in ["classes", "tasks", "groups", "cpus", "latency"] {
            let path = format!("{out}/{table}.{ending}");
            assert!(std::fs::metadata(&path).unwrap_or_else(|error| panic!("{path}: {error}")).len() > 100);
        }
    }
    let csv = std::fs::read_to_string(folder.path().join("csv/cpus.csv")).unwrap();
    assert!(csv.starts_with("cpu,busy_ns,busy,overhead_ns,idle_ns,") && csv.lines().count() == 9, "{csv}");
    let out = folder.path().join("compared").display().to_string();
    well(&["compare", SCENARIO, "--duration", "100ms", "--tables", &out], "");
    for table in ["comparison.csv", "6.1-tasks.csv", "6.12-tasks.csv"] {
        assert!(Path::new(&out).join(table).exists(), "{table}");
    }
}
