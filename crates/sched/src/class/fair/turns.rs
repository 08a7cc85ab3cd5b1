//! Picks the next task, switches to it, and decides whether a woken task preempts.

use super::discipline::{Discipline, Fair};
use super::entity::{Entity, ROOT, Se};
use super::load;
use super::queue::{erase, insert};
use crate::features::Feature;
use crate::kernels::Behaviour;
use crate::policy::{Dequeue, Wake};
use crate::rq::Rq;
use crate::shared::Shared;
use crate::task::SchedPolicy;
use crate::tunables::Tunables;

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    /// Picks the next task, down the hierarchy. Picked entities with a delayed dequeue leave.
    pub(crate) fn pick_task(&mut self, shared: &Shared<Fair<D, T>>) -> Option<u32> {
        'again: loop {
            if self.class.groups[ROOT].cfs.nr_queued == 0 {
                return None;
            }
            let mut cfs = self.first_asked(shared);
            let (limits, mut throttled) = (self.class.limits, false);
            loop {
                let queue = &self.class.groups[cfs].cfs;
                let running = queue.curr.filter(|&curr| self.se(curr).on_rq);
                let only = running.filter(|_| queue.nr_queued == 1);
                if running.is_some() {
                    self.update_curr(shared, cfs);
                }
                if limits && self.check_limit(shared, cfs) {
                    if !shared.config.has(Behaviour::TaskThrottle) {
                        continue 'again;
                    }
                    throttled = true;
                }
                let se = only.unwrap_or_else(|| D::pick(self, shared, cfs));
                if self.se(se).delayed {
                    self.dequeue_entities(shared, se, Dequeue::Delayed, true);
                    if let Some(task) = se.as_task() {
                        self.finish_delayed(task);
                    }
                    continue 'again;
                }
                if let Some(group) = se.as_group() {
                    cfs = self.pick_quietly(shared, group).unwrap_or(group);
                    continue;
                }
                if throttled {
                    self.se_mut(se).throttle_work = true;
                }
                return se.as_task();
            }
        }
    }

    #[inline]
    fn put_prev_entity(&mut self, shared: &Shared<Fair<D, T>>, se: Se) {
        let Entity { parent: cfs, on_rq, .. } = *self.se(se);
        if on_rq {
            self.update_curr(shared, cfs);
        }
        if self.newidle {
            self.put_before_look(se);
        } else {
            self.check_limit(shared, cfs);
        }
        let pelt = self.clock.pelt();
        let (entity, queue) = self.class.both(se);
        if on_rq {
            load::update_avgs::<D>(entity, queue, se, pelt, false);
            insert::<D>(entity, queue, se);
        }
        queue.curr = None;
        if on_rq {
            self.propagate(shared, se);
        }
    }

    #[inline]
    fn set_next_entity(&mut self, shared: &Shared<Fair<D, T>>, se: Se) {
        let cfs = self.se(se).parent;
        self.clear_buddies(se, cfs);
        let (now, pelt) = (self.clock.now(), self.clock.pelt());
        let (entity, queue) = self.class.both(se);
        let on_rq = entity.on_rq;
        let decayed = on_rq && {
            erase::<D>(entity, queue, se);
            load::update_avgs::<D>(entity, queue, se, pelt, false)
        };
        entity.exec_start = now;
        entity.prev_sum_exec_runtime = entity.sum_exec_runtime;
        queue.curr = Some(se);
        if on_rq {
            self.averages_updated(shared, se, cfs, decayed);
        }
        D::set_next(self, shared, se);
    }

    #[inline]
    fn depth(&self, se: Se) -> u32 {
        match se.as_group() {
            Some(group) => self.class.groups[group].cfs.depth - 1,
            None => self.class.groups[self.se(se).parent].cfs.depth,
        }
    }

    /// Switches between tasks. Groups that have both continue to run.
    pub(crate) fn put_prev_set_next(&mut self, shared: &Shared<Fair<D, T>>, prev: Option<u32>, next: Option<u32>) {
        let (mut prev, mut next) = (prev.map(Se::task), next.map(Se::task));
        self.catch_up_between(shared, prev, next);
        loop {
            // The deeper one's turn, or both's.
            let (put, set) = match (prev, next) {
                (None, None) => break,
                (Some(_), None) => (prev, None),
                (None, Some(_)) => (None, next),
                (Some(p), Some(n)) => {
                    if p.as_group().is_some() && p == n {
                        break;
                    }
                    // On one queue, as without groups, depths do not matter.
                    let siblings = self.se(p).parent == self.se(n).parent;
                    let (p_depth, n_depth) = if siblings { (0, 0) } else { (self.depth(p), self.depth(n)) };
                    (prev.filter(|_| p_depth >= n_depth), next.filter(|_| p_depth <= n_depth))
                }
            };
            if let Some(se) = put {
                self.put_prev_entity(shared, se);
                prev = self.parent(se);
            }
            if let Some(se) = set {
                self.set_next_entity(shared, se);
                next = self.parent(se);
            }
        }
    }

    /// Returns the ancestors of two tasks that are siblings on one queue.
    pub(crate) fn siblings(&self, a: Se, b: Se) -> (Se, Se) {
        if self.se(a).parent == self.se(b).parent {
            return (a, b);
        }
        let (mut a, mut b) = (a, b);
        let (mut depth_a, mut depth_b) = (self.depth(a), self.depth(b));
        while depth_a > depth_b {
            a = Se::group(self.se(a).parent);
            depth_a -= 1;
        }
        while depth_b > depth_a {
            b = Se::group(self.se(b).parent);
            depth_b -= 1;
        }
        while self.se(a).parent != self.se(b).parent {
            a = Se::group(self.se(a).parent);
            b = Se::group(self.se(b).parent);
        }
        (a, b)
    }

    pub(crate) fn wakeup_preempt_fair(&mut self, shared: &Shared<Fair<D, T>>, task: u32, wake: Wake) {
        let Some(curr) = self.curr_ordinary else { return };
        if curr == task || self.may_not_preempt(shared, task) {
            return;
        }
        let features = shared.config.features;
        if features.has(Feature::NextBuddy)
            && !wake.fork
            && !self.class.entities[Se::task(task)].delayed
            && D::befriends(self, shared, Se::task(curr))
        {
            self.set_next_buddy(Se::task(task));
        }
        if self.resched_is_due() {
            return;
        }
        // Up to 6.11, policies precede groups: any other task preempts a SCHED_IDLE task, and only ordinary tasks
        // preempt.
        let policy = self.tasks[task].policy;
        if !shared.config.has(Behaviour::GroupsBeforePolicies) {
            if self.se(Se::task(curr)).idle && policy != SchedPolicy::Idle {
                self.resched_lazy();
                return;
            }
            if policy != SchedPolicy::Normal {
                return;
            }
        }
        if !features.has(Feature::WakeupPreemption) {
            return;
        }
        let (se, woken) = self.siblings(Se::task(curr), Se::task(task));
        let (curr_idle, woken_idle) = (self.se(se).idle, self.se(woken).idle);
        // Any other entity preempts an idle one, which never preempts.
        if curr_idle && !woken_idle {
            D::gives_way(self, shared, se);
            self.resched_lazy();
            return;
        }
        if curr_idle != woken_idle || policy != SchedPolicy::Normal {
            return;
        }
        let cfs = self.se(se).parent;
        self.update_curr(shared, cfs);
        if D::preempts(self, shared, se, woken, curr, wake) {
            self.resched_lazy();
        }
    }
}
