//! Fields of tracepoints in text: the kernel's, raw (`trace-cmd report -R`), and of trace-cmd's plugins.

use memchr::{memchr, memmem, memrchr};

use super::scan::{Fields, digits, signed, trim_end, trim_start, unsigned, word};
use crate::event::{Named, SocketState, StateBits, TaskState, Tracepoint, Transfer, Wakeup};

/// Parses the tracepoint `name` with its `fields`.
#[inline]
pub(super) fn tracepoint<'a>(name: &[u8], fields: &'a [u8], bits: &mut StateBits) -> Tracepoint<'a> {
    let point = match name {
        b"sched_switch" => switch(fields, bits),
        b"sched_waking" => wakeup(fields).map(Tracepoint::Waking),
        b"sched_wakeup" => wakeup(fields).map(Tracepoint::Wakeup),
        b"sched_wakeup_new" => wakeup(fields).map(Tracepoint::WakeupNew),
        b"sched_migrate_task" => migrate(fields),
        b"sched_stat_runtime" => runtime(fields),
        b"sched_process_fork" => fork(fields),
        b"sched_process_exec" => exec(fields),
        b"sched_process_exit" => exit(fields),
        b"task_newtask" => newtask(fields),
        b"task_rename" => rename(fields),
        b"cgroup_attach_task" => attach(fields),
        b"cpu_idle" => idle(fields),
        b"cpu_frequency" => frequency(fields),
        b"cpuhp_enter" => hotplug(fields),
        b"inet_sock_set_state" => state_of_socket(fields),
        b"sock_send_length" => transfer(fields).map(Tracepoint::SocketSend),
        b"sock_recv_length" => transfer(fields).map(Tracepoint::SocketReceive),
        // Kernels before 3.0 had only a number for this name.
        b"print" | b"tracing_mark_write" | b"0" => Some(Tracepoint::Print { text: print(fields) }),
        _ => return Tracepoint::Other { fields },
    };
    point.unwrap_or(Tracepoint::Malformed { fields })
}

fn switch<'a>(text: &'a [u8], bits: &mut StateBits) -> Option<Tracepoint<'a>> {
    let mut fields = Fields(text);
    let Some(comm) = fields.text(b"prev_comm=", b"prev_pid=") else { return switch_short(text) };
    let prev = Named { comm, pid: fields.signed(b"prev_pid=")? };
    let prev_prio = fields.signed(b"prev_prio=")?;
    let state = fields.word(b"prev_state=")?;
    let prev_state = if matches!(state.first(), Some(b'0'..=b'9')) {
        bits.state(unsigned(state)?)
    } else {
        TaskState::from_letters(state)
    };
    fields.skip(b"==>");
    let comm = fields.text(b"next_comm=", b"next_pid=")?;
    let next = Named { comm, pid: fields.signed(b"next_pid=")? };
    let next_prio = fields.signed(b"next_prio=")?;
    Some(Tracepoint::Switch { prev, prev_prio, prev_state, next, next_prio })
}

/// Parses `bash:20662 [120] S ==> swapper/1:0 [120]` of trace-cmd's plugin. Kernels before 2.6.33 have `task` before
/// it, and the state in brackets.
fn switch_short(text: &[u8]) -> Option<Tracepoint<'_>> {
    let arrow = memmem::find(text, b" ==> ")?;
    let (prev, prev_prio, state) = short(&text[..arrow])?;
    let (next, next_prio, _) = short(&text[arrow + 5..])?;
    let prev_state = TaskState::from_letters(state.strip_prefix(b"(").unwrap_or(state));
    Some(Tracepoint::Switch { prev, prev_prio, prev_state, next, next_prio })
}

/// `comm:pid [prio] rest`.
fn short(text: &[u8]) -> Option<(Named<'_>, i32, &[u8])> {
    let text = trim_start(text);
    let text = text.strip_prefix(b"task ").unwrap_or(text);
    let mut from = 0;
    loop {
        let open = from + memmem::find(&text[from..], b" [")?;
        if let Some(found) = short_at(text, open) {
            return Some(found);
        }
        from = open + 2;
    }
}

