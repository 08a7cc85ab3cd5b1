//! What each thread did: stretches of work between sleeps, from the events of all CPUs.

mod arrivals;
mod execs;
mod overhead;
mod stay;
mod stretch;
mod transfers;
mod wakees;
mod wakeups;

use std::collections::BTreeMap;

use arrivals::Guess;
use execs::Stopped;
pub use overhead::Reason;
use overhead::{Charged, Overhead};
use smallvec::SmallVec;
pub(super) use stay::Stay;
pub(super) use stretch::{Act, End, Stretch, Waker};
pub(super) use transfers::{Place, Sockets, Transfer};
use wakees::Wakees;
use wakeups::Early;

use super::placing::{Marked, Move};
use super::{Counts, Event, Left, Named, What};
use vruntime_sim::Recent;
use vruntime_workload::program::Hotplug;

/// A stay on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) since: u64,
    pub(super) until: u64,
    /// Its work, nanoseconds at full speed.
    pub(super) work: u64,
    pub(super) cpu: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Asleep, without a known wakeup.
    Asleep,
    Waiting {
        since: u64,
        woken: bool,
        beside_idle: u64,
        own_idle: u64,
    },
    Running,
    Gone,
}

impl State {
    fn waiting(since: u64, woken: bool) -> Self {
        Self::Waiting { since, woken, beside_idle: 0, own_idle: 0 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Thread {
    pub(super) pid: i32,
    pub(super) tgid: Option<i32>,
    /// Its process's parent, if known from outside the events.
    pub(super) ppid: Option<i32>,
    pub(super) comm: String,
    /// Time and known parent of its fork. None: it existed at the start.
    pub(super) born: Option<(u64, Option<usize>)>,
    /// Whether it shares its parent's process, if its fork says so.
    pub(super) shares_process: Option<bool>,
    pub(super) asleep_first: bool,
    pub(super) stretches: Vec<Stretch>,
    /// Its stays on CPUs, in order.
    pub(super) ran: Vec<Ran>,
    pub(super) cpu_ns: u64,
    /// Time runnable without a CPU.
    pub(super) waited_ns: u64,
    pub(super) switches: u64,
    pub(super) latencies: Vec<u64>,
    pub(super) stay: Option<Stay>,
    pub(super) moves: Vec<Move>,
    state: State,
    /// Its switch away is missing, and no event says that it sleeps.
    presumed: bool,
    /// Also, another task has its CPU now: it may have been preempted.
    replaced: bool,
    /// When its charges began (`sched_stat_runtime`), without a known arrival.
    charged_from: Option<u64>,
    /// When the stopper last took its CPU.
    stopped: Option<Stopped>,
    /// A wakeup while it ran; it counts if a sleep follows.
    early: Option<Early>,
    pub(super) wakees: Wakees,
}

impl Thread {
    /// Returns its last stretch, if it exits at the end of that.
    pub(super) fn exit(&self) -> Option<&Stretch> {
        self.stretches.last().filter(|last| last.end == End::Exit)
    }

    fn new(pid: i32, comm: &[u8]) -> Self {
        Self {
            pid,
            tgid: None,
            ppid: None,
            comm: String::from_utf8_lossy(comm).into_owned(),
            born: None,
            shares_process: None,
            asleep_first: false,
            stretches: Vec::new(),
            ran: Vec::new(),
            cpu_ns: 0,
            waited_ns: 0,
            switches: 0,
            latencies: Vec::new(),
            stay: None,
            moves: Vec::new(),
            state: State::Asleep,
            presumed: false,
            replaced: false,
            charged_from: None,
            stopped: None,
            early: None,
            wakees: Wakees::default(),
        }
    }

    /// Returns its last known begin of a stretch, arrival or departure; 0: none.
    fn last_seen(&self) -> u64 {
        self.stretches.last().map_or(0, |last| last.ended.max(last.resumed))
    }

    /// Begins a stretch, at the last one's end or later.
    fn begins(&mut self, woken: u64, waker: Waker, cpu: usize, prio: i32) {
        debug_assert!(woken >= self.last_seen(), "the stretches of a thread do not overlap");
        self.stretches.push(Stretch {
            woken,
            waker,
            surely: None,
            context: None,
            early: false,
            cpu: cpu as u32,
            last_cpu: cpu as u32,
            taken_in: None,
            began: woken,
            resumed: woken,
            time: 0,
            overhead: 0,
            work: 0,
            runs: 0,
            acts: SmallVec::new(),
            ended: woken,
            end: End::Trace,
            prio,
        });
    }

    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    fn runs(&mut self, since: u64) {
        if let Some(stretch) = self.stretches.last_mut() {
            if stretch.runs == 0 {
                stretch.began = since;
            }
            stretch.resumed = since;
            stretch.runs += 1;
        }
    }
}

/// The task of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Current {
    /// Before the first switch, or after a loss.
    #[default]
    Unknown,
    Idle,
    Thread(usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Event,
    Switch,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    seen: Seen,
    current: Current,
    since: u64,
    /// The last switch's task, if another has appeared since.
    unseen: Option<i32>,
    /// The last enqueueing.
    enqueued: Option<u64>,
    /// Charged time since then (`sched_stat_runtime`).
    charged: u64,
    /// Its task's arrival, at an unknown time.
    guess: Option<Guess>,
    /// What its task has not worked for since it came.
    overhead: Overhead,
    /// Its last tasks, which decide the cost of a switch.
    recent: Recent,
    busy: u64,
    rested: bool,
    /// Its frequency, kHz; 0 if unknown.
    khz: u32,
    /// How long no other was idle.
    sole: u64,
    /// Idle time before `idle_from`.
    idled: u64,
    idle_from: u64,
    /// Since when its events are unknown. None: they are known.
    unknown_from: Option<u64>,
    /// It is offline: without tasks, and not idle.
    offline: bool,
}

/// The use of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Time with a task.
    pub(super) busy_ns: u64,
    /// Time from the beginning of the trace to the first loss after which it has no events, or to the end.
    pub(super) known_ns: u64,
}

/// Assembles what each thread did.
#[derive(Clone, Debug, Default)]
pub(super) struct Activity {
    pub(super) threads: Vec<Thread>,
    pids: BTreeMap<i32, usize>,
    /// The CPUs that tasks left before their first event of another kind, by thread id.
    pulled: BTreeMap<i32, u32>,
    cpus: Vec<Cpu>,
    idle: usize,
    /// The trace has wakeups.
    pub(super) wakeups: bool,
    /// How long any CPU was idle.
    any_idle: u64,
    now: u64,
    /// Capacity of each CPU at its highest frequency, of 1024. The default is 1024.
    pub(super) capacities: Vec<u32>,
    /// Highest seen or known frequency of each CPU, kHz.
    pub(super) highest_khz: Vec<u32>,
    /// The cost of recording an event, nanoseconds; 0 if unknown.
    pub(super) event_ns: u64,
    /// Switches and wakeups whose costs are not work. None: only recording is not.
    charged: Option<Charged>,
    /// Set if a known frequency rose.
    pub(super) raised: bool,
    /// Data that threads sent and received, in order.
    pub(super) transfers: Vec<Transfer>,
    pub(super) sockets: Sockets,
    pub(super) groups: Vec<Marked>,
    pub(super) hotplug: Vec<Hotplug>,
    pub(super) counts: Counts,
}

impl Activity {
    pub(super) fn add(&mut self, event: &Event<'_>) {
        let (at, cpu) = (event.at.max(self.now), event.cpu as usize);
        if event.at < self.now {
            self.counts.backwards += 1;
        }
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        self.pass(at);
        // Perf begins with the names of all tasks, in the context of CPU 0's idle task, which need not have run.
        let done = !matches!(event.what, What::Rename { .. });
        if done && self.cpus[cpu].seen == Seen::Nothing {
            self.cpus[cpu].seen = Seen::Event;
            if event.pid == 0 {
                self.rests(cpu, at);
            }
        }
        if let (Some(tgid), Some(&thread)) = (event.tgid, self.pids.get(&event.pid)) {
            self.threads[thread].tgid = Some(tgid);
        }
        self.add_arrival(at, cpu, event);
        match event.what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                if super::is_stopper_name(next.comm) {
                    self.stops(prev.pid);
                }
                if left == Left::Runnable && next_prio >= 100 {
                    self.left(at, cpu, prev, next);
                }
                self.leaves(at, cpu, prev, prev_prio, left);
                self.switch_in(at, cpu, next, next_prio);
            }
            What::Woken { task, prio } => {
                let waker = self.context(event, task.pid);
                self.woken(at, cpu, task, prio, (waker, event.context));
            }
            What::Enqueued { task, prio, target } => {
                self.enqueued(at, target.map_or(cpu, |cpu| cpu as usize));
                let thread = self.thread(task);
                match self.threads[thread].state {
                    // The task did not sleep: it found in time that there is work.
                    State::Running => self.threads[thread].early = None,
                    State::Waiting { .. } => {}
                    State::Asleep | State::Gone => {
                        let waker = self.context(event, task.pid);
                        self.woken(at, cpu, task, prio, (waker, event.context));
                    }
                }
            }
            What::WokenNew { task, prio } => {
                self.enqueued(at, cpu);
                let thread = self.thread(task);
                let parent = self.context(event, task.pid);
                let this = &mut self.threads[thread];
                if this.stretches.is_empty() {
                    let by = match parent {
                        Waker::Thread(parent) => Some(parent),
                        Waker::Start | Waker::Interrupt => None,
                    };
                    if this.born.is_none() {
                        this.born = Some((at, by));
                        self.act(by, Act::Fork(thread));
                    }
                    let this = &mut self.threads[thread];
                    this.begins(at, Waker::Start, cpu, prio);
                    this.state = State::waiting(at, false);
                    self.starts_waiting(thread);
                }
            }
            What::Fork { parent, child, thread: shares_process } => {
                // Both events of a fork are there.
                let newborn = |&thread: &usize| {
                    let this = &self.threads[thread];
                    this.born.is_some() && this.stretches.is_empty()
                };
                if self.pids.get(&child.pid).is_some_and(newborn) {
                    self.thread(child);
                    return;
                }
                // A new life, even if the pid is known: it was another's.
                if self.pids.contains_key(&child.pid) {
                    self.counts.reused += 1;
                }
                let by = (parent.pid > 0).then(|| self.thread(parent));
                let thread = self.threads.len();
                let mut this = Thread::new(child.pid, child.comm);
                this.born = Some((at, by));
                this.shares_process = shares_process;
                self.threads.push(this);
                self.pids.insert(child.pid, thread);
                self.act(by, Act::Fork(thread));
            }
            What::Migrated { task, from } => {
                if !self.pids.contains_key(&task.pid) {
                    self.pulled.entry(task.pid).or_insert(from);
                }
            }
            What::Executes { pid } => self.executes(at, pid),
            What::Rename { task } => {
                if let Some(&thread) = self.pids.get(&task.pid) {
                    self.threads[thread].comm = String::from_utf8_lossy(task.comm).into_owned();
                }
            }
            What::Charged { task, ns } => self.charged(at, cpu, task, ns),
            What::Attached { task, hierarchy, path } => {
                let thread = self.thread(task);
                let path = String::from_utf8_lossy(path).into_owned();
                let cpu_ns = self.threads[thread].cpu_ns + self.not_booked(thread).map_or(0, |(_, time)| time);
                self.threads[thread].moves.push(Move { at, hierarchy, path, cpu_ns });
            }
            What::Group { path, weight, idle, max } => self.groups.push(Marked::new(at, path, weight, idle, max)),
            What::Frequency { cpu, khz } => self.clocked(cpu, khz),
            What::Online(online) => self.plugged(at, cpu, online),
            What::Connected { socket, ports } => self.sockets.connect(socket, ports),
            What::Sent { socket, bytes } => self.transferred(event, (socket, bytes), true),
            What::Received { socket, bytes } => self.transferred(event, (socket, bytes), false),
            What::End => {}
            What::Lost { events } => {
                self.counts.losses.add(events);
                self.forget(at, cpu);
                self.cpus[cpu].unknown_from.get_or_insert(at);
            }
        }
    }

