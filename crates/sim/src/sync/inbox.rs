//! Inboxes: a task waits for the first wakeup of several others, which may run ahead of it by a bounded amount.
//!
//! A wakeup of a busy owner is kept, and the owner's next wait does not sleep. A waker that must [follow](Follow) the
//! owner sleeps meanwhile. It does not follow an owner that sleeps elsewhere, has not started or has ended. Otherwise
//! two tasks might wait for each other's progress for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::{Follow, Op, Workload};

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::{Code, Programs};
use crate::sync::answers::{Given, NO_ANSWERS};
use crate::sync::batch::Batch;
use crate::sync::room::Rooms;
use crate::task::{Life, NOBODY};

#[derive(Debug)]
pub(crate) struct Inbox {
    posted: u64,
    /// The wakers whose wakeup no wait has taken.
    kept: VecDeque<u32>,
    /// The progress of each task that waits here for several wakers.
    given: BTreeMap<u32, Given>,
    taken: u64,
    /// Waiting tasks in order of arrival: several if the owner is forked repeatedly.
    pub(super) sleepers: VecDeque<u32>,
    /// Tasks that wait before they wake the owner.
    posters: VecDeque<(Follow, u32)>,
    /// Released posters that have not woken the owner yet.
    promised: BTreeSet<u32>,
    /// Tasks that wait after waking the owner, with the wakeup's number, until it reaches its wait.
    followers: VecDeque<(u64, u32)>,
    pub(super) owner: u32,
    /// What each task that reads from all wakers first has put off.
    pub(super) batches: BTreeMap<u32, Batch>,
    pub(super) rooms: Rooms,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            posted: 0,
            kept: VecDeque::new(),
            given: BTreeMap::new(),
            taken: 0,
            sleepers: VecDeque::new(),
            posters: VecDeque::new(),
            promised: BTreeSet::new(),
            followers: VecDeque::new(),
            owner: NOBODY,
            batches: BTreeMap::new(),
            rooms: Rooms::default(),
        }
    }
}

impl Inbox {
    /// Whether the owner has completed everything before that wakeup, or sleeps.
    fn has_reached(&self, number: u64) -> bool {
        self.taken >= number || !self.sleepers.is_empty()
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Finds a kept wakeup that `task`, at its wait, can take. Returns its position, and the task's next place.
    fn finds(&self, task: u32, wait: Wait, programs: &Programs) -> Option<(usize, u32)> {
        if wait.answers == NO_ANSWERS {
            return (!self.kept.is_empty()).then_some((0, wait.at));
        }
        let all = &programs.answers;
        let next = |&from: &u32| match self.given.get(&task) {
            Some(given) => given.next(wait.answers, from, all),
            None => Given::default().next(wait.answers, from, all),
        };
        self.kept.iter().enumerate().find_map(|(position, from)| next(from).map(|at| (position, at)))
    }

    /// As [`Self::finds`], and takes the wakeup. Returns the task's next place.
    fn takes(&mut self, task: u32, wait: Wait, programs: &Programs) -> Option<u32> {
        let (position, at) = self.finds(task, wait, programs)?;
        let from = self.kept.remove(position)?;
        if wait.answers != NO_ANSWERS {
            self.given.entry(task).or_default().give(wait.answers, from, &programs.answers);
        }
        self.taken += 1;
        self.rooms.takes(from);
        Some(at)
    }

    fn keep(&mut self, from: u32) {
        self.posted += 1;
        self.rooms.keeps(from);
        self.kept.push_back(from);
    }

    /// Whether the owner's progress allows a wakeup by a task that follows in this way.
    fn lets(&self, follow: Follow) -> bool {
        let promised = self.promised.len() as u64;
        match follow {
            Follow::Free | Follow::Together => true,
            Follow::Asleep => self.sleepers.len() as u64 > promised,
            // An owner that sleeps here has begun all that it can.
            Follow::OneAhead => self.taken >= self.posted + promised || (promised == 0 && !self.sleepers.is_empty()),
        }
    }

    /// Takes the next task to release: a follower, else a poster. `all`: despite the owner's progress.
    fn next(&mut self, all: bool) -> Option<u32> {
        if let Some(&(number, task)) = self.followers.front()
            && (all || self.has_reached(number))
        {
            self.followers.pop_front();
            return Some(task);
        }
        let &(follow, task) = self.posters.front()?;
        if !all && !self.lets(follow) {
            return None;
        }
        self.posters.pop_front();
        self.promised.insert(task);
        Some(task)
    }

    pub(crate) fn sleeps_first(&mut self, task: u32) {
        self.owner = task;
        self.sleepers.push_back(task);
    }

    /// Removes a sleeper. Returns whether it was there.
    pub(crate) fn forgets(&mut self, task: u32) -> bool {
        let before = self.sleepers.len();
        self.sleepers.retain(|&sleeper| sleeper != task);
        self.sleepers.len() < before
    }

    pub(crate) fn is_full(&self, task: u32, wait: Wait, programs: &Programs) -> bool {
        self.finds(task, wait, programs).is_some()
    }
}

/// A [`Code::InboxWait`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) answers: u32,
    pub(crate) at: u32,
}

