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
    Early BALANCE_EARLY: OldBalance "2.6.0".."2.6.24" Read
        "balance by the domains' own numbers, without task groups"
        from "task groups came with commit 29f59db3a74b (2.6.24, sched: group-scheduler core)";
    CountsTasks BALANCE_COUNTS_TASKS: OldBalance "2.6.0".."2.6.18" Read
        "balance numbers of tasks instead of their weights (smpnice)"
        from "removed by commit 2dd73a4f09be (2.6.18, sched: implement smpnice)";
    PowerPerThread POWER_PER_THREAD: OldBalance "2.6.0".."2.6.17" Read
        "give each thread of a core a part of the power; later a package counts as one CPU"
        from "2.6.17, sched: new sched domain for representing multi-core; 2.6.11 has it, and 2.6.18 has it not";
    TriesOneQueue BALANCE_TRIES_ONE_QUEUE: OldBalance "2.6.0".."2.6.19" Read
        "give up when no task of the busiest queue may move, without trying the next queue"
        from "2.6.18 has it, and 2.6.20 tries the next queue; the commit's id was not looked up";
    Softirq BALANCE_IN_SOFTIRQ: OldBalance "2.6.20".."" Read
        "balance in a softirq after the tick, not in the tick"
        from "2.6.20, sched: use softirq for load balancing; the commit's id was not found";
    BoundsSleep O1_BOUNDS_SLEEP: O1 "2.6.17".."2.6.23" Read
        "let one long sleep make a task just interactive, and know SCHED_BATCH"
        from "the bound by commit 72d2854d4ebf (2.6.17, sched: fix interactive ceiling code); \
            removed by commit f2ac58ee617f (2.6.23, sched: remove sleep_type); 2.6.11 has it not, and 2.6.18 has it";
    SkipsClock SKIP_CLOCK_UPDATE: Fair "2.6.35".."" Read
        "keep the run queue's clock from a wakeup that preempts to the switch"
        from "commit a64692a3afd8 (2.6.35, sched: Cleanup/optimize clock updates); 2.6.34-rc7 has it not, 2.6.36 has it";

    // The balancers by load, up to 5.4.
    WeightIsLoad LOAD_IS_WEIGHT: OldBalance "2.6.24".."3.11" Read
        "take the weight that is queued for a CPU's load, not an average"
        from "removed by commit b92486cbf2aa (3.11, sched: Compute runnable load avg in cpu_load and cpu_avg_load_per_task)";
    HLoadOfAll H_LOAD_OF_ALL_GROUPS: OldBalance "2.6.24".."3.12" Read
        "compute the load of every group of the system before a pull"
        from "removed by commit 685207963be9 (3.12, sched: Move h_load calculation to task_h_load())";
    UnevenBySpread UNEVEN_BY_SPREAD: OldBalance "2.6.24".."3.13" Read
        "call a group uneven by the spread of its CPUs' loads, not by failed pulls below"
        from "removed by commit 6263322c5e8f (3.13, sched/fair: Rewrite group_imb trigger)";
    WakeWide WAKE_WIDE: Wakeup "3.12".."" Read
        "keep the wakees of a task that wakes many from its CPU"
        from "commit 62470419e993 (3.12, sched: Implement smarter wake-affine logic)";
    WakeWideFlips WAKE_WIDE_OF_BOTH: Wakeup "4.3".."" Read
        "compare how often waker and wakee change partners, in both directions"
        from "commit 63b0e9edceec (4.3, sched/fair: Beef up wake_wide())";
    AnyLoaded PICKS_ANY_LOADED_GROUP: OldBalance "3.18".."5.5" Read
        "let a group without a task too many be the busiest"
        from "commit caeb178c60f4 (3.18, sched/fair: Make update_sd_pick_busiest() return 'true' on a busier sd); \
            removed by commit 0b0695f2b34a (5.5, sched/fair: Rework load_balance())";
    LeavesIdler IDLE_LEAVES_IDLER: OldBalance "3.12".."3.18" Read
        "let an idle CPU leave a group alone only if that has more idle CPUs"
        from "removed by commit 43f4d66637bc (3.18, sched: Improve sysbench performance by fixing spurious active migration)";
    LeavesFitting IDLE_LEAVES_FITTING: OldBalance "3.18".."5.5" Read
        "let an idle CPU leave a group alone that is not overloaded and has about as many idle CPUs"
        from "commit 43f4d66637bc (3.18, sched: Improve sysbench performance by fixing spurious active migration); \
            removed by commit 0b0695f2b34a (5.5, sched/fair: Rework load_balance())";
    LevelsAlike LEVELS_ALIKE: OldBalance "3.16".."" Read
        "give the levels within a node numbers by one rule"
        from "commit 143e1e28cb40 (3.16, sched: Rework sched_domain topology definition)";
    NewidleCost NEWIDLE_COST: Balance "3.13".."" Read
        "stop a newly-idle balance when its cost exceeds the average idle time"
        from "commit 9bd721c55c8a (3.13, sched/balancing: Consider max cost of idle balance per sched domain)";
    NewidleCostFades NEWIDLE_COST_FADES: Balance "3.13".."" Read
        "let the highest cost of newly-idle balancing fade"
        from "commit f48627e686a6 (3.13, sched/balancing: Periodically decay max cost of idle balance)";
    NewidleCostRises NEWIDLE_COST_RISES: Balance "6.17".."6.19" Read
        "raise the cost of newly-idle balancing by half when it pulls nothing, at most to migration_cost"
        from "commit 155213a2aed4 (6.17, sched/fair: Bump sd->max_newidle_lb_cost when newidle balance fails); \
            removed by commit d206fbad9328 (6.19, sched/fair: Revert max_newidle_lb_cost bump); stable releases of 6.12 to 6.18 \
            had it until January 2026";
    NewidleRetries NEWIDLE_RETRIES: Balance "3.15".."" Read
        "pick again after a newly-idle balance that released the queue's lock"
        from "commit 37e117c07b89 (3.15, sched: Guarantee task priority in pick_next_task())";
    SlicesExpire LIMIT_SLICES_EXPIRE: Limits "3.2".."3.16" Read
        "drop what a CPU has left of its group's quota once another period has begun"
        again "4.18".."5.4"
        from "3.16 broke the test (commit 51f2176d74ac), 4.18 mended it (512ac999d275), 5.4 removed it (de53fd7aedb1)";
    RootOverload ROOT_OVERLOAD: Balance "3.17".."" Read
        "skip newly-idle balancing while no CPU of the root domain has two tasks"
        from "commit 4486edd12b5a (3.17, sched/fair: Implement fast idling of CPUs when the system is partially loaded)";
    KicksForCache NOHZ_KICK_FOR_BUSY_CACHE: Balance "3.13".."" Read
        "wake an idle CPU to balance when two CPUs of a cache are busy"
        from "commit 37dc6b50cee9 (3.13, sched: Remove unnecessary iteration over sched domains to update nr_busy_cpus)";
    NohzOwnFirst NOHZ_OWN_CPU_FIRST: OldBalance "2.6.37".."4.1" Read
        "let a kicked CPU balance itself first, and leave the other idle CPUs once it has work"
        from "removed by commit d4573c3e1c99 (4.1)";
    AttachesInReverse ATTACH_IN_REVERSE: Balance "3.18".."" Read
        "detach all tasks of a pull first, and attach the last first"
        from "commit 163122b7fcfa (3.18, sched/fair: Remove double_lock_balance() from load_balance())";
    IdlestShallowest FORK_TO_SHALLOWEST: Wakeup "3.18".."" Read
        "fork to the idle CPU in the shallowest idle state"
        from "commit 83a0a96a5f26";
    CpuLoads CPU_LOAD_AVERAGES: OldBalance "2.6.0".."5.3" Read
        "balance by averages of a CPU's load over ticks (cpu_load[])"
        from "removed by commit 55627e3cd22c (5.3, sched/core: Remove rq->cpu_load[])";
    PushesAny PUSHES_ANY_IMBALANCE: Balance "2.6.0".."5.12" Read
        "have the stopper push the running task after failures, whatever is to be moved"
        from "removed by commit e9b9734b7465 (5.12, sched/fair: Reduce cases for active balance)";
    PushResets PUSH_RESETS_FAILURES: Balance "2.6.0".."5.13" Read
        "restart the count of failures, and double the interval, when the stopper is kicked"
        from "removed by commit 23fb06d9602b (5.13, sched/fair: Clean up active balance nr_balance_failed trickery)";
    PushClears PUSH_CLEARS_FAILURES: Balance "4.7".."" Read
        "clear the count of failures when the stopper has pushed a task"
        from "commit d02c071183e1 (4.7)";
    LeavesReduced LEAVES_REDUCED_CPU: Balance "4.1".."" Read
        "push a lone task from a CPU that real-time tasks leave little of"
        from "commit 1aaf90a4b88a (4.1, sched: Move CFS tasks to CPUs with higher capacity)";
    NewidleBacksOff NEWIDLE_BACKS_OFF: Balance "2.6.24".."5.0" Read
        "let a newly-idle balance that finds nothing lengthen the interval"
        from "removed by commit 3f130a37c442 (5.0), which stable 4.4.204 and 4.19.87 have, too";

    // 4.2 to 6.0.
    RtThrottle RT_THROTTLE: Realtime "2.6.25".."6.12" Read
        "throttle real-time tasks that use up their part of the period" by "kernel.sched_rt_runtime_us=-1"
        from "commit fa85ae2418e6 (2.6.25, sched: rt time limit); \
            removed by commit 5f6bd380c7bd (6.12, sched/rt: Remove default bandwidth control)";
    AbsentDecays ABSENT_LOAD_DECAYS: Fair "4.3".."" Read
        "let a task's averages decay while it is in a higher class"
        from "commit 9d89c257dfb9 (4.3, sched/fair: Rewrite runnable load and utilization average tracking)";
    ClassMovesLoad CLASS_CHANGE_MOVES_LOAD: Fair "4.4".."" Read
        "detach a task's load when it leaves the fair class, and attach it at its return"
        from "commit daa59407b558 (4.4, sched/fair: Unify switched_{from,to}_fair() and task_move_group_fair())";
    AffinityRequeues AFFINITY_REQUEUES: Cpusets "4.3".."" Read
        "take a queued task off its queue and put it back when its CPUs change"
        from "commit 6c37067e2786 (4.3, sched: Change the sched_class::set_cpus_allowed() calling context)";
    GroupMovePlaces GROUP_MOVE_PLACES: Cfs "4.4".."" Read
        "place a sleeping task in its old group before it changes groups"
        from "commit daa59407b558 (4.4, sched/fair: Unify switched_{from,to}_fair() and task_move_group_fair())";
    RtTimerAtOnce RT_TIMER_AT_ONCE: Realtime "4.6".."" Read
        "fire the real-time period timer at once when deadline tasks have run before"
        from "commit c3a990dc9fab (4.6)";
    RecordsPinned RECORDS_PINNED_WAKEES: Wakeup "3.12".."4.8" Read
        "count wakeups of pinned tasks for WAKE_WIDE"
        from "commit 62470419e993 (3.12, sched: Implement smarter wake-affine logic); \
            removed by commit c58d25f371f5 (4.8, sched/fair: Move record_wakee()), which 4.6.2 has not and 4.8.15 has";
    GroupsByUtil GROUPS_BY_UTILISATION: OldBalance "4.1".."5.5" Read
        "call a group overloaded by its utilisation, not by its number of tasks"
        from "commit ea67821b9a3e (4.1, sched: Replace capacity_factor by usage); \
            removed by commit 0b0695f2b34a (5.5, sched/fair: Rework load_balance())";
    WakeIdleCores WAKE_IDLE_CORES: Wakeup "4.9".."" Read
        "search for an idle core, then an idle CPU, then a sibling thread; WA_IDLE and WA_WEIGHT are features"
        from "commit 10e2f1acd010 (4.9, sched/core: Rewrite and improve select_idle_siblings())";
    RecentCpu WAKE_RECENT_CPU: Wakeup "4.16".."" Read
        "prefer the CPU before the previous one if that is idle, and target and previous CPU are not"
        from "commit 32e839dda3ba (4.16, sched/fair: Use a recently used CPU as an idle candidate and the basis for SIS); \
            4.15.18 has it not, 4.16.13 has it";
    LimitLastFirst LIMIT_LAST_FIRST: Limits "3.17".."4.20" Read
        "give the quota of a new period to the CPUs that were throttled last first"
        from "commit c06f04c70489 (3.17; 3.16 has it not); removed by commit baa9be4ffb55 (4.20, sched/fair: Fix throttle_list \
            starvation with low CFS quota), which 4.19.40 and RHEL 8.1 have, too";
    DeadlineByCapacity DEADLINE_BY_CAPACITY: Deadline "5.9".."" Read
        "admit deadline tasks by the capacity of the CPUs, not by their number"
        from "commit 60ffd5edc5e4 (5.9, sched/deadline: Improve admission control for asymmetric CPU capacities)";
    GroupClampsProtect UCLAMP_GROUP_PROTECTS: Frequency "5.14".."" Read
        "raise a task's clamps to the group's util_min; earlier a group only lowers them"
        from "commit 0213b7083e81 (5.14, sched/uclamp: Fix uclamp_tg_restrict()), which 5.10.135 has, too; 5.10.13 and \
            5.12.9 have it not";
    AgesIdle WAKE_AGES_IDLE: Wakeup "5.14".."6.7" Read
        "bound idle-CPU searches by half of the average idle time, halved at each tick, not by 1/512 of it"
        from "commit 94aafc3ee31d (5.14, sched/fair: Age the average idle time); removed with SIS_PROP (6.7)";
    ClusterDomains CLUSTER_DOMAINS: Balance "5.16".."" Read
        "balance within clusters that share a cache below the last level"
        from "commit 778c558f49a2 (5.16, sched: Add cluster scheduler level in core and related Kconfig for ARM64)";
    SliceLimited SLICE_LIMITED: Cfs "6.3".."" Read
        "end a turn after the latency target, also where the task's slice is longer"
        from "commit 79ba1e607d68 (6.3, sched/fair: Limit sched slice duration); 6.2.1 has it not, 6.3.8 has it";
    NohzStats NOHZ_UPDATES_BLOCKED: Balance "4.17".."" Read
        "bring the averages of idle CPUs up to date every 32 ms"
        from "commit b7031a02ec75 (4.17, sched/fair: Add NOHZ_STATS_KICK)";
    Eas ENERGY_AWARE: Frequency "5.0".."" Read
        "place waking tasks by energy where the machine has an energy model" by "kernel.sched_energy_aware=0"
        from "commit 732cd75b8c92 (5.0, sched/fair: Select an energy-efficient CPU on task wake-up)";
    BesideIdle WAKE_BESIDE_IDLE: Wakeup "5.4".."" Read
        "treat a CPU that runs only SCHED_IDLE tasks as idle for a waking task"
        from "commit 3c29e651e16d (5.4, sched/fair: Fall back to sched-idle CPU if idle CPU isn't found)";
    ByType BALANCE_BY_TYPE: Balance "5.5".."" Read
        "classify groups by what they lack, and move load, utilisation, tasks or misfits"
        from "commit 0b0695f2b34a (5.5, sched/fair: Rework load_balance())";
    PrioChangeLooks PRIO_CHANGE_LOOKS: Fair "5.6".."" Read
        "treat a new nice value as a change of priority, and spare a lone task"
        from "commit 5443a0be6121 (5.6, sched: Use fair:prio_changed() instead of ad-hoc implementation); \
            commit 7c2e8bbd87db (5.6, sched: Spare resched IPI when prio changes on a single fair task)";
    GroupMoveReschedules GROUP_MOVE_RESCHEDULES: Fair "5.6".."" Read
        "reschedule a running task that changes groups"
        from "commit 2a4b03ffc69f (5.6, sched/fair: Prevent unlimited runtime on throttled group)";
    IdleOnlyBalancesSoon IDLE_ONLY_BALANCES_SOON: Balance "5.6".."" Read
        "balance at the next tick when only SCHED_IDLE tasks are left on a CPU"
        from "commit 323af6deaf70 (5.6, sched/fair: Load balance aggressively for SCHED_IDLE CPUs)";
    AffinitySpreads AFFINITY_SPREADS: Cpusets "5.7".."" Read
        "spread tasks that must leave their CPU over all allowed CPUs"
        from "commit 46a87b3851f0 (5.7, sched/core: Distribute tasks within affinity masks)";
    Pct117 IMBALANCE_PCT_117: Balance "5.10".."" Read
        "tolerate 17 % of imbalance between packages and nodes, not 25 %"
        from "commit 2208cdaa56c9 (5.10, sched/fair: Reduce minimal imbalance threshold)";
    BusyFactor16 BUSY_FACTOR_16: Balance "5.10".."" Read
        "balance busy CPUs 16 times less often, not 32 times"
        by "echo 32 | tee /sys/kernel/debug/sched/domains/cpu*/domain*/busy_factor"
        from "commit 6e7499135db7 (5.10, sched/fair: Reduce busy load balance interval)";
    IntervalDrifts BUSY_INTERVAL_DRIFTS: Balance "5.10".."" Read
        "shorten the intervals of busy CPUs by a tick, so that levels drift apart"
        from "commit e4d32e4d5444 (5.10, sched/fair: Minimize concurrent LBs between domain level)";
    RelaxesLoad RELAXES_LOAD: Balance "5.10".."" Read
        "halve a task's load once for each failed balance, before it is compared with the load to move"
        from "commit 5a7f55590467 (5.10, sched/fair: Relax constraint on task's load during load balance); 5.9.1 has it \
            not, and 5.10.13 has it";
    SmtIgnoresHeat SMT_IGNORES_HEAT: Balance "5.10".."" Read
        "move cache-hot tasks between the threads of a core"
        from "commit ec73240b1627 (5.10, sched/fair: Ignore cache hotness for SMT migration)";
    KthreadsStay PER_CPU_KTHREADS_STAY: Balance "5.13".."" Read
        "leave per-CPU kernel threads out of balancing"
        from "commit 9bcb959d05ee (5.13, sched/fair: Ignore percpu threads for imbalance pulls), which 5.10.135 and 5.12.9 \
            have, too, and 5.11.0 not";
    NewidleGateCost NEWIDLE_GATE_BY_COST: Balance "5.16".."" Read
        "skip newly-idle balancing by its measured cost, not by migration_cost"
        from "commit c5b0a7eefc70 (5.16, sched/fair: Remove sysctl_sched_migration_cost condition)";
    NumaPair NUMA_ALLOWS_PAIR: Balance "5.6".."5.11" Read
        "leave a node alone that has at most two running tasks"
        from "commit b396f52326de (5.6, sched/fair: Allow a small load imbalance between low utilisation SD_NUMA domains); \
            removed by commit 7d2b5dd0bcc4 (5.11, sched/numa: Allow a floating imbalance between NUMA nodes)";
    NumaQuarter NUMA_ALLOWS_QUARTER: Balance "5.11".."5.18" Read
        "allow an imbalance of two between nodes, and forks on a node, while a quarter of it is in use"
        from "commit 7d2b5dd0bcc4 (5.11, sched/numa: Allow a floating imbalance between NUMA nodes); \
            commit 23e6082a522e (5.11, sched: Limit the amount of NUMA imbalance that can exist at fork time); \
            removed by commit e496132ebedd (5.18, sched/fair: Adjust the allowed NUMA imbalance when SD_NUMA spans multiple LLCs)";
    SearchOnce WAKE_SEARCHES_ONCE: Wakeup "5.12".."" Read
        "look for an idle core and an idle CPU in one pass, and take an idle CPU where no core is idle"
        from "commit 9fe1f127b913 (5.12, sched/fair: Merge select_idle_core/cpu())";
    SiblingsOfPrev WAKE_SIBLINGS_FIRST: Wakeup "5.13".."" Read
        "look at the previous CPU's sibling threads before the search of the cache"
        from "commit c722f35b513f (5.13, sched/fair: Bring back select_idle_smt(), but differently), which 5.12.9 has, too";
    NumaByCaches NUMA_IMBALANCE_BY_CACHES: Balance "5.18".."" Read
        "allow an imbalance between nodes by the number of caches in a node"
        from "commit e496132ebedd (5.18, sched/fair: Adjust the allowed NUMA imbalance when SD_NUMA spans multiple LLCs)";
    IdleLagDecays IDLE_LAG_DECAYS: Fair "6.0".."" Read
        "let a sleeper that leaves an idle CPU decay up to now"
        from "commit e2f3e35f1f5a (6.0, sched/fair: Decay task PELT values during wakeup migration)";
    QueuesOnIdle WAKE_QUEUES_ON_IDLE: Wakeup "6.0".."" Read
        "let an idle CPU enqueue the tasks that others wake for it" by "NO_TTWU_QUEUE"
        from "commit f3dd3f674555 (6.0, sched: Remove the limitation of WF_ON_CPU on wakelist if wakee cpu is idle)";
    ReducedIsMisfit REDUCED_IS_MISFIT: Balance "6.0".."" Read
        "treat a lone task on a CPU that real-time tasks leave little of as a misfit"
        from "commit c82a69629c53 (6.0, sched/fair: fix case with reduced capacity CPU)";

    // 6.2 to 6.11.
    Eevdf EEVDF: Fair "6.6".."" Recorded
        "run the task with the earliest deadline among those that are owed time (EEVDF), not the least vruntime (CFS)"
        from "commit 147f3efaa241 (6.6, sched/fair: Implement an EEVDF-like scheduling policy)";
    CpusetForgets CPUSET_FORGETS_AFFINITY: Cpusets "2.6.0".."6.2" Read
        "forget the CPUs that a task asked for when its cpuset changes"
        from "removed by commit 8f9ea86fdf99 (6.2, sched: Always preserve the user requested cpumask)";
    PeriodPhasesDiffer LIMIT_PERIODS_APART: Limits "6.4".."" Read
        "begin the periods of different groups' limits at different instants"
        from "commit 41abdba93747 (6.4, sched: Interleave cfs bandwidth timers for improved single thread performance at low utilization)";
    GrubBounded GRUB_BOUNDED: Deadline "6.5".."" Read
        "keep reclaiming deadline tasks below the CPU's limit"
        from "commit 6a9d623aad89 (6.5, sched/deadline: Fix bandwidth reclaim equation in GRUB)";
    BoostsRunnable RUNNABLE_BOOST: Frequency "6.5".."" Read
        "count tasks that wait as utilisation for frequency, energy and busy CPUs"
        from "commit 7d0583cf9ec7 (6.5, sched/fair, cpufreq: Introduce 'runnable boosting')";
    SiblingOfBusiest SIBLING_OF_BUSIEST: Balance "6.5".."" Read
        "let the busiest group's level decide whether tasks are spread"
        from "commit 43726bdedd29 (6.5, sched/fair: Use the busiest group to set prefer_sibling)";
    FullyBusySmt FULLY_BUSY_SPARES_SMT: Balance "6.5".."" Read
        "prefer a fully busy single CPU to a fully busy core"
        from "commit 5fd6d7f43958 (6.5, sched/fair: Keep a fully_busy SMT sched group as busiest)";
    MisfitFirst FIRST_OF_EQUAL_MISFITS: Balance "6.9".."" Read
        "relieve the first of the groups with equal misfits, not the last"
        from "commit 7f1a7229718d (6.9, sched/fair: Do strict inequality check for busiest misfit task group)";
    SmtBalance SMT_BALANCE: Balance "6.6".."" Read
        "relieve a core with several busy threads before single CPUs"
        from "commit fee1759e4f04 (6.6, sched/fair: Determine active load balance for SMT sched groups)";
    SiblingByCores SIBLINGS_BY_CORES: Balance "6.6".."" Read
        "compare groups of different numbers of cores in proportion"
        from "commit 7ff1693236f5 (6.6, sched/fair: Implement prefer sibling imbalance calculation between asymmetric groups)";
    WholeCoreBalances WHOLE_CORE_BALANCES: Balance "6.6".."" Read
        "prefer a CPU of an idle core for balancing"
        from "commit b1bfeab9b002 (6.6, sched/fair: Consider the idle state of the whole core for load balance)";
    SpareCore SPARE_CORE_FIRST: Balance "6.6".."" Read
        "prefer relieving a single CPU to a core of which one thread is busy"
        from "commit fee1759e4f04 (6.6, sched/fair: Determine active load balance for SMT sched groups)";
    EmptyKeepsWeight EMPTY_GROUP_KEEPS_WEIGHT: Fair "6.13".."" Read
        "keep the weight of a group's entity when its queue becomes empty"
        from "commit 66951e4860d3 (6.13, sched/fair: Fix update_cfs_group() vs DELAY_DEQUEUE); stable 6.12 has it, too";
    EmptyNotThrottled EMPTY_IS_NOT_THROTTLED: Limits "6.6".."" Read
        "count no throttled time for queues without tasks"
        from "commit 79462e8c879a (6.6, sched: don't account throttle time for empty groups)";
    OverloadWaiting OVERLOAD_BY_WAITING: Realtime "6.7".."" Read
        "offer a real-time or deadline task to other CPUs whenever it waits"
        from "commit 612f769edd06 (6.7, sched/rt: Make rt_rq->pushable_tasks updates drive rto_mask); \
            commit 5fe7765997b1 (6.7, sched/deadline: Make dl_rq->pushable_dl_tasks update drive dl_rq->overloaded)";
    ClusterFirst WAKE_CLUSTER_FIRST: Wakeup "6.7".."" Read
        "search the cluster for an idle CPU before the rest of the cache"
        from "commit 8881e1639f1f (6.7, sched/fair: Scan cluster before scanning LLC in wake-up path)";
    GroupLoadRateLimit GROUP_LOAD_RATE_LIMIT: Fair "6.7".."" Read
        "pass a queue's load on to its group at most once a millisecond"
        from "commit 1528c661c24b (6.7, sched/fair: Ratelimit update to tg->load_avg)";
    ExclusiveCpusets CPUSET_EXCLUSIVE: Cpusets "6.7".."" Read
        "know cpuset.cpus.exclusive, and reject partitions of CPUs isolated at boot"
        from "commit e2ffe502ba45 (6.7, cgroup/cpuset: Add cpuset.cpus.exclusive for v2); \
            commit 4a74e418881f (6.7, cgroup/cpuset: Check partition conflict with housekeeping setup)";
    EstWaits UTIL_EST_OF_WAITERS: Fair "6.8".."" Read
        "keep the utilisation estimate of a task that had to wait"
        from "commit 50181c0cff31 (6.8, sched/pelt: Avoid underestimation of task utilization)";
    HeadroomOfUse HEADROOM_OF_USE: Frequency "6.8".."" Read
        "add the quarter of headroom to what is used, not to clamps and reservations"
        from "commit 9c0b4bb7f630 (6.8, sched/cpufreq: Rework schedutil governor performance estimation)";
    InitUtilScale INIT_UTIL_SCALE: Fair "6.10".."" Read
        "start a forked task with its share of the queue's utilisation"
        from "commit 72bffbf57c52 (6.10, sched/fair: Fix initial util_avg calculation)";
    MisfitAllowed MISFIT_IF_ALLOWED: Balance "6.10".."" Read
        "call a task misfit only if it may run on a bigger CPU"
        from "commit 22d5607400c6 (6.10, sched/fair: Check if a task has a fitting CPU when updating misfit)";
    MisfitWaits MISFIT_DOES_NOT_COUNT: Balance "6.10".."" Read
        "neither back off nor count failures because of a misfit task"
        from "commit 58eeb2d79b54 (6.10, sched/fair: Don't double balance_interval for migrate_misfit)";
    EasMovesMisfit ENERGY_MOVES_MISFITS: Frequency "6.3".."" Read
        "balance misfit tasks although wakeups go by energy"
        from "commit e5ed0550c04c (6.3, sched/fair: unlink misfit task from cpu overutilized)";

    // 6.12 to 6.17.
    CustomSlices CUSTOM_SLICES: Eevdf "6.12".."" Read
        "let tasks ask for a slice (sched_setattr)"
        from "commit 857b158dc5e8 (6.12, sched/eevdf: Use sched_attr::sched_runtime to set request/slice suggestion)";
    PlacesOnce NEW_TASK_PLACED_ONCE: Eevdf "6.12".."" Read
        "place a forked task once, with half a slice to its first deadline"
        from "commit c40dd90ac045 (6.12, sched: Initialize the vruntime of a new task when it is first enqueued)";
    // Also 6.12.y, and 6.14.2.
    IdleGivesWay IDLE_LOSES_PROTECTION: Eevdf "6.15".."" Read
        "end an idle entity's protection when another entity wakes"
        from "commit f553741ac8c0 (6.15, sched: Cancel the slice protection of the idle entity)";
    ShortOvertakes SHORT_OVERTAKES: Eevdf "6.12".."6.17" Read
        "reschedule at the next update once a shorter slice has ended the protection" by "NO_PREEMPT_SHORT"
        from "commit 85e511df3cec (6.12, sched/eevdf: Allow shorter slices to wakeup-preempt); \
            removed by commit 9de74a9850b9 (6.17, sched/fair: Remove spurious shorter slice preemption)";
    GroupsBeforePolicies GROUPS_BEFORE_POLICIES: Fair "6.12".."" Read
        "compare the entities' groups before SCHED_IDLE and SCHED_BATCH of tasks"
        from "commit faa42d29419d (6.12, sched/fair: Make SCHED_IDLE entity be preempted in strict hierarchy)";
    EstBefore UTIL_EST_OF_LAST_UPDATE: Fair "6.12".."7.2" Read
        "update the utilisation estimate before the dequeue brings averages up to date"
        from "commit b55945c500c5 (6.12, sched: Fix pick_next_task_fair() vs try_to_wake_up() race); \
            removed by commit 6d2051403d6c (7.2, sched/fair: Update util_est after updating util_avg during dequeue), \
            which 7.1.5 has, too, and 7.1.3 not";
    ClampsLast CLAMPS_LAST: Frequency "6.12".."6.16" Read
        "count a task's clamps after its class has looked at the CPU"
        from "commit dfa0a574cbc4 (6.12, sched/uclamg: Handle delayed dequeue); \
            removed by commit 90ca9410dab2 (6.16, sched/uclamp: Align uclamp and util_est and call before freq update)";
    DelayedCounts DELAYED_COUNTS: Balance "6.12".."6.14" Read
        "count and move tasks with a delayed dequeue like runnable tasks"
        from "commit 152e11f6df29 (6.12, sched/fair: Implement delayed dequeue); \
            counting removed by commit 1a49104496d3 (6.14, sched/fair: Use the new cfs_rq.h_nr_runnable); \
            moving removed by commit 61b82dfb6b7e (6.14, sched/fair: Do not try to migrate delayed dequeue task)";
    RtIgnoresDeadline RT_WAKES_ON_DEADLINE: Realtime "6.12".."" Read
        "wake a real-time task on a CPU that runs a deadline task"
        from "commit 130fd056dd82 (6.12, sched/rt: Clean up usage of rt_task())";
    FairServer FAIR_SERVER: Deadline "6.12".."" Read
        "run starving fair tasks by a deadline server instead of throttling real-time tasks"
        by "echo 0 | tee /sys/kernel/debug/sched/fair_server/cpu*/runtime"
        from "commit 557a6bfc662c (6.12, sched/fair: Add trivial fair server); \
            commit a110a81c52a9 (6.12, sched/deadline: Deferrable dl server)";
    HrtickAtSwitch HRTICK_AT_SWITCH: Fair "6.12".."" Read
        "set the slice timer at a switch, not when the same task is picked again"
        from "commit dae4320b29f0 (6.12, sched: Fixup set_next_task() implementations)";
    ReweightStretches REWEIGHT_STRETCHES_SLEEPERS: Eevdf "6.13".."" Read
        "stretch the deadline that a sleeping entity took along when its weight changes"
        from "commit 6d71a9c61604 (6.13, sched/fair: Fix EEVDF entity placement bug causing scheduling lag)";
    ReweightPlaces REWEIGHT_PLACES: Eevdf "6.13".."7.1" Recorded
        "place a reweighted entity again, by its lag"
        from "commit 6d71a9c61604 (6.13, sched/fair: Fix EEVDF entity placement bug causing scheduling lag); \
            reverted by commit 101f3498b4bd (7.1); recorded: 6.12.118 and 7.1.13 keep a group of hackbench to its weight, \
            6.18.15 and 7.0.13 do not";
    IneligibleMoves INELIGIBLE_STAYS: Eevdf "6.14".."" Read
        "leave an entity that is not eligible to its CPU until a balance has failed"
        from "commit 873199d27bb2 (6.14, sched/core: Prioritize migrating eligible tasks in sched_balance_rq())";
    Vprot PROTECTS_SHORTEST_SLICE: Eevdf "6.17".."" Read
        "protect the running entity for the shortest slice that waits" by "NO_RUN_TO_PARITY"
        from "commit 052c3d87c82e (6.17, sched/fair: Limit run to parity to the min slice of enqueued entities)";

    // 6.18 on.
    ForfeitsOnYield YIELD_FORFEITS: Eevdf "6.18".."" Read
        "let a task that yields while eligible give up the rest of its request"
        from "commit 79104becf42b (6.19), which stable 6.18 has, too";
    TaskThrottle TASK_THROTTLE: Limits "6.18".."" Read
        "throttle each task of a limited group at its return to user mode"
        from "commit e1fad12dcb66 (6.18, sched/fair: Switch to task based throttle model)";
    CountsForbidden FORK_COUNTS_FORBIDDEN: Wakeup "6.18".."6.19" Read
        "fork by all CPUs of a group, though the task may run on some only"
        from "removed by commit 82d6e01a0699 (6.19, sched/fair: Only update stats for allowed CPUs when looking for dst group)";
    SparesBigCpus SPARES_BIG_CPUS: Balance "7.3".."" Read
        "ask of every group with room whether its CPUs are bigger, and for a misfit for a whole core"
        from "a whole core: commit bf6aa722198d (7.2, sched/fair: Reject misfit pulls onto busy SMT siblings on asym-capacity); \
            every group: commit 50b101f6e586 (7.3, sched/fair: Check CPU capacity before comparing group types during \
            load balance); 6.1.192, 6.12.117 and 7.2.13 have both";
    EstElsewhere UTIL_EST_IGNORES_BIGGER: Fair "5.1".."6.16" Read
        "ignore utilisation beyond the CPU's capacity for the estimate"
        from "commit 10a35e6812aa (5.1, sched/pelt: Skip updating util_est when utilization is higher than CPU's capacity); \
            removed by commit f2d650618bc7 (6.16, sched/fair: Allow decaying util_est when util_avg > CPU capa)";
    NarrowSum NARROW_RUNNABLE_SUM: Fair "5.17".."7.3" Read
        "keep 32 bits of a group entity's runnable sum, too few for more than 87 runnable tasks"
        from "commit 95246d1ec80b (5.17, sched/pelt: Relax the sync of runnable_sum with runnable_avg); removed by commit \
            4f166adb5cb0 (7.3, sched/fair: Fix overflow in update_tg_cfs_runnable()), which 6.1.192, 6.12.117 and 7.2.13 \
            have, too";
    ServerWaits SERVER_WAITS_PERIOD: Deadline "6.17".."" Read
        "let a fair server that is late begin its next period after a whole one"
        from "commit 421fc59cf58c (6.17, sched/deadline: Fix RT task potential starvation when expiry time passed)";
    ServerLingers SERVER_LINGERS: Deadline "6.17".."" Read
        "keep a fair server active when the last fair task has left, until its turn finds none"
        from "commit cccb45d7c429 (6.17, sched/deadline: Less agressive dl_server handling); 6.12 and 6.14 stop it at once, \
            stable 6.12.117 does not";
    ServerForgets SERVER_FORGETS_DEADLINE: Deadline "6.18".."6.19" Read
        "let a fair server that returns begin a new period";
    ServerStays SERVER_STAYS_ON_IDLE: Deadline "6.18".."6.19" Read
        "leave a fair server that finds no task on the queue of an idle CPU";
    LagByLongest LAG_BY_LONGEST: Eevdf "7.0".."" Recorded
        "limit lag by the longest slice of the queue and a tick"
        from "commit 6e3c0a4e1ad1 (7.0)";
    BuddyInPick BUDDY_IN_PICK: Eevdf "6.19".."" Recorded
        "look at the buddy in every comparison, and make the wakee the buddy at preemption" by "NO_PICK_BUDDY"
        from "commit e837456fdca8 (6.19, sched/fair: Reimplement NEXT_BUDDY to align with EEVDF goals)";
    ForkWaits FORK_DOES_NOT_PREEMPT: Eevdf "6.19".."" Recorded
        "let a forked task preempt only a task with a longer slice"
        from "commit e837456fdca8 (6.19, sched/fair: Reimplement NEXT_BUDDY to align with EEVDF goals)";
    PicksAwake PREEMPTS_AWAKE: Eevdf "7.1".."" Recorded
        "compare a woken task with the task that is picked once delayed dequeues are done"
        from "commit ac8e69e69363 (7.1, sched/fair: Fix wakeup_preempt_fair() vs delayed dequeue), which 6.18.33 and stable \
            7.0 have, too; 6.19.9 has it not";
    ShortensAlways WAKEUP_SHORTENS_PROTECTION: Eevdf "6.19".."" Recorded
        "shorten the protection at every wakeup that does not preempt" by "NO_RUN_TO_PARITY"
        from "commit e837456fdca8 (6.19, sched/fair: Reimplement NEXT_BUDDY to align with EEVDF goals)";
    RestoreKeeps CHANGE_KEEPS_PROTECTION: Eevdf "7.0".."" Recorded
        "keep the protection of a running task whose attributes change"
        from "commit bcd74b2ffdd0 (7.0)";
    ReweightKeeps REWEIGHT_KEEPS_PROTECTION: Eevdf "7.0".."" Recorded
        "keep the protection of a running entity whose weight changes"
        from "commit ff38424030f9 (7.0)";
    IdleEndsAtSwitch IDLE_ENDS_AT_SWITCH: Balance "7.0".."" Read
        "measure idle time until the CPU leaves its idle task, not until a wakeup"
        from "commit 4b603f1551a7 (7.0, sched: Update rq->avg_idle when a task is moved to an idle CPU)";
    DelayedKeepsDebt DELAYED_KEEPS_DEBT: Eevdf "7.1".."" Read
        "keep the debt of an entity whose dequeue is delayed as it was"
        from "commit 059258b0d424 (7.1, sched/fair: Prevent negative lag increase during delayed dequeue)";
    BuddyIfProtected BUDDY_IF_PROTECTED: Eevdf "7.1".."" Read
        "ignore the buddy where a shorter slice ends the protection" by "NO_PICK_BUDDY"
        from "commit 78cde54ea5f0 (7.1, sched/eevdf: Clear buddies for preempt_short)";
    SliceByDeadline SLICE_ENDS_AT_DEADLINE: Eevdf "7.1".."" Read
        "end a slice by the timer at the virtual deadline" by "NO_HRTICK"
        from "commit 558c18d3fbb6 (7.1, sched/eevdf: Fix HRTICK duration)";
    HrtickOnce HRTICK_ONCE: Fair "7.1".."" Read
        "leave a running slice timer alone when a task is enqueued, and reschedule at once"
        from "commit 97015376642f (7.1, sched/fair: Simplify hrtick_update()); \
            commit 5d88e424ec1b (7.1, sched/fair: Make hrtick resched hard)";
    BoostMovesOwn BOOST_MOVES_WAITING: Frequency "7.2".."" Read
        "move a task's own waiting time with it in the energy estimate"
        from "commit 29922fdfc2a4 (7.2, sched/fair: Fix cpu_util runnable_avg arithmetic), which 6.12.117 and 7.1.5 have, \
            too, and 7.1.3 not";
    IdleNotBesideIdle IDLE_NOT_BESIDE_IDLE: Wakeup "7.1".."" Read
        "do not treat a CPU with only SCHED_IDLE tasks as idle for a SCHED_IDLE task"
        from "commit fd54d81c2c0e (7.1, sched/fair: Skip SCHED_IDLE rq for SCHED_IDLE task)";
    NewidleRate NEWIDLE_RATE: Balance "7.1".."" Read
        "bound the chance of a newly-idle balance by 1, and raise it for CPUs that seldom idle" by "NO_NI_RATE"
        from "commit 9fe89f022c05 (7.1, sched/fair: More complex proportional newidle balance)";

    // Outside the scheduler. 5.5 gave the writers of a pipe their own queue.
    PipeWakesInVain PIPE_WAKES_IN_VAIN: Kernel "5.5".."6.14" Read
        "let a reader of a full pipe wake a writer even if no page is free"
        from "removed by commit aaec5a95d596 (6.14, pipe_read: don't wake up the writer if the pipe is still full)";
    LazyPreemption LAZY_PREEMPTION: Kernel "6.13".."" Read
        "know lazy preemption; earlier kernels preempt as with `voluntary`" by "echo voluntary > /sys/kernel/debug/sched/preempt"
        from "commit 7c70cb94d29c (6.13)";
    LazyOrFull LAZY_OR_FULL: Kernel "7.0".."" Read
        "know lazy and full preemption only, on x86 and arm64; `none` and `voluntary` preempt as with `lazy`"
        from "commit 7dadeaa6e851 (7.0, sched: Further restrict the preemption modes)";

    // What kernels print.
    Schedstat14 SCHEDSTAT_14: Debug "2.6.20".."" Read "print version 14 of /proc/schedstat"
        from "2.6.20, sched: remove lb_stopbalance counter; the commit's id was not found";
    Schedstat15 SCHEDSTAT_15: Debug "2.6.30".."" Read "print version 15 of /proc/schedstat"
        from "2.6.24 prints 14, and 2.6.34-rc7 prints 15; the commit's id was not looked up";
    ForkCountsMigrations FORK_COUNTS_MIGRATIONS: Debug "2.6.34".."4.8" Read
        "trace two migrations at each fork (sched_migrate_task), whether or not the CPU changes"
        from "removed by commit e210bffd39d0 (4.8, sched/fair: Fix and optimize the fork() path); 2.6.32 and 4.8.15 have it \
            not, 3.1.3 and 4.6.2 have it; its first release was not looked up";
    Schedstat16 SCHEDSTAT_16: Debug "6.10".."" Read "print version 16 of /proc/schedstat"
        from "commit 11b0bfa5d463 (6.10, sched/debug: Increase SCHEDSTAT_VERSION to 16)";
    Schedstat17 SCHEDSTAT_17: Debug "6.14".."" Read "print version 17 of /proc/schedstat"
        from "commit 7c8cd569ff66 (6.14, docs: Update Schedstat version to 17)";

    DeadlineWhole DEADLINE_HAS_WHOLE: Deadline "7.2".."" Read
        "admit deadline tasks up to the whole period by default, not 95 % of it" by "kernel.sched_rt_runtime_us=950000"
        from "commit c2e390197ad1 (7.2, sched/rt: Update default bandwidth for real-time tasks to ONE)";

    DebugFolder DEBUG_FOLDER: Debug "5.13".."" Read
        "have features and tunables in a folder of debugfs, not in a file and in sysctls"
        from "commit 8a99b6833c88 (5.13, sched: Move SCHED_DEBUG sysctl to debugfs)";

    // What programs and groups can ask for. `sim/src/history.rs` rejects what a kernel lacks.
    SchedBatch SCHED_BATCH: Interface "2.6.16".."" Read
        "know SCHED_BATCH"
        from "commit b0a9499c3dd5 (2.6.16, sched: add new SCHED_BATCH policy); 2.6.11 has it not, and 2.6.18 has it";
    SchedIdle SCHED_IDLE: Interface "2.6.23".."" Read
        "know SCHED_IDLE"
        from "commit 0e6aca43e08a (2.6.23, sched: add SCHED_IDLE policy)";
    TaskGroups TASK_GROUPS: Interface "2.6.24".."" Read
        "divide CPU time between groups of tasks, by weight"
        from "commit 29f59db3a74b (2.6.24, sched: group-scheduler core)";
    RtGroups RT_GROUPS: Interface "2.6.25".."" Read
        "limit the real-time tasks of each group, where it is configured"
        from "commit 6f505b16425a (2.6.25, sched: rt group scheduling)";
    Autogroups AUTOGROUPS: Interface "2.6.38".."" Read
        "make a group for each session" by "kernel.sched_autogroup_enabled=0"
        from "commit 5091faa449ee (2.6.38, sched: Add 'autogroup' scheduling feature: automated per session task groups)";
    GroupLimits GROUP_LIMITS: Interface "3.2".."" Read
        "limit the CPU time of a group in each period (cpu.max)"
        from "commit ab84d31e1550 (3.2, sched: Introduce primitives to account for CFS bandwidth tracking)";
    SchedDeadline SCHED_DEADLINE: Interface "3.14".."" Read
        "know SCHED_DEADLINE"
        from "commit aab03e05e8f7 (3.14, sched/deadline: Add SCHED_DEADLINE structures & implementation)";
    DeadlineReclaims DEADLINE_RECLAIMS: Interface "4.13".."" Read
        "let deadline tasks reclaim unused bandwidth (SCHED_FLAG_RECLAIM)"
        from "commit 2d4283e9d583 (4.13, sched/deadline: Make GRUB a task's flag)";
    DeadlineOverruns DEADLINE_OVERRUN_SIGNALS: Interface "4.16".."" Read
        "send a deadline task a signal at its overrun (SCHED_FLAG_DL_OVERRUN)"
        from "commit 34be39305a77 (4.16, sched/deadline: Implement \"runtime overrun signal\" support)";
    CpusetPartitions CPUSET_PARTITIONS: Interface "5.0".."" Read
        "make partitions of cpusets (cpuset.cpus.partition)"
        from "commit ee8dde0cd2ce (5.0, cpuset: Add new v2 cpuset.sched.partition flag)";
    UtilClamps UTIL_CLAMPS: Interface "5.3".."" Read
        "clamp the utilisation of tasks"
        from "commit 69842cba9ace (5.3, sched/uclamp: Add CPU's clamp buckets refcounting)";
    GroupUtilClamps GROUP_UTIL_CLAMPS: Interface "5.4".."" Read
        "clamp the utilisation of the tasks of a group (cpu.uclamp.min, cpu.uclamp.max)"
        from "commit 2480c093130f (5.4, sched/uclamp: Extend CPU's cgroup controller)";
    LimitBursts LIMIT_BURSTS: Interface "5.14".."" Read
        "save unused quota of a group up to a burst (cpu.max.burst)"
        from "commit f4183717b370 (5.14, sched/fair: Introduce the burstable CFS controller)";
    IdleGroups IDLE_GROUPS: Interface "5.15".."" Read
        "make a group idle (cpu.idle)"
        from "commit 304000390f88 (5.15, sched: Cgroup SCHED_IDLE support)";

    // Single kernels.
    VcpuPack VCPU_PACK: Wakeup ""..""  Recorded
        "place tasks on a CPU in use that has room before an idle one (a cloud's patch)" by "boot with sched_vcpu_pack=0";
}
