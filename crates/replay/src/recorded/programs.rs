//! Makes programs of what each thread did.

mod messages;
mod owed;
mod relay;
mod settings;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem;

use vruntime_workload::program::{Mutex, Op, Phase, Policy, Repeat, Settings, Task, Timer, TimerMode, Workload};

use self::owed::Owed;
use super::causes::{Cause, Causes};
use super::cycle::Cycle;
use super::exits::Exits;
use super::habits::Rhythm;
use super::locks::{Locks, Try};
use super::messages::Messages;
use super::pairs::Pairs;
use super::placing::{Allowed, KnownGroups};
use super::pools::Pools;
use super::prepared::Prepared;
use super::progress::Progress;
use super::roles::{Roles, follows};
use super::roster::{Names, before, forked};
use super::sessions::{is_kernel_thread, sessions};
use super::threads::{Act, Stretch};
use super::{Counts, Coupling, How, Lateness, Recorded, Thread};
use super::{averages, batches, clocks, exits, flows, leads, placing, sync, talks, threads};

/// A pool member that sleeps this briefly by itself polls for the others' results.
pub(super) const POLL_NS: u64 = 1_000_000;
/// The work of an endless task between two operations.
const ENDLESS_NS: u64 = 1_000_000_000;

/// Makes a workload of what each thread did.
pub(super) fn build(prepared: &Prepared, how: &How) -> Recorded {
    let Prepared { kept, endless, rhythms, paces, locks, exits, duration_ns, uses, ticks, lateness, marked, .. } =
        prepared;
    let roles = prepared.roles(how.pools, how.goes_on);
    let roles = roles.get_or_init(|| Roles::new(prepared, how.pools, how.goes_on));
    let Roles { pools, cycle, wakes, sends, .. } = roles;
    let (duration_ns, ticks) = (*duration_ns, *ticks);
    let (mut threads, mut counts) = (Cow::Borrowed(&prepared.threads[..]), prepared.counts);
    let causes = prepared.causes();
    let names_of_pools = prepared.pools.names();
    let pool_of: Vec<Option<usize>> = (0..threads.len()).map(|thread| prepared.pools.of(thread)).collect();
    let flows = match how.coupling {
        Coupling::Flowing => flows::find(&causes, roles),
        _ => flows::Flows::default(),
    };
    let leads = match how.coupling {
        Coupling::InStep | Coupling::Flowing => leads::find(&causes, roles, &flows.pairs),
        _ => leads::Leads::default(),
    };
    if !leads.pairs.is_empty() || !flows.pairs.is_empty() {
        leads.add(threads.to_mut(), &flows.acts);
    }
    let causes = Causes { threads: &threads, ..causes };
    counts.closed = cycle.goes_on.iter().filter(|&&goes_on| goes_on).count() as u64;

    let allowed = placing::allowed(&threads, how.cgroups.as_ref());
    let held_by_groups = placing::held_by_groups(&threads, how.cgroups.as_ref(), marked, uses.len());
    let forked = forked(
        &threads,
        |thread, stretch| kept[thread] && endless[thread].is_none_or(|from| stretch < from),
        |parent, child| pools.starts_asleep(parent, child),
    );
    let mut next = 0..;
    let numbers: Vec<Option<usize>> = kept.iter().map(|&kept| if kept { next.next() } else { None }).collect();
    let mut workload = Workload {
        duration: Some(duration_ns),
        hotplug: prepared.hotplug.clone(),
        pools: prepared.pools.names_of_all(),
        ..Workload::default()
    };
    let mutexes = locks.names.iter().enumerate().map(|(lock, name)| Mutex {
        name: name.clone(),
        priority_inheritance: false,
        hands_over: locks.hands_over(lock),
    });
    workload.mutexes = mutexes.collect();
    let names = |thread: usize| format!("{}-{}", threads[thread].comm, threads[thread].pid);
    let mut pairs = Pairs::new(how.coupling, wakes, &names, pools, &mut workload.inboxes);
    pairs.flow(flows.pairs, &names, &mut workload.inboxes);
    pairs.exchange(sends, &names, &mut workload.inboxes);
    if how.sync {
        pairs.synchronize(sync::find(&causes, wakes));
    }
    workload.leads = leads.pairs.iter().map(|&(leader, _)| names(leader)).collect();
    let mut timers = vec![None; threads.len()];
    // A process that ends may begin at another time.
    let lasts = |thread: usize| threads[thread].exit().is_none();
    let paced = rhythms.iter().enumerate().filter(|(_, rhythm)| matches!(rhythm, Rhythm::Paced { .. }));
    for (thread, _) in paced.filter(|(thread, _)| lasts(*thread)) {
        timers[thread] = Some(workload.timers.len());
        let start = threads[thread].stretches.first().map(|first| first.woken);
        workload.timers.push(Timer { name: names(thread), start });
    }
    let builder = Builder {
        numbers: &numbers,
        timers: &timers,
        endless,
        pairs,
        causes,
        cycle,
        messages: (&prepared.messages, &roles.messages),
        roles,
        paces,
        pool_of: &pool_of,
        pools,
        locks,
        exits,
        held_by_groups: &held_by_groups,
        allowed: &allowed,
        policies: &how.policies,
        cpus: uses.len() as u32,
        duration_ns,
        goes_on: how.goes_on,
        charges_switches: how.charges_switches,
        lateness,
    };
    counts.follows = builder.pairs.number() as u64;
    let sessions = sessions(&threads, how.cgroups.as_ref());
    (workload.sessions, counts.autogrouped) = (sessions.all, sessions.recorded);
    let mut names = Names::default();
    let mut described = Vec::new();
    for (index, thread) in threads.iter().enumerate() {
        builder.tally(index, how.cgroups.is_none() && marked.is_empty(), &mut counts);
        if numbers[index].is_some() {
            if is_kernel_thread(&thread.comm) {
                workload.kernel_threads.insert(workload.tasks.len());
            }
            if sessions.sessionless[index] {
                workload.sessionless.insert(workload.tasks.len());
            }
            workload.tasks.push(Task {
                name: names.of(thread),
                class: thread.comm.clone(),
                start: if forked[index] { None } else { Some(builder.begins(index)) },
                before: before(thread, builder.begins(index)),
                wakee_flips: if thread.born.is_none() { thread.wakees.flips(duration_ns) } else { 0 },
                averages: averages::at_start(thread, duration_ns),
                session: sessions.of[index],
                process: thread.tgid.and_then(|tgid| u32::try_from(tgid).ok()),
                settings: builder.settings(index, 0),
                phases: builder.phases_with_relay(index).into(),
                repeat: Repeat::Times(1),
            });
        }
        described.push(Thread { pool: prepared.pools.kind_of(index), ..builder.describe(index) });
    }
    let first_link = builder.pairs.links();
    let rooms = prepared.messages.rooms.of_links.iter();
    workload.rooms = rooms.map(|(link, &room)| (first_link + link, room)).collect();
    if how.goes_on {
        talks::close(&mut workload, &prepared.messages.connections, first_link);
    }
    let known = KnownGroups { cgroups: how.cgroups.as_ref(), marked };
    let cgroups = placing::place(&threads, &numbers, known, uses.len(), &mut workload, &mut counts);
    let repeats_from = builder.cycle.from;
    drop(builder);
    for ((described, thread), stays) in described.iter_mut().zip(&*threads).zip(cgroups) {
        described.cgroup = stays.last().map(|(path, _)| path.clone());
        described.stays = stays;
        described.waited_ns = prepared.wakeups.then_some(thread.waited_ns);
        described.latencies.clone_from(&thread.latencies);
    }
    Recorded {
        workload,
        threads: described,
        busy_ns: uses.iter().map(|cpu| cpu.busy_ns).collect(),
        known_ns: uses.iter().map(|cpu| cpu.known_ns).collect(),
        duration_ns,
        ticks,
        pools: names_of_pools,
        repeats_from,
        counts,
        first_link,
    }
}