/// As [`short`], with the bracket at `open`.
fn short_at(text: &[u8], open: usize) -> Option<(Named<'_>, i32, &[u8])> {
    let colon = memrchr(b':', &text[..open])?;
    let named = Named { comm: &text[..colon], pid: signed(&text[colon + 1..open])? };
    let close = open + memchr(b']', &text[open..])?;
    Some((named, signed(&text[open + 2..close])?, trim_start(&text[close + 1..])))
}

fn wakeup(text: &[u8]) -> Option<Wakeup<'_>> {
    let mut fields = Fields(text);
    let Some(comm) = fields.text(b"comm=", b"pid=") else { return wakeup_short(text) };
    let task = Named { comm, pid: fields.signed(b"pid=")? };
    let prio = fields.signed(b"prio=")?;
    let rest = trim_start(fields.0);
    let success = if rest.starts_with(b"success=") { fields.unsigned(b"success=")? != 0 } else { true };
    let target_cpu = match trim_start(fields.0) {
        b"" => None,
        // Up to 2.6.36 the name is `cpu=`, or `target_cpu=`.
        rest if rest.starts_with(b"cpu=") => Some(fields.u32(b"cpu=")?),
        _ => Some(fields.u32(b"target_cpu=")?),
    };
    Some(Wakeup { task, prio, success, target_cpu })
}

/// `bash:20676 [120] success=1 CPU:001` or `task bash:20676 [120] success=1 [001]`.
fn wakeup_short(text: &[u8]) -> Option<Wakeup<'_>> {
    let (task, prio, rest) = short(text)?;
    let (success, rest) = match rest.strip_prefix(b"success=") {
        Some(rest) => (!rest.starts_with(b"0"), trim_start(word(rest).1)),
        None => (true, rest),
    };
    let cpu = rest.strip_prefix(b"CPU:").or_else(|| rest.strip_prefix(b"["));
    let target_cpu = match cpu {
        Some(cpu) => Some(u32::try_from(digits(cpu)?.0).ok()?),
        None => None,
    };
    Some(Wakeup { task, prio, success, target_cpu })
}

fn migrate(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let comm = fields.text(b"comm=", b"pid=")?;
    let task = Named { comm, pid: fields.signed(b"pid=")? };
    let prio = fields.signed(b"prio=")?;
    let orig_cpu = fields.u32(b"orig_cpu=")?;
    Some(Tracepoint::MigrateTask { task, prio, orig_cpu, dest_cpu: fields.u32(b"dest_cpu=")? })
}

fn runtime(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let comm = fields.text(b"comm=", b"pid=")?;
    let task = Named { comm, pid: fields.signed(b"pid=")? };
    let runtime_ns = fields.unsigned(b"runtime=")?;
    let vruntime_ns = fields.find(b"vruntime=").and_then(unsigned);
    Some(Tracepoint::StatRuntime { task, runtime_ns, vruntime_ns })
}

fn fork(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let parent = if text.starts_with(b"parent_comm=") {
        Named { comm: fields.text(b"parent_comm=", b"parent_pid=")?, pid: fields.signed(b"parent_pid=")? }
    } else {
        Named { comm: fields.text(b"comm=", b"pid=")?, pid: fields.signed(b"pid=")? }
    };
    let child = Named { comm: fields.text(b"child_comm=", b"child_pid=")?, pid: fields.signed(b"child_pid=")? };
    Some(Tracepoint::ProcessFork { parent, child })
}

fn exec(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let filename = fields.text(b"filename=", b"pid=")?;
    let pid = fields.signed(b"pid=")?;
    Some(Tracepoint::ProcessExec { filename, pid, old_pid: fields.signed(b"old_pid=")? })
}

fn exit(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let task = Named { comm: fields.text(b"comm=", b"pid=")?, pid: fields.signed(b"pid=")? };
    let prio = fields.signed(b"prio=")?;
    let group_dead = fields.find(b"group_dead=").map(|value| matches!(value, b"true" | b"1"));
    Some(Tracepoint::ProcessExit { task, prio, group_dead })
}

