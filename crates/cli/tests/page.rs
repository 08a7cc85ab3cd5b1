//! `--html` pages in a browser, and `--tables`.
//!
//! The pages load in a headless Chromium. Without one, these tests are skipped with a message; `make test` installs
//! one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use assert_cmd::Command as Tested;

#[path = "../../../tests/skip.rs"]
mod skip;
#[path = "support/mod.rs"]
mod support;

use support::EVERYTHING;

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/demo/demo.toml");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trace/tests/data");

fn well(arguments: &[&str], input: &str) -> String {
    let mut command = Tested::cargo_bin("vruntime").expect("cargo has built it");
    let output = command.current_dir(DATA).env("NO_COLOR", "1").args(arguments).write_stdin(input).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

/// The page after its script has run; None without a browser.
fn load(page: &Path, dark: bool) -> Option<String> {
    let named = std::env::var("CHROMIUM").ok();
    let names = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let browser = named
        .into_iter()
        .chain(names)
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success()));
    let Some(browser) = browser else {
        skip::skip("there is no Chromium (apt-get install chromium, or set CHROMIUM)");
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
    assert_eq!(logged(&log), Vec::<&str>::new(), "{log}");
    Some(dom.into_owned())
}

/// The pages' log, with places. Without messages of the browser and its own pages (`chrome://`), which complain of slow
/// networks and busy machines.
fn logged(log: &str) -> Vec<&str> {
    let messages = log.split(":CONSOLE:").skip(1);
    messages.filter(|message| !message.contains(", source: chrome://")).collect()
}

#[test]
fn only_the_browsers_own_pages_may_log() {
    let own = "[1:1:INFO:CONSOLE:574] \"Slow network is detected.\", source: chrome://resources/a.js (574)\n";
    let ours = "[1:1:INFO:CONSOLE:3] \"one\ntwo\", source: file:///tmp/page.html (3)\n";
    let nowhere = "[1:1:INFO:CONSOLE:0] \"Uncaught (in promise)\", source:  (0)\n";
    assert_eq!(logged(&format!("[1:1:ERROR:dbus/bus.cc:405] Failed\n{own}")), Vec::<&str>::new());
    assert_eq!(logged(&format!("{own}{ours}{own}{nowhere}{own}")).len(), 2);
}

/// As [`load`], after a script of ours has used the page.
fn used(page: &Path, script: &str) -> Option<String> {
    let html = std::fs::read_to_string(page).unwrap().replace("</body>", &format!("<script>{script}</script></body>"));
    let copy = page.with_extension("used.html");
    std::fs::write(&copy, html).unwrap();
    load(&copy, false)
}

/// The values of `name="..."`.
fn attributes<'a>(dom: &'a str, name: &str) -> Vec<&'a str> {
    dom.split(&format!("{name}=\"")).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Checks that there is no error, and no empty chart.
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
    well(&["compare", SCENARIO, "--duration", "1s", "--repeat", "1", "--html", &path], "");
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

/// `569 us` is more than `501 ns`: columns sort by value. A second press on a head reverses the order.
#[test]
fn what_differs_sorts_by_value_and_heads_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    well(&["compare", SCENARIO, "--duration", "500ms", "--html", &page.display().to_string()], "");
    let script = r#"
        const part = document.getElementById("what-differs"), heads = part.querySelectorAll("th button");
        heads[2].click();
        document.body.dataset.sorted = heads[2].parentNode.getAttribute("aria-sort");
        part.querySelector(".more").click();
        const rows = [...part.querySelectorAll("tbody tr")].map(row => [...row.children].map(cell => cell.textContent));
        document.body.dataset.late = rows.filter(row => row[1].startsWith("late") && row[2] !== "–").map(row => row[2]).join(",");
        document.body.dataset.unnamed = [...document.querySelectorAll("th button")].filter(head => !head.textContent.trim()).length;
    "#;
    let Some(dom) = used(&page, script) else { return };
    assert_eq!(attributes(&dom, "data-sorted"), ["descending"]);
    assert_eq!(attributes(&dom, "data-unnamed"), ["0"]);
    let ns = |text: &str| {
        // A spread may follow.
        let (number, unit) = text.split(" ±").next().and_then(|mean| mean.split_once(' ')).expect("a time");
        let by = ["ns", "us", "ms", "s"].iter().position(|known| *known == unit).expect("its unit");
        number.parse::<f64>().expect("a number") * 1000_f64.powi(by as i32)
    };
    let texts = &attributes(&dom, "data-late")[0];
    assert!(texts.contains(" us") && texts.contains(" ms"), "of several units: {texts}");
    let late: Vec<f64> = texts.split(',').map(ns).collect();
    assert!(late.len() > 5 && late.is_sorted_by(|a, b| a >= b), "{late:?}");
}

