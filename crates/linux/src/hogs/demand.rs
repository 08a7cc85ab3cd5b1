//! The CPU demand of real-time tasks that sleep.
//!
//! A loop's rate is limited by its times, timers and awaited objects. Its demand is that rate times its real-time
//! work. Loops of at most [`LONG_NS`] do not count. In doubt, demand is too high: locks count as free, and each
//! waiter gets all of an object's posts.

use std::collections::BTreeMap;

use vruntime_workload::program::{Op, Phase, Policy, Repeat, Settings};

use super::tasks::{CALL_NS, LONG_NS, Tasks, is_real_time, takes, times};

/// Highest demand that leaves other tasks enough (real-time throttling's default limit), parts of [`WHOLE`].
pub(super) const MOST: u64 = 950_000;
pub(super) const WHOLE: u64 = 1_000_000;
/// How often a loop's waiters learn of it. More is more accurate, never too low.
const ROUNDS: usize = 32;

/// What tasks wait for and others give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Condition(usize),
    Semaphore(usize),
    Barrier(usize),
    Bytes(usize),
    Room(usize),
    Life(usize),
}

/// One round of a loop, nanoseconds.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Real-time computation.
    busy: u64,
    /// Ordinary computation.
    fair: u64,
    slept: u64,
    /// Progress of each timer.
    timers: BTreeMap<usize, u64>,
    wants: BTreeMap<Token, u64>,
    gives: BTreeMap<Token, u64>,
}

impl Round {
    /// Appends `times` rounds of another loop.
    fn then(&mut self, other: &Self, times: u64) {
        let add = |to: &mut u64, what: u64| *to = to.saturating_add(what.saturating_mul(times));
        add(&mut self.busy, other.busy);
        add(&mut self.fair, other.fair);
        add(&mut self.slept, other.slept);
        other.timers.iter().for_each(|(&timer, &period)| add(self.timers.entry(timer).or_default(), period));
        other.wants.iter().for_each(|(&token, &count)| add(self.wants.entry(token).or_default(), count));
        other.gives.iter().for_each(|(&token, &count)| add(self.gives.entry(token).or_default(), count));
    }

    fn least(&self) -> u64 {
        let own = self.busy.saturating_add(self.fair).saturating_add(self.slept);
        self.timers.values().copied().max().unwrap_or(0).max(own)
    }

    /// Whether `times` rounds compute longer than [`LONG_NS`], or last longer without waiting for another task.
    fn lasts(&self, times: u64) -> bool {
        self.least().saturating_mul(times) > LONG_NS
    }

    fn op(&mut self, op: &Op, real_time: bool) {
        let mut want = |token, count: u64| *self.wants.entry(token).or_default() += count;
        let mut give = |token, count: u64| *self.gives.entry(token).or_default() += count;
        match *op {
            Op::Sleep { time } | Op::Device { time } => self.slept = self.slept.saturating_add(time),
            Op::Timer { timer, period, .. } => {
                let so_far = self.timers.entry(timer).or_default();
                *so_far = so_far.saturating_add(period);
            }
            Op::Wait { condition, .. } | Op::Suspend { condition, .. } => want(Token::Condition(condition), 1),
            Op::Signal(condition) | Op::Broadcast(condition) | Op::Resume { condition, .. } => {
                give(Token::Condition(condition), 1);
            }
            Op::Sync { condition, .. } => {
                give(Token::Condition(condition), 1);
                want(Token::Condition(condition), 1);
            }
            Op::SemWait(semaphore) => want(Token::Semaphore(semaphore), 1),
            Op::SemPost(semaphore) => give(Token::Semaphore(semaphore), 1),
            Op::Barrier(barrier) => {
                give(Token::Barrier(barrier), 1);
                want(Token::Barrier(barrier), 1);
            }
            Op::PipeRead { pipe, bytes } => {
                want(Token::Bytes(pipe), u64::from(bytes));
                give(Token::Room(pipe), u64::from(bytes));
            }
            Op::PipeWrite { pipe, bytes } => {
                want(Token::Room(pipe), u64::from(bytes));
                give(Token::Bytes(pipe), u64::from(bytes));
            }
            Op::Fork(child) => give(Token::Life(child), 1),
            _ => {}
        }
        let work = takes(op).max(CALL_NS);
        let kind = if real_time { &mut self.busy } else { &mut self.fair };
        *kind = kind.saturating_add(work);
    }
}

