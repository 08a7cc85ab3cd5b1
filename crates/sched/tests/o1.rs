//! The O(1) scheduler's promises. The best active priority runs, and arrays are swapped exactly when the active one is
//! empty. Slices follow from nice. Interactive tasks stay active until the expired array starves.

use std::collections::BTreeMap;

use proptest::prelude::*;
use vruntime_sched::class::o1::{O1, O1Standing, standings};
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::invariants::check;
use vruntime_sched::tunables::Tunables;
use vruntime_sched::{Host, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker, kernel};

const CPU: CpuId = CpuId(0);

#[derive(Default)]
struct Wish(bool);

impl Host for Wish {
    fn resched(&mut self, _cpu: CpuId) {
        self.0 = true;
    }
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    fn arm(&mut self, _timer: Timer, _at: Option<u64>) {}
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}
}

/// The documented rules, for a number of ticks a second.
#[derive(Clone, Copy)]
struct Rules {
    hz: u64,
    /// 2.6.22 rounds the quarter of a negative nice value down, 2.6.15 towards 0.
    since_2_6_17: bool,
}

impl Rules {
    fn ticks(self, ms: u64) -> u64 {
        (ms * self.hz / 1000).max(1)
    }

    /// A slice in ticks: 20 ms per level below 140 at negative nice values, 5 ms at others, at least 5 ms. (400 or 100
    /// ms is rounded, then divided.)
    fn slice(self, static_prio: u8) -> u64 {
        let whole = self.ticks(100) * if static_prio < 120 { 4 } else { 1 };
        (whole * u64::from(140 - static_prio) / 20).max(self.ticks(5))
    }

    /// A task is interactive from a quarter of its nice value, plus 2, levels above it.
    fn is_interactive(self, task: &O1Standing) -> bool {
        let nice = i32::from(task.static_prio) - 120;
        let quarter = if self.since_2_6_17 { nice.div_euclid(4) } else { nice / 4 };
        i32::from(task.static_prio) - i32::from(task.prio) >= quarter + 2
    }

    /// The longest wait in the expired array before it starves, ticks: a second for each runnable task.
    fn starvation_limit(self, nr_running: u64) -> u64 {
        self.ticks(100) * 10 * nr_running
    }
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    swaps: u32,
    /// Slices after which the task expired, or stayed active.
    expired: u32,
    reinserted: u32,
    /// Interactive tasks that starvation sent to the expired array.
    held_back: u32,
}

/// A CPU, and the expected state of its expired array.
struct Machine {
    rqs: Vec<Rq<O1>>,
    shared: Shared<O1>,
    wish: Wish,
    now: u64,
    tasks: Vec<TaskId>,
    /// Remaining slices of sleeping tasks, ticks.
    slept_with: BTreeMap<TaskId, u32>,
    rules: Rules,
    /// The tick of the first ended slice since the swap.
    first_expiry: Option<u64>,
    /// The best static priority of tasks that expired since.
    best_expired: u8,
    seen: Seen,
}

