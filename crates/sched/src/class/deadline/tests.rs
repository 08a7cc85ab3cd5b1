//! Schedules from the papers on one CPU: a clock and a queue.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::*;

/// The papers' unit is a millisecond here.
const UNIT: u64 = 1_000_000;

/// A CPU that runs jobs (release, execution time), event by event.
struct Cpu {
    rq: DlRq,
    domain: RootDomain,
    grub: Grub,
    tasks: Vec<DlEntity>,
    /// Rest of the current job, and jobs to come.
    work: Vec<u64>,
    jobs: BTreeMap<(u64, u32), u64>,
    now: u64,
    running: Option<u32>,
    /// (task, from, to), nanoseconds.
    schedule: Vec<(u32, u64, u64)>,
}

impl Cpu {
    fn new(limit: GlobalLimit, tasks: &[DlAttrs]) -> Self {
        let domain = RootDomain::new(core::iter::once(1024), limit);
        let mut rq = DlRq::default();
        let tasks: Vec<DlEntity> = tasks
            .iter()
            .map(|&attrs| {
                domain.admit(0, attrs).unwrap();
                let mut se = DlEntity::new(attrs);
                rq.add_rq_bw(&mut se);
                se
            })
            .collect();
        let work = tasks.iter().map(|_| 0).collect();
        Self {
            rq,
            domain,
            grub: Grub::Bounded,
            tasks,
            work,
            jobs: BTreeMap::new(),
            now: 0,
            running: None,
            schedule: Vec::new(),
        }
    }

    fn job(self, id: u32, release: u64, work: u64) -> Self {
        self.job_of(id, release, work * UNIT)
    }

    fn job_of(mut self, id: u32, release: u64, work: u64) -> Self {
        self.jobs.insert((release * UNIT, id), work);
        self
    }

    fn env(&self) -> Env {
        Env::new(self.now, 1024, &self.domain, self.grub)
    }

    fn next_end(&self) -> Option<u64> {
        let id = self.running? as usize;
        let se = &self.tasks[id];
        // The least time that uses up the rest, by search: reclaiming has no inverse.
        let env = self.env();
        let (mut low, mut high) = (0, self.work[id]);
        while low < high {
            let middle = u64::midpoint(low, high);
            if self.rq.scaled(se, middle, &env) as i64 >= se.runtime { high = middle } else { low = middle + 1 }
        }
        Some(self.now + low)
    }

    fn advance(&mut self, to: u64) {
        let delta = to - self.now;
        if let Some(id) = self.running
            && delta > 0
        {
            let env = self.env();
            self.now = to;
            let env = Env { now: to, ..env };
            self.work[id as usize] -= delta;
            let done = self.work[id as usize] == 0;
            let se = &mut self.tasks[id as usize];
            let charged = self.rq.charge(se, id, delta, &env);
            if done {
                self.rq.dequeue(se, id, DlDequeue::Sleep, to);
            }
            if done || charged == Charged::Throttled {
                self.running = None;
            }
            let from = to - delta;
            match self.schedule.last_mut() {
                Some((last, _, end)) if *last == id && *end == from => *end = to,
                _ => self.schedule.push((id, from, to)),
            }
        }
        self.now = to;
        self.rq.check((0u32..).zip(&self.tasks)).unwrap();
    }

    fn run(mut self, end: u64) -> Self {
        let end = end * UNIT;
        loop {
            let job = self.jobs.keys().next().map(|&(at, _)| at);
            let next = [self.next_end(), job, self.rq.next_timer()].into_iter().flatten().min().unwrap_or(end);
            if next >= end {
                self.advance(end);
                return self;
            }
            self.advance(next.max(self.now));
            while let Some((&(at, id), &work)) = self.jobs.first_key_value()
                && at <= self.now
            {
                self.jobs.remove(&(at, id));
                let asleep = self.work[id as usize] == 0;
                self.work[id as usize] += work;
                if asleep {
                    let env = self.env();
                    self.rq.enqueue(&mut self.tasks[id as usize], id, DlEnqueue::Wakeup, &env);
                }
            }
            while let Some((id, timer)) = self.rq.due_timer(self.now) {
                let env = self.env();
                let se = &mut self.tasks[id as usize];
                self.rq.fired(se, id, timer);
                match timer {
                    DlTimer::Inactive => self.rq.became_inactive(se),
                    DlTimer::Replenish if se.throttled && self.work[id as usize] > 0 => {
                        self.rq.replenished(se, id, &env);
                    }
                    DlTimer::Replenish if se.throttled => se.replenish(self.now),
                    DlTimer::Replenish => {}
                }
            }
            self.running = self.rq.first();
        }
    }
}