    /// Ends the trace of at least `cpus` CPUs. Returns its length and each CPU's [`Use`].
    pub(super) fn finish(&mut self, cpus: usize) -> (u64, Vec<Use>) {
        let now = self.now;
        if cpus > self.cpus.len() {
            self.cpus.resize_with(cpus, Cpu::default);
        }
        // A CPU without events ran its idle task: each waiting task waited beside it.
        if self.cpus.iter().any(|cpu| cpu.seen == Seen::Nothing) {
            for stay in self.threads.iter_mut().filter_map(|thread| thread.stay.as_mut()) {
                stay.beside_idle = stay.waited;
            }
        }
        for cpu in 0..self.cpus.len() {
            if let Current::Thread(thread) = self.cpus[cpu].current {
                self.charge(cpu, thread, now);
            }
        }
        let known = |cpu: &Cpu| cpu.unknown_from.filter(|_| cpu.current == Current::Unknown).unwrap_or(now);
        (now, self.cpus.iter().map(|cpu| Use { busy_ns: cpu.busy, known_ns: known(cpu) }).collect())
    }

    pub(super) fn goes_on_until(&mut self, at: u64) {
        self.pass(at.max(self.now));
    }

    fn pass(&mut self, at: u64) {
        let passed = at - self.now;
        self.now = at;
        if passed > 0 && self.idle > 0 {
            self.any_idle += passed;
            if self.idle == 1
                && let Some(sole) = self.cpus.iter_mut().find(|cpu| cpu.current == Current::Idle)
            {
                sole.sole += passed;
            }
        }
    }

