//! Shared state, model-checked by loom in every order that the memory model allows:
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p vruntime-sched --lib --release loom_model`
//!
//! This is the scheduler's own code, with the first chunk of tables shrunk to two entries.

use alloc::sync::Arc;
use alloc::vec::Vec;

use loom::sync::{Mutex, MutexGuard};
use loom::thread;

use crate::balance::nohz::Nohz;
use crate::group::TaskGroup;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::shared::{Locations, Place};
use crate::uclamp::{Clamps, GroupUclamp};

/// A run queue's arena of one index, and whether the task was woken.
type Slot = Mutex<Option<(TaskId, u32)>>;

const TASK: TaskId = TaskId(0);

struct Machine {
    locations: Locations,
    cpus: [Slot; 2],
}

impl Machine {
    fn new() -> Arc<Self> {
        let machine = Self { locations: Locations::new(), cpus: [Mutex::new(Some((TASK, 0))), Mutex::new(None)] };
        machine.locations.set(TASK, Some((CpuId(0), 0)));
        Arc::new(machine)
    }

    /// As `Scheduler`'s `rq_of!`.
    fn rq_of(&self) -> Option<(CpuId, MutexGuard<'_, Option<(TaskId, u32)>>)> {
        loop {
            match self.locations.place(TASK) {
                Place::Gone => return None,
                Place::InFlight => crate::sync::spin(),
                Place::On(cpu, _) => {
                    let rq = self.cpus[cpu.index()].lock().unwrap();
                    let here = matches!(self.locations.place(TASK), Place::On(now, _) if now == cpu);
                    if here && rq.is_some_and(|(id, _)| id == TASK) {
                        return Some((cpu, rq));
                    }
                }
            }
        }
    }

    /// Moves the task, in flight between the two locks.
    fn migrate(&self) {
        let Some((cpu, mut rq)) = self.rq_of() else { return };
        let task = rq.take();
        self.locations.set(TASK, None);
        drop(rq);
        let to = CpuId(1 - cpu.0);
        let mut rq = self.cpus[to.index()].lock().unwrap();
        *rq = task;
        self.locations.set(TASK, Some((to, 0)));
    }

    /// Counts a wakeup. Returns false if the task has ended.
    fn touch(&self) -> bool {
        let Some((_, mut rq)) = self.rq_of() else { return false };
        let (_, touched) = rq.as_mut().expect("rq_of finds it");
        *touched += 1;
        true
    }

    fn end(&self) {
        let Some((_, mut rq)) = self.rq_of() else { return };
        *rq = None;
        self.locations.set(TASK, None);
        self.locations.forget(TASK);
    }
}

#[test]
fn no_wakeup_of_a_moving_task_is_lost() {
    loom::model(|| {
        let machine = Machine::new();
        let other = machine.clone();
        let mover = thread::spawn(move || other.migrate());
        assert!(machine.touch(), "it has not ended");
        mover.join().unwrap();
        let (cpu, rq) = machine.rq_of().expect("it is somewhere");
        assert_eq!((cpu, *rq), (CpuId(1), Some((TASK, 1))));
    });
}

#[test]
fn two_moves_of_a_task_leave_it_in_one_place() {
    loom::model(|| {
        let machine = Machine::new();
        let other = machine.clone();
        let mover = thread::spawn(move || other.migrate());
        machine.migrate();
        mover.join().unwrap();
        let here = machine.cpus.iter().filter(|cpu| cpu.lock().unwrap().is_some()).count();
        assert_eq!(here, 1);
        assert_eq!(machine.locations.place(TASK), Place::On(CpuId(0), 0));
    });
}

#[test]
fn a_waker_of_an_ending_task_is_early_or_in_vain() {
    loom::model(|| {
        let machine = Machine::new();
        let other = machine.clone();
        let end = thread::spawn(move || other.end());
        machine.touch();
        end.join().unwrap();
        assert!(!machine.touch());
        assert!(machine.cpus.iter().all(|cpu| cpu.lock().unwrap().is_none()));
    });
}

#[test]
fn a_group_s_load_is_the_sum_of_what_cpus_add() {
    loom::model(|| {
        let group = Arc::new(TaskGroup::new(GroupId::ROOT, 1, 1024, false, GroupUclamp::root(Clamps::NONE), None));
        let other = group.clone();
        let cpu = thread::spawn(move || {
            other.add_load_avg(700);
            // A CPU sees at least its own additions that no other has removed.
            assert!(other.load_avg() >= 700);
            other.add_load_avg(-200);
        });
        group.add_load_avg(300);
        assert!(group.load_avg() >= 300);
        group.add_load_avg(-100);
        cpu.join().unwrap();
        assert_eq!(group.load_avg(), 700);
    });
}

#[test]
fn idle_cpus_enter_and_leave_the_mask_without_hurting_each_other() {
    loom::model(|| {
        let nohz = Arc::new(Nohz::new(3));
        nohz.enter(CpuId(2));
        let other = nohz.clone();
        let cpu = thread::spawn(move || {
            other.enter(CpuId(1));
            other.exit(CpuId(1));
            other.enter(CpuId(1));
        });
        nohz.enter(CpuId(0));
        let seen: Vec<CpuId> = nohz.iter_from(CpuId(0)).collect();
        assert!(seen.contains(&CpuId(0)) && seen.contains(&CpuId(2)), "CPUs that stay are always seen: {seen:?}");
        assert!(!nohz.is_empty());
        nohz.exit(CpuId(0));
        cpu.join().unwrap();
        assert_eq!(nohz.iter_from(CpuId(2)).collect::<Vec<_>>(), [CpuId(2), CpuId(1)]);
        nohz.exit(CpuId(1));
        nohz.exit(CpuId(2));
        assert!(nohz.is_empty(), "the count is the count of the bits");
    });
}
