//! Lines of the kernel's own tracepoints.

use vruntime_sched::event::{PrevState, Running};
use vruntime_sched::ids::{CpuId, TaskId};

use super::{cpuhp, push_field, push_number, push_padded, push_signed, push_tgid, state_letters};
use crate::names::{Identity, Names};

/// Where and when a line is written.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) names: &'a Names,
    pub(super) nanoseconds: bool,
    pub(super) at: u64,
    pub(super) cpu: CpuId,
}

impl Site<'_> {
    /// Writes the first columns of a line: task, CPU, time and event.
    pub(super) fn start(self, buffer: &mut Vec<u8>, event: &[u8]) {
        self.start_with_flags(buffer, b"", event);
    }

    fn start_with_flags(self, buffer: &mut Vec<u8>, flags: &[u8], event: &[u8]) {
        let Self { names, nanoseconds, at, cpu } = self;
        let current = names.identity(cpu, names.current(cpu));
        let comm: &[u8] = if current.pid == 0 { b"<idle>" } else { current.comm };
        buffer.resize(buffer.len() + 16_usize.saturating_sub(comm.len()), b' ');
        buffer.extend_from_slice(comm);
        buffer.push(b'-');
        let before = buffer.len();
        push_number(buffer, current.pid.unsigned_abs().into(), 1);
        buffer.resize(buffer.len().max(before + 5), b' ');
        if let Some(tgid) = names.tgid(names.current(cpu)) {
            push_tgid(buffer, tgid);
        }
        buffer.extend_from_slice(b" [");
        push_number(buffer, u64::from(cpu.0), 3);
        buffer.extend_from_slice(b"] ");
        buffer.extend_from_slice(flags);
        let (seconds, fraction, digits) = if nanoseconds {
            (at / 1_000_000_000, at % 1_000_000_000, 9)
        } else {
            let us = at / 1000 + u64::from(at % 1000 >= 500);
            (us / 1_000_000, us % 1_000_000, 6)
        };
        let width = seconds.checked_ilog10().map_or(1, |log| log as usize + 1);
        buffer.resize(buffer.len() + 5_usize.saturating_sub(width), b' ');
        push_number(buffer, seconds, 1);
        buffer.push(b'.');
        push_number(buffer, fraction, digits);
        buffer.extend_from_slice(b": ");
        buffer.extend_from_slice(event);
    }

    pub(super) fn fork(self, buffer: &mut Vec<u8>, parent: Option<TaskId>, child: TaskId) {
        let Self { names, cpu, .. } = self;
        self.start(buffer, b"sched_process_fork:   ");
        // A workload's initial tasks have no parent: the running task forks them.
        let forker = parent.map_or_else(|| names.identity(cpu, names.current(cpu)), |parent| names.task(parent));
        let born = names.task(child);
        push_field(buffer, b"comm=", forker.comm);
        push_signed(buffer, b" pid=", forker.pid);
        push_field(buffer, b" child_comm=", born.comm);
        push_signed(buffer, b" child_pid=", born.pid);
        buffer.push(b'\n');
        if let Some(group) = names.born_into(cpu, parent, child) {
            self.attach(buffer, child, group);
        }
        self.birth(buffer, child);
    }

    pub(super) fn exit(self, buffer: &mut Vec<u8>, task: TaskId) {
        self.start(buffer, b"sched_process_exit:   ");
        push_identity(buffer, self.names.task(task));
        buffer.push(b'\n');
    }

    /// Writes one of the three events of a wakeup.
    pub(super) fn wakeup(self, buffer: &mut Vec<u8>, flags: &[u8], event: &[u8], task: TaskId, target: CpuId) {
        self.start_with_flags(buffer, flags, event);
        push_identity(buffer, self.names.task(task));
        buffer.extend_from_slice(b" target_cpu=");
        push_number(buffer, u64::from(target.0), 3);
        buffer.push(b'\n');
    }

    pub(super) fn switch(self, buffer: &mut Vec<u8>, prev: Running, prev_state: PrevState, next: Running) {
        self.start(buffer, b"sched_switch:         ");
        let (left, came) = (self.names.identity(self.cpu, prev), self.names.identity(self.cpu, next));
        push_field(buffer, b"prev_comm=", left.comm);
        push_signed(buffer, b" prev_pid=", left.pid);
        push_signed(buffer, b" prev_prio=", left.prio);
        push_field(buffer, b" prev_state=", state_letters(prev, prev_state).as_bytes());
        push_field(buffer, b" ==> next_comm=", came.comm);
        push_signed(buffer, b" next_pid=", came.pid);
        push_signed(buffer, b" next_prio=", came.prio);
        buffer.push(b'\n');
    }

    pub(super) fn migrate(self, buffer: &mut Vec<u8>, task: TaskId, from: CpuId, to: CpuId) {
        self.start(buffer, b"sched_migrate_task:   ");
        push_identity(buffer, self.names.task(task));
        push_field(buffer, b" orig_cpu=", &[]);
        push_number(buffer, u64::from(from.0), 1);
        push_field(buffer, b" dest_cpu=", &[]);
        push_number(buffer, u64::from(to.0), 1);
        buffer.push(b'\n');
    }

    pub(super) fn pi_setprio(self, buffer: &mut Vec<u8>, task: TaskId, old: i16, new: i16) {
        self.start(buffer, b"sched_pi_setprio:     ");
        let identity = self.names.task(task);
        push_field(buffer, b"comm=", identity.comm);
        push_signed(buffer, b" pid=", identity.pid);
        push_signed(buffer, b" oldprio=", i32::from(old));
        push_signed(buffer, b" newprio=", i32::from(new));
        buffer.push(b'\n');
    }

    pub(super) fn frequency(self, buffer: &mut Vec<u8>, khz: u32) {
        self.start(buffer, b"cpu_frequency:        ");
        push_field(buffer, b"state=", &[]);
        push_number(buffer, u64::from(khz), 1);
        push_field(buffer, b" cpu_id=", &[]);
        push_number(buffer, u64::from(self.cpu.0), 1);
        buffer.push(b'\n');
    }

    pub(super) fn overutilized(self, buffer: &mut Vec<u8>, on: bool) {
        self.start(buffer, b"sched_overutilized:   ");
        push_field(buffer, b"overutilized=", &[]);
        push_number(buffer, u64::from(on), 1);
        buffer.push(b'\n');
    }

    /// Writes a hotplug step, on the CPU itself, with beginning and end at one instant.
    pub(super) fn cpuhp(self, buffer: &mut Vec<u8>, online: bool) {
        let (target, step, state) = cpuhp(online);
        self.start(buffer, b"cpuhp_enter:          ");
        push_field(buffer, b"cpu: ", &[]);
        push_number(buffer, u64::from(self.cpu.0), 4);
        push_padded(buffer, b" target: ", target);
        push_padded(buffer, b" step: ", step);
        push_field(buffer, b" (", if online { b"sched_cpu_activate" } else { b"sched_cpu_deactivate" });
        buffer.extend_from_slice(b")\n");
        self.start(buffer, b"cpuhp_exit:           ");
        push_field(buffer, b" cpu: ", &[]);
        push_number(buffer, u64::from(self.cpu.0), 4);
        push_padded(buffer, b"  state: ", state);
        push_padded(buffer, b" step: ", step);
        buffer.extend_from_slice(b" ret: 0\n");
    }
}

fn push_identity(buffer: &mut Vec<u8>, identity: Identity<'_>) {
    push_field(buffer, b"comm=", identity.comm);
    push_signed(buffer, b" pid=", identity.pid);
    push_signed(buffer, b" prio=", identity.prio);
}
