//! Changes of policy, priority, nice, group and CPUs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::change::{Change, Was, change_class, changed, restore, save, stay_in_class};
use super::common::{push_running, rq_of, take_away};
use super::hotplug::{allowed_cpu, choose_dest, dest_cpu, is_lost, widen, widen_in_place};
use crate::attrs::ClassKind;
use crate::balance::active::Push;
use crate::balance::roots::Root;
use crate::class::clamps;
use crate::class::deadline::verbs as deadline;
use crate::class::deadline::verbs::root_of;
use crate::class::deadline::{DlAttrs, SchedError};
use crate::class::finish::finish_verb;
use crate::class::moves::{attach_task, check_preempt, deactivate};
use crate::class::rt::verbs as rt;
use crate::event::{Event, MigrateCause};
use crate::host::Host;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::kernels::Behaviour;
use crate::policy::{Changed, Dequeue, Policy, Wake};
use crate::rq::{Rq, Rqs};
use crate::scheduler::view::Scheduler;
use crate::shared::{Place, Shared};
use crate::task::{Affinity, Boost, Lent, NIL, SchedPolicy, Task, TaskState};
use crate::uclamp::{Clamps, SCALE, UclampError};

/// `sched_setattr`'s attributes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchedAttr {
    /// The policy.
    pub policy: SchedPolicy,
    /// -20..=19; for SCHED_OTHER and SCHED_BATCH.
    pub nice: i8,
    /// 1..=99, 99 the most urgent; for SCHED_FIFO and SCHED_RR.
    pub rt_priority: u8,
    /// Requested slice, ns, 100 us to 100 ms (6.12+); for SCHED_OTHER and SCHED_BATCH.
    pub slice: Option<u64>,
    /// Runtime, deadline and period; for SCHED_DEADLINE.
    pub deadline: DlAttrs,
}

#[derive(Clone, Debug)]
pub(super) enum SetCpus {
    User(Affinity),
    Cpuset {
        /// Whether the task's own affinity ends.
        forget: bool,
    },
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Sets the nice value, clamped to -20..=19, and keeps the requested slice (`setpriority`).
    pub fn set_nice(&mut self, task: TaskId, nice: i8) {
        let nice = nice.clamp(-20, 19);
        let unchanged = rq_of!(self, task).filter(|(rq, index)| rq.tasks[*index].nice == nice).map(|(rq, _)| rq.cpu);
        let cpu = unchanged.or_else(|| {
            self.change(task, Change::Nice, |rq, shared, index| {
                rq.tasks[index].nice = nice;
                P::attrs_changed(rq, shared, index);
            })
        });
        if let Some(cpu) = cpu {
            self.host.event(self.now, cpu, &Event::SetNice { task, nice });
        }
    }