fn newtask(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let pid = fields.signed(b"pid=")?;
    let comm = fields.text(b"comm=", b"clone_flags=")?;
    let clone_flags = fields.text(b"clone_flags=", b"oom_score_adj=")?;
    let clone_flags = u64::from_str_radix(std::str::from_utf8(clone_flags).ok()?, 16).ok()?;
    let oom_score_adj = fields.signed(b"oom_score_adj=")?;
    Some(Tracepoint::TaskNew { task: Named { comm, pid }, clone_flags, oom_score_adj })
}

fn rename(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let pid = fields.signed(b"pid=")?;
    fields.text(b"oldcomm=", b"newcomm=")?;
    let comm = fields.text(b"newcomm=", b"oom_score_adj=")?;
    Some(Tracepoint::TaskRename { task: Named { comm, pid }, tgid: None })
}

fn attach(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let dst_root = fields.signed(b"dst_root=")?;
    let dst_id = fields.unsigned(b"dst_id=")?;
    let dst_level = fields.signed(b"dst_level=")?;
    // A cgroup's name may have spaces.
    let dst_path = fields.text(b"dst_path=", b"pid=")?;
    let pid = fields.signed(b"pid=")?;
    let comm = trim_end(trim_start(fields.0).strip_prefix(b"comm=")?);
    Some(Tracepoint::CgroupAttach { task: Named { comm, pid }, dst_root, dst_id, dst_level, dst_path })
}

fn idle(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let state = fields.u32(b"state=")?;
    Some(Tracepoint::CpuIdle { state, cpu_id: fields.u32(b"cpu_id=")? })
}

fn frequency(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    let khz = fields.u32(b"state=")?;
    Some(Tracepoint::CpuFrequency { khz, cpu_id: fields.u32(b"cpu_id=")? })
}

/// `cpu: 0003 target:   0 step: 168 (sched_cpu_deactivate)`, or raw: `cpu=3 target=0 idx=168 fun=0xffffffff810b6f80`.
fn hotplug(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    if text.starts_with(b"cpu=") {
        let (cpu_id, target) = (fields.u32(b"cpu=")?, fields.signed(b"target=")?);
        return Some(Tracepoint::CpuhpEnter { cpu_id, target, step: fields.signed(b"idx=")?, function: b"" });
    }
    let mut value = |key: &[u8]| {
        fields.skip(key);
        fields.0 = trim_start(fields.0);
        fields.signed(b"")
    };
    let cpu_id = u32::try_from(value(b"cpu:")?).ok()?;
    let (target, step) = (value(b"target:")?, value(b"step:")?);
    let function = trim_end(trim_start(fields.0)).strip_prefix(b"(")?.strip_suffix(b")")?;
    // A kernel that hides its names prints the address.
    let function = if function.starts_with(b"0x") { b"" } else { function };
    Some(Tracepoint::CpuhpEnter { cpu_id, target, step, function })
}

/// `sk address = 00000000a1b2c3d4, family = AF_INET protocol = IPPROTO_TCP, length = 50,
/// error = 0, flags = 0x0`, or raw:
/// `sk=0xffff888003f5c000 family=2 protocol=6 ret=50 flags=0`.
fn transfer(text: &[u8]) -> Option<Transfer> {
    let mut fields = Fields(text);
    if text.starts_with(b"sk=") {
        let socket = address(fields.word(b"sk=")?)?;
        let length = signed(fields.find(b"ret=")?)?;
        return Some(Transfer { socket, length, flags: unsigned(fields.find(b"flags=")?)? as i32 });
    }
    let mut value = |key: &[u8]| fields.find(key).map(|word| word.strip_suffix(b",").unwrap_or(word));
    let socket = address(value(b"sk address = ")?)?;
    let (length, error) = (signed(value(b"length = ")?)?, signed(value(b"error = ")?)?);
    let flags = unsigned(value(b"flags = ")?)? as i32;
    Some(Transfer { socket, length: if error < 0 { error } else { length }, flags })
}

