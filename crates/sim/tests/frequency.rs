//! Frequencies: their choice, and their effect on work and averages.

mod support;

use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::ids::CpuId;
use vruntime_sim::frequency::{Frequencies, FrequencyDomain, FrequencyError, Governor};
use vruntime_sim::{Config, Outcome};
use vruntime_trace::NoSink;
use vruntime_workload::program::*;

const KERNELS: [&str; 5] = ["6.1", "6.6", "6.12", "6.18", "7.1"];

/// One clock for `cpus` CPUs with 500, 1000, 1500 and 2000 MHz, no costs, no latency.
fn machine(kernel: &str, cpus: u32, governor: Governor) -> Config {
    let mut config = exact(kernel, &cpus.to_string());
    let khz = vec![500_000, 1_000_000, 1_500_000, 2_000_000];
    let domain = FrequencyDomain { cpus: (0..cpus).collect(), khz, transition_ns: 0 };
    config.machine.frequencies = Some(Frequencies { governor, rate_limit_ns: 1_000_000, domains: vec![domain] });
    config
}

fn log(workload: &Workload, config: &Config) -> (Log, Outcome) {
    let mut log = Log::default();
    let outcome = simulate(workload, config, &mut log).unwrap();
    (log, outcome)
}

/// Each frequency of CPU 0, MHz, with its time.
fn frequencies(log: &Log) -> Vec<(u64, u32)> {
    let of = |&(at, cpu, event): &(u64, CpuId, Event)| match event {
        Event::CpuFrequency { khz } if cpu == CpuId(0) => Some((at, khz / 1000)),
        _ => None,
    };
    log.events.iter().filter_map(of).collect()
}

fn periodic(name: &str, work: u64, period: u64) -> Task {
    let timer = Op::Timer { timer: 0, period: period * US, mode: TimerMode::Absolute };
    task(name, vec![phase(vec![Op::Run { work: work * US }, timer], Repeat::Forever)])
}

#[test]
fn work_takes_as_long_as_the_frequency_says() {
    let exits = |governor| {
        let (log, outcome) =
            log(&workload(vec![once("t", vec![Op::Run { work: 100 * MS }])]), &machine("6.12", 1, governor));
        assert_eq!(outcome.cpus[0].busy, outcome.end);
        assert_eq!(frequencies(&log).len(), 1);
        log.exit("t").unwrap()
    };
    assert_eq!(exits(Governor::Performance), 100 * MS);
    assert_eq!(exits(Governor::Powersave), 400 * MS);
}

/// Under schedutil a hog's frequency rises from lowest to highest, never falls, and no work is lost.
#[test]
fn a_hog_is_soon_at_the_highest_frequency() {
    for kernel in KERNELS {
        let config = machine(kernel, 1, Governor::Schedutil);
        let (log, outcome) = log(&workload(vec![once("t", vec![Op::Run { work: 300 * MS }])]), &config);
        let steps = frequencies(&log);
        assert_eq!(steps[0], (0, 500));
        assert!(steps.windows(2).all(|pair| pair[0].1 < pair[1].1), "{kernel}: {steps:?}");
        let (at, last) = *steps.last().unwrap();
        assert!(last == 2000 && at < 150 * MS, "{kernel}: {steps:?}");
        let done: u64 = steps
            .iter()
            .zip(steps.iter().skip(1).map(|next| next.0).chain([outcome.end]))
            .map(|(&(since, mhz), until)| (until - since) * u64::from(mhz) / 2000)
            .sum();
        assert!(done.abs_diff(300 * MS) <= steps.len() as u64 + 1, "{kernel}: {done} of work");
    }
}

/// Utilisation does not depend on the frequency. A task of a quarter of the CPU ends at the frequency with a quarter of
/// reserve, from both sides.
#[test]
fn the_frequency_settles_where_the_utilisation_says() {
    for kernel in KERNELS {
        // 2.5 of 10 ms: 256 of 1024, times 1.25: 320, which is 625 MHz: 1000, or 500 and 1000 in turn as the average
        // moves.
        let mut config = machine(kernel, 1, Governor::Schedutil);
        config.duration = Some(2000 * MS);
        let (log, outcome) = log(&workload(vec![periodic("t", 2_500, 10_000)]), &config);
        let late: Vec<(u64, u32)> = frequencies(&log).into_iter().filter(|step| step.0 > 500 * MS).collect();
        assert!(late.iter().all(|step| step.1 <= 1000), "{kernel}: {late:?}");
        // At 1000 MHz it takes half of the time.
        let busy = outcome.cpus[0].busy * 100 / outcome.end;
        assert!((45..=75).contains(&busy), "{kernel}: {busy} % busy");
        // The last ends with the run.
        assert!(log.loops("t").len() >= 199, "{kernel}: it keeps its pace");
    }
}

