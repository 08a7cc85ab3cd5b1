//! The fair class: hierarchical groups of weighted tasks. EEVDF and CFS differ in the [`Discipline`], in `eevdf` and
//! `cfs`.

pub(crate) mod bandwidth;
mod capacity;
mod cfs;
mod debug;
pub(crate) mod discipline;
mod eevdf;
pub(crate) mod energy_aware;
pub(crate) mod entity;
mod h_load;
mod invariants;
pub(crate) mod lags;
pub(crate) mod leaves;
pub(crate) mod load;
pub(crate) mod pelt;
mod placement;
mod queue;
mod quiet;
pub mod timeline;
mod turns;

pub use bandwidth::{BandwidthStat, Limit, LimitError};
pub use cfs::CfsOrder;
pub use discipline::{Discipline, Fair, FairCpu, FairShared};
pub use eevdf::EevdfOrder;
pub use entity::{DetachedEntity, Entity, FairRq};

use self::entity::{ROOT, Se};
use self::load::{Attach, se_weight};
use crate::balance::by_load;
use crate::features::Feature;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Changed, Debugged, Dequeue, Enqueue, Limited, Policy, Wake};
use crate::rq::Rq;
use crate::shared::{FairStats, Shared};
use crate::task::{SchedPolicy, TaskAttrs};
use crate::tunables::{Knobs, Tunables};
use crate::weight;

/// EEVDF, as in 6.6 and later. `Config::behaviours` and the features say which kernel's.
pub type Eevdf<T = Knobs> = Fair<EevdfOrder, T>;

/// CFS, as in 3.10 to 6.4. `Config::behaviours` and the features say which kernel's.
pub type Cfs<T = Knobs> = Fair<CfsOrder, T>;

#[inline]
fn publish_load<D: Discipline, T: Tunables>(rq: &FairCpu<D, T>, shared: &FairShared<D, T>, load: u64) {
    let root = &rq.class.groups[ROOT].cfs;
    shared.cpu(rq.cpu).publish_fair(FairStats {
        load,
        runnable: root.avg.runnable_avg,
        util: root.avg.util_avg,
        util_est: rq.class.util_est,
        h_nr_runnable: root.h_nr_runnable,
        h_nr_queued: root.h_nr_queued,
        h_nr_idle: root.h_nr_idle,
    });
}

#[inline(never)]
fn publish_queue_load<D: Discipline, T: Tunables>(rq: &FairCpu<D, T>, shared: &FairShared<D, T>) {
    publish_load(rq, shared, rq.queue_load(shared, ROOT));
}

impl<D: Discipline, T: Tunables> Policy for Fair<D, T> {
    type Tunables = T;
    type Rq = FairRq;
    type Task = DetachedEntity;
    type Balance = Self;
    type Changes = Self;
    type Limits = Self;
    type Debugging = Self;

    fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> FairRq {
        FairRq::new()
    }

    fn new_task(shared: &Shared<Self>, attrs: &TaskAttrs) -> DetachedEntity {
        let (weight, idle) = weight_of(attrs.policy, attrs.nice);
        let mut se = Entity::new(weight, idle);
        set_slice(&mut se, shared, attrs.slice);
        DetachedEntity(Some(alloc::boxed::Box::new(se)))
    }