struct Builder<'a> {
    causes: Causes<'a>,
    cycle: &'a Cycle,
    /// All messages, and whether the replay has each.
    messages: (&'a Messages, &'a [bool]),
    roles: &'a Roles,
    pairs: Pairs,
    /// Each thread's task.
    numbers: &'a [Option<usize>],
    /// Each paced thread's timer.
    timers: &'a [Option<usize>],
    /// The stretch from which a thread computes without end.
    endless: &'a [Option<usize>],
    /// How long each clock-bounded thread computes.
    paces: &'a [Option<u64>],
    /// Possible pools of threads.
    pool_of: &'a [Option<usize>],
    /// Pools whose members do each other's work.
    pools: &'a Pools,
    locks: &'a Locks,
    exits: &'a Exits,
    /// Threads that a cpuset keeps from some CPU, or a limit from all.
    held_by_groups: &'a [bool],
    /// Each thread's CPUs, by the machine.
    allowed: &'a [Option<Allowed>],
    /// Policies when the recording began.
    policies: &'a BTreeMap<i32, Policy>,
    /// Number of CPUs seen.
    cpus: u32,
    /// The trace's length.
    duration_ns: u64,
    /// Closed loops continue after the recorded work.
    goes_on: bool,
    /// Switches and wakeups are not work.
    charges_switches: bool,
    lateness: &'a Lateness,
}