struct Loop {
    task: usize,
    round: Round,
    /// Number of simultaneous instances.
    instances: f64,
    /// The most rounds a nanosecond.
    rate: f64,
    /// Least ordinary work per round, by the loop or those awaited, nanoseconds.
    fair: f64,
}

/// Returns each task's demand with all `instances`, parts of [`WHOLE`]. Ignores `hogs`, whose demand is unlimited.
pub(super) fn wants(tasks: &Tasks<'_>, instances: &[u64], hogs: &[usize]) -> Vec<u64> {
    let mut all = Everything::of(tasks, instances);
    for _ in 0..ROUNDS {
        all.pass_on(tasks);
    }
    let mut wants = vec![0_u64; instances.len()];
    for this in all.loops.iter().filter(|this| !hogs.contains(&this.task)) {
        let busy = this.round.busy as f64;
        // A task that waits for ordinary tasks leaves them that much of the CPU.
        let spared = this.fair * MOST as f64 >= (WHOLE - MOST) as f64 * busy;
        if busy <= 0.0 || spared {
            continue;
        }
        let share = busy * this.rate * WHOLE as f64;
        // An instance has one CPU at a time. Forked ones that end soon are not counted singly.
        let forked = this.round.wants.contains_key(&Token::Life(this.task));
        let most = tasks.bandwidth(this.task).unwrap_or(MOST).min(MOST) as f64;
        let share = if forked { share } else { share.min(most) * this.instances };
        wants[this.task] = wants[this.task].max(share.ceil() as u64);
    }
    wants
}

struct Everything {
    loops: Vec<Loop>,
    /// Initial tokens, and those of soon-ending tasks.
    once: BTreeMap<Token, u64>,
}

impl Everything {
    fn of(tasks: &Tasks<'_>, instances: &[u64]) -> Self {
        let workload = tasks.workload;
        let semaphores = workload.semaphores.iter().enumerate();
        let pipes = workload.pipes.iter().enumerate();
        let mut once: BTreeMap<Token, u64> =
            semaphores.map(|(index, this)| (Token::Semaphore(index), u64::from(this.initial))).collect();
        once.extend(pipes.map(|(index, this)| (Token::Room(index), u64::from(this.capacity))));
        let mut loops = Vec::new();
        for task in 0..workload.tasks.len() {
            let (found, whole) = rounds(tasks, task);
            let many = instances[task] as f64;
            let start = |round: Round, instances: f64| Loop {
                task,
                instances,
                rate: 1.0 / round.least().max(CALL_NS) as f64,
                fair: round.fair as f64,
                round,
            };
            if let Some(mut whole) = whole {
                if workload.tasks[task].start.is_some() {
                    for (&token, &count) in &whole.gives {
                        let there = once.entry(token).or_default();
                        *there = there.saturating_add(count);
                    }
                }
                // Each instance of a forked task is one round.
                whole.wants.insert(Token::Life(task), 1);
                let mut this = start(whole, 1.0);
                this.rate = f64::INFINITY;
                loops.push(this);
            }
            loops.extend(found.into_iter().map(|round| start(round, many)));
        }
        Self { loops, once }
    }

