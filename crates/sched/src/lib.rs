//! The Linux CPU scheduler (`kernel/sched`) as a library in safe Rust: classes, task groups, load balancing,
//! statistics.
//!
//! # Ownership
//!
//! An [`Rq`] owns one CPU's state and tasks, which move between run queues by value. [`Shared`] has, as atomics, what
//! other CPUs may read without a lock. The verbs (wake, schedule, tick, balance, ...) are methods of [`Scheduler`], a
//! view borrowed for one call. It reaches run queues through [`Rqs`]: a `Vec` in a simulator, a lock for each CPU in a
//! threaded host.
//!
//! # Hosts
//!
//! The host calls the scheduler with the time and the event. The scheduler calls [`Host`]: reschedule that CPU, arm
//! that timer, here is an [event](event::Event). It uses no clock, thread, I/O or randomness.
//!
//! A host with one CPU and two tasks that never sleep (`vruntime-sim` is a complete host):
//!
//! ```
//! use vruntime_sched::class::fair::Eevdf;
//! use vruntime_sched::config::Config;
//! use vruntime_sched::event::{Event, PrevState, Running};
//! use vruntime_sched::ids::CpuId;
//! use vruntime_sched::{Host, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, kernel};
//!
//! /// This host has no timers, and its loop asks `need_resched` after each tick.
//! struct Bare;
//!
//! impl Host for Bare {
//!     fn resched(&mut self, _cpu: CpuId) {}
//!     fn kick_nohz(&mut self, _cpu: CpuId) {}
//!     fn arm(&mut self, _timer: Timer, _at: Option<u64>) {}
//!     fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}
//! }
//!
//! let (cpu, hz, tick_ns) = (CpuId(0), 250, 4_000_000);
//! let topology = Topology::flat(1);
//! let config = Config::new(&kernel("6.12")?, &topology, hz);
//! let shared = Shared::<Eevdf>::new(topology, config);
//! let mut rqs = Rq::all(&shared);
//! let mut scheduler = Scheduler { rqs: &mut rqs, shared: &shared, host: &mut Bare, now: 0 };
//! for nice in [0, 5] {
//!     let task = scheduler.new_task(&TaskAttrs { nice, ..TaskAttrs::default() }, cpu);
//!     scheduler.wake_new(task, cpu);
//! }
//! let mut running = scheduler.schedule(cpu, PrevState::Preempted).next;
//! let mut ticks = [0, 0];
//! for tick in 1..=1000 {
//!     scheduler.now = tick * tick_ns;
//!     if let Running::Task(task) = running {
//!         ticks[task.index()] += 1;
//!     }
//!     if scheduler.tick(cpu) {
//!         scheduler.balance(cpu);
//!     }
//!     if scheduler.need_resched(cpu) {
//!         running = scheduler.schedule(cpu, PrevState::Preempted).next;
//!     }
//! }
//! // They weigh 1024 and 335: the task of nice 5 gets 24.7 % of the CPU.
//! assert!((245..=249).contains(&ticks[1]), "{ticks:?}");
//! # Ok::<(), vruntime_sched::kernels::UnknownName>(())
//! ```
//!
//! # A policy of your own
//!
//! [`Policy`] is the fair class's trait; [`policy`] lists the data it can use. `vruntime_sim::run_policy` is a complete
//! example, `docs/policy.md` the guide.
#![no_std]
#![forbid(unsafe_code)]
// A host's mistake is an error; a panic states why it cannot happen.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

extern crate alloc;

pub mod arena;
mod attrs;
pub mod balance;
mod capacity;
pub mod class;
pub mod clock;
pub mod config;
pub mod cpufreq;
pub mod cpumask;
pub mod cpuset;
pub mod debug;
pub mod energy;
pub mod event;
pub mod features;
mod frequency;
pub mod group;
pub mod host;
pub mod ids;
pub mod invariants;
mod jiffies;
pub mod kernels;
mod limits;
mod list;
pub mod loadavg;
#[cfg(all(loom, test))]
mod loom_model;
pub mod policy;
mod releases;
pub mod rq;
pub mod scheduler;
pub mod shared;
mod snapshot;
mod sync;
pub mod task;
pub mod topology;
pub mod tunables;
pub mod uclamp;
pub mod weight;

pub use class::fair::{BandwidthStat, Limit, LimitError};
pub use cpumask::CpuMask;
pub use cpuset::{CpusetError, Partition};
pub use group::{GroupError, GroupWeight};
pub use host::{Host, Timer};
pub use kernels::{Kernel, PolicyKind, kernel, kernels};
pub use policy::Policy;
pub use rq::{Rq, Rqs};
pub use scheduler::{HotplugError, NextTask, SchedAttr, Scheduler, Waker};
pub use shared::Shared;
pub use task::{Boost, SchedPolicy, TaskAttrs};
pub use topology::{CpuPlace, Topology, TopologyError};
pub use uclamp::UclampError;