#[test]
fn fidelity_is_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let printed =
        well(&["fidelity", "--kernel", "6.18", "--scenario", "three", "--html", &page.display().to_string()], "");
    let count = printed.lines().last().expect("the count").trim_end_matches('.').to_owned();
    let Some(dom) = load(&page, false) else { return };
    drawn(&dom, 0);
    assert!(
        dom.contains(&count) && dom.contains("Linux 6.18 on 2 CPUs") && dom.contains("All measurements"),
        "{count}"
    );
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

/// Two tasks on one CPU for half a second, and `small` tiny ones; pids from `pid` on.
fn tasks(pid: u32, small: u32) -> String {
    let switch = |us: u32, prev: &str, next: &str| {
        let (prev_comm, prev_pid) = prev.rsplit_once('-').expect("comm-pid");
        let (next_comm, next_pid) = next.rsplit_once('-').expect("comm-pid");
        format!(
            "{prev} [000] 1.{us:06}: sched_switch: prev_comm={prev_comm} prev_pid={prev_pid} prev_prio=120 prev_state=R ==> \
             next_comm={next_comm} next_pid={next_pid} next_prio=120\n"
        )
    };
    let (a, b) = (format!("heavy-{pid}"), format!("light-{}", pid + 1));
    let mut text = switch(0, "swapper/0-0", &a);
    for round in 0..50 {
        text += &switch(round * 10_000 + 7_000, &a, &b);
        text += &switch(round * 10_000 + 9_999, &b, &a);
    }
    let mut prev = a;
    for number in 0..small {
        let next = format!("tiny{number}-{}", pid + 10 + number);
        text += &switch(500_000 + number * 10, &prev, &next);
        prev = next;
    }
    text + &switch(501_000, &prev, "swapper/0-0")
}

/// Runs of one page have one scale, one left edge and one set of colours, despite different pids. Tasks too small to
/// see are one bar.
#[test]
fn what_is_compared_looks_alike() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other, page] = ["one.txt", "another-longer-name.txt", "page.html"].map(|name| folder.path().join(name));
    std::fs::write(&one, tasks(100, 5)).unwrap();
    std::fs::write(&other, tasks(700, 0)).unwrap();
    let [one, other, path] = [&one, &other, &page].map(|path| path.display().to_string());
    well(&["compare", &one, &other, "--kernel", "6.12", "--html", &path], "");
    let script = r##"
        const bars = [...document.querySelectorAll("#cpu-time .bar")];
        document.body.dataset.edges = new Set(bars.map(bar => bar.getBoundingClientRect().left)).size;
        document.body.dataset.texts = [...document.querySelectorAll("#cpu-time .value")].map(value => parseFloat(value.textContent)).join();
        document.body.dataset.parts = bars.map(bar => bar.firstChild.getBoundingClientRect().width / bar.getBoundingClientRect().width).join();
        document.body.dataset.legend = [...document.querySelectorAll(".legend span")].map(name => name.textContent).join();
    "##;
    let Some(dom) = used(&page, script) else { return };
    drawn(&dom, 5);
    assert_eq!(attributes(&dom, "data-edges"), ["1"]);
    assert!(dom.contains("5 others") && !dom.contains("class=\"name\">tiny"), "small tasks are one bar");
    let numbers =
        |name: &str| -> Vec<f64> { attributes(&dom, name)[0].split(',').map(|part| part.parse().unwrap()).collect() };
    let (percents, parts) = (numbers("data-texts"), numbers("data-parts"));
    let most = percents.iter().copied().fold(0.0, f64::max);
    assert_eq!((percents.len(), parts.len()), (5, 5), "{percents:?}");
    assert!(
        percents.iter().zip(&parts).all(|(percent, part)| (percent / most - part).abs() < 0.01),
        "{percents:?} {parts:?}"
    );
    assert_eq!(attributes(&dom, "data-colours-of"), ["classes"]);
    let legend = attributes(&dom, "data-legend")[0];
    assert!(legend.starts_with("heavy,light") && !legend.contains("heavy-"), "{legend}");
    // One trace and its copies have the same pids: each task has its own.
    well(&["replay", &one, "--map", "heavy: copies=2", "--html", &path], "");
    let dom = used(&page, script).unwrap();
    assert_eq!(attributes(&dom, "data-colours-of"), ["tasks"]);
    assert!(attributes(&dom, "data-legend")[0].contains("heavy-100"), "{:?}", attributes(&dom, "data-legend"));
}

