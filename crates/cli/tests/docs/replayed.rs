//! Figures of docs/replay.md and docs/replay-accuracy.md that the command does not print as lines. The tests compute
//! them again and search the pages for them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::page::{Page, range, well};
use super::{recordings, root};

fn replayed(trace: &str, seed: u32, more: &[&str]) -> Value {
    let seed = seed.to_string();
    let run = ["replay", trace, "--costs", "vm", "--as-recorded", "--json", "--seed", &seed];
    serde_json::from_slice(&well(&[&run[..], more].concat())).expect("it prints JSON")
}

/// The part of the recording that `diff` finds in the replay in order, as the page writes it.
fn alike(trace: &str, more: &[&str]) -> [String; 2] {
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("a name in UTF-8");
    well(&[&["replay", trace, "--costs", "vm", "--as-recorded", "--out", out], more].concat());
    let text = folder.path().join("replayed/trace.txt");
    let stdout = well(&["diff", trace, text.to_str().expect("a name in UTF-8"), "--json"]);
    let cpus: Value = serde_json::from_slice(&stdout).expect("it prints JSON");
    [0, 1].map(|cpu| {
        let events = cpus[cpu]["events"].as_array().expect("of both").iter().filter_map(Value::as_f64);
        format!("{:.0} %", cpus[cpu]["alike"].as_f64().expect("a count") * 100.0 / events.fold(1.0, f64::max))
    })
}

/// Tasks by name without the number, in the table's order, with their values in `run` ("recorded", "replayed").
fn of_tasks(json: &Value, run: &str, field: &str) -> Vec<(String, f64)> {
    let tasks = json["tasks"].as_array().expect("a table of tasks").iter();
    let name =
        |task: &Value| task["name"].as_str().and_then(|name| name.rsplit_once('-')).map(|(name, _)| name.to_owned());
    tasks.filter_map(|task| Some((name(task)?, task[run][field].as_f64()?))).collect()
}

fn shares(json: &Value) -> Vec<(String, f64)> {
    let all = json["duration_ns"]["replayed"].as_f64().expect("a length");
    of_tasks(json, "replayed", "cpu_ns").into_iter().map(|(name, ns)| (name, 100.0 * ns / all)).collect()
}

/// The two peri of mix wake at one time, every 10 ms. Returns which is first in each beat, and their mean waits, ms.
fn beats(text: &str) -> (Vec<String>, f64) {
    let mut woken: BTreeMap<&str, f64> = BTreeMap::new();
    let mut waits: Vec<(f64, f64, &str)> = Vec::new();
    for line in text.lines() {
        let of = |event: &str, field: &str| {
            let (head, fields) = line.split_once(event)?;
            let pid = fields.split_once(field)?.1.split(' ').next()?;
            let time: f64 = head.rsplit(' ').next()?.parse().ok()?;
            ["13434", "13435"].contains(&pid).then_some((pid, time))
        };
        let wakes = of(": sched_waking:", " pid=").or_else(|| of(": sched_wakeup:", " pid="));
        if let Some((pid, at)) = wakes {
            woken.entry(pid).or_insert(at);
        } else if let Some((pid, at)) = of(": sched_switch:", " next_pid=")
            && let Some(since) = woken.remove(pid)
        {
            waits.push((since, at, pid));
        }
    }
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Those that are woken together; at the start of the program one is by itself.
    let together = waits.chunk_by(|a, b| b.0 - a.0 < 200e-6);
    let beats: Vec<_> = together.filter(|beat| beat.iter().any(|wait| wait.2 != beat[0].2)).collect();
    let first = beats.iter().filter_map(|beat| beat.iter().min_by(|a, b| a.1.total_cmp(&b.1)));
    let waited: f64 = beats.iter().flat_map(|beat| beat.iter()).map(|wait| wait.1 - wait.0).sum();
    (first.map(|wait| wait.2.to_owned()).collect(), waited * 1e3 / (2.0 * beats.len() as f64))
}

fn changes(first: &[String]) -> f64 {
    first.windows(2).filter(|pair| pair[0] != pair[1]).count() as f64
}