    fn enqueue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Enqueue) {
        rq.catch_up_around(shared, task);
        if why == Enqueue::New && rq.class.entities[Se::task(task)].avg.runnable_avg == 0 {
            rq.init_task_avg(shared, task);
        }
        rq.enqueue_task(shared, task, why);
        if let Some(energy) = shared.energy()
            && matches!(why, Enqueue::Wakeup | Enqueue::WakeupMigrated)
        {
            energy_aware::check_overutilized(rq, shared, energy);
        }
    }

    fn forked(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        D::fork(rq, shared, task);
    }

    fn set_averages(rq: &mut Rq<Self>, task: u32, runnable: u16, running: u16) {
        let entity = &mut rq.class.entities[Se::task(task)];
        let (runnable, running) = (u64::from(runnable).min(1024), u64::from(running).min(1024));
        entity.avg.load_avg = se_weight(entity.weight) * runnable / 1024;
        (entity.avg.runnable_avg, entity.avg.util_avg) = (runnable, running);
    }

    fn dequeue(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, why: Dequeue) -> bool {
        rq.dequeue_task(shared, task, why)
    }

    fn pick(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<u32> {
        rq.pick_task(shared)
    }

    fn switch(rq: &mut Rq<Self>, shared: &Shared<Self>, prev: Option<u32>, next: Option<u32>) {
        rq.put_prev_set_next(shared, prev, next);
        if let Some(next) = next {
            rq.update_misfit_status(shared, next);
        }
    }

    fn after_balance(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        rq.check_limits_left(shared);
    }

    fn tick(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        rq.catch_up(shared);
        let mut se = Se::task(task);
        let leaf = rq.se(se).parent;
        loop {
            let cfs = rq.se(se).parent;
            rq.update_curr(shared, cfs);
            rq.update_load_avg(shared, se, Attach::Keep);
            rq.update_cfs_group(shared, se);
            D::tick(rq, shared, cfs, se);
            if cfs == ROOT {
                break;
            }
            se = Se::group(cfs);
        }
        if leaf != ROOT {
            rq.watch(shared, leaf);
        }
        rq.update_misfit_status(shared, task);
        if let Some(energy) = shared.energy() {
            energy_aware::check_overutilized(rq, shared, energy);
        }
    }

    fn wakeup_preempt(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, wake: Wake) {
        rq.wakeup_preempt_fair(shared, task, wake);
    }

    fn yield_task(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        let Some(curr) = rq.curr_ordinary else { return };
        if rq.nr_running <= 1 {
            return;
        }
        rq.catch_up(shared);
        let se = Se::task(curr);
        rq.clear_buddies(se, rq.class.entities[Se::task(curr)].parent);
        rq.update_curr_all(shared);
        D::yields(rq, shared, se);
    }

    fn slice_left(rq: &Rq<Self>, shared: &Shared<Self>) -> Option<u64> {
        let curr = rq.curr_ordinary?;
        if rq.class.groups[ROOT].cfs.h_nr_queued <= 1 {
            return None;
        }
        Some(D::slice_left(rq, shared, Se::task(curr)))
    }

    fn update_curr(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        rq.catch_up(shared);
        rq.update_curr_all(shared);
    }

    fn select_cpu(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, on: CpuId, wake: Wake) -> CpuId {
        if !shared.config.has(Behaviour::WakeIdleCores) {
            return by_load::select_cpu(rq, shared, task, on, wake);
        }
        placement::select_cpu(rq, shared, task, on, wake)
    }

    fn select_cpu_exec(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) -> CpuId {
        if shared.config.behaviours.by_load() {
            return by_load::select_cpu_exec(rq, shared, task);
        }
        placement::select_cpu_exec(rq, shared, task)
    }

    fn detach(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        rq.catch_up_around(shared, task);
        // A task that was never woken has no averages here.
        if rq.class.entities[Se::task(task)].avg.last_update != 0 {
            rq.remove_entity_load_avg(Se::task(task));
            rq.age_on_idle(shared, Se::task(task));
        }
        D::migrate(rq, task);
        let mut entity = rq.class.entities[Se::task(task)].clone();
        entity.avg.last_update = 0;
        entity.exec_start = 0;
        rq.tasks[task].class = DetachedEntity(Some(alloc::boxed::Box::new(entity)));
    }

    fn attach(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        if let Some(entity) = rq.tasks[task].class.0.take() {
            rq.class.slices |= entity.custom_slice;
            rq.class.entities.put(Se::task(task), *entity);
        }
        join_group(rq, shared, task);
    }

    fn attrs_changed(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        rq.catch_up_around(shared, task);
        let (weight, idle) = weight_of(rq.tasks[task].policy, rq.tasks[task].nice);
        let se = Se::task(task);
        if rq.se(se).weight != weight {
            D::reweight(rq, shared, se, weight);
        }
        rq.se_mut(se).idle = idle;
    }
}

impl<D: Discipline, T: Tunables> Balanced<Self> for Fair<D, T> {
    fn task_load(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) -> u64 {
        rq.task_h_load(shared, task)
    }

    fn effective_load(rq: &Rq<Self>, shared: &Shared<Self>, task: u32) -> u64 {
        rq.effective_load(shared, task)
    }

    fn update_h_load(rq: &mut Rq<Self>, shared: &Shared<Self>) -> Option<(u32, u32)> {
        rq.update_all_h_load(shared)
    }

    fn task_util(rq: &Rq<Self>, task: u32) -> u64 {
        let avg = &rq.class.entities[Se::task(task)].avg;
        avg.util_avg.max(u64::from(avg.util_est))
    }

