//! cpusets and root domains: effective CPUs, valid partitions, admission, moves of tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use vruntime_sched::class::deadline::{DlAttrs, SchedError, to_ratio};
use vruntime_sched::class::fair::Eevdf;
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, MigrateCause, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::kernels::Behaviour;
use vruntime_sched::{
    CpuMask, CpusetError, GroupWeight, Host, HotplugError, Kernel, Partition, Rq, SchedAttr, SchedPolicy, Scheduler,
    Shared, TaskAttrs, Timer, Topology, invariants, kernel,
};

const MS: u64 = 1_000_000;

#[derive(Default)]
struct Wishes {
    resched: Vec<CpuId>,
    kicks: Vec<CpuId>,
    timers: BTreeMap<Timer, u64>,
    moves: Vec<(TaskId, CpuId, MigrateCause)>,
}

impl Host for Wishes {
    fn resched(&mut self, cpu: CpuId) {
        self.resched.push(cpu);
    }
    fn kick_nohz(&mut self, cpu: CpuId) {
        self.kicks.push(cpu);
    }
    fn arm(&mut self, timer: Timer, at: Option<u64>) {
        match at {
            Some(at) => self.timers.insert(timer, at),
            None => self.timers.remove(&timer),
        };
    }
    fn event(&mut self, _at: u64, _cpu: CpuId, event: &Event) {
        if let Event::Migrate { task, to, cause, .. } = *event {
            self.moves.push((task, to, cause));
        }
    }
}

struct Machine {
    rqs: Vec<Rq<Eevdf>>,
    shared: Shared<Eevdf>,
    host: Wishes,
    now: u64,
}

fn mask(cpus: &[u32]) -> CpuMask {
    cpus.iter().copied().map(CpuId).collect()
}

fn list(mask: &CpuMask) -> Vec<u32> {
    mask.iter().map(|cpu| cpu.0).collect()
}

impl Machine {
    fn new(name: &str, cpus: usize, isolated: &[u32]) -> Self {
        Self::of(&kernel(name).unwrap(), cpus, isolated)
    }

    fn of(kernel: &Kernel, cpus: usize, isolated: &[u32]) -> Self {
        let topology = Topology::flat(cpus);
        let mut config = Config::new(kernel, &topology, 250);
        config.isolated = mask(isolated);
        let shared = Shared::new(topology, config);
        let mut machine = Self { rqs: Rq::all(&shared), shared, host: Wishes::default(), now: MS };
        for cpu in (0..cpus as u32).map(CpuId) {
            machine.sched().tick_stopped(cpu);
        }
        machine
    }

