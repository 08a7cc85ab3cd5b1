//! Notes on the reading of a trace.

use vruntime_replay::recorded::{Habit, Recorded, Thread};
use vruntime_report::counted;
use vruntime_workload::program::Group;

#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// Sentences, the gravest first.
    pub(crate) all: Vec<String>,
    /// The number of grave notes, on missing or doubtful parts of the replay.
    pub(crate) grave: usize,
}

impl Notes {
    /// Adds a grave note: the kernel is unknown, and `assumed` is assumed.
    pub(super) fn kernel_is_unknown(&mut self, assumed: &str) {
        let note = format!("the trace does not name its kernel: {assumed} is assumed (--recorded-kernel sets another)");
        self.is_guessed(&note);
    }

    /// Notes the cost of recording, and which figures contain it.
    pub(super) fn has_event_cost(&mut self, ns: u64, recorded: &Recorded, charged: bool) {
        if ns == 0 {
            return;
        }
        if charged {
            self.all.insert(
                self.grave,
                format!(
                    "recording an event took {ns} ns. Recorded and replayed figures contain this cost, and those of a what-if \
                     do not"
                ),
            );
            return;
        }
        let sum = |of: fn(&Thread) -> u64| recorded.threads.iter().map(of).sum::<u64>();
        let part = sum(|thread| thread.subtracted_ns) as f64 / sum(|thread| thread.cpu_ns).max(1) as f64;
        let rest = match recorded.counts.unsubtracted_ns {
            0 => String::new(),
            rest => format!("; {rest} ns of it exceed the time of their tasks, and are not subtracted"),
        };
        self.all.insert(
            self.grave,
            format!(
                "recording an event took {ns} ns: {:.2} % of the recorded CPU time. Recorded figures contain this cost, and \
                 replayed figures do not. The verdict allows for it{rest}",
                part * 100.0
            ),
        );
    }

    /// Puts unreadable parts of the file first.
    pub(super) fn is_damaged(&mut self, damage: &[String]) {
        self.all.splice(0..0, damage.iter().map(|what| format!("{what}; the replay lacks it")));
        self.grave += damage.len();
    }

    /// Puts runs that were stopped early first, each once: both sides of a seed may have stopped at one time.
    pub(super) fn is_interrupted(&mut self, runs: impl Iterator<Item = String>) {
        for note in runs {
            if !self.all.contains(&note) {
                self.all.insert(0, note);
                self.grave += 1;
            }
        }
    }

    /// Adds a grave note: an assumption.
    pub(super) fn is_guessed(&mut self, note: &str) {
        self.all.insert(self.grave, note.to_owned());
        self.grave += 1;
    }

    /// Adds a note with the count and its meaning, if above 0.
    fn count(&mut self, count: u64, one: &str, several: &str, meaning: &str) {
        if count > 0 {
            self.all.push(format!("{}{meaning}", counted(count, one, several)));
        }
    }
}

