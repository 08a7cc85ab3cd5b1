//! What there is to know about how a trace was read.

use vruntime_replay::recorded::{Habit, Recorded};
use vruntime_report::counted;
use vruntime_workload::program::Group;

/// What there is to know about how a trace was read, a sentence each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// The gravest first.
    pub(crate) all: Vec<String>,
    /// So many of them, the first, tell what the replay lacks, or cannot be taken at its word for.
    pub(crate) grave: usize,
}

impl Notes {
    /// Nothing says which kernel this was, and this one is taken for it: it matters to all that follows.
    pub(super) fn kernel_is_unknown(&mut self, assumed: &str) {
        let note =
            format!("nothing says which kernel this was: {assumed} is taken for it; --recorded-kernel names another");
        self.is_guessed(&note);
    }

    /// Puts what of the trace's file could not be read before all else.
    pub(super) fn is_damaged(&mut self, damage: &[String]) {
        self.all.splice(0..0, damage.iter().map(|what| format!("{what}; the replay lacks it")));
        self.grave += damage.len();
    }

    /// This is taken for granted: it matters to all that follows.
    pub(super) fn is_guessed(&mut self, note: &str) {
        self.all.insert(self.grave, note.to_owned());
        self.grave += 1;
    }

    /// How many of something there were, if any, and what that means: `one` of it, or `several`.
    fn tell(&mut self, count: u64, one: &str, several: &str, meaning: &str) {
        if count > 0 {
            self.all.push(format!("{}{meaning}", counted(count, one, several)));
        }
    }
}

/// What there is to know about how the trace was read.
pub(super) fn notes(recorded: &Recorded, jumps: u64, ticks_known: bool) -> Notes {
    let counts = &recorded.counts;
    let mut notes = Notes::default();
    notes.tell(
        counts.losses,
        "time the trace has lost events",
        "times the trace has lost events",
        ": what happened meanwhile is not replayed",
    );
    notes.tell(
        counts.broken_switches,
        "switch away from a task is missing",
        "switches away from a task are missing",
        ": it is taken to have run for what it was charged, and to sleep from then on",
    );
    notes.tell(
        counts.missing_arrivals,
        "switch from the idle task to another is missing",
        "switches from the idle task to another are missing",
        ": that one is taken to have come as long before as it was charged for, or when it was woken",
    );
    notes.tell(
        counts.throttled,
        "task waited although its own CPU was idle, as one does",
        "tasks waited although their own CPU was idle, as those do",
        " whose group has used up its limit (cpu.max): --cgroups says which, and the replay has the limit then",
    );
    notes.tell(
        counts.frequencies,
        "change of CPU frequency",
        "changes of CPU frequency",
        ": work is counted at the highest of each CPU, and the replay runs at that, so that it takes less time",
    );
    notes.tell(
        counts.deadline,
        "deadline task is",
        "deadline tasks are",
        " replayed as the most urgent SCHED_FIFO: traces do not have such parameters",
    );
    notes.tell(jumps, "time the clock jumped", "times the clock jumped", ": no time passes there in the replay");
    notes.tell(
        counts.backwards,
        "event is earlier than those before it and was",
        "events are earlier than those before them and were",
        " taken to be simultaneous",
    );
    notes.tell(counts.reused, "pid was", "pids were", " given to a second task");
    notes.tell(
        counts.sharing,
        "task wakes at the very times of others",
        "tasks wake at the very times of others",
        ": which of them comes first is chance, and can stay so for long; judge them together",
    );
    notes.tell(
        counts.unwoken,
        "sleep was ended by no event of the trace: it keeps its time",
        "sleeps were ended by no event of the trace: they keep their times",
        "",
    );
    notes.tell(
        counts.ungrouped,
        "task of which nothing says in which group it was: it is",
        "tasks of which nothing says in which group they were: they are",
        " in the root group",
    );
    notes.tell(
        counts.bare_groups,
        "task group of which nothing says what it weighs and whether it has a limit: it",
        "task groups of which nothing says what they weigh and whether they have limits: each",
        " weighs 100 and has none; --cgroups tells",
    );
    notes.grave = notes.all.len();
    let habit = |habit| recorded.threads.iter().filter(|thread| thread.task.is_some() && thread.habit == habit).count();
    notes.all.push(format!(
        "of {} {} sleep by a clock of their own, {} for a constant time, {} until recorded times, {} until others wake them",
        counted(recorded.workload.tasks.len() as u64, "task", "tasks"),
        habit(Habit::Periodic),
        habit(Habit::Relative),
        habit(Habit::Recorded),
        habit(Habit::Woken),
    ));
    notes.tell(
        counts.confined,
        "task waited beside an idle CPU and is taken to be confined to its own",
        "tasks waited beside an idle CPU and are taken to be confined to theirs",
        "",
    );
    notes.tell(
        counts.affinities,
        "task is confined to the CPUs that the machine says (Cpus_allowed_list), its own or its parent's",
        "tasks are confined to the CPUs that the machine says (Cpus_allowed_list), their own or their parent's",
        "",
    );
    let groups = match recorded.workload.groups.len().saturating_sub(1) {
        1 => "is 1".to_owned(),
        groups => format!("are {groups}"),
    };
    notes.tell(
        counts.grouped,
        "task begins",
        "tasks begin",
        &format!(" in task groups other than the root, of which there {groups}"),
    );
    notes.tell(counts.hotplug, "time", "times", " a CPU goes offline or comes back, as it did in the recording");
    notes.tell(counts.moves, "time", "times", " a task is moved to another group");
    let of_groups = |has: fn(&Group) -> bool| recorded.workload.groups.iter().filter(|group| has(group)).count() as u64;
    notes.tell(
        of_groups(|group| group.cpuset.cpus.is_some()),
        "task group has CPUs of its own",
        "task groups have CPUs of their own",
        " (cpuset.cpus)",
    );
    notes.tell(of_groups(|group| group.uclamp.is_some()), "task group has", "task groups have", " utilisation clamps");
    if !recorded.workload.sessions.is_empty() {
        notes.tell(
            counts.autogrouped,
            "task begins",
            "tasks begin",
            " in the autogroups that the machine says; others are in their parent's, or in one of their process",
        );
    }
    let clocks =
        recorded.threads.iter().filter(|thread| thread.task.is_some() && thread.computes_for.is_some()).count();
    notes.tell(clocks as u64, "task computes", "tasks compute", " until a time, whoever has the CPU meanwhile");
    let ticks = recorded.ticks.filter(|_| ticks_known).map_or(0, |ticks| ticks.hz);
    notes.tell(
        u64::from(ticks),
        "tick a second comes when it",
        "ticks a second come when they",
        " came in the recording, as its charges (sched_stat_runtime) show",
    );
    notes.tell(
        counts.endless,
        "task computed until the trace ended and goes on",
        "tasks computed until the trace ended and go on",
        " as long as the replay lasts",
    );
    notes.tell(counts.running_at_start, "task", "tasks", " ran when the trace began");
    notes.tell(counts.left_out, "migration thread is", "migration threads are", " left out: the simulator has its own");
    notes
}
