//! EEVDF's invariants (ARCHITECTURE.md, always true, 3). A queue's lags add up to 0, a picked entity's lag is at least
//! 0, and a few slices bound all.

use std::collections::BTreeMap;

use proptest::prelude::*;
use vruntime_sched::class::fair::Eevdf;
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::invariants::{Standing, check, standings};
use vruntime_sched::tunables::Tunables;
use vruntime_sched::{GroupWeight, Host, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker, kernel};

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

struct Machine {
    rqs: Vec<Rq<Eevdf>>,
    shared: Shared<Eevdf>,
    wish: Wish,
    now: u64,
    tasks: Vec<TaskId>,
    groups: Vec<GroupId>,
}

impl Machine {
    fn new(name: &str) -> Self {
        let topology = Topology::flat(1);
        let config = Config::new(&kernel(name).unwrap(), &topology, 250);
        let shared = Shared::new(topology, config);
        let rqs = Rq::all(&shared);
        let mut machine =
            Self { rqs, shared, wish: Wish::default(), now: 1_000_000, tasks: vec![], groups: vec![GroupId::ROOT] };
        for (parent, weight) in [(0, 100), (1, 700)] {
            let group = machine.with(|s, groups| s.new_group(groups[parent], GroupWeight::Weight(weight)));
            machine.groups.push(group);
        }
        machine
    }

    fn with<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, Eevdf, Vec<Rq<Eevdf>>, Wish>, &[GroupId]) -> T) -> T {
        let (rqs, shared, host, now) = (&mut self.rqs, &self.shared, &mut self.wish, self.now);
        call(&mut Scheduler { rqs, shared, host, now }, &self.groups)
    }

    fn fork(&mut self, nice: i8, slice: Option<u64>, group: usize) {
        let task = self.with(|s, groups| {
            let attrs = TaskAttrs { nice, slice, group: groups[group], ..TaskAttrs::default() };
            let task = s.new_task(&attrs, CPU);
            s.wake_new(task, CPU);
            task
        });
        self.tasks.push(task);
        self.obey();
    }

    /// Schedules, and checks that the next task is eligible at every level.
    fn schedule(&mut self, state: PrevState) {
        let next = self.with(|s, _| s.schedule(CPU, state));
        if next.next == Running::Idle {
            return;
        }
        let standings = standings(&self.rqs[0]);
        let running: Vec<&Standing> = standings.iter().filter(|standing| standing.running).collect();
        assert_eq!(running[0].task, next.next.task(), "the running task is one of the running entities");
        for standing in running {
            assert!(standing.eligible, "picked, though it is owed nothing: {standing:?} of {standings:?}");
        }
    }

    fn obey(&mut self) {
        while std::mem::take(&mut self.wish.0) {
            self.schedule(PrevState::Preempted);
        }
    }

    fn pass(&mut self, mut ns: u64) {
        let tick = self.shared.config.tunables.tick_ns();
        while ns > 0 {
            let step = ns.min(tick - self.now % tick);
            self.now += step;
            ns -= step;
            if self.now.is_multiple_of(tick) {
                let _balance = self.with(|s, _| s.tick(CPU));
                self.obey();
            }
        }
        self.with(|s, _| s.update_curr(CPU));
        self.obey();
    }

    fn check_sums(&self) {
        check(&self.rqs[0], &self.shared).unwrap();
        let mut sums: BTreeMap<GroupId, (i128, i128)> = BTreeMap::new();
        for standing in standings(&self.rqs[0]) {
            let (owed, weight) = sums.entry(standing.queue).or_default();
            *owed += i128::from(standing.lag) * i128::from(standing.weight);
            *weight += i128::from(standing.weight);
        }
        for (queue, (owed, weight)) in sums {
            // The average is rounded down by less than 1 ns.
            assert!(-weight < owed && owed <= 0, "queue {queue}: its entities are owed {owed}, weigh {weight}");
        }
    }

    /// A debt is at most the own slice and a tick, as requests end at ticks. A positive lag is at most `most(longest
    /// slice, tick)`.
    fn check_bound(&self, most: impl Fn(u64, u64) -> u64) {
        let all = standings(&self.rqs[0]);
        let tick = self.shared.config.tunables.tick_ns();
        let longest = all.iter().map(|standing| standing.slice_ns).max().unwrap_or(0);
        let most = most(longest, tick);
        for standing in &all {
            let weight = i128::from(standing.weight);
            // Lags are whole nanoseconds of virtual time.
            let rounding = weight / 1024 + 1;
            let owed = i128::from(standing.lag) * weight / 1024;
            assert!(
                -owed <= i128::from(standing.slice_ns + tick) + rounding,
                "it owes {owed}: {standing:?} of {all:?}"
            );
            assert!(owed <= i128::from(most) + rounding, "it is owed {owed}, {most} at most: {standing:?} of {all:?}");
        }
    }
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["6.6", "6.12", "6.18", "7.1"])
}