/// A replay with a what-if shows the file's name, the main part unfolded, all columns, and lines from 0 on. On paper it
/// shows everything.
#[test]
fn a_replay_fits_the_screen_and_the_paper() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let file = format!("{DATA}/perf-data.txt");
    well(&["replay", &file, "--kernel", "6.1", "--html", &page.display().to_string()], "");
    let html = std::fs::read_to_string(&page).unwrap();
    let head = html.split_once("</header>").expect("it has a head").0;
    assert!(head.contains("<h1>Replay of perf-data.txt</h1>") && !head.contains(DATA), "{}", &head[head.len() - 300..]);
    let script = r#"
        (async () => {
        const table = [...document.querySelectorAll(".scroll")].find(box => box.querySelector("th.group"));
        document.body.dataset.beyond = table.scrollWidth - table.clientWidth;
        document.body.dataset.groups = [...table.querySelectorAll("th.group")].map(head => `${head.textContent} ${head.colSpan}`).join();
        document.body.dataset.labels = table.querySelectorAll("th button")[2].getAttribute("aria-label");
        document.body.dataset.closed = document.querySelectorAll("details.notes:not([open]) li").length;
        dispatchEvent(new Event("beforeprint"));
        await null;
        document.body.dataset.open = document.querySelectorAll("details.notes[open] li").length;
        document.body.dataset.heights = [...document.querySelectorAll("canvas.draw")].map(node => node.style.height).join();
        document.body.dataset.paper = document.querySelector(".u-wrap").style.width;
        dispatchEvent(new Event("afterprint"));
        document.body.dataset.again = document.querySelectorAll("details.notes:not([open]) li").length;
        // A busy browser may resize the page late.
        setTimeout(() => dispatchEvent(new Event("resize")), 150);
        })();
    "#;
    let Some(dom) = used(&page, script) else { return };
    drawn(&dom, 7);
    let beyond: i32 = attributes(&dom, "data-beyond")[0].parse().unwrap();
    assert!(beyond <= 1, "{beyond} pixels of the table are out of sight");
    assert_eq!(attributes(&dom, "data-groups"), ["CPU 3,Waited 3,Switches 3,p50 3,p99 3"]);
    assert_eq!(attributes(&dom, "data-labels"), ["CPU: recorded"], "what a head says by itself");
    let begin = attributes(&dom, "data-begin")[0];
    assert!(begin.split(',').count() == 3 && begin.split(',').all(|part| part == "0"), "{begin}");
    let [closed, open, again] =
        ["data-closed", "data-open", "data-again"].map(|name| attributes(&dom, name)[0].to_owned());
    assert!(closed != "0" && closed == open && open == again, "{closed} {open} {again}");
    assert!(attributes(&dom, "data-heights")[0].split(',').all(|height| height == "auto"));
    assert_eq!(attributes(&dom, "data-paper"), ["720px"]);
}

/// A long group name takes at most half of the room beside its bar.
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

/// A replay's page shows recorded names and numbers.
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