pub(crate) fn owners(workload: &Workload) -> Vec<Option<u32>> {
    if workload.inboxes.is_empty() {
        return Vec::new();
    }
    let inbox = |op: &Op| if let Op::InboxWait { inbox, .. } = *op { Some(inbox as u32) } else { None };
    workload.tasks.iter().map(|task| task.phases.iter().flat_map(|phase| &phase.ops).find_map(inbox)).collect()
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Begins the owner's wait. It enters the kernel to sleep, or to wake tasks that wait for it.
    pub(crate) fn inbox_wait(&mut self, cpu: usize, task: u32, inbox: u32, answers: u32) -> Flow {
        let at = &mut self.tasks[task as usize].pc;
        let wait = Wait { answers, at: *at };
        let this = &mut self.objects.inboxes[inbox as usize];
        this.owner = task;
        if let Some(put_off) = this.ends_batch(task, wait, &self.programs) {
            *at = put_off;
            return Flow::Stage;
        }
        let alone = this.followers.is_empty() && this.posters.is_empty() && !this.rooms.may_wake();
        let taken = if alone { this.takes(task, wait, &self.programs) } else { None };
        *at = taken.unwrap_or(*at);
        self.call_if(taken.is_none(), cpu, task)
    }

    /// Continues [`Self::inbox_wait`] in the kernel.
    pub(crate) fn inbox_sleep(&mut self, cpu: usize, task: u32, inbox: u32, answers: u32) -> Flow {
        let sleeper = &mut self.tasks[task as usize];
        let this = &mut self.objects.inboxes[inbox as usize];
        let taken = this.takes(task, Wait { answers, at: sleeper.pc }, &self.programs);
        if let Some(at) = taken {
            sleeper.pc = at;
            this.begins_batch(task);
        } else {
            this.sleepers.push_back(task);
            (sleeper.woken, sleeper.due) = (false, self.core.now);
        }
        self.inbox_lets_go(cpu, inbox);
        self.inbox_makes_room(cpu, inbox, taken.is_none());
        if taken.is_some() { Flow::Done } else { self.block_once_paid(cpu, task) }
    }

    pub(crate) fn inbox_wake(&mut self, cpu: usize, task: u32, inbox: u32, from: u32, follow: Follow) -> Flow {
        let (away, lacks_room) = (self.inbox_is_left(inbox), self.lacks_room(inbox, from));
        let this = &mut self.objects.inboxes[inbox as usize];
        let kept =
            !lacks_room && this.sleepers.is_empty() && (away || (follow != Follow::Together && this.lets(follow)));
        if kept {
            this.keep(from);
        }
        self.call_if(!kept, cpu, task)
    }

    /// Continues [`Self::inbox_wake`] in the kernel.
    pub(crate) fn inbox_post(&mut self, cpu: usize, task: u32, inbox: u32, from: (u32, bool), follow: Follow) -> Flow {
        if self.lacks_room(inbox, from.0) {
            return self.waits_for_room(cpu, task, inbox, from.0, false);
        }
        let away = self.inbox_is_left(inbox);
        let this = &mut self.objects.inboxes[inbox as usize];
        if !away && !this.lets(follow) {
            this.posters.push_back((follow, task));
            return self.block_here(cpu, task);
        }
        self.inbox_delivers(cpu, inbox, from);
        let this = &mut self.objects.inboxes[inbox as usize];
        if away || follow != Follow::Together || this.has_reached(this.posted) {
            return Flow::Done;
        }
        this.followers.push_back((this.posted, task));
        self.block_here(cpu, task)
    }

    pub(crate) fn inbox_posts_now(&mut self, cpu: usize, task: u32, inbox: u32, from: (u32, bool)) -> Flow {
        if self.was_woken_for_room(inbox, task) {
            if self.lacks_room(inbox, from.0) {
                return self.waits_for_room(cpu, task, inbox, from.0, true);
            }
            self.inbox_delivers(cpu, inbox, from);
        }
        if self.objects.inboxes[inbox as usize].promised.remove(&task) {
            self.inbox_delivers(cpu, inbox, from);
        }
        Flow::Done
    }

    /// Delivers a wakeup. `from`: the waker, and whether it is synchronous.
    fn inbox_delivers(&mut self, cpu: usize, inbox: u32, (from, sync): (u32, bool)) {
        let this = &mut self.objects.inboxes[inbox as usize];
        this.keep(from);
        for position in 0..this.sleepers.len() {
            let owner = this.sleepers[position];
            let at = &mut self.tasks[owner as usize].pc;
            let Code::InboxWait { answers, .. } = self.programs.code[*at as usize] else { continue };
            if let Some(goes_on) = this.takes(owner, Wait { answers, at: *at }, &self.programs) {
                *at = goes_on;
                this.begins_batch(owner);
                this.sleepers.remove(position);
                self.wake_from_call(cpu, owner, if sync { Waker::TaskSync } else { Waker::Task });
                return;
            }
        }
        // A sleeping owner has no use for this wakeup yet, and may need another.
        self.inbox_lets_go(cpu, inbox);
    }

    fn inbox_lets_go(&mut self, cpu: usize, inbox: u32) {
        while let Some(other) = self.objects.inboxes[inbox as usize].next(false) {
            self.wake_from_call(cpu, other, Waker::Task);
        }
    }

    pub(crate) fn block_here(&mut self, cpu: usize, task: u32) -> Flow {
        let this = &mut self.tasks[task as usize];
        (this.woken, this.due) = (false, self.core.now);
        self.block_once_paid(cpu, task)
    }

    /// Whether the owner cannot be followed: it sleeps elsewhere, has not begun, or has ended.
    fn inbox_is_left(&self, inbox: u32) -> bool {
        let this = &self.objects.inboxes[inbox as usize];
        let Some(owner) = self.tasks.get(this.owner as usize) else { return true };
        this.sleepers.is_empty() && owner.life != Life::Runnable
    }

    /// Releases followers and posters of the running task of `cpu`, which sleeps outside its inbox or ends.
    #[inline]
    pub(crate) fn leaves_inbox(&mut self, cpu: usize, task: u32) {
        if self.objects.inboxes.is_empty() {
            return;
        }
        let template = self.tasks[task as usize].template as usize;
        let Some(inbox) = self.objects.owners[template] else { return };
        let this = &self.objects.inboxes[inbox as usize];
        if this.owner != task || this.sleepers.contains(&task) {
            return;
        }
        while let Some(other) = self.objects.inboxes[inbox as usize].next(true) {
            self.wake(other, cpu, Waker::Task);
        }
    }
}