    /// Sets a task's policy and parameters (`sched_setattr`), clamped to their ranges except SCHED_DEADLINE's.
    /// SCHED_OTHER and SCHED_BATCH set or remove the requested slice; other policies keep it for later. No effect on an
    /// ended task.
    ///
    /// # Errors
    ///
    /// SCHED_DEADLINE: the kernel refuses the parameters, bandwidth is lacking, or affinity excludes a CPU. SCHED_FIFO
    /// and SCHED_RR: the group may have no real-time tasks. Then nothing changes.
    pub fn set_scheduler(&mut self, task: TaskId, attr: SchedAttr) -> Result<(), SchedError> {
        let wanted = if attr.policy == SchedPolicy::Deadline {
            Some(attr.deadline.checked(self.shared.dl.periods).map_err(SchedError::Params)?)
        } else {
            None
        };
        if wanted.is_some() || attr.policy.is_rt() {
            self.start_servers();
        }
        let nice = attr.nice.clamp(-20, 19);
        let rt_priority = if attr.policy.is_rt() { attr.rt_priority.clamp(1, 99) } else { 0 };
        let keeps_nice = attr.policy.is_rt() || attr.policy == SchedPolicy::Deadline;
        let shared = self.shared;
        let changes_nothing = |rq: &Rq<P>, index: u32| {
            let this = &rq.tasks[index];
            this.policy == attr.policy
                && match attr.policy {
                    SchedPolicy::Normal | SchedPolicy::Batch => {
                        let slice = P::Changes::slice(rq, shared, index);
                        this.nice == nice && slice.is_none_or(|slice| attr.slice == Some(slice))
                    }
                    // SCHED_IDLE ignores the nice value.
                    SchedPolicy::Idle => true,
                    SchedPolicy::Fifo | SchedPolicy::RoundRobin => this.rt_priority == rt_priority,
                    SchedPolicy::Deadline => wanted.is_some() && this.dl.as_ref().map(|se| se.attrs) == wanted,
                }
        };
        // No change: the task keeps its place and its request.
        let unchanged = rq_of!(self, task).filter(|(rq, index)| changes_nothing(rq, *index));
        if let Some((cpu, nice)) = unchanged.map(|(rq, index)| (rq.cpu, rq.tasks[index].nice)) {
            if !keeps_nice {
                self.host.event(self.now, cpu, &Event::SetNice { task, nice });
            }
            return Ok(());
        }
        let mut before = (attr.policy, rt_priority);
        let admit = |rq: &Rq<P>, shared: &Shared<P>, index: u32| match wanted {
            Some(attrs) => admit(rq, shared, index, attrs),
            None if attr.policy.is_rt() && !rt::may_join(shared, rq.tasks[index].group) => {
                Err(SchedError::NoRtRuntime { group: rq.tasks[index].group })
            }
            None => Ok(()),
        };
        let change = |rq: &mut Rq<P>, shared: &Shared<P>, index: u32| {
            let this = &mut rq.tasks[index];
            before = (this.policy, this.rt_priority);
            this.policy = attr.policy;
            this.rt_priority = rt_priority;
            // Real-time and deadline tasks keep their nice value for later.
            if !keeps_nice {
                this.nice = nice;
            }
            if let Some(attrs) = wanted {
                let root = root_of(shared, &rq.tasks[index].affinity, rq.cpu);
                deadline::set_attrs(rq, index, attrs, root);
            } else if before.0 == SchedPolicy::Deadline && this.lent == Some(Lent::Deadline) {
                deadline::stay_for_donor(rq, index);
            }
            P::attrs_changed(rq, shared, index);
            if matches!(attr.policy, SchedPolicy::Normal | SchedPolicy::Batch) {
                P::Changes::slice_changed(rq, shared, index, attr.slice);
            }
        };
        let Some(cpu) = self.change_if(task, Change::Policy(attr.policy), admit, change)? else { return Ok(()) };
        if before != (attr.policy, rt_priority) {
            let event = Event::SetPolicy { task, policy: attr.policy, rt_priority };
            self.host.event(self.now, cpu, &event);
        }
        if !keeps_nice {
            self.host.event(self.now, cpu, &Event::SetNice { task, nice });
        }
        Ok(())
    }

    /// Sets or removes (`None`) the priority inherited from the most urgent waiter for a task's locks, which the host
    /// knows (`rt_mutex_setprio`). A boost below the task's own priority has no effect; nice values are not inherited.
    /// Deadlines are compared at the call, so a later call may have another result.
    pub fn set_boost(&mut self, task: TaskId, boost: Option<Boost>) {
        let mut prios = (0, 0);
        if boost.is_some() {
            self.start_servers();
        }
        let lent = boost.map(Lent::from);
        let cpu = self.change(task, Change::Lent(lent), |rq, _, index| {
            let old = rq.tasks[index].prio();
            let offer =
                if let Some(Boost::Deadline { donor, deadline }) = boost { Some((donor, deadline)) } else { None };
            deadline::lend(rq, index, offer);
            let this = &mut rq.tasks[index];
            this.lent = lent;
            this.kind = ClassKind::of(this.policy, this.lent);
            prios = (old, this.prio());
        });
        if let Some(cpu) = cpu
            && prios.0 != prios.1
        {
            self.host.event(self.now, cpu, &Event::PiSetprio { task, old: prios.0, new: prios.1 });
        }
    }