/// A task may have any name: the page shows it as text.
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
    assert!(csv.starts_with("cpu,busy_ns,busy,overhead_ns,overhead,idle_ns,") && csv.lines().count() == 9, "{csv}");
    let info = folder.path().join("info");
    well(&["trace", "info", "ftrace-tgid.txt", "--tables", &info.display().to_string()], "");
    let read = |table: &str| std::fs::read_to_string(info.join(table)).unwrap();
    assert!(read("events.csv").starts_with("event,count,per_second\nsched_"), "{}", read("events.csv"));
    assert!(read("tasks.csv").starts_with("task,pid,tgid,cpu_ns,share,switches,wakeups,migrations\n"));
    assert!(read("tasks.csv").lines().count() > 10 && read("tasks.csv").contains("\nrustc,"), "{}", read("tasks.csv"));
    let out = folder.path().join("compared").display().to_string();
    well(&["compare", SCENARIO, "--duration", "100ms", "--tables", &out], "");
    for table in ["comparison.csv", "6.1-tasks.csv", "6.12-tasks.csv"] {
        assert!(Path::new(&out).join(table).exists(), "{table}");
    }
}

/// Printed tables by their first two heads; each one's file, and the file's column for each head.
type Printed = (&'static str, &'static [(&'static str, &'static str)]);
const PRINTED: [Printed; 9] = [
    (
        "classes",
        &[
            ("tasks", "class"),
            ("CPU %", "share"),
            ("wait %", "run_delay"),
            ("lateness p50", "late_p50_ns"),
            ("p99", "late_p99_ns"),
            ("max", "late_max_ns"),
            ("switch/s", "switches_per_s"),
            ("migrations", "migrations"),
            ("loops", "loops"),
            ("loop p50", "loop_p50_ns"),
        ],
    ),
    (
        "classes",
        &[
            ("tasks", "class"),
            ("rounds", "rounds"),
            ("response p50", "response_p50_ns"),
            ("p90", "response_p90_ns"),
            ("p99", "response_p99_ns"),
            ("max", "response_max_ns"),
        ],
    ),
    (
        "tasks",
        &[("tasks", "class"), ("policy", "policy"), ("prio", "prio"), ("rt priority", "rt_priority"), ("nice", "nice")],
    ),
    (
        "deadlines",
        &[
            ("deadline tasks", "class"),
            ("throttled", "nr_throttled"),
            ("missed", "misses"),
            ("latest", "max_late_ns"),
            ("overruns", "nr_overruns"),
        ],
    ),
    (
        "groups",
        &[
            ("group", "group"),
            ("weight", "weight"),
            ("tasks", "tasks"),
            ("CPU %", "share"),
            ("entitled %", "entitled"),
            ("% of entitled", "of_entitled"),
            ("wait %", "run_delay"),
            ("pressure %", "pressure_some"),
            ("switch/s", "switches_per_s"),
        ],
    ),
    (
        "groups",
        &[
            ("limited group", "group"),
            ("limit %", "limit"),
            ("CPU %", "share"),
            ("periods", "nr_periods"),
            ("throttled", "nr_throttled"),
            ("% of periods", "throttled_periods"),
            ("throttled for", "throttled_ns"),
            ("bursts", "nr_bursts"),
            ("burst", "burst_ns"),
        ],
    ),
    (
        "groups",
        &[("rt-limited group", "group"), ("throttled", "nr_rt_throttled"), ("throttled for", "rt_throttled_ns")],
    ),
    (
        "cpus",
        &[
            ("CPU", "cpu"),
            ("busy %", "busy"),
            ("overhead %", "overhead"),
            ("idle %", "idle"),
            ("switch/s", "switches_per_s"),
            ("balanced", "balanced"),
            ("tasks pulled", "pulled"),
        ],
    ),
    (
        "frequencies",
        &[
            ("CPU", "cpu"),
            ("mean MHz", "mean_khz"),
            ("changes", "total_trans"),
            ("main MHz", "khz"),
            ("time %", "time"),
            ("highest MHz", "khz"),
            ("time %", "time"),
        ],
    ),
];

/// In [`EVERYTHING`] no task waits too long beside an idle CPU; in a scenario of wasted cores one does.
const IDLE_WAITS: &[(&str, &str)] =
    &[("tasks", "class"), ("waits", "waits"), ("beyond the interval", "too_long_ns"), ("worst", "worst_ns")];

