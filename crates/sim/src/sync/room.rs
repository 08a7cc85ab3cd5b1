//! Room in inboxes, as in the buffers of sockets: a waker sleeps while too many of its wakeups wait to be taken.
//!
//! As in the kernel (`unix_write_space`), all of them wake once few are left. Each checks again, and may sleep again.
//! An owner that sleeps at its inbox, or has ended, keeps no waker waiting: what is there is of no use to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vruntime_sched::event::PrevState;
use vruntime_sched::{Policy, Waker};
use vruntime_trace::Sink;
use vruntime_workload::program::Room as Limits;

use crate::interpreter::Flow;
use crate::machine::Machine;
use crate::program::Programs;
use crate::task::Life;

/// The wakeups of a waker with limited room.
#[derive(Debug, Default)]
struct Room {
    limits: Limits,
    /// How many no wait has taken.
    kept: u64,
    waiters: VecDeque<u32>,
}

/// The rooms of an inbox, by waker.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    of_wakers: BTreeMap<u32, Room>,
    /// Woken tasks that have not checked again.
    woken: BTreeSet<u32>,
}

impl Rooms {
    /// Counts a kept wakeup.
    pub(super) fn keeps(&mut self, from: u32) {
        if let Some(room) = self.of_wakers.get_mut(&from) {
            room.kept += 1;
        }
    }

    /// Counts a taken wakeup.
    pub(super) fn takes(&mut self, from: u32) {
        if let Some(room) = self.of_wakers.get_mut(&from) {
            room.kept -= 1;
        }
    }

    /// Whether the next take may wake a task.
    pub(super) fn may_wake(&self) -> bool {
        self.of_wakers.values().any(|room| !room.waiters.is_empty() && room.kept <= room.limits.few + 1)
    }

    /// Whether a waker finds no room. Its wakeups count from now on.
    fn is_full(&mut self, from: u32, programs: &Programs) -> bool {
        let Some(&limits) = programs.rooms.get(&from) else { return false };
        let room = self.of_wakers.entry(from).or_insert_with(|| Room { limits, ..Room::default() });
        room.kept >= room.limits.most
    }

    /// Takes the tasks to wake. `all`: despite full rooms.
    fn wakes(&mut self, all: bool) -> Vec<u32> {
        let has_room = |room: &&mut Room| all || room.kept <= room.limits.few;
        let woken: Vec<u32> =
            self.of_wakers.values_mut().filter(has_room).flat_map(|room| room.waiters.drain(..)).collect();
        self.woken.extend(&woken);
        woken
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Whether a waker has to wait for room.
    pub(super) fn lacks_room(&mut self, inbox: u32, from: u32) -> bool {
        if self.programs.rooms.is_empty() {
            return false;
        }
        let this = &mut self.objects.inboxes[inbox as usize];
        let is_full = this.rooms.is_full(from, &self.programs);
        let ended = self.tasks.get(this.owner as usize).is_some_and(|owner| owner.life == Life::Dead);
        is_full && this.sleepers.is_empty() && !ended
    }

    /// Puts a waker to sleep until there is room. `again`: it has been woken before.
    pub(super) fn waits_for_room(&mut self, cpu: usize, task: u32, inbox: u32, from: u32, again: bool) -> Flow {
        let rooms = &mut self.objects.inboxes[inbox as usize].rooms;
        rooms.of_wakers.entry(from).or_default().waiters.push_back(task);
        if !again {
            return self.block_here(cpu, task);
        }
        self.tasks[task as usize].due = self.core.now;
        self.block(cpu, task, PrevState::Sleeping)
    }

    /// Whether a task was woken since there is room, so that it must check again.
    pub(super) fn was_woken_for_room(&mut self, inbox: u32, task: u32) -> bool {
        self.objects.inboxes[inbox as usize].rooms.woken.remove(&task)
    }

    /// Wakes tasks for which there is room now, or all.
    pub(super) fn inbox_makes_room(&mut self, cpu: usize, inbox: u32, all: bool) {
        if self.programs.rooms.is_empty() {
            return;
        }
        for task in self.objects.inboxes[inbox as usize].rooms.wakes(all) {
            self.wake_from_call(cpu, task, Waker::TaskSync);
        }
    }

    /// Wakes all tasks that wait for an owner that ends.
    pub(crate) fn leaves_rooms(&mut self, cpu: usize, task: u32) {
        let template = self.tasks[task as usize].template as usize;
        let inbox = self.objects.owners.get(template).copied().flatten();
        let Some(inbox) = inbox.filter(|&inbox| self.objects.inboxes[inbox as usize].owner == task) else { return };
        for waiter in self.objects.inboxes[inbox as usize].rooms.wakes(true) {
            self.wake(waiter, cpu, Waker::Task);
        }
    }
}
