//! Compiled-in and in-memory tunables give the same events.

mod generator;
#[path = "../../../tests/seed.rs"]
mod seed;

use generator::Generator;
use seed::any_seed;
use vruntime_sched::class::cfs_2007::Cfs2007;
use vruntime_sched::class::fair::{CfsOrder, EevdfOrder, Fair};
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::tunables::{Defaults, Knobs, Tunables};
use vruntime_sched::{
    GroupWeight, Host, Policy, Rq, SchedPolicy, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker, kernel,
};

fn knobs() -> Knobs {
    Knobs {
        base_slice_ns: Defaults.base_slice_ns(),
        latency_ns: Defaults.latency_ns(),
        wakeup_granularity_ns: Defaults.wakeup_granularity_ns(),
        idle_min_granularity_ns: Defaults.idle_min_granularity_ns(),
        migration_cost_ns: Defaults.migration_cost_ns(),
        nr_migrate: Defaults.nr_migrate(),
        tick_ns: Defaults.tick_ns(),
        rr_timeslice_ns: Defaults.rr_timeslice_ns(),
        rt_period_ns: Defaults.rt_period_ns(),
        deadline: vruntime_sched::class::deadline::DlTunables::default(),
        rt_runtime_ns: Defaults.rt_runtime_ns(),
        cfs_bandwidth_slice_ns: Defaults.cfs_bandwidth_slice_ns(),
        cfs_2007: Defaults.cfs_2007(),
        uclamp: Defaults.uclamp(),
        cpu_rc: Defaults.cpu_rc(),
        energy_aware: Defaults.energy_aware(),
    }
}

/// Keeps every event, and pending requests.
#[derive(Default)]
struct Recorder {
    events: Vec<(u64, CpuId, Event)>,
    resched: Vec<CpuId>,
    kicks: Vec<CpuId>,
}

impl Host for Recorder {
    fn resched(&mut self, cpu: CpuId) {
        self.resched.push(cpu);
    }
    fn kick_nohz(&mut self, cpu: CpuId) {
        self.kicks.push(cpu);
    }
    fn arm(&mut self, _timer: Timer, _at: Option<u64>) {}
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.events.push((at, cpu, *event));
    }
}

/// Four CPUs, with random calls from `seed`.
fn events_of<P: Policy>(name: &str, tunables: P::Tunables, seed: u64) -> Vec<(u64, CpuId, Event)> {
    let topology = Topology::flat(4);
    let config = Config::new(&kernel(name).unwrap(), &topology, 250).with_tunables(tunables);
    let shared = Shared::<P>::new(topology, config);
    let mut rqs = Rq::all(&shared);
    let mut host = Recorder::default();
    let mut random = Generator::new(any_seed().wrapping_add(seed));
    let mut tasks: Vec<TaskId> = Vec::new();
    let mut now = 1_000_000;
    let mut groups = vec![GroupId::ROOT];
    for step in 0..6000 {
        now += random.below(500_000);
        let mut scheduler = Scheduler { rqs: &mut rqs, shared: &shared, host: &mut host, now };
        let cpu = CpuId(random.below(4) as u32);
        if step < 2 {
            groups.push(scheduler.new_group(groups[step], GroupWeight::Weight(100 + 200 * step as u32)));
        }
        match random.below(12) {
            0 if tasks.len() < 24 => {
                let attrs = TaskAttrs {
                    policy: if random.below(6) == 0 { SchedPolicy::Idle } else { SchedPolicy::Normal },
                    nice: random.below(20) as i8 - 10,
                    group: groups[random.below(groups.len() as u64) as usize],
                    ..TaskAttrs::default()
                };
                let task = scheduler.new_task(&attrs, cpu);
                scheduler.wake_new(task, cpu);
                tasks.push(task);
            }
            1..5 if !tasks.is_empty() => {
                let task = tasks[random.below(tasks.len() as u64) as usize];
                scheduler.wake(task, cpu, Waker::Task);
            }
            5..8 if scheduler.running(cpu).task().is_some() => give_way(&mut scheduler, cpu, PrevState::Sleeping),
            8 if scheduler.running(cpu).task().is_some() => {
                scheduler.yield_task(cpu);
                give_way(&mut scheduler, cpu, PrevState::Yielded);
            }
            _ => {
                if scheduler.tick(cpu) {
                    scheduler.balance(cpu);
                }
            }
        }
        // Requests are served before the next call.
        loop {
            let (resched, kick) = (scheduler.host.resched.pop(), scheduler.host.kicks.pop());
            match (resched, kick) {
                (None, None) => break,
                (resched, kick) => {
                    if let Some(cpu) = resched {
                        give_way(&mut scheduler, cpu, PrevState::Preempted);
                    }
                    if let Some(cpu) = kick {
                        while scheduler.nohz_balance(cpu) {}
                    }
                }
            }
        }
    }
    host.events
}

fn give_way<P: Policy>(scheduler: &mut Scheduler<'_, P, Vec<Rq<P>>, Recorder>, cpu: CpuId, mut state: PrevState) {
    loop {
        match scheduler.schedule(cpu, state).next {
            Running::Stopper => scheduler.stopper_work(cpu),
            Running::Idle => return scheduler.tick_stopped(cpu),
            Running::Task(_) => return,
        }
        state = PrevState::Sleeping;
    }
}

#[test]
fn constants_and_knobs_schedule_alike() {
    for (name, seed) in [("6.12", 1), ("6.18", 2), ("6.6", 3)] {
        let constants = events_of::<Fair<EevdfOrder, Defaults>>(name, Defaults, seed);
        let values = events_of::<Fair<EevdfOrder, Knobs>>(name, knobs(), seed);
        assert!(constants.len() > 3000, "{name}: only {} events", constants.len());
        assert_eq!(constants, values, "{name}");
    }
    let constants = events_of::<Fair<CfsOrder, Defaults>>("6.1", Defaults, 4);
    assert!(constants.len() > 3000, "6.1: only {} events", constants.len());
    assert_eq!(constants, events_of::<Fair<CfsOrder, Knobs>>("6.1", knobs(), 4));
}

#[test]
fn the_first_cfs_needs_no_knobs() {
    let constants = events_of::<Cfs2007<Defaults>>("2.6.23", Defaults, 5);
    assert!(constants.len() > 3000, "only {} events", constants.len());
    assert_eq!(constants, events_of::<Cfs2007<Knobs>>("2.6.23", knobs(), 5));
    let mut coarse = knobs();
    coarse.cfs_2007.wakeup_granularity_ns = 12_000_000;
    assert_ne!(constants, events_of::<Cfs2007<Knobs>>("2.6.23", coarse, 5));
}

#[test]
fn other_knobs_schedule_otherwise() {
    let short = Knobs { base_slice_ns: 700_000, ..knobs() };
    let one = events_of::<Fair<EevdfOrder, Knobs>>("6.12", knobs(), 1);
    assert_ne!(one, events_of::<Fair<EevdfOrder, Knobs>>("6.12", short, 1), "the events do tell tunables apart");
}