    /// Sets utilisation clamps, each 0..=1024 (`sched_util_min`, `sched_util_max` of `sched_setattr`). `None` keeps
    /// one.
    ///
    /// # Errors
    ///
    /// A bound above 1024, or the lower above the upper.
    pub fn set_uclamp(&mut self, task: TaskId, min: Option<u32>, max: Option<u32>) -> Result<(), UclampError> {
        // Has no visible effect if the request is refused.
        self.shared.use_uclamp();
        let mut set = Ok(());
        let _ = self.change(task, Change::Clamps, |rq, _, index| set = rq.tasks[index].uclamp.request(min, max));
        set
    }

    /// Sets `cpu.uclamp.min` and `cpu.uclamp.max`, each 0..=1024. The upper bound limits the lower.
    ///
    /// # Errors
    ///
    /// A bound above 1024.
    pub fn set_group_uclamp(&mut self, group: GroupId, min: u32, max: u32) -> Result<(), UclampError> {
        let bound = |value: u32| {
            let small = u16::try_from(value).ok().filter(|&value| value <= SCALE);
            small.ok_or(UclampError::Range { value })
        };
        let clamps = Clamps { min: bound(min)?, max: bound(max)? };
        if group == GroupId::ROOT {
            return Ok(());
        }
        self.shared.use_uclamp();
        self.shared.group(group).uclamp.ask(clamps);
        clamps::update_groups(self.shared);
        for cpu in (0..self.shared.nr_cpus() as u32).map(CpuId) {
            clamps::update_active(&mut self.rqs.rq(cpu), self.shared);
        }
        Ok(())
    }

    /// Moves a task to another group. Cpusets may force it off its CPU.
    ///
    /// # Errors
    ///
    /// The group has no CPUs for the task or may have no real-time tasks, or its root domain lacks bandwidth. Then
    /// nothing changes.
    pub fn move_group(&mut self, task: TaskId, group: GroupId) -> Result<(), SchedError> {
        if self.shared.config.rt_group_sched
            && let Some((rq, index)) = rq_of!(self, task)
            && rq.tasks[index].group != group
            && !rt::may_attach(self.shared, &rq.tasks[index], group)
        {
            return Err(SchedError::NoRtRuntime { group });
        }
        let used = self.shared.cpusets_used();
        if used {
            self.may_attach(task, group)?;
        }
        let mut forget = false;
        let there = rq_of!(self, task).filter(|(rq, index)| rq.tasks[*index].group == group).map(|(rq, _)| rq.cpu);
        let cpu = there.or_else(|| {
            self.change(task, Change::Group, |rq, shared, index| {
                let from = core::mem::replace(&mut rq.tasks[index].group, group);
                P::Changes::group_changed(rq, shared, index);
                forget = used && shared.cpusets(|it| it.rules().forgets && it.differ(from, group));
            })
        });
        if let Some(cpu) = cpu {
            self.host.event(self.now, cpu, &Event::MoveGroup { task, group });
        }
        if used {
            self.set_cpus(task, SetCpus::Cpuset { forget }, CpuId(0))?;
        }
        Ok(())
    }

    /// Changes a task, off its queue if ordinary. Returns its CPU; None if it has ended.
    fn change(&mut self, task: TaskId, what: Change, with: impl FnOnce(&mut Rq<P>, &Shared<P>, u32)) -> Option<CpuId> {
        self.change_if(task, what, |_, _, _| Ok(()), with).unwrap_or(None)
    }

