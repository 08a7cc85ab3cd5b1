//! The tracks that are nobody's own: counters, and throttled groups. What they are called, and where they stand.

use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use vruntime_sched::ids::{CpuId, GroupId};

use super::Cpu;
use super::packets::write_packet;
use super::proto::{
    CounterDescriptor, Data, ORDER_EXPLICIT, ORDER_LEXICOGRAPHIC, TYPE_COUNTER, TYPE_INSTANT, TYPE_SLICE_BEGIN,
    TYPE_SLICE_END, TrackDescriptor, TrackEvent,
};
use crate::names::Names;
use crate::output::Output;

/// The most groups with a track for CPU use. More could not be read or drawn in time.
const MAX_GROUP_TRACKS: u32 = 256;

/// Track ids: what sort of track in the upper half, which one in the lower.
pub(super) const THREAD_TRACKS: u64 = 1 << 32;
const QUEUE_TRACKS: u64 = 2 << 32;
const GROUP_TRACKS: u64 = 3 << 32;
/// The headings the counters are under.
const QUEUE_HEADING: u64 = 4 << 32;
const GROUP_HEADING: u64 = 5 << 32;

const THROTTLE_TRACKS: u64 = 6 << 32;
const THROTTLE_HEADING: u64 = 7 << 32;
const OFFLINE_TRACKS: u64 = 8 << 32;
const OFFLINE_HEADING: u64 = 9 << 32;
const OVERUTILIZED_TRACKS: u64 = 13 << 32;
const OVERUTILIZED_HEADING: u64 = 14 << 32;
/// The most tracks of one kind of state, such as one for each group and CPU.
const MAX_STATE_TRACKS: usize = 4096;

/// Where changes of groups are marked.
const CHANGES: u64 = 10 << 32;
const RT_THROTTLE_TRACKS: u64 = 11 << 32;
const RT_THROTTLE_HEADING: u64 = 12 << 32;

/// Marks that a group's weight or limit is what `text` says from `at` on. `described`: the track has been.
pub(super) fn group_change<W: Write>(out: &mut Output<W>, described: &mut bool, at: u64, text: String) {
    if !std::mem::replace(described, true) {
        let name = Some("Changes of groups".to_owned());
        let track = TrackDescriptor { uuid: Some(CHANGES), name, ..TrackDescriptor::default() };
        write_packet(out, 0, None, Data::TrackDescriptor(track));
    }
    let event = TrackEvent {
        r#type: Some(TYPE_INSTANT),
        track_uuid: Some(CHANGES),
        name: Some(Bytes::from(text)),
        ..TrackEvent::default()
    };
    write_packet(out, at, None, Data::TrackEvent(event));
}

/// A state that something is in for a while, as slices: a track for each that ever is, under one heading.
#[derive(Debug)]
pub(super) struct States<K> {
    tracks: BTreeMap<K, Track>,
    first: u64,
    heading: u64,
    title: &'static str,
    state: &'static str,
}

#[derive(Clone, Copy, Debug)]
struct Track {
    uuid: u64,
    open: bool,
}

/// Where groups with a CPU limit are throttled.
pub(super) fn throttles() -> States<(GroupId, CpuId)> {
    States::new(THROTTLE_TRACKS, THROTTLE_HEADING, "Throttled groups (cpu.max)", "throttled")
}

/// Where real-time tasks are throttled: those of a group, or (the root) all of a CPU.
pub(super) fn rt_throttles() -> States<(GroupId, CpuId)> {
    States::new(RT_THROTTLE_TRACKS, RT_THROTTLE_HEADING, "Real-time throttling", "throttled")
}

/// The tracks of the time in which energy is ignored.
pub(super) fn overutilized() -> States<CpuId> {
    States::new(OVERUTILIZED_TRACKS, OVERUTILIZED_HEADING, "Energy-aware scheduling", "overutilized")
}

/// Which CPUs are offline.
pub(super) fn offline() -> States<CpuId> {
    States::new(OFFLINE_TRACKS, OFFLINE_HEADING, "CPU hotplug", "offline")
}

impl<K: Ord> States<K> {
    fn new(first: u64, heading: u64, title: &'static str, state: &'static str) -> Self {
        Self { tracks: BTreeMap::new(), first, heading, title, state }
    }