/// `family=AF_INET protocol=IPPROTO_TCP sport=80 dport=4000 saddr=… oldstate=TCP_SYN_RECV newstate=TCP_ESTABLISHED`,
/// which names no socket, or raw: `skaddr=0xffff888003f5c000 oldstate=3 newstate=1 sport=80 dport=4000 …`.
fn state_of_socket(text: &[u8]) -> Option<Tracepoint<'_>> {
    let mut fields = Fields(text);
    if !text.starts_with(b"skaddr=") {
        return Some(Tracepoint::Other { fields: text });
    }
    let socket = address(fields.word(b"skaddr=")?)?;
    let state = signed(fields.find(b"newstate=")?)?;
    let mut port = |key: &[u8]| u16::try_from(unsigned(fields.find(key)?)?).ok();
    Some(Tracepoint::SocketState(SocketState { socket, state, port: port(b"sport=")?, peer_port: port(b"dport=")? }))
}

/// Parses hexadecimal digits, with or without `0x`.
fn address(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"0x").unwrap_or(word);
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns the text without the function that wrote it: `0xffff00000819ff24s: text`, `tracing_mark_write: text`,
/// `ip=0xffff… buf=text`.
fn print(text: &[u8]) -> &[u8] {
    if let Some(rest) = text.strip_prefix(b"ip=") {
        let mut fields = Fields(rest);
        return if fields.find(b"buf=").is_some() {
            let at = memmem::find(text, b" buf=").map_or(text.len(), |at| at + 5);
            trim_end(&text[at..])
        } else {
            rest
        };
    }
    let (first, rest) = word(text);
    let function = first == b"tracing_mark_write:" || first == b"tracing_mark_raw_write:";
    let address = first.starts_with(b"0x") && first.ends_with(b":");
    if function || address { trim_start(rest) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(name: &str, fields: &'a str) -> Tracepoint<'a> {
        tracepoint(name.as_bytes(), fields.as_bytes(), &mut StateBits::default())
    }

    fn named(comm: &str, pid: i32) -> Named<'_> {
        Named { comm: comm.as_bytes(), pid }
    }

    #[test]
    fn a_switch_in_every_dress() {
        let expected = |prev_state| Tracepoint::Switch {
            prev: named("a b", 12),
            prev_prio: 120,
            prev_state,
            next: named("swapper/1", 0),
            next_prio: 120,
        };
        for (text, state) in [
            (
                "prev_comm=a b prev_pid=12 prev_prio=120 prev_state=R+ ==> next_comm=swapper/1 next_pid=0 next_prio=120",
                TaskState::Preempted,
            ),
            (
                "prev_comm=a b prev_pid=12 prev_prio=120 prev_state=1 next_comm=swapper/1 next_pid=0 next_prio=120",
                TaskState::Sleeping,
            ),
            (
                "prev_comm=a b prev_pid=12 prev_prio=120 prev_state=0x100 next_comm=swapper/1 next_pid=0 next_prio=120",
                TaskState::Preempted,
            ),
            ("a b:12 [120] D ==> swapper/1:0 [120]", TaskState::DiskSleep),
            ("task a b:12 [120] (S) ==> swapper/1:0 [120]", TaskState::Sleeping),
        ] {
            assert_eq!(read("sched_switch", text), expected(state), "{text}");
        }
    }

    #[test]
    fn a_name_may_be_anything() {
        let text = "prev_comm==> x: [1] prev_pid=12 prev_prio=-1 prev_state=S ==> next_comm= next_pid=3 next_prio=98";
        let Tracepoint::Switch { prev, next, next_prio, .. } = read("sched_switch", text) else { panic!("{text}") };
        assert_eq!((prev, next, next_prio), (named("=> x: [1]", 12), named("", 3), 98));
        let Tracepoint::Wakeup(wakeup) = read("sched_wakeup", "a:b [c:7 [98] CPU:003") else { panic!() };
        assert_eq!((wakeup.task.pid, wakeup.prio, wakeup.target_cpu), (7, 98, Some(3)));
    }

    #[test]
    fn a_wakeup_in_every_dress() {
        for (text, success, target_cpu) in [
            ("comm=a pid=1 prio=120 target_cpu=002", true, Some(2)),
            ("comm=a pid=1 prio=120 success=1 target_cpu=2", true, Some(2)),
            ("comm=a pid=1 prio=120 success=0 target_cpu=2", false, Some(2)),
            ("comm=a pid=1 prio=120 success=1", true, None),
            ("comm=a pid=1 prio=120", true, None),
            ("a:1 [120] success=1 CPU:002", true, Some(2)),
            ("a:1 [120] CPU:002", true, Some(2)),
            ("task a:1 [120] success=0 [002]", false, Some(2)),
        ] {
            let wakeup = Wakeup { task: named("a", 1), prio: 120, success, target_cpu };
            assert_eq!(read("sched_wakeup", text), Tracepoint::Wakeup(wakeup), "{text}");
            assert_eq!(read("sched_waking", text), Tracepoint::Waking(wakeup), "{text}");
            assert_eq!(read("sched_wakeup_new", text), Tracepoint::WakeupNew(wakeup), "{text}");
        }
    }

    #[test]
    fn the_other_tracepoints() {
        let task = named("a", 1);
        for (name, text, expected) in [
            (
                "sched_migrate_task",
                "comm=a pid=1 prio=120 orig_cpu=0 dest_cpu=3",
                Tracepoint::MigrateTask { task, prio: 120, orig_cpu: 0, dest_cpu: 3 },
            ),
            (
                "sock_send_length",
                "sk address = 00000000a1b2c3d4, family = AF_INET protocol = IPPROTO_TCP, length = 50, error = 0, flags = 0x0",
                Tracepoint::SocketSend(Transfer { socket: 0xa1b2_c3d4, length: 50, flags: 0 }),
            ),
            (
                "sock_recv_length",
                "sk address = 0xffff0000a1b2c3d4, family = 1 protocol = 0, length = 0, error = -11, flags = 0x42",
                Tracepoint::SocketReceive(Transfer { socket: 0xffff_0000_a1b2_c3d4, length: -11, flags: 0x42 }),
            ),
            (
                "sock_recv_length",
                "sk=0xffff0000a1b2c3d4 family=1 protocol=0 ret=-11 flags=0x42",
                Tracepoint::SocketReceive(Transfer { socket: 0xffff_0000_a1b2_c3d4, length: -11, flags: 0x42 }),
            ),
            (
                "inet_sock_set_state",
                "skaddr=0xffff0000a1b2c3d4 oldstate=3 newstate=1 sport=80 dport=4000 family=2 protocol=6",
                Tracepoint::SocketState(SocketState {
                    socket: 0xffff_0000_a1b2_c3d4,
                    state: 1,
                    port: 80,
                    peer_port: 4000,
                }),
            ),
            (
                "sched_stat_runtime",
                "comm=a pid=1 runtime=99 [ns] vruntime=7 [ns]",
                Tracepoint::StatRuntime { task, runtime_ns: 99, vruntime_ns: Some(7) },
            ),
            (
                "sched_stat_runtime",
                "comm=a pid=1 runtime=99",
                Tracepoint::StatRuntime { task, runtime_ns: 99, vruntime_ns: None },
            ),
            (
                "sched_process_fork",
                "comm=a pid=1 child_comm=a child_pid=2",
                Tracepoint::ProcessFork { parent: task, child: named("a", 2) },
            ),
            (
                "sched_process_fork",
                "parent_comm=a parent_pid=1 child_comm=a child_pid=2",
                Tracepoint::ProcessFork { parent: task, child: named("a", 2) },
            ),
            (
                "sched_process_exec",
                "filename=/bin/a b pid=1 old_pid=1",
                Tracepoint::ProcessExec { filename: b"/bin/a b", pid: 1, old_pid: 1 },
            ),
            (
                "sched_process_exit",
                "comm=a pid=1 prio=120 group_dead=true",
                Tracepoint::ProcessExit { task, prio: 120, group_dead: Some(true) },
            ),
            (
                "sched_process_exit",
                "comm=a pid=1 prio=120",
                Tracepoint::ProcessExit { task, prio: 120, group_dead: None },
            ),
            (
                "task_newtask",
                "pid=1 comm=a clone_flags=3d0f00 oom_score_adj=-800",
                Tracepoint::TaskNew { task, clone_flags: 0x3d_0f00, oom_score_adj: -800 },
            ),
            ("task_rename", "pid=1 oldcomm=b newcomm=a oom_score_adj=0", Tracepoint::TaskRename { task, tgid: None }),
            (
                "cgroup_attach_task",
                "dst_root=0 dst_id=7 dst_level=2 dst_path=/a b/c pid=1 comm=a",
                Tracepoint::CgroupAttach { task, dst_root: 0, dst_id: 7, dst_level: 2, dst_path: b"/a b/c" },
            ),
            ("cpu_idle", "state=4294967295 cpu_id=1", Tracepoint::CpuIdle { state: u32::MAX, cpu_id: 1 }),
            ("cpu_frequency", "state=1800000 cpu_id=1", Tracepoint::CpuFrequency { khz: 1_800_000, cpu_id: 1 }),
            (
                "cpuhp_enter",
                "cpu: 0003 target:   0 step: 168 (sched_cpu_deactivate)",
                Tracepoint::CpuhpEnter { cpu_id: 3, target: 0, step: 168, function: b"sched_cpu_deactivate" },
            ),
            (
                "cpuhp_enter",
                "cpu: 0003 target: 169 step: 168 (0xffffffff810b6f80)",
                Tracepoint::CpuhpEnter { cpu_id: 3, target: 169, step: 168, function: b"" },
            ),
            (
                "cpuhp_enter",
                "cpu=3 target=0 idx=168 fun=0xffffffff810b6f80",
                Tracepoint::CpuhpEnter { cpu_id: 3, target: 0, step: 168, function: b"" },
            ),
            ("print", "tracing_mark_write: B|1|x", Tracepoint::Print { text: b"B|1|x" }),
            ("print", "0xffff00000819ff24s: B|1|x", Tracepoint::Print { text: b"B|1|x" }),
            ("print", "ip=0xffffffff811c2e1d buf=B|1|x", Tracepoint::Print { text: b"B|1|x" }),
            ("tracing_mark_write", "B|1|x", Tracepoint::Print { text: b"B|1|x" }),
            ("0", "B|1|x", Tracepoint::Print { text: b"B|1|x" }),
            ("softirq_raise", "vec=1", Tracepoint::Other { fields: b"vec=1" }),
        ] {
            assert_eq!(read(name, text), expected, "{name}: {text}");
        }
    }

    /// No cut makes another event or a panic.
    #[test]
    fn fields_cut_short_are_malformed() {
        let text = "prev_comm=a prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=b next_pid=3 next_prio=";
        for end in 0..text.len() {
            assert!(matches!(read("sched_switch", &text[..end]), Tracepoint::Malformed { .. }), "{}", &text[..end]);
        }
        for (name, text) in [
            ("sched_wakeup", "comm=a pid=99999999999 prio=1"),
            ("sched_wakeup", "comm=a pid=1 prio=120 target_cpu=x"),
            ("sched_migrate_task", "comm=a pid=1 prio=120 orig_cpu=0"),
            ("cpu_idle", "state=x"),
            ("cpuhp_enter", "cpu: 0003 target:   0 step: 168 (sched_cpu"),
            ("cgroup_attach_task", "dst_root=0 dst_id=7 dst_level=2 dst_path=/a pid=1"),
            ("sched_stat_runtime", "comm=a pid=1 runtime=-5"),
        ] {
            assert!(matches!(read(name, text), Tracepoint::Malformed { .. }), "{text}");
        }
    }
}