impl Machine {
    fn new(name: &str, hz: u32) -> Self {
        let topology = Topology::flat(1);
        let shared = Shared::new(topology.clone(), Config::new(&kernel(name).unwrap(), &topology, hz));
        Self {
            rqs: Rq::all(&shared),
            shared,
            wish: Wish::default(),
            now: 1_000_000_000,
            tasks: vec![],
            slept_with: BTreeMap::new(),
            rules: Rules { hz: u64::from(hz), since_2_6_17: name == "2.6.22" },
            first_expiry: None,
            best_expired: 140,
            seen: Seen::default(),
        }
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, O1, Vec<Rq<O1>>, Wish>) -> T) -> T {
        let (rqs, shared, host, now) = (&mut self.rqs, &self.shared, &mut self.wish, self.now);
        call(&mut Scheduler { rqs, shared, host, now })
    }

    fn tick_ns(&self) -> u64 {
        self.shared.config.tunables.tick_ns()
    }

    fn standings(&self) -> Vec<O1Standing> {
        check(&self.rqs[0], &self.shared).unwrap();
        standings(&self.rqs[0])
    }

    fn running(&self) -> Option<TaskId> {
        self.rqs[0].running().task()
    }

    fn standing(&self, task: TaskId) -> Option<O1Standing> {
        self.standings().into_iter().find(|standing| standing.task == task)
    }

    /// The first task of the best active level must run. A swap happens exactly if the active array was empty.
    fn schedule(&mut self, state: PrevState) {
        let mut before = self.standings();
        let prev = self.running();
        let next = self.with(|s| s.schedule(CPU, state)).next;
        if state == PrevState::Sleeping {
            for asleep in before.extract_if(.., |standing| Some(standing.task) == prev) {
                self.slept_with.insert(asleep.task, asleep.time_slice);
            }
        }
        let Some(first) = before.first() else {
            assert_eq!(next, Running::Idle);
            self.first_expiry = None;
            return;
        };
        let swaps = before.iter().all(|standing| standing.expired);
        assert_eq!(next.task(), Some(first.task), "of {before:?}");
        let best = before.iter().filter(|standing| standing.expired == swaps).map(|standing| standing.prio).min();
        assert_eq!(Some(first.prio), best, "strict priority: {before:?}");
        for old in &before {
            let new = self.standing(old.task).unwrap();
            assert_eq!(new.expired, old.expired && !swaps, "{old:?} became {new:?}, arrays changed places: {swaps}");
            assert_eq!(new.time_slice, old.time_slice);
        }
        if swaps {
            (self.first_expiry, self.best_expired) = (None, 140);
            self.seen.swaps += 1;
        }
    }

    fn obey(&mut self) {
        while std::mem::take(&mut self.wish.0) {
            self.schedule(PrevState::Preempted);
        }
    }

    /// After a slice, a task has a new one, in the array that interactivity and starvation require.
    fn check_expiry(&mut self, old: &O1Standing, nr_running: u64) {
        let new = self.standing(old.task).unwrap();
        assert_eq!(u64::from(new.time_slice), self.rules.slice(old.static_prio), "{new:?}");
        let tick = self.now / self.tick_ns();
        let waited = tick - *self.first_expiry.get_or_insert(tick);
        let starves = old.static_prio > self.best_expired || waited > self.rules.starvation_limit(nr_running);
        let interactive = self.rules.is_interactive(&new);
        assert_eq!(new.expired, !interactive || starves, "{new:?}: interactive {interactive}, others starve {starves}");
        if new.expired {
            self.best_expired = self.best_expired.min(old.static_prio);
        }
        let count = match (new.expired, interactive) {
            (false, _) => &mut self.seen.reinserted,
            (true, true) => &mut self.seen.held_back,
            (true, false) => &mut self.seen.expired,
        };
        *count += 1;
        assert!(self.wish.0, "another task may run");
    }

    fn tick(&mut self) {
        let before = self.standings();
        let running = self.running();
        let _balance = self.with(|s| s.tick(CPU));
        let nr_running = before.len() as u64;
        for old in before {
            // A task that yielded and continues is not charged.
            let charged = Some(old.task) == running && !old.expired;
            if charged && old.time_slice == 1 {
                self.check_expiry(&old, nr_running);
                continue;
            }
            let new = self.standing(old.task).unwrap();
            assert_eq!((new.time_slice, new.expired), (old.time_slice - u32::from(charged), old.expired));
        }
        self.obey();
    }

    fn pass(&mut self, mut ns: u64) {
        let tick = self.tick_ns();
        while ns > 0 {
            let step = ns.min(tick - self.now % tick);
            self.now += step;
            ns -= step;
            if self.now.is_multiple_of(tick) {
                self.tick();
            }
        }
    }

    /// A new task takes half of its parent's remaining slice, rounded up, and changes no other.
    fn fork(&mut self, nice: i8) {
        let parent = self.running().and_then(|parent| self.standing(parent));
        let before = self.standings();
        let nr_running = before.len() as u64;
        let child = self.with(|s| s.new_task(&TaskAttrs { nice, ..TaskAttrs::default() }, CPU));
        self.tasks.push(child);
        self.with(|s| s.wake_new(child, CPU));
        for other in before.iter().filter(|other| Some(other.task) != parent.map(|parent| parent.task)) {
            assert_eq!(self.standing(other.task), Some(*other), "another task's fork");
        }
        let slice = |standing: Option<O1Standing>| u64::from(standing.unwrap().time_slice);
        match parent {
            None => assert_eq!(slice(self.standing(child)), self.rules.slice((120 + i16::from(nice)) as u8)),
            Some(old) => {
                let whole = u64::from(old.time_slice);
                assert_eq!(slice(self.standing(child)), whole.div_ceil(2));
                if whole == 1 && !old.expired {
                    self.check_expiry(&old, nr_running);
                } else if whole > 1 {
                    assert_eq!(slice(self.standing(old.task)), whole / 2);
                }
            }
        }
        self.obey();
    }

    /// A woken task is in the active array, with its old slice.
    fn wake(&mut self, task: TaskId) {
        if self.with(|s| s.wake(task, CPU, Waker::Irq)) {
            let woken = self.standing(task).unwrap();
            assert!(!woken.expired, "{woken:?}");
            assert_eq!(Some(woken.time_slice), self.slept_with.remove(&task), "{woken:?}");
            assert!(woken.prio.abs_diff(woken.static_prio) <= 5 && (100..140).contains(&woken.prio), "{woken:?}");
        }
        self.obey();
    }
}

