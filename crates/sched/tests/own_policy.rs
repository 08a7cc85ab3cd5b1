//! A policy outside the crate: the order of [`Rq::listed`], and allowed calls.

use std::collections::VecDeque;

use vruntime_sched::config::{Config, Preemption};
use vruntime_sched::event::{Event, PrevState};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::policy::{Dequeue, Enqueue, Plain, Wake};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Host, Policy, Rq, SchedAttr, SchedPolicy, Scheduler, Shared, TaskAttrs, Timer, Topology};
use vruntime_sched::{invariants, kernel};

/// Tasks in turn, until they yield.
#[derive(Debug)]
struct Turns;

/// Waiting tasks of a CPU, and its clamps at each enqueue.
#[derive(Debug, Default)]
struct Line {
    waits: VecDeque<u32>,
    clamps: Vec<(u16, u16)>,
}

impl Policy for Turns {
    type Tunables = Knobs;
    type Rq = Line;
    type Task = ();
    type Balance = Plain;
    type Changes = Plain;
    type Limits = Plain;
    type Debugging = Plain;

    fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> Line {
        Line::default()
    }

    fn new_task(_shared: &Shared<Self>, _attrs: &TaskAttrs) {}

    fn enqueue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Enqueue) {
        let clamps = rq.clamps();
        rq.class.clamps.push((clamps.min, clamps.max));
        if rq.curr_ordinary != Some(task) {
            rq.class.waits.push_back(task);
        }
    }

    fn dequeue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _why: Dequeue) -> bool {
        rq.class.waits.retain(|&other| other != task);
        true
    }

    fn pick(rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<u32> {
        rq.class.waits.front().copied().or(rq.curr_ordinary.filter(|&curr| rq.tasks[curr].on_rq))
    }

    fn switch(rq: &mut Rq<Self>, _shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>) {
        rq.class.waits.extend(prev.filter(|&prev| rq.tasks[prev].on_rq));
        rq.class.waits.retain(|&other| Some(other) != next);
    }

    /// Any policy may send events and time slices.
    fn tick(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32) {
        let (at, id) = (rq.clock.now(), rq.tasks[task].id);
        rq.resched_lazy();
        rq.arm(Timer::Hrtick(rq.cpu), Some(at + 1));
        rq.event(Event::Waking { task: id, irq: false });
    }

    fn wakeup_preempt(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _wake: Wake) {}

    fn yield_task(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}
}

#[derive(Default)]
struct Ears {
    rescheduled: Vec<CpuId>,
    armed: Vec<(Timer, Option<u64>)>,
    events: Vec<Event>,
}

impl Host for Ears {
    fn resched(&mut self, cpu: CpuId) {
        self.rescheduled.push(cpu);
    }
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    fn arm(&mut self, timer: Timer, at: Option<u64>) {
        self.armed.push((timer, at));
    }
    fn event(&mut self, _at: u64, _cpu: CpuId, event: &Event) {
        self.events.push(*event);
    }
}

struct Machine {
    rqs: Vec<Rq<Turns>>,
    shared: Shared<Turns>,
    ears: Ears,
    now: u64,
}

const MS: u64 = 1_000_000;
const FIRST: CpuId = CpuId(0);

impl Machine {
    /// Two CPUs, and `tasks` tasks that have each run on the first.
    fn new(tasks: usize) -> Self {
        Self::of("6.12", tasks)
    }

    fn of(kernel_name: &str, tasks: usize) -> Self {
        let topology = Topology::flat(2);
        let mut config = Config::new(&kernel(kernel_name).unwrap(), &topology, 250);
        if kernel_name == "6.18" {
            config.preemption = Preemption::Lazy;
        }
        let shared = Shared::new(topology, config);
        let mut machine = Self { rqs: Rq::all(&shared), shared, ears: Ears::default(), now: MS };
        let tied =
            TaskAttrs { affinity: Some(std::sync::Arc::new([FIRST].into_iter().collect())), ..TaskAttrs::default() };
        for _ in 0..tasks {
            machine.verb(|scheduler| {
                let task = scheduler.new_task(&tied, FIRST);
                scheduler.wake_new(task, FIRST);
            });
        }
        (0..tasks).for_each(|_| machine.turn());
        machine
    }

    fn verb<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, Turns, Vec<Rq<Turns>>, Ears>) -> T) -> T {
        let (rqs, shared, host, now) = (&mut self.rqs, &self.shared, &mut self.ears, self.now);
        let done = call(&mut Scheduler { rqs, shared, host, now });
        self.rqs.iter().try_for_each(|rq| invariants::check(rq, &self.shared)).unwrap();
        done
    }

    fn turn(&mut self) {
        self.now += 4 * MS;
        self.verb(|scheduler| {
            let _ = scheduler.schedule(FIRST, PrevState::Yielded);
        });
    }

    /// The first CPU's tasks in listed order, and the running one.
    fn order(&self) -> (Vec<TaskId>, TaskId) {
        let rq = &self.rqs[0];
        let id = |task: u32| rq.tasks[task].id;
        (rq.listed().map(id).collect(), id(rq.curr_ordinary.unwrap()))
    }
}

fn ids(of: [u32; 4]) -> Vec<TaskId> {
    of.map(TaskId).to_vec()
}