#[test]
fn clamps_bound_the_frequency() {
    for kernel in KERNELS {
        let mut config = machine(kernel, 1, Governor::Schedutil);
        config.duration = Some(1000 * MS);
        let steps = |mut task: Task, min, max| {
            (task.settings.util_min, task.settings.util_max) = (min, max);
            let (log, outcome) = log(&workload(vec![task]), &config);
            assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
            frequencies(&log)
        };
        // A hog that is content with 400: 781 MHz, or 977 with the additional quarter of 6.1 and 6.6.
        let hog = task("t", vec![phase(vec![Op::Run { work: 1000 * MS }], Repeat::Forever)]);
        assert_eq!(steps(hog, None, Some(400)).last().unwrap().1, 1000, "{kernel}");
        // A light task that asks for 700 has them from its first wakeup on: 1367 MHz, or 1709.
        let boosted = steps(periodic("t", 300, 10_000), Some(700), None);
        let expected = if ["6.1", "6.6"].contains(&kernel) { 2000 } else { 1500 };
        assert!(boosted[1].0 < 2 * MS && boosted[1].1 == expected, "{kernel}: {boosted:?}");
    }
}

/// Without clamps, real-time tasks have the highest frequency, and a deadline task at once its bandwidth.
#[test]
fn real_time_and_deadline_tasks_do_not_wait_for_an_average() {
    for kernel in KERNELS {
        let mut config = machine(kernel, 1, Governor::Schedutil);
        config.duration = Some(100 * MS);
        let mut rt = periodic("t", 300, 10_000);
        rt.settings.policy = Some(Policy::Fifo { priority: 1 });
        let (log, _) = log(&workload(vec![rt]), &config);
        assert_eq!(frequencies(&log)[1], (0, 2000), "{kernel}");
        let mut dated = periodic("t", 300, 10_000);
        dated.settings.policy = Some(Policy::Deadline {
            runtime: 6 * MS,
            deadline: 10 * MS,
            period: 10 * MS,
            reclaim: false,
            overrun: false,
        });
        let (log, _) = self::log(&workload(vec![dated]), &config);
        // 614 of 1024 is 1200 MHz, with the quarter 1500.
        assert_eq!(frequencies(&log)[1], (0, 1500), "{kernel}");
    }
}

/// A clock's highest request decides; other clocks are independent.
#[test]
fn a_clock_serves_all_its_cpus() {
    let hog = pinned(task("hog", vec![phase(vec![Op::Run { work: 1000 * MS }], Repeat::Forever)]), &[1]);
    let mut config = machine("6.12", 4, Governor::Schedutil);
    let Some(spec) = &mut config.machine.frequencies else { unreachable!() };
    let khz = spec.domains[0].khz.clone();
    spec.domains =
        [vec![0, 1], vec![2, 3]].map(|cpus| FrequencyDomain { cpus, khz: khz.clone(), transition_ns: 0 }).into();
    config.duration = Some(500 * MS);
    let (log, _) = log(&workload(vec![hog]), &config);
    let last = |wanted: u32| {
        let of = |at: u64, event| match event {
            Event::CpuFrequency { khz } => Some((at, khz)),
            _ => None,
        };
        let all = log.events.iter().filter(|(_, cpu, _)| cpu.0 == wanted);
        all.filter_map(|&(at, _, event)| of(at, event)).next_back().unwrap().1
    };
    assert_eq!([0, 1, 2, 3].map(last), [2_000_000, 2_000_000, 500_000, 500_000]);
}

#[test]
fn a_change_takes_its_time_and_the_next_waits_for_the_limit() {
    let mut config = machine("6.12", 1, Governor::Schedutil);
    let Some(spec) = &mut config.machine.frequencies else { unreachable!() };
    spec.domains[0].transition_ns = 300_000;
    spec.rate_limit_ns = 20 * MS;
    let (log, _) = log(&workload(vec![once("t", vec![Op::Run { work: 300 * MS }])]), &config);
    let steps = frequencies(&log);
    assert!(steps.len() > 2);
    for pair in steps[1..].windows(2) {
        assert!(pair[1].0 - pair[0].0 >= 20 * MS, "{steps:?}");
    }
    // Chosen at a tick, it holds 300 us later.
    assert_eq!(steps.last().unwrap().0 % (4 * MS), 300_000, "{steps:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let with = |change: fn(&mut Frequencies)| {
        let mut config = machine("6.12", 2, Governor::Schedutil);
        change(config.machine.frequencies.as_mut().unwrap());
        simulate(&workload(vec![]), &config, &mut NoSink).unwrap_err().to_string()
    };
    assert!(with(|spec| spec.domains[0].khz.swap(0, 1)).contains("must ascend, but 1000 MHz is followed by 500 MHz"));
    assert!(with(|spec| spec.domains[0].khz.clear()).contains("needs a frequency"));
    assert!(with(|spec| spec.domains[0].cpus = vec![0]).contains("CPU 1 is in no frequency domain"));
    assert!(with(|spec| spec.domains[0].cpus = vec![0, 1, 1]).contains("CPU 1 is in two"));
    assert!(with(|spec| spec.domains[0].cpus = vec![0, 1, 2]).contains("0 to 1"));
    let nearest = |name| Governor::from_name(name).unwrap_err();
    assert!(matches!(nearest("shedutil"), FrequencyError::Governor { nearest: Some("schedutil"), .. }));
}