/// The part of the recording that a thread repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// All of it.
    First,
    /// The repeated part.
    Again,
}

impl<'a> Builder<'a> {
    fn life(&self, thread: usize) -> &'a threads::Thread {
        &self.causes.threads[thread]
    }

    /// Adds a thread to the counts. `unlimited`: no group is known to have limits.
    fn tally(&self, thread: usize, unlimited: bool, counts: &mut Counts) {
        let this = self.life(thread);
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

    /// Describes a thread, without its groups and waits.
    fn describe(&self, thread: usize) -> Thread {
        let this = self.life(thread);
        let overhead = self.overhead(thread);
        let (subtracted_ns, charged_ns) = if self.charges_switches { (0, overhead) } else { (overhead, 0) };
        let only = |confined: settings::Confined| (confined.cpus.len() == 1).then(|| confined.cpus[0]);
        Thread {
            pid: this.pid,
            tgid: this.tgid,
            comm: this.comm.clone(),
            task: self.numbers[thread],
            habit: self.causes.rhythms[thread].habit(),
            computes_for: self.paces[thread],
            closed: self.cycle.goes_on[thread] || self.endless[thread].is_some(),
            rounds: this.stretches.len().saturating_sub(usize::from(!this.asleep_first)) as u64,
            pool: None,
            parent: this.born.and_then(|(_, parent)| parent),
            cgroup: None,
            stays: Vec::new(),
            confined: self.confined(thread).and_then(only),
            cpu_ns: this.cpu_ns,
            subtracted_ns,
            charged_ns,
            waited_ns: None,
            switches: this.switches,
            latencies: Vec::new(),
        }
    }

    /// Returns the part of a thread's CPU time that its replayed work lacks. Work without end, or until a time, lacks
    /// nothing.
    fn overhead(&self, thread: usize) -> u64 {
        let stretches = &self.life(thread).stretches;
        let worked = &stretches[..self.endless[thread].unwrap_or(stretches.len())];
        let clocked = |stretch: &Stretch| {
            self.paces[thread].is_some_and(|time| clocks::by_the_clock(stretch, time, self.lateness))
        };
        worked.iter().filter(|stretch| !clocked(stretch)).map(|stretch| stretch.overhead).sum()
    }

    /// Returns the start of a thread's task, unless another forks it, ns. 0 for an attendant's child: it starts asleep.
    fn begins(&self, thread: usize) -> u64 {
        match self.life(thread).born {
            Some((_, Some(parent))) if self.pools.starts_asleep(parent, thread) => 0,
            Some((at, _)) => at,
            None => 0,
        }
    }

    /// Returns a thread's phases, one for each kind of settings, and finally its endless repetition.
    fn phases(&self, thread: usize) -> Vec<Phase> {
        let phase = |number: usize, settings: Settings| Phase {
            name: format!("{number}"),
            repeat: Repeat::Times(1),
            settings,
            ops: Vec::new(),
        };
        let confined = self.confined(thread);
        let since = confined.as_ref().map(|confined| confined.since);
        let mut settings = self.settings_of(thread, 0, confined.as_ref());
        let (mut phases, mut current) = (Vec::new(), phase(0, Settings::default()));
        let mut owed = Owed::default();
        let stretches = &self.life(thread).stretches;
        for index in 0..self.stretches(thread) {
            // Only a priority or a confinement changes them.
            if index > 0 && (stretches[index].prio != stretches[index - 1].prio || since == Some(index)) {
                let now = self.settings_of(thread, index, confined.as_ref());
                if now != settings {
                    let next = phase(phases.len() + 1, now.clone());
                    phases.push(mem::replace(&mut current, next));
                    settings = now;
                }
            }
            self.sleep(thread, index, Pass::First, &mut owed, &mut current.ops);
            if self.endless[thread] == Some(index) {
                // What it did to others while it computed was done by interrupts that hit it.
                let mut rest = phase(phases.len() + 1, Settings::default());
                rest.repeat = Repeat::Forever;
                rest.ops.push(Op::Run { work: ENDLESS_NS });
                phases.push(mem::replace(&mut current, rest));
                break;
            }
            let begin = current.ops.len();
            self.work(thread, index, Pass::First, &mut current.ops);
            self.ends_after_others(thread, begin, &mut owed, &mut current.ops);
        }
        // A task that sleeps for its own times continues in every replay, as no other task sets its pace.
        let goes_on = self.cycle.goes_on[thread] && (self.goes_on || !self.cycle.driven[thread]);
        if goes_on && self.endless[thread].is_none() {
            self.last_sleep(thread, &mut owed, &mut current.ops);
            phases.push(current);
            let mut on = phase(phases.len() + 1, Settings::default());
            on.repeat = Repeat::Forever;
            self.again(thread, &mut on.ops);
            phases.push(on);
        } else {
            phases.push(current);
        }
        self.leaves_pool(thread, &mut phases);
        for phase in &mut phases {
            batches::end(&mut phase.ops, self.pairs.links());
        }
        phases.retain(|phase| !phase.ops.is_empty() || phase.settings != Settings::default());
        phases
    }

    /// Returns the number of a thread's stretches that the replay has: those until the [seam](Cycle::until).
    fn stretches(&self, thread: usize) -> usize {
        let stretches = &self.life(thread).stretches;
        if self.is_cut(thread) {
            stretches.partition_point(|stretch| stretch.woken <= self.cycle.until)
        } else {
            stretches.len()
        }
    }

    /// Whether a thread does nothing after the seam.
    fn is_cut(&self, thread: usize) -> bool {
        self.cycle.until < self.duration_ns && self.cycle.there[thread]
    }

    /// Whether a pass includes what a thread of the repetition did at that time.
    fn is_in(&self, pass: Pass, at: u64) -> bool {
        at <= self.cycle.until && (pass == Pass::First || at > self.cycle.from)
    }

    /// A thread's repetition: all from the [cycle's begin](Cycle::from) on.
    fn again(&self, thread: usize, ops: &mut Vec<Op>) {
        let this = self.life(thread);
        let first = this.stretches.partition_point(|stretch| stretch.woken <= self.cycle.from);
        // The stretch in which it was then.
        if let Some(under_way) = first.checked_sub(1)
            && this.stretches[under_way].ended > self.cycle.from
        {
            self.work(thread, under_way, Pass::Again, ops);
        }
        let mut owed = Owed { until: self.cycle.from, carried: 0 };
        if let Some(pool) = self.pools.of(thread) {
            // The first sleep of the next pass adds what the pool did after the last one of this pass.
            let mut dry_run = owed;
            for index in first..self.stretches(thread) {
                self.sleep(thread, index, Pass::Again, &mut dry_run, &mut Vec::new());
            }
            self.last_sleep(thread, &mut dry_run, &mut Vec::new());
            owed.carried = self.pools.work(pool, dry_run.until, self.cycle.until);
        }
        for index in first..self.stretches(thread) {
            self.sleep(thread, index, Pass::Again, &mut owed, ops);
            self.work(thread, index, Pass::Again, ops);
        }
        self.last_sleep(thread, &mut owed, ops);
    }

    /// Returns the sleep of a paced thread, which in a what-if may be late at other times.
    fn beat(&self, thread: usize) -> Option<Op> {
        match (self.causes.rhythms[thread], self.timers[thread]) {
            (Rhythm::Paced { period }, Some(timer)) if self.goes_on => {
                Some(Op::Timer { timer, period, mode: TimerMode::Relative })
            }
            _ => None,
        }
    }

    /// Returns how late a timer wakes a task of that priority.
    fn late(&self, prio: i32) -> u64 {
        let slack = if prio < 100 { 0 } else { self.lateness.slack };
        slack + self.lateness.timer
    }

    /// Returns a sleep of that length, at that priority.
    fn nap(&self, slept: u64, prio: i32) -> Op {
        let late = self.late(prio);
        // A sleep shorter than the slack of timers was no timer's.
        if slept > late { Op::Sleep { time: slept - late } } else { self.device(slept) }
    }

    fn device(&self, slept: u64) -> Op {
        Op::Device { time: slept.saturating_sub(self.lateness.timer).max(1) }
    }

    fn sleep(&self, thread: usize, index: usize, pass: Pass, owed: &mut Owed, ops: &mut Vec<Op>) {
        let this = self.life(thread);
        let stretch = &this.stretches[index];
        let before = index.checked_sub(1).map(|before| &this.stretches[before]);
        let cause = self.causes.of(thread, index);
        if self.exits.ends_sleep(self.causes.threads, thread, index) {
            self.helps(thread, before, owed, ops);
            ops.push(Op::AwaitKill);
            return;
        }
        if let (Some(Try { lock, timed }), Some(before)) = (self.locks.try_before(thread, index), before) {
            let slept = stretch.woken.saturating_sub(before.ended);
            let time = timed.then(|| slept.saturating_sub(self.late(stretch.prio)));
            ops.push(Op::TryLock { mutex: lock, time });
            return;
        }
        if self.locks.is_in_vain(thread, index) {
            return;
        }
        if let Some((lock, keeps)) = self.locks.wait(thread, index) {
            ops.push(self.locks.take(lock));
            ops.extend((!keeps).then_some(Op::Unlock(lock)));
            return;
        }
        let message = self.message_before(thread, index);
        if let Some(number) = message
            && (pass == Pass::First || self.has_message(number, pass) || self.sends_again(number))
        {
            return;
        }
        // Sending sleeps if there is no room.
        if self.roles.rooms.contains(&(thread, index)) {
            return;
        }
        if let Cause::Thread(by) = cause
            && message.is_none()
            && (self.waits_for(by, thread, stretch, pass) || self.by_progress(by, thread))
        {
            if self.pairs.are_flowing(by, thread) {
                return;
            }
            self.helps(thread, before, owed, ops);
            if self.by_progress(by, thread) {
                ops.extend(self.owes(thread, stretch.woken, owed).map(|(pool, work)| Op::PoolSleep { pool, work }));
                return;
            }
            self.pairs.wait(by, thread, ops);
            return;
        }
        // In a repetition, a member that was forked late is there from the start.
        let asleep_first = self.begins(thread) == 0 || (pass == Pass::Again && self.cycle.goes_on[thread]);
        if before.is_none() && this.born.is_some() && asleep_first {
            ops.extend(self.owes(thread, stretch.woken, owed).map(|(pool, work)| Op::PoolSleep { pool, work }));
            return;
        }
        // Its life begins there, unless it began before the trace.
        if cause == Cause::Start || (before.is_none() && stretch.woken == 0) {
            return;
        }
        let recorded = Op::SleepUntil { at: stretch.woken.saturating_sub(self.late(stretch.prio)) };
        let slept = match (pass, before) {
            (Pass::First, before) => before.map(|before| stretch.woken.saturating_sub(before.ended)),
            (Pass::Again, before) => {
                let began = before.map_or(0, |before| before.ended).max(self.cycle.from);
                Some(stretch.woken.saturating_sub(began))
            }
        };
        // In a what-if, a driven thread that began or ended meanwhile keeps no recorded times either.
        let in_loop = self.cycle.goes_on[thread] || (self.goes_on && self.cycle.driven[thread]);
        let outside = pass == Pass::Again || in_loop;
        let op = match (slept, self.causes.rhythms[thread]) {
            (Some(slept), _) if cause == Cause::Device => self.device(slept),
            (Some(_), Rhythm::Paced { .. }) if self.goes_on && self.timers[thread].is_some() => {
                self.beat(thread).unwrap_or(recorded)
            }
            (_, Rhythm::Periodic { phase, period }) if !outside => {
                let beat = phase + (stretch.woken.saturating_sub(phase) + period / 2) / period * period;
                // A wakeup far from any beat had another cause.
                if beat.abs_diff(stretch.woken) > period / 10 { recorded } else { Op::SleepUntil { at: beat } }
            }
            (Some(slept), Rhythm::Relative { time }) if slept.abs_diff(time) <= time / 5 => Op::Sleep { time },
            (Some(slept), rhythm) if outside || cause == Cause::Timer || matches!(rhythm, Rhythm::Relative { .. }) => {
                self.nap(slept, stretch.prio)
            }
            _ => recorded,
        };
        if let Op::Sleep { time } = op
            && outside
            && time <= POLL_NS
            && self.cycle.by_itself[thread]
            && self.helps(thread, before, owed, ops)
            && let Some((pool, work)) = self.owes(thread, stretch.woken, owed)
        {
            ops.push(Op::PoolWait { pool, work, time });
            return;
        }
        ops.push(op);
    }

    /// Whether a thread waits for the waker of that stretch.
    fn waits_for(&self, by: usize, woken: usize, stretch: &Stretch, pass: Pass) -> bool {
        follows(self.cycle, self.exits.behind(by, stretch.woken), woken)
            && !self.roles.contend(by, woken)
            && self.is_there(by, woken, stretch.woken, pass)
    }

    /// Whether a pass includes what two threads did at that time.
    fn is_there(&self, by: usize, woken: usize, at: u64, pass: Pass) -> bool {
        match pass {
            Pass::First => self.is_in(pass, at) || !(self.is_cut(by) || self.is_cut(woken)),
            Pass::Again => self.cycle.there[by] && self.cycle.there[woken] && self.is_in(pass, at),
        }
    }

    /// Whether the replay has a [handoff](super::handoffs) without an event, at that time.
    fn hands_back(&self, by: usize, woken: usize, at: u64, pass: Pass) -> bool {
        let mates = (self.pool_of[by].is_some() && self.pool_of[by] == self.pool_of[woken])
            || (self.locks.locks_always(by) && self.locks.locks_always(woken));
        !mates && follows(self.cycle, self.exits.behind(by, at), woken) && self.is_there(by, woken, at, pass)
    }

    /// A stretch's work, with its effects on others.
    fn work(&self, thread: usize, index: usize, pass: Pass, ops: &mut Vec<Op>) {
        let stretch = &self.life(thread).stretches[index];
        let pace = self.paces[thread].filter(|&time| clocks::by_the_clock(stretch, time, self.lateness));
        // The time that a task computes by the clock includes interruptions.
        let mut work = pace.unwrap_or(stretch.work);
        let run = |time: u64| match self.pools.of(thread) {
            _ if pace.is_some() => Op::Runtime { time },
            Some(pool) => Op::PoolRun { pool, work: time },
            None => Op::Run { work: time },
        };
        let place = |at: u64| match pace {
            Some(time) => {
                (u128::from(at.min(stretch.work)) * u128::from(time) / u128::from(stretch.work.max(1))) as u64
            }
            None => at.min(stretch.work),
        };
        let cut = self.is_cut(thread) && stretch.ended > self.cycle.until;
        if cut {
            work = place(Progress::new(self.life(thread)).work(stretch.woken, self.cycle.until));
        }
        let again = pass == Pass::Again && stretch.woken <= self.cycle.from;
        let mut edges = if again {
            let done = Progress::new(self.life(thread)).work(stretch.woken, self.cycle.from);
            self.locks.edges_after(thread, index, done)
        } else {
            self.locks.edges(thread, index)
        };
        let begin = ops.len();
        let (mut done, mut acts) = (0, Vec::new());
        for (number, &(at, act)) in stretch.acts.iter().enumerate() {
            acts.clear();
            let message = messages::is_of(act);
            if cut && !message && self.causes.time(act) > self.cycle.until {
                continue;
            }
            if pass == Pass::Again && !message && self.causes.time(act) <= self.cycle.from {
                // It was before what is repeated.
                done = place(at).max(done);
                continue;
            }
            while let Some((edge, op)) = edges.next(at) {
                let edge = place(edge).max(done);
                ops.extend((edge > done).then(|| run(edge - done)));
                ops.push(op);
                done = edge;
            }
            self.act(thread, act, (pass, edges.inside()), &mut acts);
            if acts.is_empty() {
                continue;
            }
            let at = if exits::is_notice(stretch, number) { work } else { place(at) };
            let at = if cut { at.min(work) } else { at }.max(done);
            if at > done {
                ops.push(run(at - done));
            }
            done = at;
            ops.append(&mut acts);
        }
        while let Some((edge, op)) = edges.next(u64::MAX) {
            // A lock is released in any case.
            if cut && place(edge) > work && matches!(op, Op::Lock(_) | Op::EnsureLock(_)) {
                break;
            }
            let edge = place(edge).max(done);
            ops.extend((edge > done).then(|| run(edge - done)));
            ops.push(op);
            done = edge;
        }
        if work > done {
            ops.push(run(work - done));
        }
        if self.message_before(thread, index).is_some() {
            batches::without_sleep(&mut ops[begin..]);
        }
    }

    /// A thread's effect on another, or its yield.
    fn act(&self, thread: usize, act: Act, (pass, holds_lock): (Pass, bool), ops: &mut Vec<Op>) {
        match act {
            Act::Wake { thread: woken, stretch } if self.exits.ends_sleep(self.causes.threads, woken, stretch) => {}
            Act::Wake { thread: woken, stretch }
                if self.causes.of(woken, stretch) == Cause::Thread(thread)
                    && let Some(Try { lock, timed: false }) = self.locks.try_before(woken, stretch) =>
            {
                ops.push(Op::Nudge(lock));
            }
            Act::Kills { .. } => ops.push(Op::ExitGroup),
            Act::IsKilled { .. } => ops.push(Op::AwaitKill),
            Act::Wake { thread: woken, stretch } => {
                let its = &self.life(woken).stretches[stretch];
                if !self.by_progress(thread, woken)
                    && self.message_before(woken, stretch).is_none()
                    && !self.roles.rooms.contains(&(woken, stretch))
                    && !self.pairs.are_flowing(thread, woken)
                    && self.locks.wait(woken, stretch).is_none()
                    && self.causes.of(woken, stretch) == Cause::Thread(thread)
                    && self.waits_for(thread, woken, its, pass)
                {
                    // A task that holds a lock waits for no other task.
                    self.pairs.wake(thread, woken, its.early || holds_lock, ops);
                }
            }
            Act::Fork(child) => {
                // A child that continues exists already.
                let again = self.cycle.there[child] && !self.cycle.goes_on[child];
                let forks = (pass == Pass::First || again) && !self.pools.starts_asleep(thread, child);
                ops.extend(self.numbers[child].filter(|_| forks).map(Op::Fork));
            }
            Act::Executes { at } => ops.extend(self.is_in(pass, at).then_some(Op::Exec)),
            Act::Awaits { thread: by, at } if self.hands_back(by, thread, at, pass) => {
                self.pairs.wait(by, thread, ops);
            }
            Act::HandsBack { thread: woken, at } if self.hands_back(thread, woken, at, pass) => {
                self.pairs.wake(thread, woken, holds_lock, ops);
            }
            Act::Awaits { .. } | Act::HandsBack { .. } => {}
            Act::Leads { lead, at } | Act::Follows { lead, moved: at, .. } => {
                // Both have to be in what is repeated.
                if self.is_in(pass, at) {
                    let leads = matches!(act, Act::Leads { .. });
                    ops.push(if leads { Op::LeadMoves { lead } } else { Op::LeadAwaits { lead } });
                }
            }
            Act::Sends { at, .. } | Act::Receives { at } if !self.is_in(pass, at) => {}
            Act::SendsMessage { message, .. } | Act::TakesMessage { message, .. }
                if !self.has_message(message, pass) => {}
            Act::SendsMessage { .. } | Act::TakesMessage { .. } | Act::PutsOff { .. } => self.talks(thread, act, ops),
            Act::Sends { to, .. } => self.pairs.send(thread, to, ops),
            Act::Receives { .. } => self.pairs.receive(thread, ops),
            Act::IsLate { .. } => ops.extend(self.beat(thread)),
            Act::Left { at, ran } => {
                if self.causes.yielded(at, ran) {
                    ops.push(Op::Yield);
                }
            }
        }
    }
}