#[test]
fn figures_of_groups() {
    let mut page = Page::open("replay.md");
    let data = root().join("crates/cli/tests/data");
    let [trace, cgroups] = ["groups.pftrace", "groups-cgroups.txt"].map(|file| data.join(file).display().to_string());
    let with: &[&str] = &["--cgroups", &cgroups];
    for (more, first, all) in
        [(with, Some("with `--cgroups`, seed 1"), "seeds 1 to 5"), (&[], None, "without, seeds 1 to 5")]
    {
        let mut seen: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for seed in 1..=5 {
            for (name, share) in shares(&replayed(&trace, seed, more)) {
                seen.entry(name).or_default().push(share);
            }
        }
        let row = |head: &str, what: fn(&[f64]) -> String| {
            let columns = ["web1", "web2", "job1", "job2", "capped", "mover"].map(|name| what(&seen[name]));
            format!("| {head} | {} |", columns.join(" | "))
        };
        page.has(row(all, |shares| range(shares, 1)));
        if let Some(first) = first {
            page.has(row(first, |shares| format!("{:.1}", shares[0])));
        }
    }
    // The what-if's tables of groups: the lines of the command, but for the spaces.
    let what_if = ["replay", &trace, "--costs", "vm", "--map", "cgroup=/vr-capped: max=max", "--repeat", "1"];
    let text = String::from_utf8(well(&[&what_if[..], with].concat())).expect("it prints UTF-8");
    let (_, text) = text.split_once("What if:").expect("it has a what-if");
    let groups: Vec<&str> = text.lines().filter(|line| line.starts_with('/')).collect();
    assert_eq!(groups.len(), 6, "{text}");
    for line in groups {
        page.has(line.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let [plain, grouped] = [&[][..], with].map(|more| alike(&trace, more).join(" and "));
    page.has(format!("groups.pftrace`: {plain}; with its `--cgroups` {grouped})"));
    page.check();
}

/// The release assumed for the two recordings that name none: the page says why.
const RELEASE: [&str; 2] = ["--recorded-kernel", "6.18.44"];

/// The number of mix's cells within 2 % of the recorded CPU time, and within 20 % or 100 us of its latencies.
fn cells_within(json: &Value) -> f64 {
    let fields = [("cpu_ns", 0.02, 0.0), ("wakeup_latency_p50_ns", 0.2, 1e5), ("wakeup_latency_p99_ns", 0.2, 1e5)];
    let within = fields.into_iter().flat_map(|(field, part, least)| {
        let [recorded, replayed] = ["recorded", "replayed"].map(|run| of_tasks(json, run, field));
        recorded.into_iter().zip(replayed).take(6).filter(move |((name, there), (_, here))| {
            !(name.starts_with("spin") && field != "cpu_ns") && (here - there).abs() <= f64::max(part * there, least)
        })
    });
    within.count() as f64
}

#[test]
fn figures_of_nice_and_mix() {
    let recorded = tempfile::tempdir().expect("there is room");
    let [nice, mix] = ["nice", "mix"].map(|name| recordings::whole(name, recorded.path()));
    let mut page = Page::open("replay-accuracy.md");
    let grouped = [&RELEASE[..], &["--autogroup"]].concat();
    let [a, b] = alike(&nice, &RELEASE);
    let [plain, with] = [&RELEASE[..], &grouped].map(|more| alike(&mix, more).join(" and "));
    page.has(format!("nice {a} on CPU 0 and {b} on CPU 1, mix {plain} (with `--autogroup` {with})"));
    let list = |all: &[(String, f64)], digits: usize, count: usize| {
        all[..count].iter().map(|(_, value)| format!("{value:.digits$}")).collect::<Vec<_>>().join(", ")
    };
    for (trace, more, tasks) in [(&nice, &RELEASE[..], 4), (&mix, &grouped[..], 6)] {
        let json = replayed(trace, 1, more);
        page.has(format!("| {} |", list(&shares(&json), 2, tasks)));
        page.has(format!("| {} |", list(&of_tasks(&json, "replayed", "switches"), 0, tasks)));
        if tasks == 6 {
            // Of those that sleep, in ms.
            for field in ["wakeup_latency_p50_ns", "wakeup_latency_p99_ns"] {
                let all = of_tasks(&json, "replayed", field).into_iter().skip(2).map(|(name, ns)| (name, ns / 1e6));
                page.has(format!("| {} |", list(&all.collect::<Vec<_>>(), 2, 4)));
            }
        }
    }
    let under = ["replay", &nice, "--costs", "vm", "--kernel", "6.1", "--seed", "1", "--json", RELEASE[0], RELEASE[1]];
    let json: Value = serde_json::from_slice(&well(&under)).expect("it prints JSON");
    page.has(format!("| under 6.1: {} |", list(&of_tasks(&json, "what_if", "switches"), 0, 4)));
    for (release, text) in
        [("6.18", "Under 6.18, {} of the 14 cells"), ("6.18.44-fc-v657", "Under 6.18.44-fc-v657, {} are.")]
    {
        let run = |seed| cells_within(&replayed(&mix, seed, &["--autogroup", RELEASE[0], release]));
        page.has(text.replace("{}", &format!("{:.1}", (1..=10).map(run).sum::<f64>() / 10.0)));
    }
    let (mut cells, mut seen) = (Vec::new(), BTreeMap::<(&str, String), Vec<f64>>::new());
    let (mut sides, mut waits) = (Vec::new(), Vec::new());
    let folder = tempfile::tempdir().expect("there is room");
    let out = folder.path().to_str().expect("a name in UTF-8");
    for seed in 1..=10 {
        let json = replayed(&mix, seed, &[&grouped[..], &["--out", out]].concat());
        let text = std::fs::read_to_string(folder.path().join("replayed/trace.txt")).expect("it leaves a trace");
        let (first, wait) = beats(&text);
        sides.push(changes(&first));
        waits.push(wait);
        for field in ["cpu_ns", "wakeup_latency_p50_ns", "wakeup_latency_p99_ns"] {
            for (name, here) in of_tasks(&json, "replayed", field).into_iter().take(6) {
                seen.entry((field, name)).or_default().push(here);
            }
        }
        cells.push(cells_within(&json));
    }
    let text = String::from_utf8(well(&["trace", "convert", &mix, "-", "--to", "text"])).expect("it prints UTF-8");
    let (first, wait) = beats(&text);
    page.has(format!(
        "The recording changes sides {} times in {} beats, and one of them is first {} times. Replays with seeds 1 to 10 \
         change sides {} times.",
        changes(&first),
        first.len(),
        first.iter().filter(|pid| *pid == "13434").count(),
        range(&sides, 0)
    ));
    page.has(format!("{wait:.2} ms in the recording, {} ms in those replays", range(&waits, 2)));
    cells.sort_by(f64::total_cmp);
    let mean = cells.iter().sum::<f64>() / 10.0;
    page.has(format!("| {}, {}, {} | {mean:.1} |", cells[0], f64::midpoint(cells[4], cells[5]), cells[9]));
    // CPU time of 3 s, latencies in ms.
    for (head, name, field, unit, digits) in [
        ("spin_n0, CPU %", "spin_n0", "cpu_ns", 3e7, 1),
        ("each peri, CPU %", "peri", "cpu_ns", 3e7, 1),
        ("each slp, CPU %", "slp", "cpu_ns", 3e7, 1),
        ("each peri, p50, ms", "peri", "wakeup_latency_p50_ns", 1e6, 2),
        ("each peri, p99, ms", "peri", "wakeup_latency_p99_ns", 1e6, 2),
    ] {
        let values: Vec<f64> = seen[&(field, name.to_owned())].iter().map(|value| value / unit).collect();
        let range = range(&values, digits);
        let row = page.text.split_once(&format!("| {head} | ")).map_or("", |(_, rest)| rest);
        if row.split(" |").nth(4).map(str::trim) != Some(&range) {
            page.stale.push(format!("{head}: replays {range}"));
        }
    }
    page.check();
}
