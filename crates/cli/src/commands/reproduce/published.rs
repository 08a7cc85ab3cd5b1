//! What the five documents say: their figures, each with its place.

/// 000: Vladimir Davydov, "[PATCH RFC] sched: move h_load calculation to task_h_load", linux-kernel, 13 July 2013.
pub(super) mod idle_groups {
    pub(crate) const DOCUMENT: &str = "Vladimir Davydov: \"[PATCH RFC] sched: move h_load calculation to task_h_load\", linux-kernel, \
                                       13 July 2013 (merged for Linux 3.12)";

    /// A line of `top`: per cent of all CPUs.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Top {
        pub(crate) user: f64,
        pub(crate) system: f64,
        pub(crate) idle: f64,
    }

    /// The first `Cpu(s)` line: no groups.
    pub(crate) const NO_GROUPS: Top = Top { user: 17.8, system: 24.3, idle: 57.9 };
    /// The second: 10,000 idle groups.
    pub(crate) const GROUPS: Top = Top { user: 19.1, system: 48.7, idle: 31.6 };
    /// The third: 10,000 idle groups, with the change.
    pub(crate) const GROUPS_CHANGED: Top = Top { user: 16.9, system: 24.8, idle: 58.4 };
    /// What `perf top` says of `tg_load_down` in the second run, per cent of cycles.
    pub(crate) const TG_LOAD_DOWN: f64 = 24.56;
}

/// 002: Vincent Guittot, commit 43f4d66637, "sched: Improve sysbench performance by fixing spurious active migration", 3 October 2014.
pub(super) mod spurious_migration {
    pub(crate) const DOCUMENT: &str = "Vincent Guittot: \"sched: Improve sysbench performance by fixing spurious active migration\", commit \
                                       43f4d66637, 3 October 2014 (Linux 3.18)";

    /// `Samples` of the two `perf` reports: before, after.
    pub(crate) const SAMPLES: [u64; 2] = [727, 20];

    /// The reports' `Overhead` by `Command`, per cent of the samples: before, after.
    pub(crate) const COMMANDS: [(&str, Option<f64>, Option<f64>); 13] = [
        ("migration/0", Some(11.83), None),
        ("migration/1", Some(12.52), Some(5.00)),
        ("migration/2", Some(10.87), None),
        ("migration/3", Some(11.83), None),
        ("migration/4", Some(11.14), None),
        ("migration/5", Some(12.52), None),
        ("migration/6", Some(12.10), None),
        ("migration/7", Some(12.52), None),
        ("sysbench", Some(2.75), Some(80.00)),
        ("swapper", Some(0.83), Some(10.00)),
        ("ktps65090charge", Some(0.55), Some(5.00)),
        ("mmcqd/1", Some(0.41), None),
        ("perf", Some(0.14), None),
    ];
}
