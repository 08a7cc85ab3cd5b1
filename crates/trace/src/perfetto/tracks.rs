//! Tracks of the machine: counters, throttled groups and other states.

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

/// Track ids: kind in the upper half, number in the lower.
pub(super) const THREAD_TRACKS: u64 = 1 << 32;
const QUEUE_TRACKS: u64 = 2 << 32;
const GROUP_TRACKS: u64 = 3 << 32;
/// Headings of the counters.
const QUEUE_HEADING: u64 = 4 << 32;
const GROUP_HEADING: u64 = 5 << 32;

const THROTTLE_TRACKS: u64 = 6 << 32;
const THROTTLE_HEADING: u64 = 7 << 32;
const OFFLINE_TRACKS: u64 = 8 << 32;
const OFFLINE_HEADING: u64 = 9 << 32;
const OVERUTILIZED_TRACKS: u64 = 13 << 32;
const OVERUTILIZED_HEADING: u64 = 14 << 32;
/// The most tracks of one kind of state.
const MAX_STATE_TRACKS: usize = 4096;

/// The track of changes of groups.
const CHANGES: u64 = 10 << 32;
const RT_THROTTLE_TRACKS: u64 = 11 << 32;
const RT_THROTTLE_HEADING: u64 = 12 << 32;

/// Marks a group's new weight or limit. `described`: whether the track is.
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

/// A state as slices: a track for each subject that ever has it, under one heading.
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

pub(super) fn throttles() -> States<(GroupId, CpuId)> {
    States::new(THROTTLE_TRACKS, THROTTLE_HEADING, "Throttled groups (cpu.max)", "throttled")
}

/// Real-time throttling of a group, or of a whole CPU (the root).
pub(super) fn rt_throttles() -> States<(GroupId, CpuId)> {
    States::new(RT_THROTTLE_TRACKS, RT_THROTTLE_HEADING, "Real-time throttling", "throttled")
}

pub(super) fn overutilized() -> States<CpuId> {
    States::new(OVERUTILIZED_TRACKS, OVERUTILIZED_HEADING, "Energy-aware scheduling", "overutilized")
}

pub(super) fn offline() -> States<CpuId> {
    States::new(OFFLINE_TRACKS, OFFLINE_HEADING, "CPU hotplug", "offline")
}

impl<K: Ord> States<K> {
    fn new(first: u64, heading: u64, title: &'static str, state: &'static str) -> Self {
        Self { tracks: BTreeMap::new(), first, heading, title, state }
    }

    /// Begins or ends the state of `key`, whose track is called `name`.
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

    pub(super) fn finish<W: Write>(&mut self, out: &mut Output<W>, at: u64) {
        for track in self.tracks.values_mut().filter(|track| track.open) {
            track.open = false;
            slice(out, track.uuid, at, None);
        }
    }
}

/// Begins a slice of that name, or ends one.
fn slice<W: Write>(out: &mut Output<W>, track: u64, at: u64, begins: Option<&'static str>) {
    let event = TrackEvent {
        r#type: Some(if begins.is_some() { TYPE_SLICE_BEGIN } else { TYPE_SLICE_END }),
        track_uuid: Some(track),
        name: begins.map(|name| Bytes::from_static(name.as_bytes())),
        ..TrackEvent::default()
    };
    write_packet(out, at, None, Data::TrackEvent(event));
}

fn heading<W: Write>(out: &mut Output<W>, uuid: u64, name: &str, order: i32) {
    let track = TrackDescriptor {
        uuid: Some(uuid),
        name: Some(name.to_owned()),
        child_ordering: Some(order),
        ..TrackDescriptor::default()
    };
    write_packet(out, 0, None, Data::TrackDescriptor(track));
}

/// Sets the length of `cpu`'s run queue (`nr_running`). Describes a new track, and the heading.
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

/// Sets the average CPU use of `group`, in CPUs, of the window that begins at `at`. `described` is by group, and
/// empty before the heading is described.
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
