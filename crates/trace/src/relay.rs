//! A sink that stores events and passes them on in batches, also to another thread.

use vruntime_sched::CpuMask;
use vruntime_sched::energy::EnergyModel;
use vruntime_sched::event::Event;
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::loadavg::LoadAvg;

use crate::sink::{CpusetInfo, DomainInfo, EnergyInfo, GroupInfo, LoopTimes, MachineInfo, Sink, TaskInfo, Totals};

/// Calls per batch: enough to make passing cheap, few enough to stay in the cache.
const BATCH: usize = 2048;

/// One call of a [`Sink`]. Data of rare calls is separate, so that frequent ones are small.
#[derive(Debug)]
enum Call {
    Event(u64, CpuId, Event),
    Stays(u64, CpuId),
    Stolen(u64, CpuId, bool),
    RoundEnd(u64, TaskId, u64),
    Rare(Box<Rare>),
}

#[derive(Debug)]
enum Rare {
    Machine {
        cpus: usize,
        tick_ns: u64,
        domains: Vec<DomainInfo>,
        energy: Option<(EnergyModel, bool)>,
    },
    Domains(u64, Vec<DomainInfo>),
    RootDomains(u64, Vec<CpuMask>, CpuMask),
    Group(GroupId, Group),
    GroupChanged(u64, GroupId, Group),
    Cpuset {
        at: u64,
        group: GroupId,
        path: String,
        effective: CpuMask,
        partition: String,
    },
    /// Name, class, and the rest.
    Task(TaskId, String, String, TaskInfo<'static>),
    Affinity(u64, TaskId, Option<CpuMask>),
    LoopEnd(u64, TaskId, u64, LoopTimes),
    Totals(LoadAvg, Vec<u64>),
    Finish(u64),
}

#[derive(Debug)]
struct Group(String, GroupInfo<'static>);

impl Group {
    fn of(info: &GroupInfo<'_>) -> Self {
        let GroupInfo { path, parent, weight, idle, guarantee, max, nice } = *info;
        Self(path.to_owned(), GroupInfo { path: "", parent, weight, idle, guarantee, max, nice })
    }

    fn info(&self) -> GroupInfo<'_> {
        GroupInfo { path: &self.0, ..self.1.clone() }
    }
}

impl Rare {
    fn tell(&self, sink: &mut impl Sink) {
        match self {
            Self::Machine { cpus, tick_ns, domains, energy } => {
                let energy = energy
                    .as_ref()
                    .map(|(model, is_energy_aware)| EnergyInfo { model, is_energy_aware: *is_energy_aware });
                sink.machine(&MachineInfo { cpus: *cpus, tick_ns: *tick_ns, domains, energy });
            }
            Self::Domains(at, domains) => sink.domains(*at, domains),
            Self::RootDomains(at, roots, isolated) => sink.root_domains(*at, roots, isolated),
            Self::Group(id, group) => sink.group(*id, &group.info()),
            Self::GroupChanged(at, id, group) => sink.group_changed(*at, *id, &group.info()),
            Self::Cpuset { at, group, path, effective, partition } => {
                sink.cpuset(*at, *group, &CpusetInfo { path, effective, partition });
            }
            Self::Task(id, name, class, info) => sink.task(*id, &TaskInfo { name, class, ..info.clone() }),
            Self::Affinity(at, task, cpus) => sink.affinity(*at, *task, cpus.as_ref()),
            Self::LoopEnd(at, task, duration, times) => sink.loop_end(*at, *task, *duration, times),
            Self::Totals(loadavg, group_switches) => sink.totals(&Totals { loadavg: *loadavg, group_switches }),
            Self::Finish(at) => sink.finish(*at),
        }
    }
}

/// Calls of a [`Sink`], in order.
#[derive(Debug)]
pub struct Batch(Vec<Call>);

impl Batch {
    /// Makes the calls.
    pub fn tell(&self, sink: &mut impl Sink) {
        for call in &self.0 {
            match call {
                Call::Event(at, cpu, event) => sink.event(*at, *cpu, event),
                Call::Stays(at, cpu) => sink.stays(*at, *cpu),
                Call::Stolen(at, cpu, waits) => sink.stolen(*at, *cpu, *waits),
                Call::RoundEnd(at, task, response) => sink.round_end(*at, *task, *response),
                Call::Rare(rare) => rare.tell(sink),
            }
        }
    }
}

/// Calls of a [`Sink`] that a run makes only on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    loops: bool,
    rounds: bool,
}