    /// Plugs a CPU. Its task runs on until a switch.
    fn plugged(&mut self, at: u64, cpu: usize, online: bool) {
        let offline = !online;
        if std::mem::replace(&mut self.cpus[cpu].offline, offline) == offline {
            return;
        }
        self.hotplug.push(Hotplug { at, cpu: cpu as u32, online });
        self.counts.hotplug += 1;
        match self.cpus[cpu].current {
            Current::Idle => {
                self.cpus[cpu].current = Current::Unknown;
                self.rested(cpu, at);
                self.cpus[cpu].since = at;
            }
            Current::Unknown if online => self.rests(cpu, at),
            Current::Unknown | Current::Thread(_) => {}
        }
    }

    /// Marks an online CPU as idle.
    fn rests(&mut self, cpu: usize, at: u64) {
        let this = &mut self.cpus[cpu];
        if this.offline {
            return;
        }
        this.unknown_from = None;
        (this.current, this.rested, this.idle_from) = (Current::Idle, true, at);
        self.idle += 1;
    }

    /// Ends an idle time.
    fn rested(&mut self, cpu: usize, at: u64) {
        let this = &mut self.cpus[cpu];
        this.idled += at.saturating_sub(this.idle_from);
        self.idle -= 1;
    }

    /// Returns a CPU's idle time.
    fn own_idle(&self, cpu: u32) -> u64 {
        let Some(cpu) = self.cpus.get(cpu as usize) else { return 0 };
        cpu.idled + if cpu.current == Current::Idle { self.now.saturating_sub(cpu.idle_from) } else { 0 }
    }