    fn sched(&mut self) -> Scheduler<'_, Eevdf, Vec<Rq<Eevdf>>, Wishes> {
        Scheduler { rqs: &mut self.rqs, shared: &self.shared, host: &mut self.host, now: self.now }
    }

    fn group(&mut self, parent: GroupId) -> GroupId {
        self.sched().new_group(parent, GroupWeight::Weight(100))
    }

    fn cpus(&mut self, group: GroupId, cpus: &[u32]) {
        self.sched().set_group_cpus(group, Some(&mask(cpus))).unwrap();
        self.obey();
    }

    fn partition(&mut self, group: GroupId, partition: Partition) -> String {
        self.sched().set_group_partition(group, partition).unwrap();
        self.obey();
        self.text(group)
    }

    /// `cpuset.cpus.partition`.
    fn text(&self, group: GroupId) -> String {
        self.shared.cpuset(group).unwrap().partition_text()
    }

    fn effective(&self, group: GroupId) -> Vec<u32> {
        list(&self.shared.cpuset(group).unwrap().effective)
    }

    fn task(&mut self, policy: SchedPolicy, group: GroupId, cpus: Option<&[u32]>) -> TaskId {
        let affinity = cpus.map(|cpus| Arc::new(mask(cpus)));
        let attrs = TaskAttrs { policy, rt_priority: 5, group, affinity, ..TaskAttrs::default() };
        let task = self.sched().new_task(&attrs, CpuId(0));
        self.sched().wake_new(task, CpuId(0));
        self.obey();
        task
    }

    fn deadline(&mut self, task: TaskId, runtime: u64, period: u64) -> Result<(), SchedError> {
        let deadline = DlAttrs::new(runtime, period);
        let attr = SchedAttr { policy: SchedPolicy::Deadline, deadline, ..SchedAttr::default() };
        let done = self.sched().set_scheduler(task, attr);
        self.obey();
        done
    }

    fn place(&self, task: TaskId) -> u32 {
        self.shared.locate(task).unwrap().0.0
    }

    fn allowed(&self, task: TaskId) -> Option<Vec<u32>> {
        let (cpu, index) = self.shared.locate(task).unwrap();
        self.rqs[cpu.index()].tasks[index].affinity.as_deref().map(list)
    }

    fn tick(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now += MS;
            for cpu in self.shared.online().iter().collect::<Vec<_>>() {
                if self.rqs[cpu.index()].running() != Running::Idle && self.sched().tick(cpu) {
                    self.sched().balance(cpu);
                }
                self.obey();
            }
        }
    }

    fn obey(&mut self) {
        loop {
            if let Some(cpu) = self.host.resched.pop() {
                let mut state = PrevState::Preempted;
                while self.sched().schedule(cpu, state).next == Running::Stopper {
                    self.sched().stopper_work(cpu);
                    state = PrevState::Sleeping;
                }
                if self.rqs[cpu.index()].running() == Running::Idle {
                    self.sched().tick_stopped(cpu);
                }
            } else if let Some(cpu) = self.host.kicks.pop() {
                while self.sched().nohz_balance(cpu) {}
            } else {
                break;
            }
        }
        for rq in &self.rqs {
            invariants::check(rq, &self.shared).unwrap();
        }
        invariants::check_bandwidth(&self.rqs, &self.shared).unwrap();
    }
}

const ROOT: GroupId = GroupId::ROOT;

#[test]
fn a_member_has_what_its_parent_has_of_what_it_asks_for() {
    let mut machine = Machine::new("6.12", 8, &[]);
    let a = machine.group(ROOT);
    let (b, c) = (machine.group(a), machine.group(a));
    machine.cpus(a, &[2, 3, 4, 5]);
    machine.cpus(b, &[0, 4, 5, 6]);
    assert_eq!((machine.effective(a), machine.effective(b)), (vec![2, 3, 4, 5], vec![4, 5]));
    // It requests none of its parent's CPUs, so it has all.
    machine.cpus(b, &[0, 1]);
    assert_eq!(machine.effective(b), [2, 3, 4, 5]);
    let (one, other) =
        (machine.task(SchedPolicy::Normal, c, None), machine.task(SchedPolicy::Normal, b, Some(&[5, 7])));
    assert_eq!((machine.allowed(one), machine.allowed(other)), (Some(vec![2, 3, 4, 5]), Some(vec![5])));
    // Members do not split the machine.
    assert_eq!(machine.shared.root_domains(), (vec![mask(&[0, 1, 2, 3, 4, 5, 6, 7])], CpuMask::new()));
    machine.sched().set_group_cpus(b, None).unwrap_err();
    let wrong = machine.sched().set_group_cpus(a, Some(&mask(&[1, 9]))).unwrap_err();
    assert_eq!(wrong, CpusetError::NoSuchCpu { cpu: CpuId(9), nr_cpus: 8 });
}

