//! The scheduler's verbs: wake (`wake`), schedule (`switch`), exec (`exec`), changes of attributes (`attrs`, `change`).
//! Here: fork, tick, timers and common parts.

mod attrs;
mod change;
mod common;
mod cpusets;
mod exec;
mod hotplug;
mod switch;
pub(crate) mod view;
mod wake;

pub use attrs::SchedAttr;
pub use hotplug::HotplugError;
pub use switch::NextTask;
pub use view::Scheduler;
pub use wake::Waker;

use self::common::{ArmCause, arm_slice_timer};
use crate::class::finish::finish_verb;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use crate::attrs::ClassKind;
use crate::balance::active::Push;
use crate::balance::pull::{Balancing, nohz_kick};
use crate::balance::when::rebalance_domains;
use crate::class;
use crate::class::deadline::verbs as deadline;
use crate::class::o1::{GuaranteeError, set_guarantee};
use crate::class::rt::queue::RtTask;
use crate::class::rt::verbs as rt;
use crate::event::Running;
use crate::group::{GroupError, GroupWeight};
use crate::host::{Host, Timer};
use crate::ids::{CpuId, GroupId, TaskId};
use crate::kernels::Behaviour;
use crate::loadavg::{self, LoadAvg};
use crate::policy::{Changed, Policy};
use crate::rq::Rqs;
use crate::task::{Migrations, NIL, SchedPolicy, Task, TaskAttrs, TaskState, Wakeups};
use crate::tunables::Tunables;
use crate::uclamp::TaskUclamp;
use crate::weight;

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Creates a task group inside `parent`.
    pub fn new_group(&mut self, parent: GroupId, weight: GroupWeight) -> GroupId {
        match weight {
            GroupWeight::Weight(weight) => self.shared.new_group(parent, weight::of_cgroup(weight), false),
            GroupWeight::Idle => self.shared.new_group(parent, weight::IDLE_WEIGHT << weight::SHIFT, true),
        }
    }

    /// Creates a session's autogroup, with the weight of a `nice` task, -20..=19. Its real-time tasks count as the
    /// root's.
    pub fn new_autogroup(&mut self, nice: i8) -> GroupId {
        let group = self.shared.new_group(GroupId::ROOT, weight::of_nice(nice), false);
        self.shared.group(group).rt.redirect();
        group
    }

    /// Sets a group's cgroup weight, 1..=10000.
    ///
    /// # Errors
    ///
    /// An idle group and the root have no weight.
    pub fn set_group_weight(&mut self, group: GroupId, weight: u32) -> Result<(), GroupError> {
        if self.shared.group(group).idle() {
            return Err(GroupError::Idle);
        }
        self.set_group_shares(group, weight::of_cgroup(weight))
    }

    /// Guarantees a group directly below the root `percent` of the machine (2.6.15-cpurc). The root's own tasks have
    /// the rest.
    ///
    /// # Errors
    ///
    /// No CPU resource controller in this kernel, the group is elsewhere, or guarantees exceed 100 %.
    pub fn set_group_guarantee(&mut self, group: GroupId, percent: u32) -> Result<(), GuaranteeError> {
        let shared = self.shared;
        let groups = shared.group_ids().map(|id| shared.group(id));
        set_guarantee(groups, shared.group(group), percent)
    }

    /// Makes a group idle, or ordinary again with weight 100, like `cpu.idle`. Does nothing, not even to the weight, if
    /// already in that state.
    ///
    /// # Errors
    ///
    /// The group is the root.
    pub fn set_group_idle(&mut self, group: GroupId, idle: bool) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::Root);
        }
        if self.shared.group(group).idle() == idle {
            return Ok(());
        }
        self.shared.group(group).set_idle(idle);
        self.set_group_shares(group, if idle { weight::IDLE_WEIGHT << weight::SHIFT } else { weight::of_cgroup(100) })
    }

    /// Sets an autogroup's nice value, -20..=19, and so its weight, like `/proc/PID/autogroup`.
    ///
    /// # Errors
    ///
    /// The group is the root.
    pub fn set_group_nice(&mut self, group: GroupId, nice: i8) -> Result<(), GroupError> {
        self.set_group_shares(group, weight::of_nice(nice))
    }

    /// Sets a group's shares (`sched_group_set_shares`).
    fn set_group_shares(&mut self, group: GroupId, shares: u64) -> Result<(), GroupError> {
        if group == GroupId::ROOT {
            return Err(GroupError::Root);
        }
        self.shared.set_group_shares(group, shares);
        for cpu in (0..self.shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            rq.update_clock(self.now);
            P::Changes::group_weight_changed(&mut rq, self.shared, group);
            finish_verb(&mut rq, self.shared, self.host);
        }
        Ok(())
    }

    /// Creates a task on the forking CPU or, if its group's root domain lacks that CPU, on one inside. It first runs
    /// after [`Self::wake_new`].
    pub fn new_task(&mut self, attrs: &TaskAttrs, on: CpuId) -> TaskId {
        self.make_task(attrs, on, false)
    }

    /// Creates a kernel thread bound to its affinity's CPU. Cpusets do not affect it.
    pub fn new_kthread(&mut self, attrs: &TaskAttrs, on: CpuId) -> TaskId {
        self.make_task(attrs, on, true)
    }

    fn make_task(&mut self, attrs: &TaskAttrs, mut on: CpuId, per_cpu: bool) -> TaskId {
        let (mut affinity, mut asked) = (attrs.affinity.clone(), attrs.affinity.clone());
        if !per_cpu {
            let (allowed, fits) = self.shared.cpus_allowed(attrs.group, &asked);
            (affinity, asked) = (allowed, asked.filter(|_| fits));
        }
        if self.shared.is_split() {
            on = hotplug::home(self.shared, &affinity, on);
        }
        if attrs.policy.is_rt() {
            self.start_servers();
        }
        let refused = match attrs.policy {
            SchedPolicy::Deadline => true,
            SchedPolicy::Fifo | SchedPolicy::RoundRobin => !rt::may_join(self.shared, attrs.group),
            SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle => false,
        };
        let policy = if refused { SchedPolicy::Normal } else { attrs.policy };
        let id = self.shared.new_task_id();
        let task = Task {
            id,
            state: TaskState::New,
            policy,
            nice: attrs.nice.clamp(-20, 19),
            rt_priority: if policy.is_rt() { attrs.rt_priority.clamp(1, 99) } else { 0 },
            lent: None,
            kind: ClassKind::of(policy, None),
            rt: RtTask::default(),
            dl: None,
            dl_kept: None,
            wakes_as_migrated: false,
            has_averages: false,
            went_above: 0,
            group: attrs.group,
            uclamp: TaskUclamp::default(),
            affinity,
            asked,
            per_cpu,
            on_rq: false,
            blocked: false,
            migrated: false,
            ran_above: 0,
            last_ran: 0,
            recent_used_cpu: on,
            dest: NIL,
            migrations: Migrations::default(),
            wakeups: Wakeups::default(),
            last_wakee: None,
            wakee_flips: 0,
            wakee_flip_decay: 0,
            before: NIL,
            after: NIL,
            class: P::new_task(self.shared, attrs),
        };
        let mut rq = self.rqs.rq(on);
        let index = rq.adopt(self.shared, task);
        P::attach(&mut rq, self.shared, index);
        drop(rq);
        if self.shared.cpusets_used() {
            // A concurrent cpuset update may have missed this task, which was not yet visible.
            let _ = self.set_cpus(id, attrs::SetCpus::Cpuset { forget: false }, on);
        }
        id
    }

    /// Handles the tick on `cpu`. If it returns true, the tick raised the balancing softirq: call [`Self::balance`]
    /// when the interrupt returns, before [`Self::schedule`].
    #[must_use]
    pub fn tick(&mut self, cpu: CpuId) -> bool {
        let shared = self.shared;
        shared.jiffies.tick(cpu, self.now, shared.config.tunables.tick_ns());
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        if rq.resched_lazily {
            // It ran until now.
            rq.resched();
        }
        class::tick(&mut rq, shared);
        let (nr_running, tick_ns) = (rq.nr_running, shared.config.tunables.tick_ns());
        loadavg::tick(&shared.loadavg, &mut rq.load, nr_running, self.now, tick_ns);
        let due = shared.balance_time(self.now) >= rq.balance.next_balance && !shared.is_isolated(cpu);
        finish_verb(&mut rq, shared, self.host);
        let kick = nohz_kick(&mut rq, shared, self.now);
        drop(rq);
        if let Some(target) = kick {
            self.host.kick_nohz(target);
        }
        if due && !shared.config.has(Behaviour::Softirq) {
            self.balance(cpu);
            return false;
        }
        due
    }

    /// Handles the expiry of a timer of [`Host::arm`] on `on`: its CPU ([`Timer::cpu`]), or the one that armed it.
    pub fn timer(&mut self, timer: Timer, on: CpuId) {
        debug_assert!(timer.cpu().is_none_or(|cpu| cpu == on), "{timer:?} fires on CPU {on}");
        match timer {
            Timer::Hrtick(cpu) => self.hrtick(cpu),
            Timer::Deadline(cpu) => self.dl_timers(cpu),
            Timer::RtPush(cpu) => self.push_as_asked(cpu),
            Timer::RtPeriod => self.rt_period_timer(),
            Timer::RtGroupPeriod(group) => self.rt_group_period_timer(group),
            Timer::GroupPeriod(group) => self.group_period(group, on),
            Timer::GroupSlack(group) => self.group_slack(group),
        }
    }

    fn dl_timers(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        deadline::timers(&mut rq, self.shared);
        finish_verb(&mut rq, self.shared, self.host);
        let callback = rq.dl.callback.take();
        drop(rq);
        self.call_back(ClassKind::Deadline, cpu, callback);
    }

    /// Starts the kernel's fair servers, if it has them, at the first task that is not fair.
    pub(super) fn start_servers(&mut self) {
        let shared = self.shared;
        let Some(limits) = shared.dl.server else { return };
        if shared.dl.servers_started.swap(true, core::sync::atomic::Ordering::Relaxed) {
            return;
        }
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            rq.update_clock(self.now);
            deadline::start_server(&mut rq, limits);
            finish_verb(&mut rq, shared, self.host);
        }
    }

    /// Handles the end of the running task's slice.
    fn hrtick(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.hrtick = false;
        rq.update_clock(self.now);
        if rq.curr_ordinary.is_some() {
            class::tick(&mut rq, self.shared);
            // Lazily under lazy preemption, until 7.1 enabled the timer for all (`entity_tick`).
            if self.shared.config.has(Behaviour::HrtickOnce) {
                rq.resched();
            } else {
                rq.resched_lazy();
            }
        } else if deadline::runtime_ends(&rq).is_some() {
            // The runtime left by reclaiming has its own timer.
            class::tick(&mut rq, self.shared);
            arm_slice_timer(&mut rq, self.shared, self.host, ArmCause::Start);
        }
        finish_verb(&mut rq, self.shared, self.host);
    }

    /// Handles the balancing softirq.
    pub fn balance(&mut self, cpu: CpuId) {
        let idle = self.shared.cpu(cpu).is_idle();
        let mut balancing =
            Balancing { rqs: &mut *self.rqs, shared: self.shared, host: &mut *self.host, now: self.now };
        rebalance_domains(&mut balancing, cpu, idle);
    }

    /// Balances for all idle, tickless CPUs on `cpu`, which is one of these and was kicked. Returns whether the host
    /// must call again when the search's time has passed (up to 4.0: one CPU a call).
    pub fn nohz_balance(&mut self, cpu: CpuId) -> bool {
        self.shared.jiffies.update(self.now, self.shared.config.tunables.tick_ns());
        let mut balancing =
            Balancing { rqs: &mut *self.rqs, shared: self.shared, host: &mut *self.host, now: self.now };
        balancing.nohz_idle(cpu)
    }

    /// Notes that an idle CPU entered a state with this exit latency, ns, or left it (`None`; `idle_set_state`).
    pub fn set_idle_state(&mut self, cpu: CpuId, exit_latency_ns: Option<u64>) {
        self.shared.idleness(cpu).set_exit_latency(exit_latency_ns);
    }

    /// Notes that the host stopped an idle CPU's tick.
    pub fn tick_stopped(&mut self, cpu: CpuId) {
        let shared = self.shared;
        let due = shared.nohz.blocked_due().is_some_and(|due| shared.jiffies.now() >= due);
        if due && shared.config.has(Behaviour::NohzStats) {
            let mut balancing = Balancing { rqs: &mut *self.rqs, shared, host: &mut *self.host, now: self.now };
            balancing.newidle_stats(cpu);
        }
        let mut rq = self.rqs.rq(cpu);
        if rq.online {
            rq.balance.tick_stopped = true;
            rq.balance.has_blocked = true;
            // The nohz balancer ignores isolated CPUs.
            if !self.shared.is_isolated(cpu) {
                self.shared.nohz.enter(cpu);
            }
        }
        let nr_running = rq.nr_running;
        loadavg::tick_stopped(&shared.loadavg, &mut rq.load, nr_running, self.now);
        drop(rq);
        self.shared.jiffies.leave(cpu);
    }

    /// Notes that the host restarted the tick of a CPU that left idle.
    #[inline]
    pub fn tick_restarted(&mut self, cpu: CpuId) {
        self.shared.jiffies.update(self.now, self.shared.config.tunables.tick_ns());
        let mut rq = self.rqs.rq(cpu);
        let tick_ns = self.shared.config.tunables.tick_ns();
        loadavg::tick_restarted(&self.shared.loadavg, &mut rq.load, self.now, tick_ns);
        if let Some(loads) = self.shared.cpu_loads.as_ref().filter(|_| self.shared.config.has(Behaviour::NohzOwnFirst))
        {
            loads.decay(self.shared.config.tunables.tick_ns(), cpu, self.now);
        }
    }

    /// Returns switches away from each group and its descendants, by group id, including switches to idle. Empty
    /// without [`group_switches`](crate::config::Config::group_switches).
    pub fn group_switches(&mut self) -> Vec<u64> {
        if !self.shared.config.group_switches {
            return Vec::new();
        }
        let mut counts = alloc::vec![0; self.shared.nr_groups()];
        for cpu in (0..self.shared.nr_cpus() as u32).map(CpuId) {
            for (sum, count) in counts.iter_mut().zip(self.rqs.rq(cpu).group_switches()) {
                *sum += count;
            }
        }
        // A child has a higher number than its parent.
        for group in (1..counts.len()).rev() {
            counts[self.shared.group(GroupId(group as u32)).parent.index()] += counts[group];
        }
        counts
    }

    /// Returns `/proc/loadavg`'s averages.
    pub fn loadavg(&mut self) -> LoadAvg {
        loadavg::read(&self.shared.loadavg, self.now, self.shared.config.tunables.tick_ns())
    }

    /// Does the stopper's work. Then the host calls [`Self::schedule`] with
    /// [`PrevState::Sleeping`](crate::event::PrevState::Sleeping).
    pub fn stopper_work(&mut self, cpu: CpuId) {
        let push = self.rqs.rq(cpu).push.take();
        match push {
            // On an offline CPU every task has to leave.
            Some(_) if !self.shared.is_online(cpu) => self.push_forbidden(cpu),
            Some(Push::Balance { to, position }) => {
                let mut balancing =
                    Balancing { rqs: &mut *self.rqs, shared: self.shared, host: &mut *self.host, now: self.now };
                balancing.push(cpu, to, position);
            }
            Some(Push::Affinity) => self.push_forbidden(cpu),
            Some(Push::Exec { task, to }) => self.push_exec(cpu, task, to),
            None => {}
        }
    }

    /// Updates the accounts of the running task, which reads its CPU clock. The slice may end.
    pub fn update_curr(&mut self, cpu: CpuId) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        class::update_curr(&mut rq, self.shared);
        finish_verb(&mut rq, self.shared, self.host);
    }

    /// Whether a reschedule is pending.
    pub fn need_resched(&self, cpu: CpuId) -> bool {
        self.shared.cpu(cpu).need_resched.load(Relaxed)
    }

    /// Returns the running task of a CPU.
    pub fn running(&mut self, cpu: CpuId) -> Running {
        self.rqs.rq(cpu).running
    }
}