    /// Limits each loop to its awaited posts' rate.
    fn pass_on(&mut self, tasks: &Tasks<'_>) {
        let mut by_giver: BTreeMap<(Token, usize), Given> = BTreeMap::new();
        for this in &self.loops {
            for (&token, &count) in this.round.gives.iter().filter(|&(_, &count)| count > 0) {
                let count = count as f64;
                let (rate, fair) = (count * this.rate, this.fair / count);
                let given =
                    Given { rate: rate * this.instances, slowest: rate, givers: this.instances, fair, most_fair: fair };
                // A task is in one of its loops at a time.
                by_giver.entry((token, this.task)).and_modify(|it| *it = it.or(given)).or_insert(given);
            }
        }
        let mut given: BTreeMap<Token, Given> = BTreeMap::new();
        for ((token, _), one) in by_giver {
            given.entry(token).and_modify(|it| *it = it.and(one)).or_insert(one);
        }
        for this in &mut self.loops {
            for (&token, &count) in this.round.wants.iter().filter(|&(_, &count)| count > 0) {
                let there = self.once.get(&token).copied().unwrap_or(0);
                // All these at once are long work.
                if (there / count).saturating_mul(this.round.busy) > LONG_NS {
                    continue;
                }
                let given = given.get(&token).copied().unwrap_or_default();
                let (rate, fair) = match token {
                    // All must arrive: without surplus, the slowest counts.
                    Token::Barrier(barrier) => {
                        let parties = f64::from(tasks.workload.barriers[barrier].parties.max(1));
                        let all = given.givers <= parties;
                        let each = given.rate / parties;
                        if all { (given.slowest.min(each), given.most_fair) } else { (each, given.fair) }
                    }
                    _ => (given.rate, given.fair),
                };
                this.rate = this.rate.min(rate / count as f64);
                this.fair = this.fair.max(fair * count as f64);
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Given {
    /// The rate of all posts, for each nanosecond.
    rate: f64,
    slowest: f64,
    givers: f64,
    /// Ordinary work per post, nanoseconds: least and most.
    fair: f64,
    most_fair: f64,
}

impl Given {
    /// Alternatives: the higher.
    fn or(self, other: Self) -> Self {
        Self {
            rate: self.rate.max(other.rate),
            slowest: self.slowest.max(other.slowest),
            givers: self.givers.max(other.givers),
            fair: self.fair.min(other.fair),
            most_fair: self.most_fair.min(other.most_fair),
        }
    }

    /// Both together.
    fn and(self, other: Self) -> Self {
        Self {
            rate: self.rate + other.rate,
            slowest: self.slowest.min(other.slowest),
            givers: self.givers + other.givers,
            fair: self.fair.min(other.fair),
            most_fair: self.most_fair.max(other.most_fair),
        }
    }
}

/// Returns a task's possibly lasting loops, and its whole program if that ends.
fn rounds(tasks: &Tasks<'_>, index: usize) -> (Vec<Round>, Option<Round>) {
    let task = &tasks.workload.tasks[index];
    let mut state = State { policy: tasks.begins(index), held: 0 };
    let (mut found, mut last) = (Vec::new(), Round::default());
    let mut ends = true;
    // The state after a round affects the next one.
    for _ in 0..times(task.repeat).min(2) {
        last = Round::default();
        for phase in task.phases.iter() {
            let mut round = Round::default();
            for _ in 0..times(phase.repeat).min(2) {
                round = state.phase(tasks, index, phase);
            }
            let times = times(phase.repeat);
            ends &= phase.repeat != Repeat::Forever;
            if times > 1 && round.lasts(times) {
                found.push(round.clone());
            }
            last.then(&round, times);
        }
    }
    if ends && times(task.repeat) > 1 && last.lasts(times(task.repeat)) {
        found.push(last.clone());
    }
    let whole = (ends && task.repeat != Repeat::Forever).then(|| {
        let mut whole = Round::default();
        whole.then(&last, times(task.repeat));
        whole
    });
    (found, whole)
}

/// A task's state in a walk through its program.
struct State {
    policy: bool,
    /// Held mutexes that may lend a real-time priority.
    held: u32,
}

impl State {
    fn phase(&mut self, tasks: &Tasks<'_>, index: usize, phase: &Phase) -> Round {
        if let Some(policy) = phase.settings.policy {
            self.policy = is_real_time(policy) || reserved(policy).is_some();
        }
        let mut round = Round::default();
        for op in &phase.ops {
            match *op {
                Op::Lock(mutex) if tasks.lends(mutex) => self.held += 1,
                Op::Unlock(mutex) if tasks.lends(mutex) => self.held = self.held.saturating_sub(1),
                _ => {}
            }
            round.op(op, self.policy || self.held > 0 || tasks.urged(index));
        }
        round
    }
}

/// Returns a policy's reserved bandwidth, parts of [`WHOLE`].
pub(super) fn reserved(policy: Policy) -> Option<u64> {
    match policy {
        Policy::Deadline { runtime, period, .. } => {
            let part = u128::from(runtime) * u128::from(WHOLE) / u128::from(period.max(1));
            Some(u64::try_from(part).unwrap_or(WHOLE).min(WHOLE))
        }
        _ => None,
    }
}

pub(super) fn reserved_by(settings: &Settings) -> Option<u64> {
    settings.policy.and_then(reserved)
}
