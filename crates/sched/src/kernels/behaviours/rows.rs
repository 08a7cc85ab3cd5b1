//! The table of behaviours.

use super::{Area, BehaviourRow, Certainty};

const fn some(text: &'static str) -> Option<&'static str> {
    if text.is_empty() { None } else { Some(text) }
}

/// Returns the second range of releases. Both ends are empty without one.
const fn again(since: &'static str, until: &'static str) -> Option<(&'static str, &'static str)> {
    if since.is_empty() { None } else { Some((since, until)) }
}

/// Makes the enum and the table of rows: variant, name, area, since..until, certainty and description. Optional parts:
/// the switch of a real kernel, a second range of releases, and the source.
macro_rules! behaviours {
    ($($variant:ident $name:ident: $area:ident $since:literal..$until:literal $certainty:ident
        $what:literal $(by $switch:literal)? $(again $more:literal..$end:literal)? $(from $source:literal)?;)*) => {
        /// A fact of the scheduler that changed once.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[repr(u8)]
        pub enum Behaviour {
            $(#[doc = $what] $variant,)*
        }

        /// Every behaviour, in order.
        pub static BEHAVIOURS: &[BehaviourRow] = &[$(BehaviourRow {
            behaviour: Behaviour::$variant,
            name: stringify!($name),
            area: Area::$area,
            since: some($since),
            until: some($until),
            certainty: Certainty::$certainty,
            what: $what,
            switch: concat!($($switch)?),
            again: again(concat!($($more)?), concat!($($end)?)),
            origin: concat!($($source)?),
        },)*];
    };
}

behaviours! {
    // O(1) and the first CFS.
    Early BALANCE_EARLY: OldBalance "2.6.0".."2.6.24" Remembered
        "balance by the domains' own numbers, without task groups";
    CountsTasks BALANCE_COUNTS_TASKS: OldBalance "2.6.0".."2.6.18" Remembered
        "balance numbers of tasks instead of their weights (smpnice)";
    PowerPerThread POWER_PER_THREAD: OldBalance "2.6.0".."2.6.17" Remembered
        "give each thread of a core a part of the power; later a package counts as one CPU";
    TriesOneQueue BALANCE_TRIES_ONE_QUEUE: OldBalance "2.6.0".."2.6.19" Remembered
        "give up when no task of the busiest queue may move, without trying the next queue";
    Softirq BALANCE_IN_SOFTIRQ: OldBalance "2.6.20".."" Remembered
        "balance in a softirq after the tick, not in the tick";
    BoundsSleep O1_BOUNDS_SLEEP: O1 "2.6.17".."2.6.23" Remembered
        "let one long sleep make a task just interactive, and know SCHED_BATCH";
    SkipsClock SKIP_CLOCK_UPDATE: Fair "2.6.37".."" Remembered
        "keep the run queue's clock from a wakeup that preempts to the switch";
    IdleEndsAtFork IDLE_ENDS_AT_FORK: Wakeup "2.6.0".."3.2" Remembered
        "let a forked task end the measured idle time of its CPU";

    // The balancers by load, up to 5.4.
    WeightIsLoad LOAD_IS_WEIGHT: OldBalance "2.6.24".."3.11" Read
        "take the weight that is queued for a CPU's load, not an average";
    HLoadOfAll H_LOAD_OF_ALL_GROUPS: OldBalance "2.6.24".."3.12" Read
        "compute the load of every group of the system before a pull";
    UnevenBySpread UNEVEN_BY_SPREAD: OldBalance "2.6.24".."3.12" Read
        "call a group uneven by the spread of its CPUs' loads, not by failed pulls below";
    WakeWide WAKE_WIDE: Wakeup "3.12".."" Read
        "keep the wakees of a task that wakes many from its CPU";
    WakeWideFlips WAKE_WIDE_OF_BOTH: Wakeup "4.3".."" Remembered
        "compare how often waker and wakee change partners, in both directions";
    AnyLoaded PICKS_ANY_LOADED_GROUP: OldBalance "3.18".."5.5" Read
        "let a group without a task too many be the busiest" from "commit caeb178c60";
    LeavesIdler IDLE_LEAVES_IDLER: OldBalance "3.12".."3.18" Read
        "let an idle CPU leave a group alone only if that has more idle CPUs";
    LeavesFitting IDLE_LEAVES_FITTING: OldBalance "3.18".."5.5" Read
        "let an idle CPU leave a group alone that is not overloaded and has about as many idle CPUs";
    LevelsAlike LEVELS_ALIKE: OldBalance "3.16".."" Read
        "give the levels within a node numbers by one rule";
    NewidleCost NEWIDLE_COST: Balance "3.13".."" Remembered
        "stop a newly-idle balance when its cost exceeds the average idle time";
    NewidleCostFades NEWIDLE_COST_FADES: Balance "3.13".."" Remembered
        "let the highest cost of newly-idle balancing fade";
    NewidleRetries NEWIDLE_RETRIES: Balance "3.15".."" Remembered
        "pick again after a newly-idle balance that released the queue's lock";
    SlicesExpire LIMIT_SLICES_EXPIRE: Limits "3.2".."3.16" Read
        "drop what a CPU has left of its group's quota once another period has begun"
        again "4.18".."5.4"
        from "3.16 broke the test (commit 51f2176d74ac), 4.18 mended it (512ac999d275), 5.4 removed it (de53fd7aedb1)";
    RootOverload ROOT_OVERLOAD: Balance "3.17".."" Remembered
        "skip newly-idle balancing while no CPU of the root domain has two tasks";
    KicksForCache NOHZ_KICK_FOR_BUSY_CACHE: Balance "3.13".."" Remembered
        "wake an idle CPU to balance when two CPUs of a cache are busy";
    NohzOwnFirst NOHZ_OWN_CPU_FIRST: OldBalance "2.6.37".."4.1" Read
        "let a kicked CPU balance itself first, and leave the other idle CPUs once it has work"
        from "removed by commit d4573c3e1c99 (4.1)";
    AttachesInReverse ATTACH_IN_REVERSE: Balance "3.18".."" Read
        "detach all tasks of a pull first, and attach the last first";
    IdlestShallowest FORK_TO_SHALLOWEST: Wakeup "3.18".."" Read
        "fork to the idle CPU in the shallowest idle state";
    CpuLoads CPU_LOAD_AVERAGES: OldBalance "2.6.0".."5.3" Remembered
        "balance by averages of a CPU's load over ticks (cpu_load[])";
    PushesAny PUSHES_ANY_IMBALANCE: Balance "2.6.0".."5.12" Remembered
        "have the stopper push the running task after failures, whatever is to be moved";
    PushResets PUSH_RESETS_FAILURES: Balance "2.6.0".."5.13" Remembered
        "restart the count of failures, and double the interval, when the stopper is kicked";
    PushClears PUSH_CLEARS_FAILURES: Balance "4.6".."" Remembered
        "clear the count of failures when the stopper has pushed a task";
    LeavesReduced LEAVES_REDUCED_CPU: Balance "4.1".."" Remembered
        "push a lone task from a CPU that real-time tasks leave little of";
    NewidleBacksOff NEWIDLE_BACKS_OFF: Balance "2.6.24".."5.0" Read
        "let a newly-idle balance that finds nothing lengthen the interval"
        from "removed by commit 3f130a37c442 (5.0), which stable 4.4.204 and 4.19.87 have, too";

    // 4.2 to 6.0.
    RtThrottle RT_THROTTLE: Realtime "2.6.25".."6.12" Remembered
        "throttle real-time tasks that use up their part of the period" by "kernel.sched_rt_runtime_us=-1";
    AbsentDecays ABSENT_LOAD_DECAYS: Fair "4.2".."" Remembered
        "let a task's averages decay while it is in a higher class";
    ClassMovesLoad CLASS_CHANGE_MOVES_LOAD: Fair "4.3".."" Remembered
        "detach a task's load when it leaves the fair class, and attach it at its return";
    AffinityRequeues AFFINITY_REQUEUES: Cpusets "4.3".."" Remembered
        "take a queued task off its queue and put it back when its CPUs change";
    GroupMovePlaces GROUP_MOVE_PLACES: Cfs "4.4".."" Remembered
        "place a sleeping task in its old group before it changes groups";
    RtTimerAtOnce RT_TIMER_AT_ONCE: Realtime "4.7".."" Remembered
        "fire the real-time period timer at once when deadline tasks have run before";
    RecordsPinned RECORDS_PINNED_WAKEES: Wakeup "3.12".."4.9" Remembered
        "count wakeups of pinned tasks for WAKE_WIDE";
    GroupsByUtil GROUPS_BY_UTILISATION: OldBalance "4.1".."5.5" Read
        "call a group overloaded by its utilisation, not by its number of tasks";
    WakeIdleCores WAKE_IDLE_CORES: Wakeup "4.9".."" Read
        "wake by WA_IDLE and WA_WEIGHT, then search for an idle core, an idle CPU, and a sibling thread";
    NohzStats NOHZ_UPDATES_BLOCKED: Balance "4.17".."" Remembered
        "bring the averages of idle CPUs up to date every 32 ms";
    Eas ENERGY_AWARE: Frequency "5.0".."" Remembered
        "place waking tasks by energy where the machine has an energy model" by "kernel.sched_energy_aware=0";
    BesideIdle WAKE_BESIDE_IDLE: Wakeup "5.4".."" Remembered
        "treat a CPU that runs only SCHED_IDLE tasks as idle for a waking task";
    ByType BALANCE_BY_TYPE: Balance "5.5".."" Remembered
        "classify groups by what they lack, and move load, utilisation, tasks or misfits";
    PrioChangeLooks PRIO_CHANGE_LOOKS: Fair "5.6".."" Remembered
        "treat a new nice value as a change of priority, and spare a lone task";
    GroupMoveReschedules GROUP_MOVE_RESCHEDULES: Fair "5.6".."" Remembered
        "reschedule a running task that changes groups";
    IdleOnlyBalancesSoon IDLE_ONLY_BALANCES_SOON: Balance "5.6".."" Remembered
        "balance at the next tick when only SCHED_IDLE tasks are left on a CPU";
    AffinitySpreads AFFINITY_SPREADS: Cpusets "5.7".."" Remembered
        "spread tasks that must leave their CPU over all allowed CPUs";
    Pct117 IMBALANCE_PCT_117: Balance "5.10".."" Remembered
        "tolerate 17 % of imbalance between packages and nodes, not 25 %";
    BusyFactor16 BUSY_FACTOR_16: Balance "5.10".."" Remembered
        "balance busy CPUs 16 times less often, not 32 times"
        by "echo 32 | tee /sys/kernel/debug/sched/domains/cpu*/domain*/busy_factor";
    IntervalDrifts BUSY_INTERVAL_DRIFTS: Balance "5.10".."" Remembered
        "shorten the intervals of busy CPUs by a tick, so that levels drift apart";
    RelaxesLoad RELAXES_LOAD: Balance "5.10".."" Remembered
        "halve the load that a task may not exceed at each failed balance";
    SmtIgnoresHeat SMT_IGNORES_HEAT: Balance "5.10".."" Remembered
        "move cache-hot tasks between the threads of a core";
    KthreadsStay PER_CPU_KTHREADS_STAY: Balance "5.13".."" Remembered
        "leave per-CPU kernel threads out of balancing";
    NewidleGateCost NEWIDLE_GATE_BY_COST: Balance "5.16".."" Remembered
        "skip newly-idle balancing by its measured cost, not by migration_cost";
    NumaPair NUMA_ALLOWS_PAIR: Balance "5.6".."5.11" Read
        "leave a node alone that has at most two running tasks";
    NumaQuarter NUMA_ALLOWS_QUARTER: Balance "5.11".."5.18" Remembered
        "allow an imbalance of two between nodes, and forks on a node, while a quarter of it is in use";
    SearchOnce WAKE_SEARCHES_ONCE: Wakeup "5.12".."" Remembered
        "look for an idle core and an idle CPU in one pass, and take an idle CPU where no core is idle";
    SiblingsOfPrev WAKE_SIBLINGS_FIRST: Wakeup "5.13".."" Remembered
        "look at the previous CPU's sibling threads before the search of the cache";
    NumaByCaches NUMA_IMBALANCE_BY_CACHES: Balance "5.18".."" Remembered
        "allow an imbalance between nodes by the number of caches in a node";
    IdleLagDecays IDLE_LAG_DECAYS: Fair "6.0".."" Remembered
        "let a sleeper that leaves an idle CPU decay up to now";
    QueuesOnIdle WAKE_QUEUES_ON_IDLE: Wakeup "6.0".."" Remembered
        "let an idle CPU enqueue the tasks that others wake for it" by "NO_TTWU_QUEUE";
    ReducedIsMisfit REDUCED_IS_MISFIT: Balance "6.0".."" Remembered
        "treat a lone task on a CPU that real-time tasks leave little of as a misfit";

    // 6.2 to 6.11.
    Eevdf EEVDF: Fair "6.6".."" Recorded
        "run the task with the earliest deadline among those that are owed time (EEVDF), not the least vruntime (CFS)";
    CpusetForgets CPUSET_FORGETS_AFFINITY: Cpusets "2.6.0".."6.2" Read
        "forget the CPUs that a task asked for when its cpuset changes";
    PeriodsApart LIMIT_PERIODS_APART: Limits "6.4".."" Read
        "begin the periods of different groups' limits at different instants";
    GrubBounded GRUB_BOUNDED: Deadline "6.5".."" Read
        "keep reclaiming deadline tasks below the CPU's limit";
    BoostsRunnable RUNNABLE_BOOST: Frequency "6.5".."" Read
        "count tasks that wait as utilisation for frequency, energy and busy CPUs";
    SiblingOfBusiest SIBLING_OF_BUSIEST: Balance "6.5".."" Remembered
        "let the busiest group's level decide whether tasks are spread";
    FullyBusySmt FULLY_BUSY_SPARES_SMT: Balance "6.5".."" Remembered
        "prefer a fully busy single CPU to a fully busy core";
    MisfitFirst FIRST_OF_EQUAL_MISFITS: Balance "6.6".."" Remembered
        "relieve the first of the groups with equal misfits, not the last";
    SmtBalance SMT_BALANCE: Balance "6.6".."" Remembered
        "relieve a core with several busy threads before single CPUs";
    SiblingByCores SIBLINGS_BY_CORES: Balance "6.6".."" Remembered
        "compare groups of different numbers of cores in proportion";
    WholeCoreBalances WHOLE_CORE_BALANCES: Balance "6.6".."" Remembered
        "prefer a CPU of an idle core for balancing";
    SpareCore SPARE_CORE_FIRST: Balance "6.6".."" Remembered
        "prefer relieving a single CPU to a core of which one thread is busy";
    EmptyKeepsWeight EMPTY_GROUP_KEEPS_WEIGHT: Fair "6.6".."" Remembered
        "keep the weight of a group's entity when its queue becomes empty";
    EmptyNotThrottled EMPTY_IS_NOT_THROTTLED: Limits "6.6".."" Read
        "count no throttled time for queues without tasks";
    OverloadWaiting OVERLOAD_BY_WAITING: Realtime "6.7".."" Read
        "offer a real-time or deadline task to other CPUs whenever it waits";
    ClusterFirst WAKE_CLUSTER_FIRST: Wakeup "6.7".."" Read
        "search the cluster for an idle CPU before the rest of the cache";
    GroupLoadRateLimit GROUP_LOAD_RATE_LIMIT: Fair "6.7".."" Read
        "pass a queue's load on to its group at most once a millisecond";
    ExclusiveCpusets CPUSET_EXCLUSIVE: Cpusets "6.7".."" Read
        "know cpuset.cpus.exclusive, and reject partitions of CPUs isolated at boot";
    EstWaits UTIL_EST_OF_WAITERS: Fair "6.8".."" Read
        "keep the utilisation estimate of a task that had to wait";
    HeadroomOfUse HEADROOM_OF_USE: Frequency "6.8".."" Read
        "add the quarter of headroom to what is used, not to clamps and reservations";
    InitUtilScale INIT_UTIL_SCALE: Fair "6.10".."" Read
        "start a forked task with its share of the queue's utilisation";
    MisfitAllowed MISFIT_IF_ALLOWED: Balance "6.10".."" Read
        "call a task misfit only if it may run on a bigger CPU";
    MisfitWaits MISFIT_DOES_NOT_COUNT: Balance "6.10".."" Read
        "neither back off nor count failures because of a misfit task";
    EasMovesMisfit ENERGY_MOVES_MISFITS: Frequency "6.10".."" Read
        "balance misfit tasks although wakeups go by energy";

    // 6.12 to 6.17.
    CustomSlices CUSTOM_SLICES: Eevdf "6.12".."" Read
        "let tasks ask for a slice (sched_setattr)";
    PlacesOnce NEW_TASK_PLACED_ONCE: Eevdf "6.12".."" Read
        "place a forked task once, with half a slice to its first deadline";
    // Also 6.12.y, and 6.14.2.
    IdleGivesWay IDLE_LOSES_PROTECTION: Eevdf "6.15".."" Read
        "end an idle entity's protection when another entity wakes";
    ShortOvertakes SHORT_OVERTAKES: Eevdf "6.12".."6.17" Read
        "reschedule at the next update once a shorter slice has ended the protection" by "NO_PREEMPT_SHORT";
    GroupsBeforePolicies GROUPS_BEFORE_POLICIES: Fair "6.12".."" Read
        "compare the entities' groups before SCHED_IDLE and SCHED_BATCH of tasks";
    EstBefore UTIL_EST_OF_LAST_UPDATE: Fair "6.12".."7.1" Read
        "update the utilisation estimate before the dequeue brings averages up to date";
    ClampsLast CLAMPS_LAST: Frequency "6.12".."6.14" Read
        "count a task's clamps after its class has looked at the CPU";
    DelayedCounts DELAYED_COUNTS: Balance "6.12".."6.14" Read
        "count and move tasks with a delayed dequeue like runnable tasks";
    RtIgnoresDeadline RT_WAKES_ON_DEADLINE: Realtime "6.12".."" Read
        "wake a real-time task on a CPU that runs a deadline task";
    FairServer FAIR_SERVER: Deadline "6.12".."" Read
        "run starving fair tasks by a deadline server instead of throttling real-time tasks"
        by "echo 0 | tee /sys/kernel/debug/sched/fair_server/cpu*/runtime";
    HrtickAtSwitch HRTICK_AT_SWITCH: Fair "6.12".."" Read
        "set the slice timer at a switch, not when the same task is picked again";
    ReweightStretches REWEIGHT_STRETCHES_SLEEPERS: Eevdf "6.13".."" Remembered
        "stretch the deadline that a sleeping entity took along when its weight changes";
    ReweightPlaces REWEIGHT_PLACES: Eevdf "6.13".."7.1" Remembered
        "place a reweighted entity again, by its lag";
    IneligibleMoves INELIGIBLE_STAYS: Eevdf "6.14".."" Remembered
        "leave an entity that is not eligible to its CPU until a balance has failed";
    Vprot PROTECTS_SHORTEST_SLICE: Eevdf "6.17".."" Remembered
        "protect the running entity for the shortest slice that waits" by "NO_RUN_TO_PARITY";

    // 6.18 on.
    ForfeitsOnYield YIELD_FORFEITS: Eevdf "6.18".."" Read
        "let a task that yields while eligible give up the rest of its request";
    TaskThrottle TASK_THROTTLE: Limits "6.18".."" Read
        "throttle each task of a limited group at its return to user mode";
    CountsForbidden FORK_COUNTS_FORBIDDEN: Wakeup "6.18".."6.19" Read
        "fork by all CPUs of a group, though the task may run on some only";
    SparesBigCpus SPARES_BIG_CPUS: Balance "5.5".."6.18" Read
        "ask of every group with room whether its CPUs are bigger, and for a misfit for a whole core";
    EstElsewhere UTIL_EST_IGNORES_BIGGER: Fair "5.0".."6.18" Read
        "ignore utilisation beyond the CPU's capacity for the estimate";
    NarrowSum NARROW_RUNNABLE_SUM: Fair "6.18".."" Read
        "keep 32 bits of a group entity's runnable sum";
    ServerWaits SERVER_WAITS_PERIOD: Deadline "6.18".."" Read
        "let a fair server that is late begin its next period after a whole one";
    ServerForgets SERVER_FORGETS_DEADLINE: Deadline "6.18".."6.19" Read
        "let a fair server that comes back begin a new period";
    ServerStays SERVER_STAYS_ON_IDLE: Deadline "6.18".."6.19" Read
        "leave a fair server that finds no task on the queue of an idle CPU";
    LagByLongest LAG_BY_LONGEST: Eevdf "6.19".."" Recorded
        "limit lag by the longest slice of the queue and a tick";
    BuddyInPick BUDDY_IN_PICK: Eevdf "6.19".."" Recorded
        "look at the buddy in every comparison, and make the wakee the buddy at preemption" by "NO_PICK_BUDDY";
    ForkWaits FORK_DOES_NOT_PREEMPT: Eevdf "6.19".."" Recorded
        "let a forked task preempt only a task with a longer slice";
    PicksAwake PREEMPTS_AWAKE: Eevdf "6.19".."" Recorded
        "compare a woken task with the task that is picked once delayed dequeues are done";
    ShortensAlways WAKEUP_SHORTENS_PROTECTION: Eevdf "6.19".."" Recorded
        "shorten the protection at every wakeup that does not preempt" by "NO_RUN_TO_PARITY";
    RestoreKeeps CHANGE_KEEPS_PROTECTION: Eevdf "6.19".."" Recorded
        "keep the protection of a running task whose attributes change";
    ReweightKeeps REWEIGHT_KEEPS_PROTECTION: Eevdf "6.19".."" Recorded
        "keep the protection of a running entity whose weight changes";
    IdleEndsAtSwitch IDLE_ENDS_AT_SWITCH: Balance "7.0".."" Read
        "measure idle time until the CPU leaves its idle task, not until a wakeup";
    DelayedKeepsDebt DELAYED_KEEPS_DEBT: Eevdf "7.1".."" Read
        "keep the debt of an entity whose dequeue is delayed as it was";
    BuddyIfProtected BUDDY_IF_PROTECTED: Eevdf "7.1".."" Read
        "ignore the buddy where a shorter slice ends the protection" by "NO_PICK_BUDDY";
    SliceByDeadline SLICE_ENDS_AT_DEADLINE: Eevdf "7.1".."" Read
        "end a slice by the timer at the virtual deadline" by "NO_HRTICK";
    HrtickOnce HRTICK_ONCE: Fair "7.1".."" Read
        "leave a running slice timer alone when a task is enqueued, and reschedule at once";
    BoostMovesOwn BOOST_MOVES_WAITING: Frequency "7.1".."" Read
        "move a task's own waiting time with it in the energy estimate";
    IdleNotBesideIdle IDLE_NOT_BESIDE_IDLE: Wakeup "7.1".."" Read
        "do not treat a CPU with only SCHED_IDLE tasks as idle for a SCHED_IDLE task";
    NewidleRate NEWIDLE_RATE: Balance "7.1".."" Read
        "bound the chance of a newly-idle balance by 1, and raise it for CPUs that seldom idle" by "NO_NI_RATE";

    // Outside the scheduler. 5.5 gave the writers of a pipe their own queue.
    PipeWakesInVain PIPE_WAKES_IN_VAIN: Kernel "5.5".."6.14" Remembered
        "let a reader of a full pipe wake a writer even if no page is free";
    LazyPreemption LAZY_PREEMPTION: Kernel "6.13".."" Remembered
        "know lazy preemption; earlier kernels preempt as with `voluntary`" by "echo voluntary > /sys/kernel/debug/sched/preempt"
        from "commit 7c70cb94d29c (6.13)";

    // What kernels print.
    Schedstat14 SCHEDSTAT_14: Debug "2.6.20".."" Remembered "print version 14 of /proc/schedstat";
    Schedstat15 SCHEDSTAT_15: Debug "2.6.24".."" Remembered "print version 15 of /proc/schedstat";
    Schedstat16 SCHEDSTAT_16: Debug "6.10".."" Remembered "print version 16 of /proc/schedstat";
    Schedstat17 SCHEDSTAT_17: Debug "6.14".."" Remembered "print version 17 of /proc/schedstat";

    // Single kernels.
    VcpuPack VCPU_PACK: Wakeup ""..""  Recorded
        "place tasks on a CPU in use that has room before an idle one (a cloud's patch)" by "boot with sched_vcpu_pack=0";
}