#[test]
fn partitions_are_valid_under_the_kernels_conditions() {
    let mut machine = Machine::new("6.12", 8, &[]);
    let (a, b) = (machine.group(ROOT), machine.group(ROOT));
    let (below, deep) = (machine.group(a), machine.group(b));
    assert_eq!(machine.partition(a, Partition::Root), "root invalid (cpuset.cpus and cpuset.cpus.exclusive are empty)");
    machine.cpus(a, &[0, 1, 2, 3]);
    assert_eq!(machine.text(a), "root");
    assert_eq!((machine.effective(a), machine.effective(ROOT)), (vec![0, 1, 2, 3], vec![4, 5, 6, 7]));
    // Below a partition, and taking its CPUs.
    machine.cpus(below, &[2, 3, 4]);
    assert_eq!(machine.partition(below, Partition::Isolated), "isolated");
    assert_eq!((machine.effective(a), machine.effective(below)), (vec![0, 1], vec![2, 3]));
    assert_eq!(machine.shared.root_domains(), (vec![mask(&[4, 5, 6, 7]), mask(&[0, 1])], mask(&[2, 3])));
    // Below a member.
    machine.cpus(deep, &[6]);
    assert_eq!(machine.partition(deep, Partition::Root), "root invalid (Parent is not a partition root)");
    // A sibling requests these.
    machine.cpus(b, &[4, 5]);
    assert_eq!(machine.partition(b, Partition::Root), "root");
    machine.cpus(b, &[3, 4, 5]);
    let text = "root invalid (Cpu list in cpuset.cpus not exclusive)";
    assert_eq!((machine.text(a), machine.text(b)), (text.into(), text.into()));
    assert_eq!(machine.text(below), "isolated invalid (Parent is an invalid partition root)");
    assert_eq!(machine.shared.root_domains().0, [mask(&[0, 1, 2, 3, 4, 5, 6, 7])]);
    // The partition stays invalid until it is written; then those below are valid again, too.
    machine.cpus(b, &[4, 5]);
    assert_eq!((machine.text(a), machine.text(b)), (text.into(), "root".into()));
    machine.cpus(a, &[0, 1, 2, 3]);
    assert_eq!((machine.text(a), machine.text(below)), ("root".into(), "isolated".into()));
    // All CPUs of the machine are too many.
    machine.partition(b, Partition::Member);
    machine.cpus(b, &[4, 5, 6, 7]);
    assert_eq!(machine.partition(b, Partition::Root), "root invalid (Parent unable to distribute cpu downstream)");
    // The texts of old kernels.
    let mut machine = Machine::new("6.1", 2, &[]);
    let a = machine.group(ROOT);
    assert_eq!(machine.partition(a, Partition::Root), "root invalid (cpuset.cpus is empty)");
}

#[test]
fn hotplug_takes_from_partitions_and_gives_back() {
    let mut machine = Machine::new("6.12", 4, &[]);
    let a = machine.group(ROOT);
    machine.cpus(a, &[2, 3]);
    assert_eq!(machine.partition(a, Partition::Root), "root");
    let task = machine.task(SchedPolicy::Normal, a, Some(&[3]));
    assert_eq!(machine.place(task), 3);
    machine.sched().cpu_down(CpuId(3)).unwrap();
    machine.obey();
    assert_eq!((machine.allowed(task), machine.place(task)), (Some(vec![2]), 2));
    machine.sched().cpu_down(CpuId(2)).unwrap();
    machine.obey();
    assert_eq!(machine.text(a), "root invalid (No cpu available due to hotplug)");
    assert_eq!(machine.effective(a), [0, 1]);
    assert!(machine.place(task) < 2);
    for cpu in [2, 3] {
        machine.sched().cpu_up(CpuId(cpu)).unwrap();
        machine.obey();
    }
    // Its own affinity is remembered.
    assert_eq!((machine.text(a), machine.allowed(task)), ("root".into(), Some(vec![3])));
    assert_eq!(machine.place(task), 3);
}