    /// As [`Self::change`], if `may` is true.
    fn change_if(
        &mut self,
        task: TaskId,
        what: Change,
        may: impl FnOnce(&Rq<P>, &Shared<P>, u32) -> Result<(), SchedError>,
        with: impl FnOnce(&mut Rq<P>, &Shared<P>, u32),
    ) -> Result<Option<CpuId>, SchedError> {
        let shared = self.shared;
        let Some((mut rq, index)) = rq_of!(self, task) else { return Ok(None) };
        let cpu = rq.cpu;
        rq.update_clock(self.now);
        may(&rq, shared, index)?;
        let asleep = rq.tasks[index].state != TaskState::Runnable;
        if rq.tasks[index].on_rq && asleep && what.class(&rq.tasks[index]) != rq.tasks[index].kind {
            // A delayed dequeue does not carry over to another class.
            deactivate(&mut rq, shared, index, Dequeue::Delayed);
        }
        let was = Was::of(&rq, index);
        if was.kind == ClassKind::Fair {
            save(&mut rq, shared, index);
        }
        if was.kind == ClassKind::Deadline && was.queued {
            deadline::dequeue(&mut rq, shared, index, Dequeue::Save);
        }

        with(&mut rq, shared, index);

        let this = &mut rq.tasks[index];
        let new = ClassKind::of(this.policy, this.lent);
        // It is of its old class until it has left that.
        this.kind = was.kind;
        if new == was.kind {
            stay_in_class(&mut rq, shared, index, what, was);
        } else {
            change_class(&mut rq, shared, index, new, was);
        }
        if was.queued {
            if !asleep {
                clamps::refresh(&mut rq, shared, index);
            }
            changed(&mut rq, shared, index, what, was);
        }
        finish_verb(&mut rq, shared, self.host);
        let (dl_callback, callback) = (rq.dl.callback.take(), rq.rt.callback.take());
        drop(rq);
        self.call_back(ClassKind::Deadline, cpu, dl_callback);
        self.call_back(ClassKind::Rt, cpu, callback);
        Ok(Some(cpu))
    }

    /// Sets a task's affinity (`sched_setaffinity`), within its group's CPUs. A task elsewhere moves: at once if it
    /// waits, through the stopper if it runs, at its next wakeup if it sleeps. 5.7+: the calling CPU `on` spreads such
    /// tasks.
    ///
    /// # Errors
    ///
    /// None of the CPUs is online or in the group, or a deadline task would lack CPUs of the root domain. Then nothing
    /// changes.
    pub fn set_affinity(&mut self, task: TaskId, affinity: Affinity, on: CpuId) -> Result<(), SchedError> {
        if is_lost(self.shared, &affinity) {
            return Err(SchedError::Offline);
        }
        self.set_cpus(task, SetCpus::User(affinity), on)
    }