const NO_LIMIT: GlobalLimit = GlobalLimit { runtime_us: None, period_us: 1_000_000 };

fn attrs(runtime: u64, period: u64) -> DlAttrs {
    DlAttrs::new(runtime * UNIT, period * UNIT)
}

/// Abeni & Buttazzo's example in Buttazzo's textbook: a hard task (4, 7) and a server (3, 8). The server has jobs of 4
/// at 3 and of 3 at 13. Deadlines are 11, 19, 19, 27. Linux's hard variant: a server without runtime waits for its
/// deadline.
#[test]
fn the_textbook_cbs_schedule() {
    let mut cpu = Cpu::new(GlobalLimit::default(), &[attrs(4, 7), attrs(3, 8)]).job(1, 3, 4).job(1, 13, 3);
    for release in (0..28).step_by(7) {
        cpu = cpu.job(0, release, 4);
    }
    let cpu = cpu.run(28);
    let expected = [
        (0, 0, 4),
        (1, 4, 7), // deadline 11: its runtime is used up at 7
        (0, 7, 11),
        (1, 11, 12), // deadline 19, runtime 2 left
        (1, 13, 15), // goes on with them, before the third job of the hard task (deadline 21): used up again
        (0, 15, 19),
        (1, 19, 20), // deadline 27
        (0, 21, 25),
    ];
    assert_eq!(cpu.schedule, units(&expected));
    assert_eq!((cpu.tasks[1].deadline, cpu.tasks[1].runtime), (27 * UNIT, 2 * UNIT as i64));
}

/// sched-deadline.rst, section 2.3: T1 blocks at 2 and is inactive from its 0-lag time 4 on. T2 reclaims its half and
/// runs to its deadline.
#[test]
fn the_kernel_documents_grub_schedule() {
    let reclaiming = DlAttrs { reclaim: true, ..attrs(4, 8) };
    let start = || Cpu::new(NO_LIMIT, &[reclaiming; 2]).job(0, 0, 2).job(1, 0, 8).job(0, 8, 1);
    let cpu = start().run(3);
    assert_eq!((cpu.rq.running_bw(), cpu.tasks[0].inactive_at), (BW_UNIT, Some(4 * UNIT)));
    let cpu = start().run(5);
    assert_eq!((cpu.rq.running_bw(), cpu.tasks[1].runtime), (BW_UNIT / 2, 3 * UNIT as i64 / 2));
    let cpu = start().run(9);
    assert_eq!(cpu.schedule, units(&[(0, 0, 2), (1, 2, 8), (0, 8, 9)]));
    assert_eq!(cpu.rq.running_bw(), BW_UNIT);
}

#[test]
fn without_reclaiming_a_task_gets_its_runtime_only() {
    let cpu = Cpu::new(NO_LIMIT, &[attrs(4, 8); 2]).job(0, 0, 2).job(1, 0, 6).run(12);
    assert_eq!(cpu.schedule, units(&[(0, 0, 2), (1, 2, 6), (1, 8, 10)]));
}

