//! EEVDF: of the eligible entities, the one with the earliest virtual deadline runs (Stoica and Abdel-Wahab, 1995).
//!
//! A queue's virtual time is its entities' weighted average vruntime. An entity's *lag* is its distance behind it;
//! while not negative, the entity is *eligible*. Its *virtual deadline* is its vruntime at its last request plus its
//! slice, divided by its weight.
//!
//! What kernels do differently:
//! - **6.6**: RUN_TO_PARITY protects the running entity until its slice is used up, or it is not eligible. Sleeping
//!   entities keep their lag, limited to two slices.
//! - **6.12**: an entity that sleeps in debt stays queued until picked (DELAY_DEQUEUE). Tasks may request a slice. A
//!   shorter one may end the protection (PREEMPT_SHORT), which every tick then checks. A non-idle waker ends an idle
//!   entity's protection; in 6.6 it only requests a reschedule.
//! - **6.17**: protection is a virtual time: until the shortest waiting slice has passed, at most to the deadline.
//!   Then every update of the running entity requests a reschedule.
//! - **Late releases of 6.18** ([`Kernel::as_of`](crate::Kernel::as_of); here 6.18.44) and **7.0**: a woken entity is
//!   compared with the first awake pick. Earlier kernels stop at a sleeping entity and preempt nothing. Every wakeup
//!   that does not preempt shortens the protection to the shortest waiting slice; earlier only a shorter slice does. A
//!   new task preempts only an entity with a longer slice. Lag is limited to the longest slice of the queue and a tick.
//!   A weight change keeps the protection in real time; a changed running task gets none.
//! - **7.1**: an entity with a delayed dequeue keeps the rest of its debt, however the average moves. Weights change
//!   relative to the average, as up to 6.12. A timer ends slices (HRTICK).

use super::discipline::{Discipline, FairCpu, FairShared};
use super::entity::{CfsRq, Entity, Se};
use crate::features::Feature;
use crate::kernels::Behaviour;
use crate::policy::{Dequeue, Enqueue, Wake};
use crate::tunables::Tunables;
use crate::weight;

/// The order of EEVDF.
#[derive(Debug)]
pub struct EevdfOrder;

/// Distance from the average at which a queue's origin moves, virtual ns.
const REBASE: i64 = 1 << 28;

/// Distance behind vruntime of an ended protection, virtual ns.
const LONG_PAST: u64 = 1 << 62;

/// Returns the virtual time, rounded down so that it is never ahead of itself.
#[inline]
pub(crate) fn avg_vruntime(queue: &CfsRq) -> u64 {
    match queue.sum_w {
        0 => queue.zero,
        load => queue.zero.wrapping_add(queue.sum_wv.div_euclid(load as i64) as u64),
    }
}

#[inline]
fn eligible(queue: &CfsRq, vruntime: u64) -> bool {
    i128::from(queue.sum_wv) >= i128::from(vruntime.wrapping_sub(queue.zero) as i64) * i128::from(queue.sum_w)
}

pub(crate) fn entity_eligible<T: Tunables>(rq: &FairCpu<EevdfOrder, T>, se: Se) -> bool {
    let entity = rq.se(se);
    eligible(&rq.class.groups[entity.parent].cfs, entity.vruntime)
}

#[inline]
fn before(a: &Entity, b: &Entity) -> bool {
    (a.deadline.wrapping_sub(b.deadline) as i64) < 0
}

/// Limit of lag in both directions, real time: two slices, at least a tick. 6.19+ (and late releases of 6.18): the
/// longest slice of the queue and a tick.
#[inline(always)]
#[allow(clippy::inline_always)] // at every sleep
fn lag_limit<T: Tunables>(rq: &FairCpu<EevdfOrder, T>, shared: &FairShared<EevdfOrder, T>, se: Se) -> u64 {
    let tick = shared.config.tunables.tick_ns();
    if shared.config.has(Behaviour::LagByLongest) {
        return max_slice(rq, rq.se(se).parent).unwrap_or(0) + tick;
    }
    (2 * rq.se(se).slice).max(tick)
}