/// Every printed table and column is also in a file.
#[test]
fn what_is_printed_is_in_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, out) = (folder.path().join("everything.toml"), folder.path().join("out"));
    std::fs::write(&scenario, EVERYTHING).unwrap();
    let (scenario, out) = (scenario.display().to_string(), out.display().to_string());
    let head = |table: &str| -> Vec<String> {
        let path = format!("{out}/{table}.csv");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        text.lines().next().expect("a head").split(',').map(str::to_owned).collect()
    };
    let text = well(&["run", &scenario, "--tables", &out], "");
    let lines: Vec<&str> = text.lines().collect();
    let mut left: Vec<&Printed> = PRINTED.iter().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].starts_with('─')) {
        let heads: Vec<&str> = pair[0].split("  ").map(str::trim).filter(|head| !head.is_empty()).collect();
        let found =
            left.iter().position(|(_, columns)| columns.iter().map(|(head, _)| *head).eq(heads.iter().copied()));
        let (file, columns) = left.remove(found.unwrap_or_else(|| panic!("in which file is {heads:?}?\n{text}")));
        let written = head(file);
        for (head, key) in *columns {
            assert!(written.iter().any(|column| column == key), "{head} of {heads:?}: no {key} in {file}: {written:?}");
        }
    }
    assert!(left.is_empty(), "not printed: {left:?}\n{text}");
    assert!(text.contains("\nload average ") && text.contains("\nCPU pressure some avg10="), "{text}");
    assert_eq!(head("averages")[..4], ["load_1min", "load_5min", "load_15min", "some_avg10"]);
    let wasted = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/wasted-cores/group-imbalance.toml");
    let text = well(&["run", wasted, "--tables", &out], "");
    let heads: Vec<&str> = IDLE_WAITS.iter().map(|(head, _)| *head).collect();
    let printed =
        |line: &str| line.split("  ").map(str::trim).filter(|head| !head.is_empty()).eq(heads.iter().copied());
    assert!(text.lines().any(printed), "{text}");
    let written = head("idle_waits");
    assert!(IDLE_WAITS.iter().all(|(_, key)| written.iter().any(|column| column == key)), "{written:?}");
    let text = well(&["run", SCENARIO, "--kernel", "3.10", "--tables", &out, "--duration", "100ms"], "");
    assert!(text.contains("\nweights of groups: computed "), "{text}");
    assert_eq!(head("group_weights"), ["updates", "groups", "idle"]);
}

/// Groups of a replay against their entitlements in each run; tasks against the recording.
#[test]
fn a_replay_in_groups_has_bars_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
    let (trace, cgroups) = (format!("{data}/groups.pftrace"), format!("{data}/groups-cgroups.txt"));
    let rule = "cgroup=/vr-capped: max=max";
    let html = page.display().to_string();
    well(&["replay", &trace, "--cgroups", &cgroups, "--costs", "vm", "--map", rule, "--html", &html], "");
    let text = std::fs::read_to_string(&page).unwrap();
    let data = text.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>")).expect("the data").0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let bars = data["bars"].as_array().expect("bars");
    let labels: Vec<_> = bars.iter().map(|bars| (&bars["title"], &bars["label"])).collect();
    let groups = "CPU time of groups";
    assert_eq!(labels[..2], [(&groups.into(), &"replayed as recorded".into()), (&groups.into(), &"what if".into())]);
    let capped = |run: usize| {
        let rows = bars[run]["rows"].as_array().expect("rows").iter();
        let row = rows.clone().find(|row| row["name"] == "/vr-capped").expect("the group");
        (row["share"].as_f64().expect("a share"), row["mark"].as_f64().expect("a mark"))
    };
    assert!(capped(0).0 < 0.25 && capped(0).1 < 0.25, "{:?}", capped(0));
    assert!(capped(1).0 > 0.5 && capped(1).1 > 0.5, "{:?}", capped(1));
    assert_eq!(
        (&bars[2]["title"], &bars[3]["title"], bars.len()),
        (&"CPU time of tasks".into(), &"Progress".into(), 4)
    );
    // How much more the one without its limit gets done, in the summary, beside the recording's speed, and in a table.
    let progress = bars[3]["rows"].as_array().expect("rows").iter().find(|row| row["name"] == "capped");
    let progress = progress.expect("it has a bar");
    assert!(progress["share"].as_f64().is_some_and(|times| times > 2.0) && progress["mark"] == 1.0, "{progress}");
    assert!(progress["text"].as_str().is_some_and(|text| text.contains("times as fast, done after 1.")), "{progress}");
    assert!(
        text.contains("<li>Verdict: ") && text.contains("<li>What stands out in the what-if: "),
        "both are in the summary"
    );
    let tables = data["tables"].as_array().expect("tables").iter();
    let table = tables.clone().find(|table| table["title"] == "Progress of closed loops").expect("a table");
    let heads: Vec<_> = table["tables"][0]["table"]["columns"].as_array().expect("columns").iter().collect();
    let groups: Vec<_> = heads.iter().filter_map(|head| head["group"].as_str()).collect();
    let expected = [["CPU"; 2], ["Waited"; 2], ["Rounds/s"; 2], ["Progress"; 2]].concat();
    assert_eq!(groups, expected, "beside CPU time and waiting");
    let Some(dom) = load(&page, false) else { return };
    assert_eq!(attributes(&dom, "data-errors"), ["0"], "{:?}", attributes(&dom, "data-error"));
    assert!(dom.contains("<h3>replayed as recorded</h3>") && dom.contains("/vr-capped"), "both runs have bars");
    assert!(dom.contains("<h2>Progress</h2>"), "it has a heading");
}