    /// Sets a CPU's frequency.
    fn clocked(&mut self, cpu: u32, khz: u32) {
        let cpu = cpu as usize;
        if cpu >= self.cpus.len() || khz == 0 {
            return;
        }
        if let Current::Thread(thread) = self.cpus[cpu].current {
            self.charge(cpu, thread, self.now);
        }
        if cpu >= self.highest_khz.len() {
            self.highest_khz.resize(cpu + 1, 0);
        }
        let highest = &mut self.highest_khz[cpu];
        self.raised |= *highest > 0 && khz > *highest;
        *highest = khz.max(*highest);
        self.cpus[cpu].khz = khz;
        self.counts.frequencies += 1;
    }

    /// Converts `time` to full speed of a CPU of capacity 1024.
    fn at_full_speed(&self, cpu: usize, time: u64) -> u64 {
        let capacity = self.capacities.get(cpu).copied().unwrap_or(1024);
        let highest = self.highest_khz.get(cpu).copied().unwrap_or(0);
        let khz = self.cpus[cpu].khz;
        if capacity == 1024 && (khz == highest || khz == 0) {
            return time;
        }
        let mut work = u128::from(time) * u128::from(capacity) / 1024;
        if khz > 0 {
            work = work * u128::from(khz) / u128::from(highest.max(1));
        }
        work as u64
    }