#[derive(Clone, Debug)]
enum Call {
    Fork(i8),
    Wake(prop::sample::Index),
    Block,
    Yield,
    Nice(prop::sample::Index, i8),
    Pass(u64),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => (-20i8..20).prop_map(Call::Fork),
        6 => any::<prop::sample::Index>().prop_map(Call::Wake),
        4 => Just(Call::Block),
        1 => Just(Call::Yield),
        1 => (any::<prop::sample::Index>(), -20i8..20).prop_map(|(task, nice)| Call::Nice(task, nice)),
        8 => (1u64..9_000_000).prop_map(Call::Pass),
        4 => (9_000_000u64..900_000_000).prop_map(Call::Pass),
    ]
}

fn kernels() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["2.6.15", "2.6.22"])
}

fn hz() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![100, 250, 1000])
}

/// Ticks of work, then of sleep; a hog has 0 of sleep.
#[derive(Clone, Copy, Debug)]
struct Habit {
    nice: i8,
    work: u32,
    sleep: u32,
}

/// Runs tasks for `ticks`. Returns the longest wait of each while runnable, in ticks.
fn live(machine: &mut Machine, habits: &[Habit], ticks: u32) -> Vec<u64> {
    for habit in habits {
        machine.fork(habit.nice);
    }
    let index: BTreeMap<TaskId, usize> = machine.tasks.iter().copied().zip(0..).collect();
    let (mut worked, mut wakes) = (vec![0; habits.len()], BTreeMap::new());
    let (mut waited, mut longest) = (vec![0_u64; habits.len()], vec![0_u64; habits.len()]);
    for tick in 0..ticks {
        let running = machine.running().map(|task| index[&task]);
        for standing in machine.standings() {
            let task = index[&standing.task];
            waited[task] = if Some(task) == running { 0 } else { waited[task] + 1 };
            longest[task] = longest[task].max(waited[task]);
        }
        machine.pass(machine.tick_ns());
        if let Some(task) = running {
            worked[task] += 1;
            let Habit { work, sleep, .. } = habits[task];
            // If it was just preempted, it sleeps when it runs again.
            if sleep > 0 && worked[task] >= work && machine.running() == Some(machine.tasks[task]) {
                worked[task] = 0;
                wakes.insert(task, tick + sleep);
                machine.schedule(PrevState::Sleeping);
            }
        }
        let due: Vec<usize> = wakes.iter().filter(|&(_, &at)| at <= tick).map(|(&task, _)| task).collect();
        for task in due {
            wakes.remove(&task);
            waited[task] = 0;
            machine.wake(machine.tasks[task]);
        }
    }
    longest
}

