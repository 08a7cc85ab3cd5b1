//! Inboxes: where a task waits for whichever other task wakes it first, and how far those may get ahead of it.
//!
//! A wakeup that finds the owner busy is kept, and the owner does not sleep the next time. A task that wakes an owner
//! and has to [follow](Follow) it sleeps meanwhile. It does not follow an owner that sleeps elsewhere, has not begun or
//! has ended: two tasks that wait for each other's progress would never wake up.

use std::collections::{BTreeSet, VecDeque};

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::{Follow, Op, Workload};

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::task::{Life, NOBODY, Next};

/// An inbox.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// Wakeups so far.
    posted: u64,
    /// Waits so far that are over.
    taken: u64,
    /// Tasks that wait, in order of arrival. There are several if the owner is forked again and again.
    sleepers: VecDeque<u32>,
    /// Tasks that wait before they wake the owner.
    posters: VecDeque<(Follow, u32)>,
    /// Posters that may go on and have not woken the owner yet.
    promised: BTreeSet<u32>,
    /// Tasks that wait after they woke the owner, with the number of that wakeup: each waits until the owner comes to
    /// the wait that the wakeup is for.
    followers: VecDeque<(u64, u32)>,
    /// The task that waited here last.
    owner: u32,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            posted: 0,
            taken: 0,
            sleepers: VecDeque::new(),
            posters: VecDeque::new(),
            promised: BTreeSet::new(),
            followers: VecDeque::new(),
            owner: NOBODY,
        }
    }
}

impl Inbox {
    /// How often the owner has come to wait.
    fn arrivals(&self) -> u64 {
        self.taken + self.sleepers.len() as u64
    }

    /// Whether the owner is far enough for a task that follows it in this way to wake it.
    fn lets(&self, follow: Follow) -> bool {
        let promised = self.promised.len() as u64;
        match follow {
            Follow::Free | Follow::Together => true,
            Follow::Asleep => self.sleepers.len() as u64 > promised,
            Follow::OneAhead => self.taken >= self.posted + promised,
        }
    }

    /// Takes the next task that may go on: a follower, else a poster. `all`: however far the owner is.
    fn next(&mut self, all: bool) -> Option<u32> {
        let arrivals = self.arrivals();
        if let Some(&(number, task)) = self.followers.front()
            && (all || number <= arrivals)
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

    /// The owner sleeps here from the start.
    pub(crate) fn sleeps_first(&mut self, task: u32) {
        self.owner = task;
        self.sleepers.push_back(task);
    }

    /// Whether a wakeup is there that no wait has taken.
    pub(crate) fn is_full(&self) -> bool {
        self.posted > self.taken
    }
}

/// The inbox that instances of each task wait at; none: they wait at none.
pub(crate) fn owners(workload: &Workload) -> Vec<Option<u32>> {
    if workload.inboxes.is_empty() {
        return Vec::new();
    }
    let inbox = |op: &Op| if let Op::InboxWait(inbox) = *op { Some(inbox as u32) } else { None };
    workload.tasks.iter().map(|task| task.phases.iter().flat_map(|phase| &phase.ops).find_map(inbox)).collect()
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// The owner comes to wait. It enters the kernel to sleep, or to wake tasks that wait for its arrival.
    pub(crate) fn inbox_wait(&mut self, cpu: usize, task: u32, inbox: u32) -> Flow {
        let this = &mut self.objects.inboxes[inbox as usize];
        this.owner = task;
        let quick = this.is_full() && this.followers.is_empty() && this.posters.is_empty();
        this.taken += u64::from(quick);
        self.call_if(!quick, cpu, task)
    }

    /// As that, in the kernel.
    pub(crate) fn inbox_sleep(&mut self, cpu: usize, task: u32, inbox: u32) -> Flow {
        let this = &mut self.objects.inboxes[inbox as usize];
        let full = this.is_full();
        if full {
            this.taken += 1;
        } else {
            this.sleepers.push_back(task);
            let this = &mut self.tasks[task as usize];
            (this.woken, this.due) = (false, self.core.now);
        }
        let mut wakes = false;
        while let Some(other) = self.objects.inboxes[inbox as usize].next(false) {
            self.wake_from_call(cpu, other, Waker::Task);
            wakes = true;
        }
        if full {
            Flow::Done
        } else if wakes {
            self.tasks[task as usize].next = Next::Sleep;
            Flow::Stage
        } else {
            self.block(cpu, task, PrevState::Sleeping)
        }
    }

    /// A task wakes the owner.
    pub(crate) fn inbox_wake(&mut self, cpu: usize, task: u32, inbox: u32, follow: Follow) -> Flow {
        let away = self.inbox_is_left(inbox);
        let this = &mut self.objects.inboxes[inbox as usize];
        let kept = this.sleepers.is_empty() && (away || (follow != Follow::Together && this.lets(follow)));
        this.posted += u64::from(kept);
        self.call_if(!kept, cpu, task)
    }

    /// As that, in the kernel.
    pub(crate) fn inbox_post(&mut self, cpu: usize, task: u32, inbox: u32, follow: Follow) -> Flow {
        let away = self.inbox_is_left(inbox);
        let this = &mut self.objects.inboxes[inbox as usize];
        if !away && !this.lets(follow) {
            this.posters.push_back((follow, task));
            return self.block_here(cpu, task);
        }
        self.inbox_delivers(cpu, inbox);
        let this = &mut self.objects.inboxes[inbox as usize];
        if away || follow != Follow::Together || this.posted <= this.arrivals() {
            return Flow::Done;
        }
        this.followers.push_back((this.posted, task));
        self.block_here(cpu, task)
    }

    /// A poster or a follower is back.
    pub(crate) fn inbox_posts_now(&mut self, cpu: usize, task: u32, inbox: u32) -> Flow {
        if self.objects.inboxes[inbox as usize].promised.remove(&task) {
            self.inbox_delivers(cpu, inbox);
        }
        Flow::Done
    }

    /// A wakeup arrives.
    fn inbox_delivers(&mut self, cpu: usize, inbox: u32) {
        let this = &mut self.objects.inboxes[inbox as usize];
        this.posted += 1;
        if let Some(owner) = this.sleepers.pop_front() {
            this.taken += 1;
            self.wake_from_call(cpu, owner, Waker::Task);
        }
    }

    fn block_here(&mut self, cpu: usize, task: u32) -> Flow {
        self.tasks[task as usize].due = self.core.now;
        self.block(cpu, task, PrevState::Sleeping)
    }

    /// Whether the owner is not there to be followed: it sleeps elsewhere, or has not begun, or has ended.
    fn inbox_is_left(&self, inbox: u32) -> bool {
        let this = &self.objects.inboxes[inbox as usize];
        let Some(owner) = self.tasks.get(this.owner as usize) else { return true };
        this.sleepers.is_empty() && owner.life != Life::Runnable
    }

    /// The running task of `cpu` goes to sleep or ends. Unless it waits at its inbox, its followers and posters go on.
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