    /// Returns how long any other CPU has been idle.
    fn others_idle(&self, cpu: u32) -> u64 {
        self.any_idle - self.cpus.get(cpu as usize).map_or(0, |cpu| cpu.sole)
    }

    fn thread(&mut self, task: Named<'_>) -> usize {
        let known = self.pids.get(&task.pid).copied();
        if let Some(thread) = known.filter(|&thread| self.threads[thread].state != State::Gone) {
            let this = &mut self.threads[thread];
            // `<...>` is what a kernel prints that has forgotten the name.
            if this.comm.as_bytes() != task.comm && !task.comm.is_empty() && task.comm != b"<...>" {
                this.comm = String::from_utf8_lossy(task.comm).into_owned();
            }
            return thread;
        }
        self.counts.reused += u64::from(known.is_some());
        let thread = self.threads.len();
        self.threads.push(Thread::new(task.pid, task.comm));
        self.pids.insert(task.pid, thread);
        thread
    }

    fn charge(&mut self, cpu: usize, thread: usize, at: u64) {
        let overhead = self.cpus[cpu].overhead.take_paid(at).min(at - self.cpus[cpu].since);
        let work = self.at_full_speed(cpu, at - self.cpus[cpu].since - overhead);
        let this = &mut self.cpus[cpu];
        let (since, ran) = (this.since, at - this.since);
        (this.since, this.busy, this.guess) = (at, this.busy + ran, None);
        let this = &mut self.threads[thread];
        this.cpu_ns += ran;
        this.ran.push(Ran { since, until: at, work, cpu: cpu as u32 });
        if let Some(stretch) = this.stretches.last_mut() {
            stretch.time += ran;
            stretch.overhead += overhead;
            stretch.work += work;
            (stretch.ended, stretch.last_cpu) = (at, cpu as u32);
        }
    }

    fn leaves(&mut self, at: u64, cpu: usize, prev: Named<'_>, prio: i32, left: Left) {
        let unseen = self.cpus[cpu].unseen.take().is_some_and(|before| before != prev.pid);
        let broken = self.counts.broken_switches;
        self.leaves_now(at, cpu, prev, prio, left);
        // One switch was missing at least, however many tasks have turned up since.
        self.counts.broken_switches = self.counts.broken_switches.max(broken + u64::from(unseen));
        self.cpus[cpu].seen = Seen::Switch;
    }

    fn leaves_now(&mut self, at: u64, cpu: usize, prev: Named<'_>, prio: i32, left: Left) {
        if prev.pid == 0 {
            if let Current::Thread(_) = self.cpus[cpu].current {
                self.counts.broken_switches += 1;
                self.forget_asleep(at, cpu);
            } else if std::mem::take(&mut self.cpus[cpu].current) == Current::Idle {
                self.rested(cpu, at);
            }
            return;
        }
        let thread = self.thread(prev);
        if self.cpus[cpu].current != Current::Thread(thread) {
            // Unknown: it has run since the trace, or what is left of it here, began. Another: its switch is missing.
            let replaced = self.cpus[cpu].current != Current::Unknown;
            let gone = self.cpus[cpu].since.saturating_add(self.cpus[cpu].charged);
            if replaced {
                self.counts.broken_switches += 1;
                self.forget(at, cpu);
            }
            self.leaves_elsewhere(thread, at);
            // It cannot have been here before it was last seen elsewhere; if another was, only what it was charged for
            // is known to be its.
            let from = self.threads[thread].charged_from.unwrap_or(at);
            let since = if replaced { from.max(gone).min(at) } else { self.cpus[cpu].since };
            let since = since.max(self.threads[thread].last_seen());
            self.cpus[cpu].since = since;
            let this = &mut self.threads[thread];
            if this.stretches.is_empty() || this.state == State::Asleep {
                // Elsewhere, and later, its coming is what is missing.
                let at_start = this.stretches.is_empty() && self.cpus[cpu].seen != Seen::Switch;
                self.counts.running_at_start += u64::from(at_start);
                this.begins(since, Waker::Start, cpu, prio);
            }
            this.runs(since);
        }
        self.charge(cpu, thread, at);
        self.not_covered(at, cpu);
        self.cpus[cpu].current = Current::Unknown;
        let this = &mut self.threads[thread];
        this.switches += 1;
        if let Some(stretch) = this.stretches.last_mut() {
            stretch.end = match left {
                Left::Runnable | Left::Preempted => stretch.end,
                Left::Sleeping => End::Sleep,
                Left::Uninterruptible => End::Device,
                Left::Dead => End::Exit,
            };
            stretch.prio = prio;
        }
        this.state = match left {
            Left::Runnable | Left::Preempted => State::waiting(at, false),
            Left::Sleeping | Left::Uninterruptible => State::Asleep,
            Left::Dead => State::Gone,
        };
        let early = this.early.take().filter(|_| this.state == State::Asleep);
        if this.stay.is_none() {
            this.stay = Some(Stay::new(cpu, this.stretches.len() - 1));
        }
        self.starts_waiting(thread);
        if let Some(early) = early {
            self.woken_early(at, thread, prio, early);
        }
    }

