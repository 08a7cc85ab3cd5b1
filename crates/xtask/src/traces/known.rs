//! Traces of other projects, with counts of an independent parser.

use serde_json::Value;

use super::Reader;

pub(super) struct Known {
    pub(super) file: &'static str,
    /// Description and origin.
    pub(super) source: &'static str,
    kind: &'static str,
    cpus: u64,
    /// Length, and its tolerance, seconds.
    span_s: (f64, f64),
    events: &'static [(&'static str, u64)],
    /// Whether it lacks switches away from a task or the idle task.
    is_broken: bool,
    /// Further checks.
    more: fn(&Reader, &Value) -> miette::Result<Vec<String>>,
}

pub(super) const KNOWN: [Known; 5] = [
    Known {
        file: "lisa-juno6-rtapp.txt",
        source: "ARM-software/lisa, tests/assets/trace_txt, Apache-2.0; beside lisa-juno6.plat_info.yml of there",
        kind: "text of trace-cmd report -R",
        cpus: 6,
        span_s: (6.676, 0.001),
        events: &[("sched_switch", 1856), ("sched_wakeup", 1068), ("print", 14), ("sched_overutilized", 3)],
        is_broken: false,
        more: of_juno,
    },
    Known {
        file: "lisa-juno6-pelt.dat",
        source: "ARM-software/lisa, tests/assets/sched_load/trace.dat, Apache-2.0",
        kind: "trace.dat of trace-cmd",
        cpus: 6,
        span_s: (0.428, 0.001),
        events: &[
            ("sched_switch", 399),
            ("sched_migrate_task", 28),
            ("sched_load_cfs_rq", 2437),
            ("sched_load_se", 364),
            ("cpu_idle", 474),
            ("cpu_frequency", 16),
            ("sched_wakeup", 0),
        ],
        is_broken: false,
        more: of_frequencies,
    },
    Known {
        file: "trappy-android8-surfaceflinger.html",
        source: "ARM-software/trappy, tests/trace_surfaceflinger.html, Apache-2.0; its wakeups have no `success`",
        kind: "systrace HTML",
        cpus: 8,
        span_s: (0.738, 0.001),
        events: &[
            ("sched_switch", 715),
            ("sched_wakeup", 421),
            ("cpu_idle", 621),
            ("cpu_frequency", 104),
            ("sched_blocked_reason", 31),
        ],
        is_broken: false,
        more: nothing,
    },
    Known {
        file: "trappy-hmp8-history.dat",
        source: "ARM-software/trappy, an older tests/trace.dat, Apache-2.0",
        kind: "trace.dat of trace-cmd",
        cpus: 8,
        span_s: (4.531, 0.001),
        events: &[
            ("sched_switch", 826),
            ("sched_wakeup", 415),
            ("sched_stat_runtime", 7981),
            ("sched_migrate_task", 9),
        ],
        is_broken: false,
        more: nothing,
    },
    Known {
        file: "catapult-android2-systrace.txt",
        source: "catapult-project/catapult, tracing/test_data/android_systrace.html, the lines of ftrace, BSD-3-Clause",
        kind: "ftrace text",
        cpus: 2,
        span_s: (5.0, 0.006),
        events: &[("sched_switch", 11074), ("sched_wakeup", 6827), ("0", 13578)],
        is_broken: true,
        more: of_a_stray_line,
    },
];

pub(super) fn of(file: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.file == file)
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn unless(&mut self, holds: bool, else_: impl FnOnce() -> String) {
        if !holds {
            self.0.push(else_());
        }
    }
}