/// GRUB by hand (Lipari & Baruah, ECRTS 2000): dq = -Uact dt. Form: Lelli, Scordino, Abeni & Faggioli, "Deadline
/// scheduling in the Linux kernel" (Software: Practice and Experience 46, 2016). A server whose job is done stays
/// active until its 0-lag time d - q P / Q. If it wakes later, q = Q and d = t + P. A server without runtime waits for
/// its deadline (hard variant). Three servers fill the CPU: A (4, 8), B (2, 8), C (4, 16).
#[test]
fn a_grub_schedule_by_hand() {
    let reclaiming = |runtime, period| DlAttrs { reclaim: true, ..attrs(runtime, period) };
    for grub in [Grub::Unbounded, Grub::Bounded] {
        let start = || {
            let mut cpu = Cpu::new(NO_LIMIT, &[reclaiming(4, 8), reclaiming(2, 8), reclaiming(4, 16)]);
            cpu.grub = grub;
            let (a, b, c) = (0, 1, 2);
            let first = cpu.job(a, 0, 1).job_of(b, 0, 5 * UNIT / 2).job_of(c, 0, 21 * UNIT / 2);
            first.job(a, 10, 2).job(b, 17, 1)
        };
        let half = UNIT / 2;
        let expected = [
            (0, 0, 2),   // A, deadline 8, Uact = 1: done at 1 with q = 3, 0-lag time 8 - 3 * 8/4 = 2
            (1, 2, 7), // B, deadline 8: q = 1 at 2; Uact = 1/2 from there: q = 1/4 at 3.5, 0-lag time 8 - 1/4 * 8/2 = 7
            (2, 7, 24), // C, deadline 16, Uact = 1/2 up to 7: q = 9/4; 1/4 up to 10: q = 3/2; 3/4 with A awake: nothing at 12
            (0, 24, 28), // A again, deadline 18: q = 4 - 3/2 at 14, 0-lag time 18 - 5/2 * 8/4 = 13, which is over
            (2, 32, 34), // C has waited for its deadline: q = 4, deadline 32, Uact = 1/4
            (1, 34, 36), // B again, deadline 25, Uact = 1/2: q = 3/2 at 18, 0-lag time 25 - 3/2 * 8/2 = 19
            (2, 36, 38), // C: q = 15/4 - 1/2 at 19, 0-lag time 32 - 13/4 * 16/4 = 19
        ];
        let cpu = start().run(24);
        assert_eq!(cpu.schedule, expected.map(|(id, from, to)| (id, from * half, to * half)), "{grub:?}");
        assert_eq!(cpu.rq.running_bw(), 0);
        // Active: (until, of 1/4 CPU); and the rest when no task runs.
        for (until, active) in [(1, 4), (3, 2), (6, 2), (9, 1), (11, 3), (13, 3), (15, 1), (18, 2), (20, 0)] {
            assert_eq!(start().run(until).rq.running_bw(), active * BW_UNIT / 4, "{grub:?} at {until}");
        }
        let left = |until, id: usize| start().run(until).tasks[id].runtime;
        let quarter = UNIT as i64 / 4;
        assert_eq!(
            [left(1, 0), left(6, 1), left(10, 2), left(15, 0), left(20, 1), left(20, 2)],
            [12, 1, 6, 10, 6, 13].map(|q| q * quarter)
        );
    }
}

fn units(spans: &[(u32, u64, u64)]) -> Vec<(u32, u64, u64)> {
    spans.iter().map(|&(id, from, to)| (id, from * UNIT, to * UNIT)).collect()
}

/// Implicit deadlines with a utilisation of 1 are met under EDF (Liu & Layland, JACM 1973): T = 2, 3, 6, all with C =
/// 1.
#[test]
fn a_full_cpu_misses_nothing() {
    let mut cpu = Cpu::new(NO_LIMIT, &[attrs(1, 2), attrs(1, 3), attrs(1, 6)]);
    for (id, period) in [(0, 2), (1, 3), (2, 6)] {
        for release in (0..12).step_by(period) {
            cpu = cpu.job(id, release, 1);
        }
    }
    let cpu = cpu.run(12);
    let mut got = Vec::new();
    for (id, from, to) in cpu.schedule {
        assert_eq!((from % UNIT, to % UNIT), (0, 0));
        got.extend((from / UNIT..to / UNIT).map(|at| (id, at, at + 1)));
    }
    assert_eq!(got.len(), 12);
    for (index, period) in [2, 3, 6].into_iter().enumerate() {
        for release in (0..12).step_by(period) {
            let share = got
                .iter()
                .filter(|slot| slot.0 as usize == index && (release..release + period as u64).contains(&slot.1));
            assert_eq!(share.count(), 1, "task {index} in the period from {release}: {got:?}");
        }
    }
}