#[test]
fn what_a_task_asked_for_is_forgotten_by_6_1_only() {
    let forgets = Behaviour::CpusetForgets;
    for (name, forced, after) in [
        ("6.1", None, vec![1, 2]),
        ("6.6", None, vec![2]),
        ("6.18", None, vec![2]),
        ("6.1", Some(false), vec![2]),
        ("6.18", Some(true), vec![1, 2]),
    ] {
        let mut kernel = kernel(name).unwrap();
        if let Some(on) = forced {
            kernel.force(forgets, on);
        }
        let mut machine = Machine::of(&kernel, 4, &[]);
        let a = machine.group(ROOT);
        machine.cpus(a, &[2, 3]);
        let task = machine.task(SchedPolicy::Normal, a, Some(&[2]));
        machine.cpus(a, &[1, 2]);
        assert_eq!(machine.allowed(task), Some(after), "{name}");
        let refused = machine.sched().set_affinity(task, Some(Arc::new(mask(&[0, 3]))), CpuId(0));
        assert_eq!(refused, Err(SchedError::Cpuset));
    }
}

#[test]
fn each_root_domain_admits_up_to_its_own_cpus() {
    // Without fair servers, the sums are those of the tasks.
    let mut machine = Machine::new("6.6", 8, &[]);
    let a = machine.group(ROOT);
    machine.cpus(a, &[6, 7]);
    assert_eq!(machine.partition(a, Partition::Root), "root");
    let admitted = |machine: &mut Machine, group: GroupId| {
        let mut count = 0;
        loop {
            let task = machine.task(SchedPolicy::Normal, group, None);
            match machine.deadline(task, 30 * MS, 100 * MS) {
                Ok(()) => count += 1,
                Err(error) => return (count, error.to_string()),
            }
        }
    };
    // 0.3 CPUs each: 19 tasks fit on 5.7 CPUs, 6 on 1.9.
    let (count, text) = admitted(&mut machine, ROOT);
    assert_eq!(count, 19, "{text}");
    assert!(
        text.contains("5.700 CPUs are taken and 0.300 more") && text.contains("make 6.000, above the cap of 5.700")
    );
    assert!(text.contains("of 6 CPU(s)"), "{text}");
    let (count, text) = admitted(&mut machine, a);
    assert_eq!(count, 6);
    let sum = "1.800 CPUs are taken and 0.300 more (runtime 30000000 ns every 100000000 ns) make 2.100, above the cap of \
               1.900, which is sched_rt_runtime_us/sched_rt_period_us = 950000/1000000 of 2 CPU(s)";
    assert!(text.contains(sum), "{text}");
    // It cannot shrink: 1.8 do not fit on one CPU.
    let error = machine.sched().set_group_cpus(a, Some(&mask(&[7]))).unwrap_err();
    let bw = to_ratio(100 * MS, 30 * MS);
    assert_eq!(error, CpusetError::Deadline { promised: 6 * bw, cap: to_ratio(1000, 950) });
    assert!(error.to_string().contains("of the partition have reserved 1.800 CPUs"), "{error}");
    // Nor may its CPUs go offline.
    let refused = HotplugError::Deadline { cpu: CpuId(7), promised: 6 * bw, cap: to_ratio(1000, 950) };
    assert_eq!(machine.sched().cpu_down(CpuId(7)), Err(refused));
    // As a member it returns its CPUs with the bandwidth of its tasks.
    machine.partition(a, Partition::Member);
    let task = machine.task(SchedPolicy::Normal, ROOT, None);
    let text = machine.deadline(task, 90 * MS, 100 * MS).unwrap_err().to_string();
    assert!(text.contains("7.500 CPUs are taken and 0.900 more") && text.contains("of 8 CPU(s)"), "{text}");
}

