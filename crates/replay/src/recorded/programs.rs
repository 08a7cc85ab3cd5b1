//! Lives become programs.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::endless::endless;
use super::habits::{MIN_SLEEPS, Rhythm, rhythm};
use super::lives::{Act, End, Lives, Stay, Stretch, Waker};
use super::placing::{Allowed, Said};
use super::sessions::{is_kernel_thread, sessions};
use super::{Lateness, Counts, How, Recorded, Thread};
use super::{clocks, lives, placing};
use vruntime_sim::plan::Ticks;
use vruntime_workload::program::{Before, Op, Phase, Policy, Repeat, Semaphore, Settings, Task, Workload};

/// A task that has waited so long beside an idle CPU is confined to its own: any balancer would have moved it.
const CONFINED_NS: u64 = 20_000_000;
/// A thread that goes on beyond what was recorded of it repeats so many of its last rounds.
const ROUNDS: usize = 1000;
/// What a tick brings about happens within this time.
const TICK_NS: u64 = 150_000;
/// Where ticks are not known, a task that has run for this long may have lost its CPU to one: no kernel has a shorter
/// slice by default.
const SLICE_NS: u64 = 700_000;
/// What an endless task works between two looks at nothing in particular.
const ENDLESS_NS: u64 = 1_000_000_000;

/// Makes a workload of what the threads did.
pub(super) fn build(
    lives: Lives,
    duration_ns: u64,
    busy_ns: Vec<u64>,
    ticks: Option<Ticks>,
    lateness: &Lateness,
    how: &How,
) -> Recorded {
    let Lives { threads, groups: marked, hotplug, mut counts, .. } = lives;
    let kept = kept(&threads, how);
    let endless: Vec<Option<usize>> = threads.iter().map(|thread| endless(thread, duration_ns)).collect();
    let interrupted = |thread: usize| endless[thread].is_some() || !kept[thread];
    let mut rhythms = rhythms(&threads, lateness, how, &interrupted);
    counts.sharing = clocks::share_beats(&threads, &mut rhythms, lateness.slack + lateness.timer);
    let paces = threads.iter().map(|thread| clocks::pace(thread, lateness)).collect();

    let allowed = placing::allowed(&threads, how.cgroups.as_ref());
    let held_by_groups = placing::held_by_groups(&threads, how.cgroups.as_ref(), &marked, busy_ns.len());
    let forked = forked(&threads, |thread| kept[thread] && endless[thread].is_none());
    let mut next = 0..;
    let numbers: Vec<Option<usize>> = kept.iter().map(|&kept| if kept { next.next() } else { None }).collect();
    let builder = Builder {
        threads: &threads,
        kept: &kept,
        numbers: &numbers,
        endless: &endless,
        interrupted: &interrupted,
        rhythms,
        paces,
        held_by_groups: &held_by_groups,
        allowed: &allowed,
        cpus: busy_ns.len() as u32,
        duration_ns,
        keep_times: how.keep_times,
        ticks,
        lateness,
    };
    let mut workload = Workload { duration: Some(duration_ns), hotplug, ..Workload::default() };
    let semaphores = builder.semaphores(&mut workload.semaphores);
    let going_on = builder.going_on();
    let (sessions, leaders, told_sessions) = sessions(&threads, how.cgroups.as_ref());
    (workload.sessions, counts.autogrouped) = (leaders, told_sessions);
    let mut names = Names::default();
    let mut told = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        builder.tally(index, how.cgroups.is_none() && marked.is_empty(), &mut counts);
        if numbers[index].is_some() {
            if is_kernel_thread(&thread.comm) {
                workload.kernel_threads.insert(workload.tasks.len());
            }
            workload.tasks.push(Task {
                name: names.of(thread),
                class: thread.comm.clone(),
                start: if forked[index] { None } else { Some(thread.born.map_or(0, |(at, _)| at)) },
                before: before(thread),
                session: sessions[index],
                process: thread.tgid.and_then(|tgid| u32::try_from(tgid).ok()),
                settings: builder.settings(index, 0),
                phases: builder.phases(index, &going_on[index], &semaphores).into(),
                repeat: Repeat::Times(1),
            });
        }
        told.push(builder.told(index));
    }
    let said = Said { cgroups: how.cgroups.as_ref(), marked: &marked };
    let cgroups = placing::place(&threads, &numbers, said, busy_ns.len(), &mut workload, &mut counts);
    for ((told, thread), stays) in told.iter_mut().zip(threads).zip(cgroups) {
        told.cgroup = stays.last().map(|(path, _)| path.clone());
        told.stays = stays;
        told.latencies = thread.latencies;
    }
    Recorded { workload, threads: told, busy_ns, duration_ns, ticks, counts }
}