impl Known {
    /// Returns the differences from the command's results.
    pub(super) fn differences(&self, reader: &Reader) -> miette::Result<Vec<String>> {
        let info = reader.json(&["trace", "info", self.file])?;
        let mut found = Differences::default();
        found.unless(info["kind"] == self.kind, || format!("is {}, not {}", info["kind"], self.kind));
        let cpus = info["cpus"].as_array().map_or(0, Vec::len) as u64;
        found.unless(cpus == self.cpus, || format!("has events of {cpus} CPUs, not {}", self.cpus));
        let span = info["span_ns"].as_f64().unwrap_or(0.0) / 1e9;
        found.unless((span - self.span_s.0).abs() < self.span_s.1, || {
            format!("is {span:.6} s long, not {}", self.span_s.0)
        });
        for (event, count) in self.events {
            let read = info["events_by_name"][event].as_u64().unwrap_or(0);
            found.unless(read == *count, || format!("has {read} {event}, not {count}"));
        }
        let loss = &info["loss"];
        for what in ["not_understood", "malformed", "cut_lines"] {
            found.unless(loss[what]["count"] == 0, || format!("{what}: {}", loss[what]));
        }
        found.unless(loss["unterminated"].is_null(), || format!("unterminated: {}", loss["unterminated"]));
        for what in ["broken_switches", "missing_arrivals"] {
            found.unless((loss[what] != 0) == self.is_broken, || format!("{what}: {}", loss[what]));
        }
        found.0.extend((self.more)(reader, &info)?);
        Ok(found.0)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the others can fail")]
fn nothing(_: &Reader, _: &Value) -> miette::Result<Vec<String>> {
    Ok(Vec::new())
}

/// A line with time 0.0 does not count for the length.
#[expect(clippy::unnecessary_wraps, reason = "the others can fail")]
fn of_a_stray_line(_: &Reader, info: &Value) -> miette::Result<Vec<String>> {
    let mut found = Differences::default();
    let strays = &info["clock"]["strays"];
    found.unless(*strays == 1, || format!("has {strays} lines whose time is no time of the trace, not 1"));
    Ok(found.0)
}

const JUNO: &str = "lisa-juno6.plat_info.yml";

/// CPU time of a task in a run of a replay, in thousandths of the trace.
fn permille(replay: &Value, task: &str, run: &str) -> u64 {
    let tasks = replay["tasks"].as_array().into_iter().flatten();
    let cpu_ns = tasks.filter(|found| found["name"] == task).find_map(|found| found[run]["cpu_ns"].as_u64());
    let all = replay["duration_ns"]["recorded"].as_u64().filter(|&ns| ns > 0);
    cpu_ns.zip(all).map_or(0, |(ns, all)| ns * 1000 / all)
}

/// Checks that task states are decoded as on 4.19. The large task's time on a big CPU must be 446 / 1024 of that on a
/// little one. `docs/replay.md` must show the command's output.
fn of_juno(reader: &Reader, info: &Value) -> miette::Result<Vec<String>> {
    let mut found = Differences::default();
    let file = "lisa-juno6-rtapp.txt";
    let tasks = info["tasks"].as_array().map_or(0, Vec::len);
    found.unless(tasks == 50, || format!("has {tasks} tasks, not 50"));
    let text = reader.prints(&["trace", "convert", file, "-", "--to", "text"])?;
    found.unless(text.contains("prev_state=R+ "), || "no task is preempted (4096 on this kernel)".to_owned());
    found.unless(!text.contains("prev_state=? "), || "has states that are not known".to_owned());
    let arguments = ["replay", file, "--recorded-machine", JUNO, "--machine", "6"];
    let replay = reader.json(&arguments)?;
    let [recorded, whatif] = ["recorded", "what_if"].map(|run| permille(&replay, "ramp-1706", run));
    found.unless(recorded > 100 && whatif.abs_diff(recorded * 446 / 1024) <= 15, || {
        format!("ramp-1706 has {recorded} thousandths recorded and {whatif} on a big CPU")
    });
    let page = include_str!("../../../../docs/replay.md");
    let command = format!("$ vruntime {}", arguments.join(" "));
    let shown = page.split_once(&command).and_then(|(_, rest)| rest.split_once("```")).map(|(shown, _)| shown);
    let printed = reader.prints(&arguments)?;
    let lines = shown.unwrap_or_default().lines().filter(|line| !line.is_empty() && *line != "...");
    found.unless(lines.clone().count() > 0, || format!("docs/replay.md does not show `{command}`"));
    for line in lines {
        found.unless(printed.lines().any(|printed| printed.trim_end() == line), || {
            format!("docs/replay.md shows a line that is not printed: {line}")
        });
    }
    Ok(found.0)
}

/// The large CPUs had at most 800 of 1100 MHz, so their work counts less, some of it before the first frequency event.
fn of_frequencies(reader: &Reader, _: &Value) -> miette::Result<Vec<String>> {
    let mut found = Differences::default();
    let whatif = |machine: &str| -> miette::Result<u64> {
        let arguments = ["replay", "lisa-juno6-pelt.dat", "--recorded-machine", machine, "--machine", "6"];
        Ok(permille(&reader.json(&arguments)?, "sudo-3104", "what_if"))
    };
    let (known, unknown) = (whatif(JUNO)?, whatif("core:6(capacity=446,1024,1024,446,446,446)")?);
    found.unless(known > 0 && known * 10 < unknown * 9, || {
        format!("sudo-3104 has {known} thousandths where frequencies are known, {unknown} where not")
    });
    Ok(found.0)
}