    fn task_fits_cpu(rq: &Rq<Self>, shared: &Shared<Self>, task: u32, cpu: CpuId) -> bool {
        rq.task_fits_cpu(shared, task, cpu)
    }

    fn sticky(rq: &Rq<Self>, shared: &Shared<Self>, task: u32) -> bool {
        let se = Se::task(task);
        let cfs = &rq.class.groups[rq.se(se).parent].cfs;
        shared.config.features.has(Feature::CacheHotBuddy) && (cfs.next == Some(se) || cfs.last == Some(se))
    }

    fn util_sum(rq: &Rq<Self>) -> u64 {
        rq.class.groups[ROOT].cfs.avg.util_sum
    }

    fn update_blocked_averages(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        rq.catch_up(shared);
        rq.update_blocked(shared);
    }

    #[inline]
    fn publish(rq: &Rq<Self>, shared: &Shared<Self>) {
        if shared.config.behaviours.by_load() {
            publish_queue_load(rq, shared);
        } else {
            publish_load(rq, shared, rq.class.groups[ROOT].cfs.avg.load_avg);
        }
    }

    fn publish_usage(rq: &Rq<Self>, shared: &Shared<Self>) {
        if let Some(energy) = shared.energy() {
            energy_aware::publish(rq, energy);
        }
    }

    fn has_run_ahead(rq: &Rq<Self>, shared: &Shared<Self>, task: u32, to: &Rq<Self>) -> bool {
        let competes = |group| to.class.by_id.get(&group).is_some_and(|&slot| to.class.groups[slot].cfs.nr_queued > 0);
        D::has_run_ahead(rq, shared, Se::task(task)) && competes(rq.tasks[task].group)
    }

    fn only_idle_tasks(rq: &Rq<Self>) -> bool {
        let root = &rq.class.groups[ROOT].cfs;
        root.h_nr_queued > 0 && root.h_nr_queued == root.h_nr_idle
    }
}

impl<D: Discipline, T: Tunables> Changed<Self> for Fair<D, T> {
    /// Whether a single entity is queued: a task, or a group with any number of tasks (5.6+).
    fn is_alone(rq: &Rq<Self>, shared: &Shared<Self>) -> bool {
        shared.config.has(Behaviour::PrioChangeLooks) && rq.class.groups[ROOT].cfs.nr_queued == 1
    }

    fn slice(rq: &Rq<Self>, shared: &Shared<Self>, task: u32) -> Option<u64> {
        offers_slices(shared).then(|| rq.se(Se::task(task)).slice)
    }

    fn slice_changed(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32, slice: Option<u64>) {
        set_slice(rq.se_mut(Se::task(task)), shared, slice);
        rq.class.slices |= rq.se(Se::task(task)).custom_slice;
    }

    /// Moves a task's averages to the queue of its new group at once. They decay there from then on
    /// (`task_change_group_fair`). New tasks and tasks of a higher class have no averages.
    fn group_changed(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        rq.catch_up(shared);
        let se = Se::task(task);
        if rq.se(se).avg.last_update == 0 {
            join_group(rq, shared, task);
            return;
        }
        leave_group(rq, shared, task);
        join_group(rq, shared, task);
        rq.change_averages(shared, se, Attach::Join);
        D::join_group(rq, task);
    }

    /// Removes the averages of a task from its queue at once (`switched_from_fair`, 4.4+).
    fn switched_from(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) -> bool {
        if !shared.config.has(Behaviour::ClassMovesLoad) {
            return false;
        }
        let se = Se::task(task);
        if rq.se(se).avg.last_update != 0 {
            rq.catch_up(shared);
            leave_group(rq, shared, task);
        }
        true
    }

    /// Adds the decayed averages of a task to its queue at once. They decay there from then on (`switched_to_fair`,
    /// 4.4+).
    fn switched_to_asleep(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) -> bool {
        if !shared.config.has(Behaviour::ClassMovesLoad) {
            return false;
        }
        rq.catch_up(shared);
        rq.change_averages(shared, Se::task(task), Attach::Join);
        D::join_group(rq, task);
        true
    }

    fn group_weight_changed(rq: &mut Rq<Self>, shared: &Shared<Self>, group: crate::ids::GroupId) {
        let Some(&slot) = rq.class.by_id.get(&group) else { return };
        rq.catch_up(shared);
        rq.set_group_idle(slot, shared.group(group).idle());
        let mut slot = slot;
        while slot != ROOT {
            let se = Se::group(slot);
            rq.update_load_avg(shared, se, Attach::Keep);
            rq.update_cfs_group(shared, se);
            slot = rq.class.groups[slot].parent;
        }
    }

