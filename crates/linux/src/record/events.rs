//! The recorded events.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use vruntime_trace::recording::Formats;

use super::tracefs::Instance;

/// An event, and whether a recording requires it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// `SYSTEM/NAME`.
    pub(super) name: &'static str,
    needed: bool,
}

const fn needed(name: &'static str) -> Event {
    Event { name, needed: true }
}

const fn wanted(name: &'static str) -> Event {
    Event { name, needed: false }
}

/// Everything a replay uses. Flags have the context of a wakeup: task, softirq, interrupt.
const EVENTS: [Event; 21] = [
    needed("sched/sched_switch"),
    needed("sched/sched_waking"),
    needed("sched/sched_wakeup"),
    needed("sched/sched_wakeup_new"),
    needed("sched/sched_migrate_task"),
    needed("sched/sched_process_fork"),
    needed("sched/sched_process_exit"),
    wanted("sched/sched_process_exec"),
    wanted("sched/sched_process_free"),
    // Charges: they show ticks, and enqueues of throttled tasks.
    wanted("sched/sched_stat_runtime"),
    wanted("sched/sched_pi_setprio"),
    // Distinguishes threads from processes.
    wanted("task/task_newtask"),
    wanted("task/task_rename"),
    wanted("cgroup/cgroup_attach_task"),
    wanted("power/cpu_frequency"),
    wanted("cpuhp/cpuhp_enter"),
    wanted("cpuhp/cpuhp_exit"),
    // A following switch in state R is no preemption.
    wanted("syscalls/sys_enter_sched_yield"),
    // Data that a thread finds while awake causes no other event.
    wanted("sock/sock_send_length"),
    wanted("sock/sock_recv_length"),
    // Which sockets are connected.
    wanted("sock/inet_sock_set_state"),
];

/// Returns the events that this kernel has. `tracefs` has a folder `events`.
pub(super) fn there(tracefs: &Path) -> Vec<Event> {
    EVENTS.into_iter().filter(|event| tracefs.join("events").join(event.name).exists()).collect()
}

/// Notes which events of a replay are missing.
pub(super) fn note_missing(there: &[Event], notes: &mut Vec<String>) {
    for event in EVENTS.iter().filter(|event| event.needed && !there.contains(event)) {
        notes.push(format!("this kernel has no event {}, which a replay uses", event.name));
    }
}

pub(super) fn enable(instance: &Instance, events: &[Event], on: bool) -> io::Result<()> {
    let value = if on { "1" } else { "0" };
    for event in events {
        match instance.write(&format!("events/{}/enable", event.name), value) {
            Err(error) if event.needed => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the formats of events, by system.
pub(super) fn systems(tracefs: &Path, events: &[Event]) -> io::Result<Vec<(String, Vec<Vec<u8>>)>> {
    let mut systems: Vec<(String, Vec<Vec<u8>>)> = Vec::new();
    for event in events {
        let format = whole(&tracefs.join("events").join(event.name).join("format"))?;
        let system = event.name.split('/').next().unwrap_or_default();
        match systems.iter_mut().find(|(name, _)| name == system) {
            Some((_, formats)) => formats.push(format),
            None => systems.push((system.to_owned(), vec![format])),
        }
    }
    Ok(systems)
}

/// Returns the formats of pages and events.
pub(super) fn formats(instance: &Instance, events: &[Event]) -> io::Result<Formats> {
    let read = |file: &str| whole(&instance.path.join("events").join(file));
    let systems = systems(&instance.path, events)?;
    let mut own: Vec<String> = fs::read_dir(instance.path.join("events/ftrace"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().join("format").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    own.sort_unstable();
    let ftrace = own.iter().map(|name| read(&format!("ftrace/{name}/format"))).collect::<io::Result<_>>()?;
    Ok(Formats { header_page: read("header_page")?, header_event: read("header_event")?, ftrace, systems })
}

/// Reads a file of tracefs. The kernel gives `header_page` and `header_event` to the first read only, so the buffer
/// must be large enough.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let (mut text, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(text),
            read => text.extend_from_slice(&piece[..read]),
        }
    }
}