/// Stores a leaving entity's lag. Returns whether it differs from that on the queue: beyond the limit, or (7.1) kept by
/// a sleeper.
fn update_lag<T: Tunables>(rq: &mut FairCpu<EevdfOrder, T>, shared: &FairShared<EevdfOrder, T>, se: Se) -> bool {
    let limit = lag_limit(rq, shared, se);
    let (entity, queue) = rq.class.both(se);
    let average = avg_vruntime(queue);
    let mut lag = lag_within(entity, average, limit);
    if entity.delayed && shared.config.has(Behaviour::DelayedKeepsDebt) {
        lag = lag.max(entity.vlag);
        if shared.config.features.has(Feature::DelayZero) {
            lag = lag.min(0);
        }
    }
    entity.vlag = lag;
    average.wrapping_sub(lag as u64) != entity.vruntime
}

/// `limit` is nanoseconds of real time, the result is virtual.
fn lag_within(entity: &Entity, average: u64, limit: u64) -> i64 {
    let limit = weight::to_virtual(limit, entity.weight) as i64;
    (average.wrapping_sub(entity.vruntime) as i64).clamp(-limit, limit)
}

/// Moves the sums' origin to the average, for smaller numbers.
#[cold]
fn rebase(queue: &mut CfsRq) {
    let average = avg_vruntime(queue);
    let shift = average.wrapping_sub(queue.zero) as i64;
    queue.sum_wv -= shift * queue.sum_w as i64;
    queue.zero = average;
}

#[inline]
fn protected<T>(shared: &FairShared<EevdfOrder, T>, entity: &Entity) -> bool
where
    T: Tunables,
{
    if shared.config.has(Behaviour::Vprot) {
        (entity.protected_until.wrapping_sub(entity.vruntime) as i64) > 0
    } else {
        entity.protected && entity.protected_until == entity.deadline
    }
}

/// Ends the protection (6.17+: `cancel_protect_slice`).
fn cancel_protection(entity: &mut Entity) {
    entity.protected_until = earlier(entity.protected_until, entity.vruntime);
}

fn may_take_buddy<T: Tunables>(rq: &FairCpu<EevdfOrder, T>, shared: &FairShared<EevdfOrder, T>, buddy: Se) -> bool {
    shared.config.features.has(Feature::PickBuddy) && entity_eligible(rq, buddy)
}

/// `protect`: the protection of the running entity counts.
#[inline(always)]
#[allow(clippy::inline_always)] // twice in all, at every switch and every wakeup
#[expect(clippy::expect_used, reason = "the class asks only queues that have an entity")]
fn pick<T: Tunables>(rq: &FairCpu<EevdfOrder, T>, shared: &FairShared<EevdfOrder, T>, cfs: u32, protect: bool) -> Se {
    let queue = &rq.class.groups[cfs].cfs;
    let running = queue.curr.map(|curr| (curr, rq.se(curr))).filter(|(_, entity)| entity.on_rq);
    if queue.nr_queued == 1
        && let Some((only, _)) = running
    {
        return only;
    }
    let features = shared.config.features;
    if let Some(buddy) = queue.next
        && shared.config.has(Behaviour::BuddyInPick)
        && (protect || !shared.config.has(Behaviour::BuddyIfProtected))
        && may_take_buddy(rq, shared, buddy)
    {
        return buddy;
    }
    let curr = running.filter(|(_, entity)| eligible(queue, entity.vruntime));
    if protect
        && let Some((curr, entity)) = curr
        && (features.has(Feature::RunToParity) || shared.config.has(Behaviour::Vprot))
        && protected(shared, entity)
    {
        return curr;
    }
    let best = queue.timeline.pick(|vruntime| eligible(queue, vruntime)).map(Se::from_raw);
    match (best, curr) {
        (Some(best), Some((_, entity))) if !before(entity, rq.se(best)) => best,
        (_, Some((curr, _))) => curr,
        (Some(best), None) => best,
        // At least the entity furthest behind is eligible. Only rounding could lead here.
        (None, None) => {
            let first = queue.timeline.first().map(Se::from_raw);
            first.or(running.map(|(only, _)| only)).expect("pick on an empty queue")
        }
    }
}