    fn rq_offline(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        rq.catch_up(shared);
        rq.limits_offline(shared);
        rq.clear_tg_load_avg(shared);
    }

    fn rq_online(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        rq.catch_up(shared);
        rq.limits_online(shared);
    }
}

impl<D: Discipline, T: Tunables> Limited<Self> for Fair<D, T> {
    const ENFORCED: bool = true;

    fn limit_changed(rq: &mut Rq<Self>, shared: &Shared<Self>, group: crate::ids::GroupId) {
        rq.catch_up(shared);
        rq.adopt_limit(shared, group);
    }

    fn distribute(rq: &mut Rq<Self>, shared: &Shared<Self>, group: crate::ids::GroupId) {
        rq.catch_up(shared);
        rq.distribute_to(shared, group);
    }

    fn throttled(rq: &Rq<Self>, shared: &Shared<Self>, task: u32) -> bool {
        rq.is_throttled(shared, task)
    }

    #[inline]
    fn limit_forbids_move(rq: &Rq<Self>, shared: &Shared<Self>, task: u32, to: &Rq<Self>) -> bool {
        rq.limit_forbids_move(shared, task, to)
    }

    #[inline]
    fn wants_return(rq: &Rq<Self>) -> bool {
        rq.class.limits && rq.curr_ordinary.is_some_and(|curr| rq.class.entities[Se::task(curr)].throttle_work)
    }

    fn return_to_user(rq: &mut Rq<Self>, shared: &Shared<Self>, task: u32) {
        rq.catch_up(shared);
        rq.throttle_on_return(shared, task);
    }
}

impl<D: Discipline, T: Tunables> Debugged<Self> for Fair<D, T> {
    fn apply_deferred(rq: &mut Rq<Self>, shared: &Shared<Self>) {
        rq.catch_up(shared);
    }

    fn debug(rq: &Rq<Self>, shared: &Shared<Self>) -> alloc::vec::Vec<crate::debug::CfsDebug> {
        debug::queues(rq, shared)
    }

    fn debug_task(rq: &Rq<Self>, task: u32) -> Option<crate::debug::EntityDebug> {
        let se = &rq.class.entities[Se::task(task)];
        Some(debug::entity(se, &rq.class.groups[se.parent].cfs))
    }

    fn check(rq: &Rq<Self>) -> Result<(), alloc::string::String> {
        invariants::check(rq)
    }
}

fn leave_group<D: Discipline, T: Tunables>(rq: &mut FairCpu<D, T>, shared: &FairShared<D, T>, task: u32) {
    D::leave_group(rq, shared, task);
    rq.change_averages(shared, Se::task(task), Attach::Leave);
    rq.se_mut(Se::task(task)).avg.last_update = 0;
}

fn join_group<D: Discipline, T: Tunables>(rq: &mut FairCpu<D, T>, shared: &FairShared<D, T>, task: u32) {
    let group = rq.tasks[task].group;
    let parent = rq.group_slot(shared, group);
    rq.class.entities[Se::task(task)].parent = parent;
}

/// Range of slices that a task may request, nanoseconds (6.12+).
const CUSTOM_SLICE: core::ops::RangeInclusive<u64> = 100_000..=100_000_000;

/// Returns the weight, and whether the task is SCHED_IDLE.
fn weight_of(policy: SchedPolicy, nice: i8) -> (u64, bool) {
    let idle = policy == SchedPolicy::Idle;
    (if idle { weight::IDLE_WEIGHT << weight::SHIFT } else { weight::of_nice(nice) }, idle)
}

fn offers_slices<D: Discipline, T: Tunables>(shared: &FairShared<D, T>) -> bool {
    shared.config.has(Behaviour::CustomSlices)
}

/// Sets the requested slice, if the kernel offers that, or the base slice.
fn set_slice<D: Discipline, T: Tunables>(se: &mut Entity, shared: &FairShared<D, T>, slice: Option<u64>) {
    let offered = offers_slices(shared);
    se.custom_slice = offered && slice.is_some();
    se.slice = match slice {
        Some(slice) if offered => slice.clamp(*CUSTOM_SLICE.start(), *CUSTOM_SLICE.end()),
        _ => shared.config.tunables.base_slice_ns(),
    };
}