    pub(super) fn set_cpus(&mut self, task: TaskId, how: SetCpus, on: CpuId) -> Result<(), SchedError> {
        let shared = self.shared;
        let Some((mut rq, index)) = rq_of!(self, task) else { return Ok(()) };
        let cpu = rq.cpu;
        let this = &mut rq.tasks[index];
        let (affinity, asked) = match how {
            SetCpus::User(asked) => {
                let anywhere = this.per_cpu || !shared.cpusets_used();
                let (allowed, fits) =
                    if anywhere { (asked.clone(), true) } else { shared.cpus_allowed(this.group, &asked) };
                if !fits {
                    return Err(SchedError::Cpuset);
                }
                if this.policy == SchedPolicy::Deadline {
                    spans_domain(shared, root_of(shared, &this.affinity, cpu), &allowed)?;
                }
                (allowed, asked)
            }
            SetCpus::Cpuset { .. } if this.per_cpu => return Ok(()),
            SetCpus::Cpuset { forget } => {
                if forget {
                    this.asked = None;
                }
                let (allowed, _) = shared.cpus_allowed(this.group, &this.asked);
                if allowed == this.affinity {
                    return Ok(());
                }
                (allowed, this.asked.clone())
            }
        };
        let reported = affinity.clone();
        rq.update_clock(self.now);
        let was = Was::of(&rq, index);
        // 4.3+: an ordinary task leaves its queue for a moment. A running task thus gets a new slice and, in 6.6, a
        // queued one a new deadline.
        let all = shared.nr_cpus();
        let is_everywhere = |affinity: &Affinity| affinity.as_ref().is_none_or(|mask| mask.count() >= all);
        let requeues = was.kind == ClassKind::Fair
            && shared.config.has(Behaviour::AffinityRequeues)
            && affinity != rq.tasks[index].affinity
            && !(is_everywhere(&affinity) && is_everywhere(&rq.tasks[index].affinity));
        if requeues {
            save(&mut rq, shared, index);
        }
        if affinity != rq.tasks[index].affinity && rq.tasks[index].state != TaskState::New {
            rq.tasks[index].dest = choose_dest(shared, &affinity, on);
        }
        (rq.tasks[index].affinity, rq.tasks[index].asked) = (affinity, asked);
        if requeues {
            restore(&mut rq, shared, index, was);
        }
        rt::affinity_changed(&mut rq, shared, index);
        deadline::affinity_changed(&mut rq, shared, index);
        if shared.is_split() {
            deadline::account(&mut rq, shared, index);
        }
        let may_stay = allowed_cpu(self.shared, &rq.tasks[index].affinity, cpu, cpu) == cpu;
        let runnable = rq.tasks[index].state == TaskState::Runnable && rq.tasks[index].on_rq;
        if may_stay || !runnable {
            if !may_stay && rq.tasks[index].on_rq {
                deactivate(&mut rq, shared, index, Dequeue::Delayed);
            }
            finish_verb(&mut rq, shared, self.host);
        } else if rq.curr == Some(index) {
            push_running(&mut rq);
            finish_verb(&mut rq, shared, self.host);
        } else {
            // The stopper precedes all tasks, so another queued task is forbidden only while the stopper runs. Before
            // and after, only this task leaves, without a search: a change may concern 100,000 tasks of one CPU.
            let target = dest_cpu(shared, &rq.tasks[index], cpu);
            let alone = match rq.curr {
                Some(current) if !rq.tasks[current].allowed(cpu) => {
                    rq.push == Some(Push::Affinity) && shared.all_online()
                }
                _ => rq.push.is_none(),
            };
            if rq.online && alone && target != cpu {
                let moving = take_away(&mut rq, shared, self.host, index);
                drop(rq);
                self.arrive(moving, cpu, target, MigrateCause::Affinity);
            } else {
                drop(rq);
                self.push_forbidden(cpu);
            }
        }
        self.host.affinity(self.now, task, reported.as_deref());
        Ok(())
    }