#[test]
fn deadline_tasks_need_all_of_their_root_domain_and_room_where_they_move() {
    let mut machine = Machine::new("6.6", 4, &[]);
    let (a, b) = (machine.group(ROOT), machine.group(ROOT));
    machine.cpus(a, &[2, 3]);
    machine.partition(a, Partition::Root);
    let task = machine.task(SchedPolicy::Normal, a, None);
    machine.deadline(task, 60 * MS, 100 * MS).unwrap();
    // It must have all CPUs of its partition, not of the machine.
    assert_eq!(machine.allowed(task), Some(vec![2, 3]));
    let refused = machine.sched().set_affinity(task, Some(Arc::new(mask(&[2]))), CpuId(0));
    assert_eq!(refused, Err(SchedError::Affinity { allowed: 1, cpus: 2 }));
    // A group with part of a root domain admits no task.
    machine.cpus(b, &[0]);
    let other = machine.task(SchedPolicy::Normal, b, None);
    assert_eq!(machine.deadline(other, MS, 100 * MS), Err(SchedError::Affinity { allowed: 1, cpus: 2 }));
    // The root has two CPUs: three such tasks fit, the fourth does not.
    let mut others = vec![];
    for _ in 0..3 {
        let other = machine.task(SchedPolicy::Normal, ROOT, None);
        machine.deadline(other, 60 * MS, 100 * MS).unwrap();
        others.push(other);
    }
    match machine.sched().move_group(task, ROOT) {
        Err(SchedError::Admission(error)) => assert_eq!((error.cpus, error.total), (2, 3 * to_ratio(10, 6))),
        other => panic!("{other:?}"),
    }
    assert_eq!(machine.allowed(task), Some(vec![2, 3]));
    machine.sched().move_group(others[0], a).unwrap();
    machine.obey();
    assert!(machine.place(others[0]) >= 2);
    machine.sched().move_group(task, ROOT).unwrap();
    machine.obey();
    assert!(machine.place(task) < 2);
}

#[test]
fn no_cpu_balances_across_root_domains() {
    let mut machine = Machine::new("6.12", 4, &[]);
    let a = machine.group(ROOT);
    machine.cpus(a, &[2, 3]);
    machine.partition(a, Partition::Root);
    for _ in 0..4 {
        machine.task(SchedPolicy::Normal, ROOT, None);
        machine.task(SchedPolicy::Fifo, ROOT, None);
    }
    machine.tick(200);
    for cpu in [2, 3] {
        assert_eq!(machine.rqs[cpu].running(), Running::Idle, "CPU {cpu} has nothing to do with them");
    }
    // The partition ends: both CPUs find work.
    machine.partition(a, Partition::Member);
    machine.tick(50);
    assert!(machine.rqs.iter().all(|rq| rq.running() != Running::Idle));
    // The group is a partition again: no task of another group stays.
    machine.partition(a, Partition::Root);
    for cpu in [2, 3] {
        assert_eq!(machine.rqs[cpu].running(), Running::Idle);
    }
}

#[test]
fn isolated_cpus_run_only_tasks_that_ask_for_them_and_are_not_balanced() {
    let mut machine = Machine::new("6.12", 4, &[2, 3]);
    assert_eq!(machine.shared.root_domains(), (vec![mask(&[0, 1])], mask(&[2, 3])));
    for _ in 0..4 {
        let task = machine.task(SchedPolicy::Normal, ROOT, None);
        assert_eq!(machine.allowed(task), Some(vec![0, 1]));
    }
    machine.tick(100);
    assert!(machine.rqs[2].nr_running + machine.rqs[3].nr_running == 0);
    let pinned: Vec<TaskId> = (0..3).map(|_| machine.task(SchedPolicy::Normal, ROOT, Some(&[2, 3]))).collect();
    machine.tick(100);
    // They stay side by side, with the next CPU idle.
    let places: Vec<u32> = pinned.iter().map(|&task| machine.place(task)).collect();
    assert_eq!(places, [2, 2, 2]);
    assert_eq!(machine.rqs[3].running(), Running::Idle);
    // Real-time tasks are pushed: isolated CPUs are one root domain.
    let urgent: Vec<TaskId> = (0..2).map(|_| machine.task(SchedPolicy::Fifo, ROOT, Some(&[2, 3]))).collect();
    let mut places: Vec<u32> = urgent.iter().map(|&task| machine.place(task)).collect();
    places.sort_unstable();
    assert_eq!(places, [2, 3]);
    // One housekeeping CPU must stay online.
    machine.sched().cpu_down(CpuId(1)).unwrap();
    machine.obey();
    assert_eq!(machine.sched().cpu_down(CpuId(0)), Err(HotplugError::LastHousekeeping(CpuId(0))));
    // `CPUSET_EXCLUSIVE`: a partition of such CPUs can only be isolated.
    machine.sched().cpu_up(CpuId(1)).unwrap();
    machine.obey();
    let a = machine.group(ROOT);
    machine.cpus(a, &[1, 2]);
    let text = "root invalid (partition config conflicts with housekeeping setup)";
    assert_eq!(machine.partition(a, Partition::Root), text);
    assert_eq!(machine.partition(a, Partition::Isolated), "isolated");
    let mut without = kernel("6.12").unwrap();
    without.force(Behaviour::ExclusiveCpusets, false);
    let mut old = Machine::of(&without, 4, &[2, 3]);
    let a = old.group(ROOT);
    old.cpus(a, &[1, 2]);
    assert_eq!(old.partition(a, Partition::Root), "root");
    assert_eq!(old.shared.root_domains(), (vec![mask(&[0]), mask(&[1])], mask(&[2, 3])));
}

