//! Figures of the five documents, each with its place.

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
    /// `perf top` of `tg_load_down` in the second run, per cent of cycles.
    pub(crate) const TG_LOAD_DOWN: f64 = 24.56;
}

/// 001: Ingo Molnar, "Re: lmbench ctxsw regression with CFS", linux-kernel, 2 August 2007.
pub(super) mod ctxsw {
    pub(crate) const DOCUMENT: &str = "Ingo Molnar: \"Re: lmbench ctxsw regression with CFS\", linux-kernel, 2 August 2007 (on the way to Linux \
                                       2.6.23)";

    /// First table: ten runs of `lat_ctx -s 0 2`, microseconds: v2.6.22, v2.6.23-git, v2.6.23-git+const-param.
    pub(crate) const LAT_CTX_US: [[f64; 3]; 10] = [
        [1.30, 1.60, 1.19],
        [1.30, 1.36, 1.18],
        [1.14, 1.50, 1.01],
        [1.26, 1.27, 1.23],
        [1.22, 1.40, 1.04],
        [1.13, 1.34, 1.09],
        [1.27, 1.39, 1.05],
        [1.20, 1.30, 1.16],
        [1.20, 1.17, 1.16],
        [1.25, 1.33, 1.01],
    ];
    /// The lines below it: avg, min, max.
    pub(crate) const SUMMARY_US: [(&str, [f64; 3]); 3] =
        [("avg", [1.22, 1.36, 1.11]), ("min", [1.13, 1.17, 1.01]), ("max", [1.27, 1.60, 1.23])];
    /// `pipe-test` under CFS, microseconds per loop.
    pub(crate) const PIPE_TEST_US: [f64; 6] = [4.67, 4.41, 4.46, 4.46, 4.44, 4.41];
    /// `hackbench 50`, five runs, seconds: v2.6.22, v2.6.23-cfs.
    pub(crate) const MESSAGING_S: [[f64; 2]; 5] =
        [[3.019, 2.842], [2.994, 2.878], [2.977, 2.882], [3.012, 2.864], [2.996, 2.882]];
}

/// 002: Vincent Guittot, commit 43f4d66637, "sched: Improve sysbench performance by fixing spurious active migration",
/// 3 October 2014.
pub(super) mod spurious_migration {
    pub(crate) const DOCUMENT: &str = "Vincent Guittot: \"sched: Improve sysbench performance by fixing spurious active migration\", commit \
                                       43f4d66637, 3 October 2014 (Linux 3.18)";

    /// `Samples` of the two `perf` reports: before, after.
    pub(crate) const SAMPLES: [u64; 2] = [727, 20];

    /// The samples of `migration/N` before: the sum of their percentages below.
    pub(crate) const PUSHED: u64 = 691;

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

/// 003: KUROSAWA Takahiro, the CPU resource controller for CKRM, ckrm-tech and linux-kernel, January 2006 (Linux
/// 2.6.15).
pub(super) mod cpurc {
    pub(crate) const DOCUMENT: &str =
        "KUROSAWA Takahiro: CPU resource controller for CKRM (cpurc v0.3, for Linux 2.6.15), 2006";

    /// "(2) accuracy of share": share in per cent, elapsed, user and system seconds, %CPU.
    pub(crate) const KERNBENCH: [(u32, f64, f64, f64, f64); 10] = [
        (10, 2515.5, 571.8, 61.6, 24.8),
        (20, 1349.3, 578.1, 59.7, 46.8),
        (30, 905.5, 575.7, 59.8, 69.8),
        (40, 706.9, 574.1, 60.1, 89.4),
        (50, 586.8, 572.4, 60.1, 107.2),
        (60, 494.2, 572.6, 60.1, 127.2),
        (70, 430.0, 572.4, 60.9, 146.6),
        (80, 368.4, 571.2, 60.5, 171.0),
        (90, 328.4, 572.1, 60.6, 192.2),
        (100, 320.5, 571.8, 60.6, 196.8),
    ];
    /// "(1) overhead": N of `lat_ctx -s 0 -W 100 -N 1000 N`, microseconds under 2.6.15, and with the controller.
    pub(crate) const LAT_CTX_US: [(usize, f64, f64); 22] = [
        (2, 0.48, 0.50),
        (3, 0.69, 0.70),
        (4, 0.65, 0.71),
        (5, 0.68, 0.70),
        (6, 0.66, 0.73),
        (7, 0.74, 0.69),
        (8, 0.67, 0.76),
        (9, 0.68, 0.71),
        (10, 0.66, 0.71),
        (20, 0.72, 0.74),
        (30, 0.75, 0.77),
        (40, 0.77, 0.79),
        (50, 0.83, 0.84),
        (60, 0.86, 0.86),
        (70, 0.90, 0.86),
        (80, 0.92, 0.89),
        (90, 1.00, 0.92),
        (100, 0.96, 1.03),
        (200, 1.55, 1.65),
        (300, 2.30, 2.23),
        (400, 2.80, 2.85),
        (500, 3.12, 3.20),
    ];
}

/// 004: Glauber Costa, "[PATCH v3 4/6] add a new scheduler hook for context switch", 30 May 2012.
pub(super) mod group_switches {
    pub(crate) const DOCUMENT: &str =
        "Glauber Costa: \"[PATCH v3 4/6] add a new scheduler hook for context switch\", 30 May 2012 (never merged)";

    /// `hackbench -pipe 1 process 4000` on 4 CPUs, seconds: levels of groups, without the patches, with them, and the
    /// published difference in per cent.
    pub(crate) const MESSAGING_S: [(usize, f64, f64, &str); 3] =
        [(0, 4.857_700, 4.863_700, "0.12"), (3, 5.120_867, 5.113_800, "0.13"), (30, 8.829_385, 9.975_467, "12")];
}