fn min_slice<T: Tunables>(rq: &FairCpu<EevdfOrder, T>, cfs: u32) -> Option<u64> {
    let queue = &rq.class.groups[cfs].cfs;
    let running = queue.curr.map(|curr| rq.se(curr)).filter(|se| se.on_rq).map(|se| se.slice);
    match (queue.timeline.min_slice(), running) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn max_slice<T: Tunables>(rq: &FairCpu<EevdfOrder, T>, cfs: u32) -> Option<u64> {
    let queue = &rq.class.groups[cfs].cfs;
    let running = queue.curr.map(|curr| rq.se(curr)).filter(|se| se.on_rq).map(|se| se.slice);
    queue.timeline.max_slice().max(running)
}

/// Limits the protection to the shortest waiting slice (`update_protect_slice`).
fn shorten_protection<T: Tunables>(rq: &mut FairCpu<EevdfOrder, T>, shared: &FairShared<EevdfOrder, T>, curr: Se) {
    if !shared.config.features.has(Feature::RunToParity) {
        return;
    }
    let slice = min_slice(rq, rq.se(curr).parent).unwrap_or(u64::MAX);
    let entity = rq.se_mut(curr);
    let until = entity.vruntime.wrapping_add(weight::to_virtual(slice, entity.weight));
    entity.protected_until = earlier(entity.protected_until, until);
}

/// Late releases of 6.18: picks an entity after all sleeping ones have left, to compare with a woken one.
fn pick_awake<T: Tunables>(
    rq: &mut FairCpu<EevdfOrder, T>,
    shared: &FairShared<EevdfOrder, T>,
    cfs: u32,
    protect: bool,
) -> Se {
    loop {
        let se = pick(rq, shared, cfs, protect);
        if !rq.se(se).delayed {
            return se;
        }
        rq.catch_up(shared);
        rq.dequeue_entities(shared, se, Dequeue::Delayed, true);
        if let Some(task) = se.as_task() {
            rq.finish_delayed(task);
        }
    }
}

fn earlier(a: u64, b: u64) -> u64 {
    if (a.wrapping_sub(b) as i64) < 0 { a } else { b }
}

/// Converts virtual time from one weight to another.
#[derive(Clone, Copy)]
struct Stretch {
    old: u64,
    new: u64,
}

impl Stretch {
    fn of(self, virtual_ns: i64) -> i64 {
        (i128::from(virtual_ns) * i128::from(self.old) / i128::from(self.new.max(1))) as i64
    }
}

/// The entity must not be in its queue's sums.
fn set_weight<T: Tunables>(rq: &mut FairCpu<EevdfOrder, T>, se: Se, weight: u64) {
    let attached = rq.se(se).avg.last_update != 0;
    if attached {
        rq.dequeue_load_avg(se);
    }
    let entity = rq.se_mut(se);
    entity.weight = weight;
    entity.avg.load_avg = weight::down(weight) * entity.avg.load_sum / entity.avg.divider();
    if attached {
        rq.enqueue_load_avg(se);
    }
}

/// Up to 6.12, and 7.1+: the queue's average does not move. Lag and the time to the deadline stay equal in real time;
/// in 7.1 also the protection's end, and a sleeper's deadline.
fn reweight_about_average<T: Tunables>(
    rq: &mut FairCpu<EevdfOrder, T>,
    shared: &FairShared<EevdfOrder, T>,
    se: Se,
    weight: u64,
) {
    let Entity { parent: cfs, on_rq, weight: old, .. } = *rq.se(se);
    let stretch = Stretch { old, new: weight };
    if !on_rq {
        let stretches = shared.config.has(Behaviour::ReweightStretches);
        let entity = rq.se_mut(se);
        entity.vlag = stretch.of(entity.vlag);
        if stretches && entity.rel_deadline {
            entity.deadline = stretch.of(entity.deadline as i64) as u64;
        }
        set_weight(rq, se, weight);
        return;
    }
    rq.update_curr(shared, cfs);
    let is_curr = rq.class.groups[cfs].cfs.curr == Some(se);
    let average = avg_vruntime(&rq.class.groups[cfs].cfs);
    let lag = lag_within(rq.se(se), average, lag_limit(rq, shared, se));
    let keeps = is_curr && shared.config.has(Behaviour::ReweightKeeps) && protected(shared, rq.se(se));
    if !is_curr {
        rq.erase(se);
    }
    rq.account_dequeue(se);
    set_weight(rq, se, weight);
    let entity = rq.se_mut(se);
    entity.vruntime = average.wrapping_sub(stretch.of(lag) as u64);
    let left = entity.deadline.wrapping_sub(average) as i64;
    entity.deadline = average.wrapping_add(stretch.of(left) as u64);
    if keeps {
        let left = entity.protected_until.wrapping_sub(average) as i64;
        entity.protected_until = average.wrapping_add(stretch.of(left) as u64);
    }
    rq.account_enqueue(se);
    if !is_curr {
        rq.insert(se);
    }
}

/// 6.13 to 7.0: places the reweighted running entity as if it joined with its old vruntime and new weight. Its distance
/// from the average grows, by a quarter if it weighs as much as all others.
#[inline(never)]
fn place_running<T: Tunables>(rq: &mut FairCpu<EevdfOrder, T>, shared: &FairShared<EevdfOrder, T>, se: Se) {
    let (entity, queue) = rq.class.both(se);
    let weight = weight::down(entity.weight);
    let share = entity.vruntime.wrapping_sub(queue.zero) as i64 * weight as i64;
    queue.sum_wv += share;
    queue.sum_w += weight;
    EevdfOrder::place(rq, shared, se, Enqueue::Restore);
    let queue = rq.class.both(se).1;
    queue.sum_wv -= share;
    queue.sum_w -= weight;
}

/// NEXT_BUDDY 6.19+ (and late releases of 6.18): a woken entity becomes the buddy unless the present one has an earlier
/// deadline. If the waker is about to sleep, that is all: `preempt_sync` requires run time since the last charge, which
/// was just now. `None`: compare as usual.
#[inline(never)]
fn meets_buddy<T: Tunables>(
    rq: &mut FairCpu<EevdfOrder, T>,
    shared: &FairShared<EevdfOrder, T>,
    curr: Se,
    woken: Se,
    wake: Wake,
) -> Option<bool> {
    let buddy = rq.class.groups[rq.se(curr).parent].cfs.next;
    if buddy.is_some_and(|buddy| before(rq.se(buddy), rq.se(woken))) {
        return None;
    }
    rq.set_next_buddy(woken);
    let at_once = shared.config.tunables.migration_cost_ns() == 0 && before(rq.se(woken), rq.se(curr));
    wake.sync.then_some(at_once)
}

impl Discipline for EevdfOrder {
    const AVERAGES: bool = true;

    #[inline]
    fn key(se: &Entity) -> u64 {
        se.deadline
    }

    fn place<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se, why: Enqueue) {
        let features = shared.config.features;
        let (entity, queue) = rq.class.both(se);
        let vruntime = avg_vruntime(queue);
        if !entity.custom_slice {
            entity.slice = shared.config.tunables.base_slice_ns();
        }
        let mut lag = 0;
        if features.has(Feature::PlaceLag) && queue.nr_queued > 0 && entity.vlag != 0 {
            // Joining moves the average towards the newcomer. It is placed further out, so that it has its old lag
            // after joining.
            let load = queue.sum_w as i64;
            let joined = load + weight::down(entity.weight) as i64;
            // A 128-bit division is slow: only if the product overflows.
            lag = match entity.vlag.checked_mul(joined) {
                Some(product) => product / load.max(1),
                None => (i128::from(entity.vlag) * i128::from(joined) / i128::from(load.max(1))) as i64,
            };
        }
        entity.vruntime = vruntime.wrapping_sub(lag as u64);
        if entity.rel_deadline {
            entity.deadline = entity.deadline.wrapping_add(entity.vruntime);
            entity.rel_deadline = false;
            return;
        }
        let mut slice = weight::to_virtual(entity.slice, entity.weight);
        // 6.6 places a forked task twice, the second time like any other.
        let halved = features.has(Feature::PlaceDeadlineInitial) && shared.config.has(Behaviour::PlacesOnce);
        if halved && why == Enqueue::New {
            slice /= 2;
        }
        entity.deadline = entity.vruntime.wrapping_add(slice);
    }

    fn befriends<T: Tunables>(_rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, _running: Se) -> bool {
        !shared.config.has(Behaviour::BuddyInPick)
    }

    /// 6.14+: a balancer that has not failed moves no ineligible task.
    fn has_run_ahead<T: Tunables>(rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) -> bool {
        let config = &shared.config;
        config.has(Behaviour::IneligibleMoves) && config.features.has(Feature::PlaceLag) && !entity_eligible(rq, se)
    }

    fn delays<T: Tunables>(rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) -> bool {
        shared.config.features.has(Feature::DelayDequeue) && !entity_eligible(rq, se)
    }

    fn stays<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) {
        if shared.config.has(Behaviour::DelayedKeepsDebt) {
            update_lag(rq, shared, se);
        }
    }

    fn leave<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se, why: Dequeue) {
        update_lag(rq, shared, se);
        // The kernel keeps lag and the protection's end in one field.
        let entity = rq.se_mut(se);
        entity.protected_until = entity.vruntime.wrapping_sub(LONG_PAST);
        if shared.config.features.has(Feature::PlaceRelDeadline) && matches!(why, Dequeue::Move | Dequeue::Save) {
            let entity = rq.se_mut(se);
            entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
            entity.rel_deadline = true;
        }
    }

    fn pick<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, cfs: u32) -> Se {
        if let Some(next) = rq.class.groups[cfs].cfs.next
            && !shared.config.has(Behaviour::BuddyInPick)
            && may_take_buddy(rq, shared, next)
        {
            return next;
        }
        pick(rq, shared, cfs, true)
    }

    fn slice<T: Tunables>(rq: &FairCpu<Self, T>, _shared: &FairShared<Self, T>, se: Se) -> u64 {
        rq.se(se).slice
    }

    /// 7.1: until the deadline. Before: since the pick.
    fn slice_left<T: Tunables>(rq: &FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) -> u64 {
        let entity = rq.se(se);
        if shared.config.has(Behaviour::SliceByDeadline) {
            let left = entity.deadline.wrapping_sub(entity.vruntime) as i64;
            return weight::to_real(left.max(0) as u64, entity.weight);
        }
        Self::slice(rq, shared, se).saturating_sub(entity.sum_exec_runtime - entity.prev_sum_exec_runtime)
    }

    fn set_next<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) {
        if shared.config.has(Behaviour::Vprot) {
            if rq.restoring && shared.config.has(Behaviour::RestoreKeeps) {
                return;
            }
            let cfs = rq.se(se).parent;
            let least = if shared.config.features.has(Feature::RunToParity) {
                min_slice(rq, cfs).unwrap_or(u64::MAX)
            } else {
                // Even without protection a task runs for the base slice before scaling by the number of CPUs.
                shared.config.tunables.base_slice_ns() / crate::tunables::scaling(shared.nr_cpus())
            };
            let entity = rq.se_mut(se);
            let slice = least.min(entity.slice);
            entity.protected_until = entity.deadline;
            if slice != entity.slice {
                let until = entity.vruntime.wrapping_add(weight::to_virtual(slice, entity.weight));
                entity.protected_until = earlier(entity.deadline, until);
            }
        } else {
            let entity = rq.se_mut(se);
            entity.protected_until = entity.deadline;
            entity.protected = true;
        }
    }

    #[inline]
    fn charged<T: Tunables>(curr: &mut Entity, queue: &mut CfsRq, shared: &FairShared<Self, T>) -> bool {
        if (curr.vruntime.wrapping_sub(queue.zero) as i64).abs() > REBASE {
            rebase(queue);
        }
        let mut resched = false;
        if (curr.vruntime.wrapping_sub(curr.deadline) as i64) >= 0 {
            // The request is used up: the next one begins.
            if !curr.custom_slice {
                curr.slice = shared.config.tunables.base_slice_ns();
            }
            curr.deadline = curr.vruntime.wrapping_add(weight::to_virtual(curr.slice, curr.weight));
            resched = true;
        }
        if queue.nr_queued == 1 {
            return false;
        }
        if resched {
            return true;
        }
        if shared.config.has(Behaviour::Vprot) {
            return !protected(shared, curr);
        }
        // A short slice has overtaken, and no time is owed: pick again.
        shared.config.has(Behaviour::ShortOvertakes)
            && shared.config.features.has(Feature::PreemptShort)
            && !protected(shared, curr)
            && !eligible(queue, curr.vruntime)
    }

    #[inline]
    fn undisturbed(curr: &Entity, queue: &CfsRq) -> u64 {
        // To the end of its request, or until the origin is moved.
        let left = curr.deadline.wrapping_sub(curr.vruntime) as i64;
        let far = curr.vruntime.wrapping_sub(queue.zero) as i64;
        left.min(REBASE - far).max(0) as u64
    }

    fn preempts<T: Tunables>(
        rq: &mut FairCpu<Self, T>,
        shared: &FairShared<Self, T>,
        curr: Se,
        woken: Se,
        _running: u32,
        wake: Wake,
    ) -> bool {
        let cfs = rq.se(curr).parent;
        let config = &shared.config;
        let shorter = shared.config.features.has(Feature::PreemptShort) && rq.se(woken).slice < rq.se(curr).slice;
        let mut unprotects = false;
        if shorter {
            unprotects = config.has(Behaviour::Vprot);
            let overtakes = config.has(Behaviour::ShortOvertakes)
                && entity_eligible(rq, woken)
                && (before(rq.se(woken), rq.se(curr)) || !entity_eligible(rq, curr));
            if overtakes {
                rq.se_mut(curr).protected = false;
            }
        } else {
            if wake.fork && config.has(Behaviour::ForkWaits) {
                return false;
            }
            if config.has(Behaviour::BuddyInPick)
                && config.features.has(Feature::NextBuddy)
                && let Some(answer) = meets_buddy(rq, shared, curr, woken, wake)
            {
                return answer;
            }
        }
        let picked = if config.has(Behaviour::PicksAwake) {
            pick_awake(rq, shared, cfs, !unprotects)
        } else {
            pick(rq, shared, cfs, !unprotects)
        };
        let preempts = picked == woken;
        if unprotects && preempts {
            cancel_protection(rq.se_mut(curr));
            if config.has(Behaviour::BuddyIfProtected) {
                rq.clear_buddies(curr, cfs);
            }
        } else if unprotects || (!preempts && config.has(Behaviour::ShortensAlways)) {
            shorten_protection(rq, shared, curr);
        }
        preempts
    }

    fn gives_way<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, curr: Se) {
        if shared.config.has(Behaviour::Vprot) {
            cancel_protection(rq.se_mut(curr));
        } else if shared.config.has(Behaviour::IdleGivesWay) {
            rq.se_mut(curr).protected = false;
        }
    }

    fn requeue_delayed<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) {
        let late = shared.config.has(Behaviour::DelayedKeepsDebt);
        if !late && !shared.config.features.has(Feature::DelayZero) {
            return;
        }
        let moved = update_lag(rq, shared, se);
        if if late { !moved } else { rq.se(se).vlag <= 0 } {
            return;
        }
        // It has waited longer than its debt: it starts at the average. 7.1: where its lag says, which it did not
        // change meanwhile.
        rq.account_dequeue(se);
        let queued = rq.se(se).ticket.is_some();
        rq.erase(se);
        if !late {
            rq.se_mut(se).vlag = 0;
        }
        Self::place(rq, shared, se, Enqueue::Wakeup);
        if queued {
            rq.insert(se);
        }
        rq.account_enqueue(se);
    }

    fn yields<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se) {
        if shared.config.has(Behaviour::ForfeitsOnYield) {
            // A task that yields while it is owed time gives up the rest of its request (6.18+; also 6.12.117, by its
            // text). Another task continues unchanged.
            if !entity_eligible(rq, se) {
                return;
            }
            rq.account_dequeue(se);
            let entity = rq.se_mut(se);
            entity.vruntime = entity.deadline;
            rq.account_enqueue(se);
        }
        let entity = rq.se_mut(se);
        entity.deadline = entity.deadline.wrapping_add(weight::to_virtual(entity.slice, entity.weight));
    }

    fn reweight<T: Tunables>(rq: &mut FairCpu<Self, T>, shared: &FairShared<Self, T>, se: Se, weight: u64) {
        if !shared.config.has(Behaviour::ReweightPlaces) {
            reweight_about_average(rq, shared, se, weight);
            return;
        }
        let cfs = rq.se(se).parent;
        let on_rq = rq.se(se).on_rq;
        let is_curr = rq.class.groups[cfs].cfs.curr == Some(se);
        let mut protection = None;
        if on_rq {
            rq.update_curr(shared, cfs);
            update_lag(rq, shared, se);
            let entity = rq.se_mut(se);
            if is_curr && !shared.config.has(Behaviour::Vprot) {
                // The lag overwrites the mark of its protection.
                entity.protected = false;
            } else if is_curr && protected(shared, entity) {
                let left = entity.protected_until.wrapping_sub(entity.vruntime);
                // Before `ReweightKeeps`, the lag overwrites the protection's end (`vlag` and `vprot` are one word).
                // A lag, taken for a time, is long past.
                protection = Some(if shared.config.has(Behaviour::ReweightKeeps) { left } else { 0 });
            }
            entity.deadline = entity.deadline.wrapping_sub(entity.vruntime);
            entity.rel_deadline = true;
            if !is_curr {
                rq.erase(se);
            }
            rq.account_dequeue(se);
        }
        let entity = rq.se_mut(se);
        let stretch = Stretch { old: entity.weight, new: weight };
        entity.vlag = stretch.of(entity.vlag);
        if entity.rel_deadline {
            entity.deadline = stretch.of(entity.deadline as i64) as u64;
        }
        set_weight(rq, se, weight);
        if on_rq {
            if is_curr {
                place_running(rq, shared, se);
            } else {
                Self::place(rq, shared, se, Enqueue::Restore);
            }
            if let Some(left) = protection {
                let entity = rq.se_mut(se);
                let left = stretch.of(left as i64) as u64;
                entity.protected_until = entity.vruntime.wrapping_add(left);
            }
            rq.account_enqueue(se);
            if !is_curr {
                rq.insert(se);
            }
        }
    }
}
