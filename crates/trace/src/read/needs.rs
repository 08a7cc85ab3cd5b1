//! What a trace must have to be replayed, and how to record it.

use super::notes::{Kind, Notes};
use super::summary::Summary;

/// What a trace lacks for a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Whether it can be replayed at all.
    pub replayable: bool,
    /// What is missing, a sentence each, the most important first.
    pub missing: Vec<String>,
    /// Commands that record everything, with the placeholder `COMMAND`. Empty if nothing is missing, and for
    /// simulated runs.
    pub record: Vec<String>,
}

/// The tracepoints that a replay uses.
const POINTS: [(&str, &str); 10] = [
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_migrate_task"),
    ("sched", "sched_process_fork"),
    ("sched", "sched_process_exec"),
    ("sched", "sched_process_exit"),
    ("cgroup", "cgroup_attach_task"),
    ("power", "cpu_frequency"),
];

/// Judges a trace that has been read to its end.
pub fn needs(summary: &Summary, notes: &Notes) -> Needs {
    // A run of ours has all events: a missing one did not happen.
    let ours = notes.release.as_deref().is_some_and(|release| release.ends_with("-vruntime"));
    let has = |name: &str| summary.count_of(name) > 0;
    // An event that was recorded and is missing did not happen, either.
    let asked = |name: &str| {
        let events = notes.recording.as_ref().and_then(|recording| recording.part("events")).unwrap_or_default();
        events.lines().any(|line| line.rsplit('/').next() == Some(name))
    };
    let tells = |name: &str| has(name) || ours || asked(name);
    let mut missing = Vec::new();
    let mut say = |sentence: &str| missing.push(sentence.to_owned());
    // Text without fields, or with unknown ones.
    let fieldless = notes.malformed.count > summary.events() / 2;
    let replayable = has("sched_switch") && !fieldless;
    if has("sched_switch") && fieldless {
        say(
            "the fields of most events: perf script prints them if its fields include `trace` (-F comm,tid,cpu,time,event,trace)",
        );
    } else if !replayable {
        say("sched_switch: without it, no task's run time is known");
    } else if !summary.has_wakeups() && !ours {
        say("sched_waking and sched_wakeup: the time asleep and the wait for a CPU cannot be separated");
    } else if !tells("sched_waking") {
        say(
            "sched_waking: sched_wakeup is recorded on the CPU that enqueues the task, not on the waker's, so wakers are uncertain",
        );
    } else if !tells("sched_wakeup") {
        say("sched_wakeup: only later switches show the CPU that a wakeup chose");
    }
    let has_forks = tells("sched_process_fork") || has("task_newtask");
    if !has("sched_wakeup_new") && !has_forks {
        say("sched_process_fork and sched_wakeup_new: new tasks appear without a parent");
    } else if !has_forks {
        say("sched_process_fork: the parent of a new task is unknown");
    }
    if !tells("sched_process_exit") {
        say("sched_process_exit: only the last switch shows where a task ends");
    }
    if !summary.has_nanoseconds() && summary.events() > 0 {
        say(
            "nanoseconds: times are whole microseconds, so the order of events on different CPUs is unknown within one",
        );
    }
    if !tells("cpu_frequency") {
        say("cpu_frequency: CPU time is read as work at full speed, which is wrong if frequencies changed");
    }
    let losses = summary.losses();
    let lost = losses.events.saturating_add(notes.overwritten.unwrap_or(0));
    // Unreadable lines of text are gaps, too, which no buffer avoids.
    let unreadable = notes.not_understood.count > 0 && losses.uncounted == losses.gaps;
    if lost > 0 || losses.gaps > 0 && !unreadable {
        missing.insert(
            usize::from(!replayable),
            format!(
                "{} lost events: larger buffers avoid the loss",
                if lost > 0 { lost.to_string() } else { "the".to_owned() }
            ),
        );
    }
    let record = match &notes.recording {
        _ if missing.is_empty() || ours => Vec::new(),
        Some(_) => vec!["vruntime record -- COMMAND".to_owned()],
        None => commands(notes.kind),
    };
    Needs { replayable, missing, record }
}

/// Returns the recording commands of the tool behind `kind`.
fn commands(kind: Option<Kind>) -> Vec<String> {
    match kind {
        Some(Kind::PerfScript | Kind::PerfData) => {
            let points: Vec<String> = POINTS.iter().map(|(system, name)| format!("{system}:{name}")).collect();
            vec![format!("perf record -a -c 1 -m 4096 -o perf.data -e {} -- COMMAND", points.join(","))]
        }
        Some(Kind::Systrace | Kind::Perfetto) => {
            vec!["adb shell perfetto -o /data/misc/perfetto-traces/trace -b 64mb -t 10s sched freq idle".to_owned()]
        }
        _ => {
            let points: Vec<String> = POINTS.iter().map(|(system, name)| format!("-e {system}:{name}")).collect();
            vec![format!("trace-cmd record -b 32768 -o trace.dat {} COMMAND", points.join(" "))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::TextReader;

    #[test]
    fn events_without_fields_cannot_be_replayed() {
        let text =
            "perf 9 [000] 1.000001: sched:sched_switch: \nperf 9 [000] 1.000002: sched:sched_waking: \n".repeat(20);
        let (mut reader, mut summary) = (TextReader::new(text.as_bytes()), Summary::default());
        while let Some(record) = reader.next_record().unwrap() {
            summary.add(&record);
        }
        let needs = needs(&summary, reader.notes());
        assert!(!needs.replayable && needs.missing[0].contains("fields"), "{needs:?}");
    }

    /// A simulated run without wakeups or ends lacks nothing, and cannot be recorded again.
    #[test]
    fn a_run_of_ours_lacks_nothing_that_happened() {
        let switch = "hog-7 [000] 1.000001: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> \
                      next_comm=hog next_pid=7 next_prio=120\n";
        let missing = |release: &str| {
            let text = format!("cpus=1\n# os release : {release}\n{switch}");
            let (mut reader, mut summary) = (TextReader::new(text.as_bytes()), Summary::default());
            while let Some(record) = reader.next_record().unwrap() {
                summary.add(&record);
            }
            let needs = needs(&summary, reader.notes());
            (needs.missing.len(), needs.record.len())
        };
        assert_eq!(missing("6.12.0-vruntime"), (1, 0), "nanoseconds");
        assert_eq!(missing("6.12.0-amd64"), (5, 1));
    }
}