/// The longest wait, in four parts of one more tick each. In the expired array: the first expired task's limit, then
/// all others' slices. In the active array: until the first slice ends, at most all, and then the former again.
fn bound(rules: Rules, habits: &[Habit]) -> u64 {
    let slices: u64 = habits.iter().map(|habit| rules.slice((120 + i16::from(habit.nice)) as u8)).sum();
    2 * (rules.starvation_limit(habits.len() as u64) + slices) + slices + 4
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_best_of_the_active_array_runs_and_slices_decide_which_tasks_are_in_it(
        name in kernels(),
        hz in hz(),
        calls in prop::collection::vec(call(), 1..120),
    ) {
        let mut machine = Machine::new(name, hz);
        for call in calls {
            let some = |index: prop::sample::Index, machine: &Machine| machine.tasks[index.index(machine.tasks.len())];
            match call {
                Call::Fork(nice) if machine.tasks.len() < 12 => machine.fork(nice),
                Call::Wake(index) if !machine.tasks.is_empty() => machine.wake(some(index, &machine)),
                Call::Block if machine.running().is_some() => machine.schedule(PrevState::Sleeping),
                Call::Yield if machine.running().is_some() => {
                    machine.with(|s| s.yield_task(CPU));
                    machine.schedule(PrevState::Yielded);
                }
                Call::Nice(index, nice) if !machine.tasks.is_empty() => {
                    let task = some(index, &machine);
                    let old = machine.standing(task);
                    machine.with(|s| s.set_nice(task, nice));
                    let kept = |standing: Option<O1Standing>| standing.map(|at| (at.expired, at.time_slice));
                    prop_assert_eq!(kept(machine.standing(task)), kept(old), "it stays in its array, with its slice");
                    machine.obey();
                }
                Call::Pass(ns) => machine.pass(ns),
                _ => {}
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_task_waits_longer_than_the_starvation_limit_allows(
        name in kernels(),
        habits in prop::collection::vec((-20i8..20, 1u32..20, prop_oneof![Just(0u32), 1u32..40]), 2..8),
    ) {
        let habits: Vec<Habit> = habits.into_iter().map(|(nice, work, sleep)| Habit { nice, work, sleep }).collect();
        let mut machine = Machine::new(name, 100);
        let longest = live(&mut machine, &habits, 6_000);
        let most = bound(machine.rules, &habits);
        prop_assert!(longest.iter().all(|&waited| waited <= most), "{:?} of {} ticks: {:?}", longest, most, habits);
    }
}

#[test]
fn interactive_tasks_starve_a_hog_up_to_the_limit_and_no_longer() {
    for name in ["2.6.15", "2.6.22"] {
        let mut machine = Machine::new(name, 100);
        let mut habits = vec![Habit { nice: 0, work: 2, sleep: 18 }; 14];
        habits.push(Habit { nice: 0, work: 1, sleep: 0 });
        let longest = live(&mut machine, &habits, 12_000);
        let most = bound(machine.rules, &habits);
        // Nearly all of them can run all the time, and each raises the limit.
        let (hog, limit) = (longest[14], machine.rules.starvation_limit(habits.len() as u64));
        assert!((limit..=most).contains(&hog), "{name}: {hog} ticks, the limit is {limit}, {most} at most");
        assert!(machine.seen.reinserted > 100 && machine.seen.held_back > 0, "{name}: {:?}", machine.seen);
    }
}

/// 800 ms at nice -20, 420 at -1, 100 at 0 and 5 at 19: the table of `kernel/sched.c`, as a hog uses it.
#[test]
fn a_hog_runs_for_the_slice_of_its_nice_value() {
    for (nice, ms) in [(-20, 800), (-10, 600), (-1, 420), (0, 100), (10, 50), (19, 5)] {
        for name in ["2.6.15", "2.6.22"] {
            let mut machine = Machine::new(name, 1000);
            machine.fork(nice);
            let used = (1..=1000).find(|_| {
                machine.pass(1_000_000);
                machine.seen.expired > 0
            });
            assert_eq!(used, Some(ms), "nice {nice} under {name}");
        }
    }
}