#[test]
fn a_group_whose_cpus_were_all_given_away_takes_no_task() {
    let mut machine = Machine::new("6.12", 4, &[]);
    let a = machine.group(ROOT);
    let b = machine.group(a);
    machine.cpus(a, &[2, 3]);
    machine.partition(a, Partition::Root);
    machine.cpus(b, &[2, 3]);
    // No task is in it.
    assert_eq!(machine.partition(b, Partition::Root), "root");
    assert!(machine.effective(a).is_empty());
    let task = machine.task(SchedPolicy::Normal, ROOT, None);
    assert_eq!(machine.sched().move_group(task, a), Err(SchedError::NoCpus));
    machine.sched().move_group(task, b).unwrap();
    machine.obey();
    assert_eq!(machine.allowed(task), Some(vec![2, 3]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// `create_cpusets` equals single writes.
    #[test]
    fn all_at_once_is_as_one_after_another(
        name in prop::sample::select(vec!["6.1", "6.6", "6.12"]),
        isolated in prop::collection::vec(1u32..8, 0..2),
        files in prop::collection::vec((any::<u8>(), prop::option::of(any::<u8>()), 0usize..4), 1..12),
    ) {
        let mut machines = [0, 1].map(|_| Machine::new(name, 8, &isolated));
        let mut groups = vec![GroupId::ROOT];
        for (parent, ..) in &files {
            // Mostly children of the root, which has CPUs to share.
            let parent = if *parent < 150 { GroupId::ROOT } else { groups[*parent as usize % groups.len()] };
            let [one, other] = machines.each_mut().map(|machine| machine.group(parent));
            prop_assert_eq!(one, other);
            groups.push(one);
        }
        let cpus = |bits: u8| (0..8).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId).collect::<CpuMask>();
        let files: Vec<(GroupId, Option<CpuMask>, Option<Partition>)> = groups[1..]
            .iter()
            .zip(&files)
            // Few CPUs each, so that some partitions are valid.
            .map(|(&group, &(_, bits, kind))| {
                (group, bits.map(|bits| cpus(bits & bits.rotate_left(3))), Partition::ALL.get(kind).map(|it| it.1))
            })
            .collect();
        let [at_once, in_turn] = &mut machines;
        at_once.sched().create_cpusets(&files).unwrap();
        for (group, cpus, _) in &files {
            if let Some(cpus) = cpus {
                in_turn.sched().set_group_cpus(*group, Some(cpus)).unwrap();
            }
        }
        for (group, _, partition) in &files {
            if let Some(partition) = partition {
                in_turn.sched().set_group_partition(*group, *partition).unwrap();
            }
        }
        for &group in &groups {
            prop_assert_eq!(at_once.shared.cpuset(group), in_turn.shared.cpuset(group), "{:?}", group);
        }
        prop_assert_eq!(at_once.shared.root_domains(), in_turn.shared.root_domains());
        for cpu in (0..8).map(CpuId) {
            prop_assert_eq!(at_once.shared.domains.describe(cpu), in_turn.shared.domains.describe(cpu));
        }
    }
}