pub(super) fn notes(recorded: &Recorded, jumps: u64, ticks_known: bool) -> Notes {
    let counts = &recorded.counts;
    let mut notes = Notes::default();
    notes.count(
        counts.losses.gaps,
        "time the trace has lost events",
        "times the trace has lost events",
        &format!(": the replay lacks {}", counts.losses.words().unwrap_or_default()),
    );
    notes.count(
        counts.broken_switches,
        "switch away from a task is missing",
        "switches away from a task are missing",
        ": the task is assumed to run for its charged time and then to sleep",
    );
    notes.count(
        counts.missing_arrivals,
        "switch to a task is missing",
        "switches to a task are missing",
        ": it is assumed at the task's wakeup, or computed back from its run time",
    );
    notes.count(
        counts.throttled,
        "task waited on an idle CPU, as a throttled task does",
        "tasks waited on an idle CPU, as throttled tasks do",
        ": with --cgroups the replay has the limits of their groups (cpu.max)",
    );
    notes.count(
        counts.frequencies,
        "change of CPU frequency",
        "changes of CPU frequency",
        ": the replay runs each CPU at its highest frequency, so work takes less time than recorded",
    );
    notes.count(
        counts.deadline,
        "deadline task is",
        "deadline tasks are",
        " replayed as SCHED_FIFO of the highest priority: traces lack deadline parameters",
    );
    notes.count(jumps, "time the clock jumped", "times the clock jumped", ": no time passes there in the replay");
    notes.count(
        counts.backwards,
        "event is earlier than the event before it and was",
        "events are earlier than the events before them and were",
        " taken to be simultaneous",
    );
    notes.count(counts.reused, "pid was", "pids were", " given to a second task");
    notes.count(
        counts.sharing,
        "task wakes at the same times as other tasks",
        "tasks wake at the same times as other tasks",
        ": their order is chance, and can persist; judge them together",
    );
    notes.count(
        counts.unwoken,
        "sleep has no wakeup event in the trace: its recorded length is kept",
        "sleeps have no wakeup event in the trace: their recorded lengths are kept",
        "",
    );
    notes.count(counts.ungrouped, "task of unknown group is", "tasks of unknown group are", " in the root group");
    notes.count(
        counts.bare_groups,
        "task group of unknown weight and limit",
        "task groups of unknown weight and limit",
        ": a weight of 100 and no limit are assumed (--cgroups supplies both)",
    );
    notes.grave = notes.all.len();
    let habit = |habit| recorded.threads.iter().filter(|thread| thread.task.is_some() && thread.habit == habit).count();
    notes.all.push(format!(
        "of {} {} sleep periodically, {} for a constant time, {} until recorded times, {} until other tasks wake them",
        counted(recorded.workload.tasks.len() as u64, "task", "tasks"),
        habit(Habit::Periodic),
        habit(Habit::Relative),
        habit(Habit::Recorded),
        habit(Habit::Woken),
    ));
    notes.count(
        counts.confined,
        "task waited beside an idle CPU and is assumed to be pinned to its CPU",
        "tasks waited beside an idle CPU and are assumed to be pinned to their CPUs",
        "",
    );
    notes.count(
        counts.affinities,
        "task has a recorded affinity (Cpus_allowed_list), its own or its parent's",
        "tasks have a recorded affinity (Cpus_allowed_list), their own or their parent's",
        "",
    );
    let groups = match recorded.workload.groups.len().saturating_sub(1) {
        1 => "is 1".to_owned(),
        groups => format!("are {groups}"),
    };
    notes.count(
        counts.grouped,
        "task begins",
        "tasks begin",
        &format!(" in task groups other than the root, of which there {groups}"),
    );
    notes.count(counts.hotplug, "time", "times", " a CPU goes offline or online, as recorded");
    notes.count(counts.moves, "time", "times", " a task is moved to another group");
    let of_groups = |has: fn(&Group) -> bool| recorded.workload.groups.iter().filter(|group| has(group)).count() as u64;
    notes.count(
        of_groups(|group| group.cpuset.cpus.is_some()),
        "task group has CPUs of its own",
        "task groups have CPUs of their own",
        " (cpuset.cpus)",
    );
    notes.count(of_groups(|group| group.uclamp.is_some()), "task group has", "task groups have", " utilisation clamps");
    if !recorded.workload.sessions.is_empty() {
        notes.count(
            counts.autogrouped,
            "task begins",
            "tasks begin",
            " in recorded autogroups; other tasks are in their parent's, or in one of their process",
        );
    }
    let clocks =
        recorded.threads.iter().filter(|thread| thread.task.is_some() && thread.computes_for.is_some()).count();
    notes.count(clocks as u64, "task computes", "tasks compute", " until a point in time, whether preempted or not");
    let ticks = recorded.ticks.filter(|_| ticks_known).map_or(0, |ticks| ticks.hz);
    notes.count(
        u64::from(ticks),
        "tick a second is at the recorded time",
        "ticks a second are at the recorded times",
        " (from sched_stat_runtime)",
    );
    notes.count(
        counts.endless,
        "task computed until the trace ended, and continues",
        "tasks computed until the trace ended, and continue",
        " to the end of the replay",
    );
    notes.count(
        counts.shared_sockets,
        "socket has no messages in the replay",
        "sockets have no messages in the replay",
        ": more than one thread receives there",
    );
    notes.count(
        counts.left_out_connections,
        "connection of sockets has no messages in the replay",
        "connections of sockets have no messages in the replay",
        ": a task would wait for one for ever",
    );
    notes.count(counts.running_at_start, "task", "tasks", " ran when the trace began");
    notes.count(
        counts.left_out,
        "migration thread is",
        "migration threads are",
        " left out: the simulator has its own",
    );
    notes
}