#[test]
fn the_list_begins_with_the_task_that_ran_longest_ago() {
    let mut machine = Machine::new(4);
    assert_eq!(machine.order(), (ids([0, 1, 2, 3]), TaskId(3)));
    machine.turn();
    machine.turn();
    assert_eq!(machine.order(), (ids([2, 3, 0, 1]), TaskId(1)));
}

/// After a higher class, or a change of its attributes, the running task is last.
#[test]
fn the_list_follows_switches_from_and_to_other_classes() {
    let mut machine = Machine::new(4);
    let urgent = SchedAttr { policy: SchedPolicy::Fifo, rt_priority: 1, ..SchedAttr::default() };
    machine.verb(|scheduler| scheduler.set_scheduler(TaskId(0), urgent)).unwrap();
    let _ = machine.verb(|scheduler| scheduler.schedule(FIRST, PrevState::Preempted));
    assert_eq!(machine.rqs[0].curr_ordinary, None);
    machine.verb(|scheduler| scheduler.set_scheduler(TaskId(0), SchedAttr::default())).unwrap();
    machine.turn();
    assert_eq!(machine.order(), (ids([2, 3, 0, 1]), TaskId(1)));
}

#[test]
fn an_idle_cpu_pulls_the_task_that_ran_longest_ago() {
    let mut machine = Machine::new(4);
    machine.turn();
    for task in 0..4 {
        machine.verb(|scheduler| scheduler.set_affinity(TaskId(task), None, CpuId(0))).unwrap();
    }
    assert_eq!(machine.order(), (ids([1, 2, 3, 0]), TaskId(0)));
    let second = CpuId(1);
    // Not every time: it depends on random numbers (`NI_RANDOM`).
    let mut look = || machine.verb(|scheduler| scheduler.schedule(second, PrevState::Preempted)).next.task();
    assert_eq!((0..20).find_map(|_| look()), Some(TaskId(1)));
}

#[test]
fn events_and_slices_of_a_policy_take_effect() {
    let mut machine = Machine::new(2);
    machine.ears = Ears::default();
    assert!(!machine.verb(|scheduler| scheduler.need_resched(FIRST)));
    let _ = machine.verb(|scheduler| scheduler.tick(FIRST));
    assert!(machine.verb(|scheduler| scheduler.need_resched(FIRST)));
    assert_eq!(machine.ears.armed, [(Timer::Hrtick(FIRST), Some(machine.now + 1))]);
    assert!(machine.ears.events.contains(&Event::Waking { task: TaskId(1), irq: false }), "{:?}", machine.ears.events);
}

/// A task's clamps count before its enqueue, so policies see them in the CPU's utilisation; in 6.12 after it
/// (`enqueue_task`).
#[test]
fn clamps_count_before_the_policy_queues_a_task() {
    for (kernel, seen) in [("6.1", (100, 600)), ("6.12", (0, 1024)), ("6.18", (100, 600))] {
        let mut machine = Machine::of(kernel, 0);
        machine.verb(|scheduler| {
            let task = scheduler.new_task(&TaskAttrs::default(), FIRST);
            scheduler.set_uclamp(task, Some(100), Some(600)).unwrap();
            scheduler.wake_new(task, FIRST);
        });
        let lines: Vec<_> = machine.rqs.iter().flat_map(|rq| rq.class.clamps.clone()).collect();
        assert_eq!(lines, [seen], "{kernel}");
    }
}

/// A pending lazy reschedule (`TIF_NEED_RESCHED_LAZY`) does not prevent an urgent one. A task marked for lazy
/// preemption becomes real-time, and makes room for an equal pinned here.
#[test]
fn a_lazy_reschedule_is_not_one_that_is_due() {
    let mut machine = Machine::of("6.18", 0);
    let fifo = SchedAttr { policy: SchedPolicy::Fifo, rt_priority: 10, ..SchedAttr::default() };
    let (free, tied) = machine.verb(|scheduler| {
        let free = scheduler.new_task(&TaskAttrs::default(), FIRST);
        scheduler.wake_new(free, FIRST);
        let tied = TaskAttrs {
            affinity: Some(std::sync::Arc::new([FIRST].into_iter().collect())),
            policy: SchedPolicy::Fifo,
            rt_priority: 10,
            ..TaskAttrs::default()
        };
        (free, scheduler.new_task(&tied, FIRST))
    });
    machine.turn();
    assert_eq!(machine.rqs[0].running().task(), Some(free));
    machine.ears.rescheduled.clear();
    machine.verb(|scheduler| {
        let _ = scheduler.tick(FIRST);
        scheduler.set_scheduler(free, fifo).unwrap();
    });
    assert!(machine.rqs[0].need_resched() && machine.ears.rescheduled.is_empty());
    machine.verb(|scheduler| scheduler.wake_new(tied, FIRST));
    assert_eq!(machine.ears.rescheduled, [FIRST]);
    machine.verb(|scheduler| {
        let _ = scheduler.schedule(FIRST, PrevState::Preempted);
    });
    assert_eq!(machine.rqs[0].running().task(), Some(tied));
}

/// `sched_tick`.
#[test]
fn a_lazy_reschedule_is_due_at_the_tick() {
    let mut machine = Machine::of("6.18", 1);
    machine.ears.rescheduled.clear();
    for rescheduled in [vec![], vec![FIRST]] {
        machine.now += 4 * MS;
        machine.verb(|scheduler| {
            let _ = scheduler.tick(FIRST);
        });
        assert_eq!(machine.ears.rescheduled, rescheduled);
    }
}