/// How each thread sleeps.
fn rhythms(
    threads: &[lives::Thread],
    lateness: &Lateness,
    how: &How,
    interrupted: &impl Fn(usize) -> bool,
) -> Vec<Rhythm> {
    let slack = |prio: i32| if prio < 100 { 0 } else { lateness.slack };
    let of_thread = |thread: &lives::Thread| {
        let prio = thread.stretches.last().map_or(120, |last| last.prio);
        match rhythm(threads, thread, slack(prio), lateness, interrupted) {
            Rhythm::Awake => Rhythm::Awake,
            _ if how.keep_times => Rhythm::Recorded,
            rhythm => rhythm,
        }
    };
    threads.iter().map(of_thread).collect()
}

/// What a thread did when the trace began, and where: on the CPU on which it was woken, or first seen.
fn before(thread: &lives::Thread) -> Option<Before> {
    let first = thread.stretches.first().filter(|_| thread.born.is_none())?;
    Some(if thread.asleep_first { Before::Asleep(first.cpu) } else { Before::Runnable(first.cpu) })
}

/// Which threads become tasks. The simulated machine has stoppers of its own, and they do the migrations of the replay.
fn kept(threads: &[lives::Thread], how: &How) -> Vec<bool> {
    let is_kept = |(index, thread): (usize, &lives::Thread)| {
        !thread.stretches.is_empty() && !super::is_stopper(&thread.comm) && !how.without.contains(&index)
    };
    threads.iter().enumerate().map(is_kept).collect()
}

/// Which threads begin with a fork by one of those that fork.
fn forked(threads: &[lives::Thread], forks: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut forked = vec![false; threads.len()];
    let parents = threads.iter().enumerate().filter(|(index, _)| forks(*index)).map(|(_, thread)| thread);
    for (_, act) in parents.flat_map(|thread| &thread.stretches).flat_map(|stretch| &stretch.acts) {
        if let Act::Fork(child) = *act {
            forked[child] = true;
        }
    }
    forked
}

/// What tasks are called: of several threads that had one name and pid the later ones have a number besides.
#[derive(Default)]
struct Names(BTreeMap<String, u32>);

impl Names {
    fn of(&mut self, thread: &lives::Thread) -> String {
        let name = format!("{}-{}", thread.comm, thread.pid);
        let seen = self.0.entry(name.clone()).or_default();
        *seen += 1;
        if *seen > 1 { format!("{name}.{seen}") } else { name }
    }
}

/// The semaphores of each pair of a waker and a woken thread.
type Semaphores = BTreeMap<(usize, usize), Pair>;

/// What two threads tell each other of which the first wakes the second.
#[derive(Clone, Copy, Debug)]
struct Pair {
    /// The second waits for the progress of the first, and of no other.
    wakes: usize,
    /// Where the second wakes the first as well, if only by way of others, they work for each other: each wakeup found
    /// the second asleep, so the first never is further ahead of it.
    sleeps: Option<usize>,
}

/// The circle of each node of a graph: nodes that can reach each other have the same number.
fn circles(edges: &[BTreeSet<usize>]) -> Vec<usize> {
    // Tarjan's algorithm, with a stack of its own: chains of wakers can be long.
    let unseen = usize::MAX;
    let (mut order, mut low, mut circle) = (vec![unseen; edges.len()], vec![0; edges.len()], vec![unseen; edges.len()]);
    let (mut next, mut found, mut open) = (0, 0, Vec::new());
    for start in 0..edges.len() {
        if order[start] != unseen {
            continue;
        }
        let mut path = vec![(start, edges[start].iter())];
        while let Some((node, rest)) = path.last_mut() {
            let node = *node;
            if order[node] == unseen {
                (order[node], low[node]) = (next, next);
                next += 1;
                open.push(node);
            }
            if let Some(&to) = rest.next() {
                if order[to] == unseen {
                    path.push((to, edges[to].iter()));
                } else if circle[to] == unseen {
                    low[node] = low[node].min(order[to]);
                }
                continue;
            }
            path.pop();
            if let Some((above, _)) = path.last() {
                low[*above] = low[*above].min(low[node]);
            }
            if low[node] == order[node] {
                while let Some(member) = open.pop() {
                    circle[member] = found;
                    if member == node {
                        break;
                    }
                }
                found += 1;
            }
        }
    }
    circle
}