fn slice() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.4, 100_000u64..20_000_000)
}

#[derive(Clone, Debug)]
enum Call {
    Fork { nice: i8, slice: Option<u64>, group: usize },
    Wake(prop::sample::Index),
    Block,
    Yield,
    Nice(prop::sample::Index, i8),
    Pass(u64),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => (-20i8..20, slice(), 0usize..3).prop_map(|(nice, slice, group)| Call::Fork { nice, slice, group }),
        6 => any::<prop::sample::Index>().prop_map(Call::Wake),
        5 => Just(Call::Block),
        1 => Just(Call::Yield),
        1 => (any::<prop::sample::Index>(), -20i8..20).prop_map(|(task, nice)| Call::Nice(task, nice)),
        12 => (1u64..9_000_000).prop_map(Call::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn lags_add_up_to_nothing_and_the_picked_is_eligible(
        name in names(),
        calls in prop::collection::vec(call(), 1..200),
    ) {
        let mut machine = Machine::new(name);
        for call in calls {
            let runs = machine.with(|s, _| s.running(CPU)).task().is_some();
            match call {
                Call::Fork { nice, slice, group } if machine.tasks.len() < 20 => machine.fork(nice, slice, group),
                Call::Wake(index) if !machine.tasks.is_empty() => {
                    let task = machine.tasks[index.index(machine.tasks.len())];
                    machine.with(|s, _| s.wake(task, CPU, Waker::Task));
                }
                Call::Block if runs => machine.schedule(PrevState::Sleeping),
                Call::Yield if runs => {
                    machine.with(|s, _| s.yield_task(CPU));
                    machine.schedule(PrevState::Yielded);
                }
                Call::Nice(index, nice) if !machine.tasks.is_empty() => {
                    let task = machine.tasks[index.index(machine.tasks.len())];
                    machine.with(|s, _| s.set_nice(task, nice));
                }
                Call::Pass(ns) => machine.pass(ns),
                _ => {}
            }
            machine.obey();
            machine.check_sums();
        }
    }

    /// As requests end at ticks, each other entity may run a tick too long: positive lags grow with their number.
    #[test]
    fn with_ticks_no_task_owes_more_than_a_slice_and_a_tick(
        name in names(),
        tasks in prop::collection::vec((-20i8..20, slice()), 1..8),
        passes in prop::collection::vec(1u64..9_000_000, 1..200),
    ) {
        let mut machine = Machine::new(name);
        let others = tasks.len() as u64 - 1;
        for (nice, slice) in tasks {
            machine.fork(nice, slice, 0);
        }
        for ns in passes {
            machine.pass(ns);
            machine.check_sums();
            machine.check_bound(|longest, tick| longest + others * tick);
        }
    }

    /// With requests that end within 50 us, a positive lag is at most the longest slice, and 50 us for each other
    /// entity.
    #[test]
    fn without_ticks_no_task_is_owed_more_than_the_longest_slice(
        name in names(),
        tasks in prop::collection::vec((-20i8..20, slice()), 1..8),
        steps in 100usize..3000,
    ) {
        let mut machine = Machine::new(name);
        let others = tasks.len() as u64 - 1;
        for (nice, slice) in tasks {
            machine.fork(nice, slice, 0);
        }
        for _ in 0..steps {
            machine.pass(50_000);
            machine.check_bound(|longest, _| longest + others * 50_000);
        }
    }
}