/// Several seeds have a table with the spread; charts show the first.
#[test]
fn a_replay_of_several_seeds_says_what_is_chance() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let html = page.display().to_string();
    well(&["replay", "perf-data.txt", "--kernel", "6.1", "--repeat", "3", "--html", &html], "");
    let script = r#"
        const isMean = part => part.querySelector("h2")?.textContent.startsWith("Mean of 3 seeds");
        const box = [...document.querySelectorAll("section")].find(isMean);
        document.body.dataset.heads = [...box.querySelectorAll("th")].map(head => head.textContent).join();
        const cells = row => [...row.cells].map(cell => cell.textContent).join("|");
        document.body.dataset.rows = [...box.querySelectorAll("tbody tr")].slice(0, 2).map(cells).join("\n");
    "#;
    let Some(dom) = used(&page, script) else { return };
    drawn(&dom, 7);
    assert_eq!(attributes(&dom, "data-heads"), ["Of,Metric,Recorded,Replayed,What if,Change,Spread"]);
    let rows = attributes(&dom, "data-rows")[0];
    assert!(
        rows.starts_with("lto cgu.07-12677|CPU %|82.30|") && rows.contains(" ±") && !rows.contains("NaN"),
        "{rows}"
    );
    assert!(dom.contains("seeds 1 to 3"), "the head says which");
}

/// Table, JSON and page give one figure for busy CPUs, also where a recording lacks some of it.
#[test]
fn how_busy_cpus_were_has_one_figure() {
    const GROUPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/groups.pftrace");
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let json_and_page = |arguments: &[&str]| -> (serde_json::Value, String) {
        let json = well(&[arguments, &["--json", "--html", page.to_str().unwrap()]].concat(), "");
        (serde_json::from_str(&json).unwrap(), std::fs::read_to_string(&page).unwrap())
    };
    let percent = |share: f64| {
        if share < 0.99995 { format!("{:.2}", share * 100.0) } else { format!("{:.1}", share * 100.0) }
    };
    let sentence = |shares: &[f64]| {
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        format!("The CPUs were busy {} % of the time: ", percent(mean))
    };
    let (json, html) = json_and_page(&["replay", GROUPS, "--kernel", "6.1"]);
    for run in ["recorded", "replayed", "what_if"] {
        let elapsed = json["duration_ns"][run].as_f64().unwrap();
        let busy = json["busy_ns"][run].as_array().unwrap();
        let shares: Vec<f64> = busy.iter().map(|ns| ns.as_f64().unwrap() / elapsed).collect();
        let expected = format!("<li>{}: {}", run.replace('_', " "), sentence(&shares));
        assert!(html.contains(&expected), "{expected}");
    }
    let (json, html) = json_and_page(&["run", SCENARIO, "--kernel", "6.12", "--duration", "100ms"]);
    let seen = &json["observed"][0];
    let busy = seen["cpus"].as_array().unwrap().iter().map(|cpu| cpu["busy_ns"].as_f64().unwrap() / 1e8);
    let expected = format!("<li>{}", sentence(&busy.collect::<Vec<f64>>()));
    assert!(html.contains(&expected), "{expected}");
}