    /// Moves queued tasks that affinity, or the CPU's going offline, forbids to run on `cpu`.
    pub(super) fn push_forbidden(&mut self, cpu: CpuId) {
        // Tasks before this index were examined. The unlocked queue may change, so the last search is of all tasks.
        let mut examined = 0;
        loop {
            let mut rq = self.rqs.rq(cpu);
            rq.update_clock(self.now);
            let stray = rq.tasks.iter_from(examined).find(|(index, task)| {
                let may_stay = rq.online && task.allowed(cpu);
                task.on_rq && task.state == TaskState::Runnable && !may_stay && rq.curr != Some(*index)
            });
            let stray = stray.map(|(index, _)| index);
            if stray.is_none() && examined > 0 {
                examined = 0;
                continue;
            }
            if !rq.online && examined == 0 {
                // Tasks with a delayed dequeue leave, too: no pick here would find them.
                let delayed = |(index, task): &(u32, &Task<P>)| {
                    task.on_rq && task.state != TaskState::Runnable && rq.curr != Some(*index)
                };
                let delayed: Vec<u32> = rq.tasks.iter().filter(delayed).map(|(index, _)| index).collect();
                for index in delayed {
                    deactivate(&mut rq, self.shared, index, Dequeue::Delayed);
                }
            }
            if !rq.online {
                finish_verb(&mut rq, self.shared, self.host);
            }
            let Some(index) = stray else {
                // The stopper moves one that has just begun to run, whatever else it was to push.
                let Some(current) = rq.curr else { return };
                if widen_in_place(&mut rq, self.shared, self.host, self.now, current) {
                    finish_verb(&mut rq, self.shared, self.host);
                } else if rq.push != Some(Push::Affinity)
                    && allowed_cpu(self.shared, &rq.tasks[current].affinity, cpu, cpu) != cpu
                {
                    push_running(&mut rq);
                    finish_verb(&mut rq, self.shared, self.host);
                }
                return;
            };
            let target = dest_cpu(self.shared, &rq.tasks[index], cpu);
            if target == cpu {
                let stays = widen_in_place(&mut rq, self.shared, self.host, self.now, index);
                finish_verb(&mut rq, self.shared, self.host);
                if stays {
                    continue;
                }
                return;
            }
            let cause = if rq.online { MigrateCause::Affinity } else { MigrateCause::Hotplug };
            let moving = take_away(&mut rq, self.shared, self.host, index);
            drop(rq);
            self.arrive(moving, cpu, target, cause);
            examined = index + 1;
        }
    }

    /// Enqueues on `to` a runnable task from the run queue of `from`.
    pub(super) fn arrive(&mut self, mut moving: Task<P>, from: CpuId, mut to: CpuId, cause: MigrateCause) {
        if widen(self.shared, self.host, self.now, &mut moving, from) {
            to = allowed_cpu(self.shared, &moving.affinity, to, from);
        }
        let mut rq = self.rqs.rq(to);
        while !rq.online {
            // The CPU went offline while the task moved.
            drop(rq);
            to = allowed_cpu(self.shared, &moving.affinity, from, from);
            rq = self.rqs.rq(to);
        }
        moving.dest = NIL;
        self.host.event(self.now, from, &Event::Migrate { task: moving.id, from, to, cause });
        rq.update_clock(self.now);
        let index = attach_task(&mut rq, self.shared, moving);
        check_preempt(&mut rq, self.shared, index, Wake::default());
        finish_verb(&mut rq, self.shared, self.host);
    }
}

/// Reserves bandwidth for new SCHED_DEADLINE parameters in the root domain.
fn admit<P: Policy>(rq: &Rq<P>, shared: &Shared<P>, index: u32, attrs: DlAttrs) -> Result<(), SchedError> {
    let this = &rq.tasks[index];
    let root = root_of(shared, &this.affinity, rq.cpu);
    spans_domain(shared, root, &this.affinity)?;
    let kept = this.dl.as_ref().or(this.dl_kept.as_ref());
    let (old, from) = kept.map_or((0, root), |se| (se.bw, se.root));
    // A task that has left the class gives back its old bandwidth, but only if there was room for both
    // (`sched_dl_overflow`).
    let exchanges = from == root && this.policy == SchedPolicy::Deadline;
    let has = if exchanges { old } else { 0 };
    shared.dl.domain(root).admit(has, attrs).map_err(|error| SchedError::Admission(Box::new(error)))?;
    if !exchanges {
        shared.dl.domain(from).release(old);
    }
    Ok(())
}

/// Whether an affinity spans a root domain, as admission requires.
fn spans_domain<P: Policy>(shared: &Shared<P>, root: Root, affinity: &Affinity) -> Result<(), SchedError> {
    let Some(mask) = affinity.as_ref().filter(|_| shared.dl.domain(root).cap().is_some()) else { return Ok(()) };
    let span = shared.root_span(root);
    let (allowed, cpus) = (span.and(mask).count(), span.count());
    if allowed < cpus { Err(SchedError::Affinity { allowed, cpus }) } else { Ok(()) }
}