    /// `key`, whose track is called `name`, is in the state from `at` on, or (`begins` is false) no longer.
    pub(super) fn event<W: Write>(
        &mut self,
        out: &mut Output<W>,
        at: u64,
        key: K,
        begins: bool,
        name: impl FnOnce() -> String,
    ) {
        let count = self.tracks.len();
        let track = match self.tracks.get_mut(&key) {
            Some(track) => track,
            None if !begins || count >= MAX_STATE_TRACKS => return,
            None => {
                if count == 0 {
                    heading(out, self.heading, self.title, ORDER_LEXICOGRAPHIC);
                }
                let uuid = self.first + count as u64;
                let descriptor = TrackDescriptor {
                    uuid: Some(uuid),
                    parent_uuid: Some(self.heading),
                    name: Some(name()),
                    ..TrackDescriptor::default()
                };
                write_packet(out, 0, None, Data::TrackDescriptor(descriptor));
                self.tracks.entry(key).or_insert(Track { uuid, open: false })
            }
        };
        if std::mem::replace(&mut track.open, begins) != begins {
            slice(out, track.uuid, at, begins.then_some(self.state));
        }
    }

    /// Ends what is still going on.
    pub(super) fn finish<W: Write>(&mut self, out: &mut Output<W>, at: u64) {
        for track in self.tracks.values_mut().filter(|track| track.open) {
            track.open = false;
            slice(out, track.uuid, at, None);
        }
    }
}

/// A slice of that name begins, or (without one) ends.
fn slice<W: Write>(out: &mut Output<W>, track: u64, at: u64, begins: Option<&'static str>) {
    let event = TrackEvent {
        r#type: Some(if begins.is_some() { TYPE_SLICE_BEGIN } else { TYPE_SLICE_END }),
        track_uuid: Some(track),
        name: begins.map(|name| Bytes::from_static(name.as_bytes())),
        ..TrackEvent::default()
    };
    write_packet(out, at, None, Data::TrackEvent(event));
}

/// Describes a track that only holds others.
fn heading<W: Write>(out: &mut Output<W>, uuid: u64, name: &str, order: i32) {
    let track = TrackDescriptor {
        uuid: Some(uuid),
        name: Some(name.to_owned()),
        child_ordering: Some(order),
        ..TrackDescriptor::default()
    };
    write_packet(out, 0, None, Data::TrackDescriptor(track));
}

/// `nr_running` of `cpu` is `length` from `at` on. Describes the track, and the heading above it, when they are new.
pub(super) fn queue_length<W: Write>(
    out: &mut Output<W>,
    cpus: &mut [Cpu],
    headed: &mut bool,
    cpu: CpuId,
    at: u64,
    length: u32,
) {
    if !std::mem::replace(headed, true) {
        heading(out, QUEUE_HEADING, "Run queues (nr_running)", ORDER_EXPLICIT);
    }
    let uuid = QUEUE_TRACKS + u64::from(cpu.0);
    if !std::mem::replace(&mut cpus[cpu.index()].has_queue_track, true) {
        let track = TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: Some(QUEUE_HEADING),
            name: Some(format!("nr_running CPU {cpu}")),
            counter: Some(CounterDescriptor { unit_name: Some("tasks".to_owned()) }),
            sibling_order_rank: Some(cpu.0 as i32),
            ..TrackDescriptor::default()
        };
        write_packet(out, 0, None, Data::TrackDescriptor(track));
    }
    let event = TrackEvent {
        r#type: Some(TYPE_COUNTER),
        track_uuid: Some(uuid),
        counter_value: Some(length.into()),
        ..TrackEvent::default()
    };
    write_packet(out, at, None, Data::TrackEvent(event));
}

/// `group` used `value` CPUs on average in the window that begins at `at`. `described` says of which groups the track
/// is described; it is empty before the heading is.
pub(super) fn group_use<W: Write>(
    out: &mut Output<W>,
    names: &Names,
    described: &mut Vec<bool>,
    group: GroupId,
    at: u64,
    value: f64,
) {
    if group.0 >= MAX_GROUP_TRACKS {
        return;
    }
    if described.is_empty() {
        heading(out, GROUP_HEADING, "CPU use of groups (CPUs)", ORDER_LEXICOGRAPHIC);
    }
    if described.len() <= group.index() {
        described.resize(group.index() + 1, false);
    }
    let uuid = GROUP_TRACKS + u64::from(group.0);
    if !std::mem::replace(&mut described[group.index()], true) {
        let track = TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: Some(GROUP_HEADING),
            name: Some(names.path(group).to_owned()),
            counter: Some(CounterDescriptor { unit_name: Some("CPUs".to_owned()) }),
            ..TrackDescriptor::default()
        };
        write_packet(out, 0, None, Data::TrackDescriptor(track));
    }
    let event = TrackEvent {
        r#type: Some(TYPE_COUNTER),
        track_uuid: Some(uuid),
        double_counter_value: Some(value),
        ..TrackEvent::default()
    };
    write_packet(out, at, None, Data::TrackEvent(event));
}