struct Builder<'a> {
    threads: &'a [lives::Thread],
    kept: &'a [bool],
    /// The task that each thread becomes.
    numbers: &'a [Option<usize>],
    /// The stretch from which on a thread computes for as long as it is let.
    endless: &'a [Option<usize>],
    interrupted: &'a dyn Fn(usize) -> bool,
    rhythms: Vec<Rhythm>,
    /// How long each thread computes by the clock, if it does.
    paces: Vec<Option<u64>>,
    /// Threads that a cpuset keeps from some CPU, or a limit from all.
    held_by_groups: &'a [bool],
    /// Where each thread may run, if the machine said it.
    allowed: &'a [Option<Allowed>],
    /// So many CPUs were seen.
    cpus: u32,
    /// How long the trace is.
    duration_ns: u64,
    /// Every wakeup keeps its recorded time.
    keep_times: bool,
    ticks: Option<Ticks>,
    lateness: &'a Lateness,
}

/// Where a thread has to run.
struct Confined {
    cpus: Vec<u32>,
    /// From which stretch on.
    since: usize,
    /// That is known, from its name or from the machine.
    known: bool,
}

impl Builder<'_> {
    /// Counts what there is to tell of a thread. `unlimited`: nothing says which groups have limits.
    fn tally(&self, thread: usize, unlimited: bool, counts: &mut Counts) {
        let this = &self.threads[thread];
        if self.numbers[thread].is_none() {
            counts.left_out += u64::from(super::is_stopper(&this.comm));
            return;
        }
        counts.affinities += u64::from(self.narrowed(thread).is_some());
        counts.confined += u64::from(self.confined(thread).is_some_and(|confined| !confined.known));
        counts.throttled += u64::from(unlimited && self.throttled(thread));
        counts.endless += u64::from(self.endless[thread].is_some());
        counts.deadline += u64::from(this.stretches.iter().any(|stretch| stretch.prio < 0));
    }

    /// What is told of a thread, but for its groups and latencies.
    fn told(&self, thread: usize) -> Thread {
        let this = &self.threads[thread];
        let only = |confined: Confined| (confined.cpus.len() == 1).then(|| confined.cpus[0]);
        Thread {
            pid: this.pid,
            tgid: this.tgid,
            comm: this.comm.clone(),
            task: self.numbers[thread],
            habit: self.rhythms[thread].habit(),
            computes_for: self.paces[thread],
            parent: this.born.and_then(|(_, parent)| parent),
            cgroup: None,
            stays: Vec::new(),
            confined: self.confined(thread).and_then(only),
            cpu_ns: this.cpu_ns,
            switches: this.switches,
            latencies: Vec::new(),
        }
    }

    /// The semaphores of each pair of threads of which the first wakes the second.
    fn semaphores(&self, all: &mut Vec<Semaphore>) -> Semaphores {
        let mut wakes: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.threads.len()];
        for (index, thread) in self.threads.iter().enumerate() {
            for (stretch, Stretch { waker, .. }) in thread.stretches.iter().enumerate() {
                if let Waker::Thread(by) = *waker
                    && self.depends(index, stretch)
                {
                    wakes[by].insert(index);
                }
            }
        }
        let circles = circles(&wakes);
        let mut semaphore = |by: usize, woken: usize, what: &str| {
            let [by, woken] = [by, woken].map(|index| &self.threads[index]);
            let name = format!("{}-{}->{}-{}{what}", by.comm, by.pid, woken.comm, woken.pid);
            let initial = if what.is_empty() { 0 } else { std::env::var("L").ok().and_then(|l| l.parse().ok()).unwrap_or(0) };
            all.push(Semaphore { name, initial });
            all.len() - 1
        };
        let mut pairs = Semaphores::new();
        for (by, woken) in wakes.iter().enumerate().flat_map(|(by, woken)| woken.iter().map(move |&woken| (by, woken))) {
            let wakes = semaphore(by, woken, "");
            let sleeps = (circles[by] == circles[woken]).then(|| semaphore(by, woken, " sleeps"));
            pairs.insert((by, woken), Pair { wakes, sleeps });
        }
        pairs
    }

    /// Whether the sleep before that stretch is ended by the progress of another task.
    fn depends(&self, thread: usize, stretch: usize) -> bool {
        let this = &self.threads[thread];
        let sleeps = stretch > 0 || this.asleep_first;
        match this.stretches[stretch].waker {
            Waker::Thread(by) => {
                sleeps
                    && self.kept[thread]
                    && self.kept[by]
                    && !self.keep_times
                    && match this.stretches[stretch].surely {
                        Some(surely) => surely && !self.by_tick(&this.stretches[stretch]),
                        None => self.rhythms[thread] == Rhythm::Woken && !(self.interrupted)(by),
                    }
            }
            Waker::Nobody | Waker::Interrupt => false,
        }
    }

    /// Where a thread is confined to, if it is.
    fn confined(&self, thread: usize) -> Option<Confined> {
        let this = &self.threads[thread];
        if let Some(cpus) = self.narrowed(thread) {
            return Some(Confined { cpus: cpus.to_vec(), since: 0, known: true });
        }
        let stay = this.stay?;
        let of_cpu = this.comm.rsplit_once('/').and_then(|(_, tail)| {
            let number = tail.split(':').next().unwrap_or_default();
            number.parse::<u32>().ok()
        });
        if of_cpu == Some(stay.cpu) && stay.stretch == 0 {
            return Some(Confined { cpus: vec![stay.cpu], since: 0, known: true });
        }
        // Where an affinity, a cpuset or a limit is known, it is the reason for such a wait.
        let waited = stay.beside_idle >= CONFINED_NS && stay.beside_idle >= stay.waited / 10;
        let held = self.held_by_groups[thread]
            || self.throttled(thread)
            || self.allowed[thread].as_ref().is_some_and(|allowed| allowed.own);
        (waited && !held).then(|| Confined { cpus: vec![stay.cpu], since: stay.stretch, known: false })
    }

    /// The CPUs to which the machine says that a thread is confined.
    fn narrowed(&self, thread: usize) -> Option<&[u32]> {
        let cpus = self.allowed[thread].as_ref()?.cpus.as_slice();
        (0..self.cpus).any(|cpu| !cpus.contains(&cpu)).then_some(cpus)
    }

    /// Whether a thread that is runnable is kept from its own CPU as well, while that is idle: no affinity does so, but
    /// a limit does.
    fn throttled(&self, thread: usize) -> bool {
        let of = |stay: Stay| stay.own_idle >= CONFINED_NS && stay.own_idle >= stay.beside_idle / 2;
        self.threads[thread].stay.is_some_and(of)
    }

    /// What a thread is in that stretch.
    fn settings(&self, thread: usize, stretch: usize) -> Settings {
        let prio = self.threads[thread].stretches[stretch].prio;
        let policy = match prio {
            ..0 => Policy::Fifo { priority: 99 },
            0..100 => Policy::Fifo { priority: (99 - prio).clamp(1, 99) as u8 },
            _ => Policy::Other { nice: (prio - 120).clamp(-20, 19) as i8, slice: None },
        };
        let confined = self.confined(thread).filter(|confined| confined.since <= stretch);
        Settings { policy: Some(policy), cpus: confined.map(|confined| confined.cpus), ..Settings::default() }
    }

    /// What a thread does, in a phase for each kind of settings; at last, for ever, the `rounds` with which it goes on.
    fn phases(&self, thread: usize, rounds: &[usize], semaphores: &Semaphores) -> Vec<Phase> {
        let this = &self.threads[thread];
        let phase = |number: usize, settings: Settings| Phase {
            name: format!("{number}"),
            repeat: Repeat::Times(1),
            settings,
            ops: Vec::new(),
        };
        let mut settings = self.settings(thread, 0);
        let (mut phases, mut current) = (Vec::new(), phase(0, Settings::default()));
        for (index, stretch) in this.stretches.iter().enumerate() {
            let now = self.settings(thread, index);
            if now != settings {
                let next = phase(phases.len() + 1, now.clone());
                phases.push(mem::replace(&mut current, next));
                settings = now;
            }
            self.sleep(thread, index, semaphores, &mut current.ops);
            if self.endless[thread] == Some(index) {
                // What it did to others while it computed was done by interrupts that hit it.
                let mut rest = phase(phases.len() + 1, Settings::default());
                rest.repeat = Repeat::Forever;
                rest.ops.push(Op::Run { work: ENDLESS_NS });
                phases.push(mem::replace(&mut current, rest));
                break;
            }
            self.work(thread, stretch, self.numbers, semaphores, &mut current.ops);
        }
        phases.push(current);
        if !rounds.is_empty() {
            let mut on = phase(phases.len() + 1, Settings::default());
            on.repeat = Repeat::Forever;
            for &index in rounds {
                self.sleep(thread, index, semaphores, &mut on.ops);
                // Whom it forked it forked once.
                self.work(thread, &this.stretches[index], &[], semaphores, &mut on.ops);
            }
            phases.push(on);
        }
        phases.retain(|phase| !phase.ops.is_empty() || phase.settings != Settings::default());
        phases
    }

    /// The rounds with which a thread goes on when it has done all that was recorded before the replay is over, as one
    /// does that gets on faster there: its last ones over and over, if it was still at it when the trace ended, or just
    /// before (who exits with the trace's end mostly exits because that is over). Only rounds count whose sleeps go on
    /// as well: a time in the trace is past then, and of those that woke it `goes_on` says who does.
    fn rounds(&self, thread: usize, goes_on: &dyn Fn(usize) -> bool) -> Vec<usize> {
        let this = &self.threads[thread];
        let counts = |&index: &usize| match (self.rhythms[thread], this.stretches[index].waker) {
            (Rhythm::Relative { time }, _) => {
                let before = &this.stretches[index - 1];
                let slept = this.stretches[index].woken.saturating_sub(before.ended);
                before.end == End::Sleep && slept.abs_diff(time) <= time / 5
            }
            (Rhythm::Woken, Waker::Thread(by)) => self.depends(thread, index) && goes_on(by),
            _ => false,
        };
        let mut rounds: Vec<usize> = (1..this.stretches.len()).filter(counts).collect();
        let (Some(first), Some(last)) = (this.stretches.first(), this.stretches.last()) else { return Vec::new() };
        let all = this.stretches.len() - 1;
        let usual = last.woken.saturating_sub(first.woken) / all.max(1) as u64;
        let at_it = self.duration_ns.saturating_sub(last.ended) <= 2 * usual;
        if !at_it || rounds.len() < MIN_SLEEPS || rounds.len() * 10 < all * 9 {
            return Vec::new();
        }
        rounds.drain(..rounds.len().saturating_sub(ROUNDS));
        rounds
    }

    /// The rounds of every thread that goes on. Who is woken by one that does not does not, either.
    fn going_on(&self) -> Vec<Vec<usize>> {
        let mut goes_on: Vec<bool> =
            (0..self.threads.len()).map(|thread| self.kept[thread] && self.endless[thread].is_none()).collect();
        let rounds = |thread: usize, goes_on: &[bool]| {
            if goes_on[thread] { self.rounds(thread, &|by| goes_on[by]) } else { Vec::new() }
        };
        let mut all: Vec<Vec<usize>> = (0..self.threads.len()).map(|thread| rounds(thread, &goes_on)).collect();
        let mut stops: Vec<usize> = (0..self.threads.len()).filter(|&thread| all[thread].is_empty()).collect();
        for &thread in &stops {
            goes_on[thread] = false;
        }
        while let Some(stopped) = stops.pop() {
            let acts = self.threads[stopped].stretches.iter().flat_map(|stretch| &stretch.acts);
            let woken: BTreeSet<usize> = acts
                .filter_map(|&(_, act)| match act {
                    Act::Wake { thread, .. } => Some(thread),
                    Act::Fork(_) | Act::Left { .. } => None,
                })
                .collect();
            for thread in woken {
                if goes_on[thread] {
                    all[thread] = rounds(thread, &goes_on);
                    if all[thread].is_empty() {
                        goes_on[thread] = false;
                        stops.push(thread);
                    }
                }
            }
        }
        all
    }

    /// The sleep before a stretch, if there is one.
    fn sleep(&self, thread: usize, index: usize, semaphores: &Semaphores, ops: &mut Vec<Op>) {
        let this = &self.threads[thread];
        let stretch = &this.stretches[index];
        let before = index.checked_sub(1).map(|before| &this.stretches[before]);
        let slack = if stretch.prio < 100 { 0 } else { self.lateness.slack };
        let recorded = Op::SleepUntil { at: stretch.woken.saturating_sub(slack + self.lateness.timer) };
        let woken_by = match stretch.waker {
            Waker::Thread(by) if self.depends(thread, index) => semaphores.get(&(by, thread)),
            _ => None,
        };
        if let Some(pair) = woken_by {
            let late = std::env::var("LATE").is_ok();
            if !late { ops.extend(pair.sleeps.map(Op::SemPost)); }
            ops.push(Op::SemWait(pair.wakes));
            if late { ops.extend(pair.sleeps.map(Op::SemPost)); }
            return;
        }
        let op = match (before, self.rhythms[thread]) {
            // Its life begins there, unless it began before the trace.
            (None, _) if this.born.is_some() || stretch.woken == 0 => return,
            (Some(before), _) if before.end == End::Device => {
                let time = stretch.woken.saturating_sub(before.ended).saturating_sub(self.lateness.timer);
                Op::Device { time: time.max(1) }
            }
            (_, Rhythm::Periodic { phase, period }) => {
                let beat = phase + (stretch.woken.saturating_sub(phase) + period / 2) / period * period;
                // What is far from any beat was something else.
                if beat.abs_diff(stretch.woken) > period / 10 { recorded } else { Op::SleepUntil { at: beat } }
            }
            (Some(before), Rhythm::Relative { time }) => {
                let slept = stretch.woken.saturating_sub(before.ended);
                let own = slept.saturating_sub(slack + self.lateness.timer);
                Op::Sleep { time: if slept.abs_diff(time) > time / 5 { own } else { time } }
            }
            _ => recorded,
        };
        ops.push(op);
    }

    /// The work of a stretch, with what is done to others on the way.
    fn work(
        &self,
        thread: usize,
        stretch: &Stretch,
        numbers: &[Option<usize>],
        semaphores: &Semaphores,
        ops: &mut Vec<Op>,
    ) {
        let pace = self.paces[thread].filter(|&time| clocks::by_the_clock(stretch, time, self.lateness));
        // What comes between is part of the time that a task computes by the clock.
        let work = pace.unwrap_or(stretch.work);
        let run = |time: u64| if pace.is_some() { Op::Runtime { time } } else { Op::Run { work: time } };
        let place = |at: u64| match pace {
            Some(time) => (u128::from(at.min(stretch.work)) * u128::from(time) / u128::from(stretch.work.max(1))) as u64,
            None => at.min(stretch.work),
        };
        let mut done = 0;
        for &(at, act) in &stretch.acts {
            let [first, second] = match act {
                Act::Wake { thread: woken, stretch } if self.depends(woken, stretch) => {
                    let pair = semaphores.get(&(thread, woken));
                    [pair.and_then(|pair| pair.sleeps).map(Op::SemWait), pair.map(|pair| Op::SemPost(pair.wakes))]
                }
                Act::Wake { .. } => [None, None],
                Act::Fork(child) => [None, numbers.get(child).copied().flatten().map(Op::Fork)],
                Act::Left { at, ran } => [None, self.yielded(at, ran).then_some(Op::Yield)],
            };
            if second.is_none() {
                continue;
            }
            let at = place(at).max(done);
            if at > done {
                ops.push(run(at - done));
            }
            done = at;
            if std::env::var("SWAP").is_ok() { ops.extend(second.into_iter().chain(first)); } else {
            ops.extend(first.into_iter().chain(second)); }
        }
        if work > done {
            ops.push(run(work - done));
        }
    }

    /// Whether a timer of the wheel woke the task: a softirq did, right after a tick.
    fn by_tick(&self, stretch: &Stretch) -> bool {
        stretch.softirq && self.ticks.is_some_and(|ticks| ticks.since(stretch.woken) <= TICK_NS)
    }

    /// Whether a task that left its CPU at that time, runnable and after it had run for `ran`, yielded: no tick had just
    /// come.
    fn yielded(&self, at: u64, ran: u64) -> bool {
        match self.ticks {
            Some(ticks) => ticks.since(at) > TICK_NS,
            None => ran < SLICE_NS,
        }
    }
}
