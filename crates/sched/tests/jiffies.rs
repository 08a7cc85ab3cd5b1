//! When a busy CPU balances, in jiffies.

use std::sync::Arc;

use vruntime_sched::class::fair::{EevdfOrder, Fair};
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::CpuId;
use vruntime_sched::tunables::Defaults;
use vruntime_sched::{CpuMask, Host, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, kernel};

type Order = Fair<EevdfOrder, Defaults>;

const TICK_NS: u64 = 4_000_000;
/// From the start of a tick to the softirq.
const SOFTIRQ_NS: u64 = 12_000;

struct Deaf;

impl Host for Deaf {
    fn resched(&mut self, _cpu: CpuId) {}
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    fn arm(&mut self, _timer: Timer, _at: Option<u64>) {}
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}
}

/// The ticks between balances of two busy CPUs with late ticks.
fn gaps(kernel_name: &str, lateness: impl Fn(u64) -> [u64; 2]) -> [Vec<u64>; 2] {
    let topology = Topology::flat(2);
    let config = Config::new(&kernel(kernel_name).unwrap(), &topology, 250).with_tunables(Defaults);
    let shared = Shared::<Order>::new(topology, config);
    shared.set_first_tick(TICK_NS);
    let mut rqs = Rq::all(&shared);
    let mut host = Deaf;
    let cpus = [CpuId(0), CpuId(1)];
    for cpu in cpus {
        let mut scheduler = Scheduler { rqs: &mut rqs, shared: &shared, host: &mut host, now: 0 };
        let affinity = Some(Arc::new([cpu].into_iter().collect::<CpuMask>()));
        let task = scheduler.new_task(&TaskAttrs { affinity, ..TaskAttrs::default() }, cpu);
        scheduler.wake_new(task, cpu);
        assert_eq!(scheduler.schedule(cpu, PrevState::Preempted).next, Running::Task(task));
    }
    let mut balanced = [Vec::new(), Vec::new()];
    for tick in 1..200 {
        let mut calls = Vec::new();
        for (cpu, late) in cpus.into_iter().zip(lateness(tick)) {
            calls.push((tick * TICK_NS + late, cpu));
        }
        calls.sort_unstable();
        let mut due = Vec::new();
        for (now, cpu) in calls {
            let mut scheduler = Scheduler { rqs: &mut rqs, shared: &shared, host: &mut host, now };
            if scheduler.tick(cpu) {
                due.push((now + SOFTIRQ_NS, cpu));
            }
        }
        for (now, cpu) in due {
            Scheduler { rqs: &mut rqs, shared: &shared, host: &mut host, now }.balance(cpu);
            balanced[cpu.index()].push(tick);
        }
    }
    // At first only the initial balance is due.
    balanced.map(|ticks| ticks[1..].windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// As on a real 6.18: 15 ticks on the CPU that keeps the count; on the other 15 or 16.
#[test]
fn a_busy_cpu_balances_every_15_or_16_ticks() {
    // A CPU that ticks before the count rises finds nothing due until its next tick.
    for kernel in ["6.6", "6.12", "6.18", "7.1"] {
        let early = gaps(kernel, |tick| if tick == 1 { [1_000, 2_000] } else { [3_000, 1_000] });
        assert!(early[0].len() > 10 && early[0].iter().all(|&gap| gap == 15), "{kernel}: {early:?}");
        assert!(early[1].len() > 10 && early[1].iter().all(|&gap| gap == 16), "{kernel}: {early:?}");
        // Only the number of ticks counts, however late they are.
        let late = gaps(kernel, |tick| [tick % 7 * 1_000, 7_000 + tick % 5 * 1_000]);
        assert!(late.iter().flatten().all(|&gap| gap == 15), "{kernel}: {late:?}");
    }
}