    fn switch_in(&mut self, at: u64, cpu: usize, next: Named<'_>, prio: i32) {
        let row = &mut self.cpus[cpu];
        (row.since, row.charged, row.guess) = (at, 0, None);
        // Events of an idle CPU cost no task anything.
        row.overhead.end(at);
        if next.pid == 0 {
            self.rests(cpu, at);
            return;
        }
        let pulled = self.pulled.remove(&next.pid).filter(|&from| (from as usize) < self.cpus.len());
        let thread = self.thread(next);
        self.leaves_elsewhere(thread, at);
        self.cpus[cpu].current = Current::Thread(thread);
        self.cpus[cpu].unknown_from = None;
        self.switched(at, cpu, thread);
        let (others, own) = (self.others_idle(cpu as u32), self.own_idle(cpu as u32));
        let rested = self.cpus[cpu].rested;
        let this = &mut self.threads[thread];
        match this.state {
            State::Waiting { since, woken, beside_idle, own_idle } => {
                this.waited_ns += at - since;
                if woken {
                    this.latencies.push(at - since);
                }
                if let Some(stay) = this.stay.as_mut().filter(|stay| stay.cpu == cpu as u32) {
                    stay.waited += at - since;
                    stay.beside_idle += others.saturating_sub(beside_idle);
                    stay.own_idle += own.saturating_sub(own_idle);
                }
            }
            // Nothing has woken it: it did not sleep, but was preempted.
            State::Asleep if this.replaced && self.wakeups && !this.stretches.is_empty() => {
                if let Some(stretch) = this.stretches.last_mut() {
                    stretch.end = End::Trace;
                }
            }
            State::Asleep => {
                // It sleeps, and yet it runs: its wakeup is not in the trace. At the start it may have waited.
                let first = this.stretches.is_empty();
                // A balancer pulls only runnable tasks: it waited there from the start.
                let pulled = pulled.filter(|_| first && this.born.is_none());
                let cpu = pulled.map_or(cpu, |from| from as usize);
                if first && this.born.is_none() && rested && pulled.is_none() {
                    // It did not wait for this CPU, which has been idle: it is new, and its fork is missing.
                    this.born = Some((at, None));
                }
                let waker = if first { Waker::Start } else { Waker::Interrupt };
                // The replay has no stopper, so its wakeups do not count. A presumed sleep was none.
                let missed = !first && !this.presumed && !super::is_stopper(&this.comm);
                self.counts.unwoken += u64::from(missed);
                this.begins(if first && this.born.is_none() { 0 } else { at }, waker, cpu, prio);
            }
            // Neither is possible: it has left any other CPU, and a pid of an ended task is a new task.
            State::Running | State::Gone => {}
        }
        (this.state, this.presumed, this.replaced, this.charged_from) = (State::Running, false, false, None);
        if this.stretches.is_empty() {
            this.begins(at, Waker::Start, cpu, prio);
        }
        let stretch = this.stretches.len() - 1;
        if this.stay.is_none_or(|stay| stay.cpu != cpu as u32) {
            this.stay = Some(Stay::new(cpu, stretch));
        }
        if let Some(stretch) = this.stretches.last_mut().filter(|stretch| stretch.runs == 0) {
            stretch.taken_in = stretch.taken_in.map(|_| stretch.cpu == cpu as u32);
        }
        this.runs(at);
    }
}