impl Wants {
    /// Returns the requests of `sink`.
    pub fn of(sink: &impl Sink) -> Self {
        Self { loops: sink.wants_loops(), rounds: sink.wants_rounds() }
    }
}

/// A [`Sink`] that passes calls on in batches, the last one at the end of the run.
#[derive(Debug)]
pub struct Relay<F> {
    calls: Vec<Call>,
    wants: Wants,
    pass_on: F,
}

impl<F: FnMut(Batch)> Relay<F> {
    /// Creates a relay with the requests of the sinks behind it.
    pub fn new(wants: Wants, pass_on: F) -> Self {
        Self { calls: Vec::with_capacity(BATCH), wants, pass_on }
    }

    fn flush(&mut self) {
        if !self.calls.is_empty() {
            let calls = std::mem::replace(&mut self.calls, Vec::with_capacity(BATCH));
            (self.pass_on)(Batch(calls));
        }
    }

    #[inline]
    fn keep(&mut self, call: Call) {
        self.calls.push(call);
        if self.calls.len() == BATCH {
            self.flush();
        }
    }

    fn keep_rare(&mut self, rare: Rare) {
        self.keep(Call::Rare(Box::new(rare)));
    }
}

impl<F: FnMut(Batch)> Sink for Relay<F> {
    fn machine(&mut self, info: &MachineInfo<'_>) {
        let energy = info.energy.map(|EnergyInfo { model, is_energy_aware }| (model.clone(), is_energy_aware));
        let (cpus, tick_ns, domains) = (info.cpus, info.tick_ns, info.domains.to_vec());
        self.keep_rare(Rare::Machine { cpus, tick_ns, domains, energy });
    }
    fn domains(&mut self, at: u64, domains: &[DomainInfo]) {
        self.keep_rare(Rare::Domains(at, domains.to_vec()));
    }
    fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
        self.keep_rare(Rare::RootDomains(at, roots.to_vec(), isolated.clone()));
    }
    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        self.keep_rare(Rare::Group(id, Group::of(info)));
    }
    fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
        self.keep_rare(Rare::GroupChanged(at, id, Group::of(info)));
    }
    fn cpuset(&mut self, at: u64, group: GroupId, info: &CpusetInfo<'_>) {
        let (path, partition) = (info.path.to_owned(), info.partition.to_owned());
        self.keep_rare(Rare::Cpuset { at, group, path, effective: info.effective.clone(), partition });
    }
    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        let TaskInfo { name, class, group, nice, policy, rt_priority } = *info;
        let rest = TaskInfo { name: "", class: "", group, nice, policy, rt_priority };
        self.keep_rare(Rare::Task(id, name.to_owned(), class.to_owned(), rest));
    }
    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.keep_rare(Rare::Affinity(at, task, cpus.cloned()));
    }
    fn wants_loops(&self) -> bool {
        self.wants.loops
    }
    fn loop_end(&mut self, at: u64, task: TaskId, duration: u64, times: &LoopTimes) {
        self.keep_rare(Rare::LoopEnd(at, task, duration, *times));
    }
    fn wants_rounds(&self) -> bool {
        self.wants.rounds
    }
    #[inline]
    fn round_end(&mut self, at: u64, task: TaskId, response: u64) {
        self.keep(Call::RoundEnd(at, task, response));
    }
    #[inline]
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.keep(Call::Event(at, cpu, *event));
    }
    #[inline]
    fn stays(&mut self, at: u64, cpu: CpuId) {
        self.keep(Call::Stays(at, cpu));
    }
    fn stolen(&mut self, at: u64, cpu: CpuId, waits: bool) {
        self.keep(Call::Stolen(at, cpu, waits));
    }
    fn totals(&mut self, totals: &Totals<'_>) {
        self.keep_rare(Rare::Totals(totals.loadavg, totals.group_switches.to_vec()));
    }
    fn finish(&mut self, at: u64) {
        self.keep_rare(Rare::Finish(at));
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Listener(Vec<String>);

    impl Listener {
        fn heard(&mut self, what: std::fmt::Arguments<'_>) {
            self.0.push(what.to_string());
        }
    }

    impl Sink for Listener {
        fn machine(&mut self, info: &MachineInfo<'_>) {
            self.heard(format_args!("{info:?}"));
        }
        fn domains(&mut self, at: u64, domains: &[DomainInfo]) {
            self.heard(format_args!("{at} {domains:?}"));
        }
        fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
            self.heard(format_args!("{at} {roots:?} {isolated:?}"));
        }
        fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
            self.heard(format_args!("{id:?} {info:?}"));
        }
        fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
            self.heard(format_args!("{at} {id:?} {info:?}"));
        }
        fn cpuset(&mut self, at: u64, id: GroupId, info: &CpusetInfo<'_>) {
            self.heard(format_args!("{at} {id:?} {info:?}"));
        }
        fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
            self.heard(format_args!("{id:?} {info:?}"));
        }
        fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
            self.heard(format_args!("{at} {task:?} {cpus:?}"));
        }
        fn wants_loops(&self) -> bool {
            true
        }
        fn loop_end(&mut self, at: u64, task: TaskId, duration: u64, times: &LoopTimes) {
            self.heard(format_args!("{at} {task:?} {duration} {times:?}"));
        }
        fn wants_rounds(&self) -> bool {
            true
        }
        fn round_end(&mut self, at: u64, task: TaskId, response: u64) {
            self.heard(format_args!("{at} {task:?} round {response}"));
        }
        fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
            self.heard(format_args!("{at} {cpu:?} {event:?}"));
        }
        fn stays(&mut self, at: u64, cpu: CpuId) {
            self.heard(format_args!("{at} {cpu:?} stays"));
        }
        fn stolen(&mut self, at: u64, cpu: CpuId, waits: bool) {
            self.heard(format_args!("{at} {cpu:?} {waits}"));
        }
        fn totals(&mut self, totals: &Totals<'_>) {
            self.heard(format_args!("{totals:?}"));
        }
        fn finish(&mut self, at: u64) {
            self.heard(format_args!("{at} ends"));
        }
    }

    /// Makes every call `rounds` times, with different values in each field.
    fn call(sink: &mut impl Sink, rounds: u64) {
        assert!(sink.wants_loops() && sink.wants_rounds());
        let cpus = |list: &[u32]| list.iter().copied().map(CpuId).collect::<CpuMask>();
        let domain = DomainInfo {
            level: "MC",
            span: cpus(&[0, 1]),
            members: cpus(&[1]),
            groups: vec![cpus(&[0])],
            interval_ns: 5,
        };
        let domains = [domain];
        sink.machine(&MachineInfo { cpus: 2, tick_ns: 3, domains: &domains, energy: None });
        for at in 0..rounds {
            sink.domains(at, &domains);
            sink.root_domains(at, &[cpus(&[1])], &cpus(&[0]));
            let group = GroupInfo {
                path: "/a",
                parent: Some(GroupId(7)),
                weight: 8,
                idle: true,
                guarantee: Some(9),
                max: Some((10, 11)),
                nice: Some(12),
            };
            sink.group(GroupId(1), &group);
            sink.group_changed(at, GroupId(2), &group);
            sink.cpuset(at, GroupId(3), &CpusetInfo { path: "/b", effective: &cpus(&[1]), partition: "root" });
            let task = TaskInfo {
                name: "web-1",
                class: "web",
                group: GroupId(4),
                nice: -5,
                policy: vruntime_sched::SchedPolicy::Fifo,
                rt_priority: 6,
            };
            sink.task(TaskId(5), &task);
            sink.affinity(at, TaskId(6), Some(&cpus(&[0])));
            sink.affinity(at, TaskId(6), None);
            let times =
                LoopTimes { asked: 1, run: 2, work: 3, period: 4, slack: -5, cumulative_slack: -6, wakeup_latency: 7 };
            sink.loop_end(at, TaskId(7), 8, &times);
            sink.round_end(at, TaskId(7), 9);
            sink.event(at, CpuId(9), &Event::LoopEnd { task: TaskId(10), duration: 11, work: 12 });
            sink.stays(at, CpuId(13));
            sink.stolen(at, CpuId(14), true);
        }
        sink.totals(&Totals { loadavg: LoadAvg::default(), group_switches: &[15, 16] });
        sink.finish(17);
    }

    #[test]
    fn later_readers_receive_the_same() {
        let (mut direct, mut later) = (Listener::default(), Listener::default());
        let rounds = BATCH as u64;
        call(&mut direct, rounds);
        let mut batches = Vec::new();
        call(&mut Relay::new(Wants::of(&Listener::default()), |batch| batches.push(batch)), rounds);
        assert!(batches.len() > 2 && batches.iter().all(|Batch(calls)| calls.len() <= BATCH));
        for batch in &batches {
            batch.tell(&mut later);
        }
        assert_eq!(direct.0, later.0);
    }
}
