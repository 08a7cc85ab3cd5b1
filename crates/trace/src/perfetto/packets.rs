//! Packets, and the bundles of each CPU.

use std::collections::BTreeSet;
use std::io::Write;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use vruntime_sched::ids::CpuId;

use super::proto::{Data, FtraceEvent, TracePacket};
use crate::output::Output;

/// The sequences of packets; each keeps its order.
const SEQUENCE_TRACKS: u32 = 1;
const SEQUENCE_FTRACE: u32 = 2;

/// A CPU's bundle of this size (about 200 events) is written.
const BUNDLE_BYTES: usize = 16 * 1024;
/// All bundles are written if together they have this size.
const PENDING_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn write_packet<W: Write>(out: &mut Output<W>, timestamp: u64, flags: Option<u32>, data: Data) {
    let packet = TracePacket {
        timestamp: Some(timestamp),
        trusted_packet_sequence_id: Some(SEQUENCE_TRACKS),
        sequence_flags: flags,
        data: Some(data),
    };
    // A file is a message with a repeated field 1: each packet is the key, a length and the content.
    out.write(|buffer| prost::encoding::message::encode(1, &packet, buffer));
}

/// The encoded events of each CPU that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    cpus: Vec<Vec<u8>>,
    pending: usize,
    /// CPUs with missing events before the pending ones.
    lost: BTreeSet<usize>,
}

impl Bundles {
    #[inline]
    pub(super) fn push<W: Write>(&mut self, out: &mut Output<W>, cpu: CpuId, event: &FtraceEvent) {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize_with(cpu.index() + 1, Vec::new);
        }
        let bundle = &mut self.cpus[cpu.index()];
        let before = bundle.len();
        let len = event.encoded_len();
        encode_key(2, WireType::LengthDelimited, bundle);
        encode_varint(len as u64, bundle);
        event.encode_raw(bundle);
        self.pending += bundle.len() - before;
        if bundle.len() >= BUNDLE_BYTES {
            self.flush_cpu(out, cpu.index());
        } else if self.pending >= PENDING_BYTES {
            self.flush(out);
        }
    }

    /// Marks a loss before the next events of `cpu`.
    pub(super) fn lose<W: Write>(&mut self, out: &mut Output<W>, cpu: CpuId) {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize_with(cpu.index() + 1, Vec::new);
        }
        self.flush_cpu(out, cpu.index());
        self.lost.insert(cpu.index());
    }

    pub(super) fn flush<W: Write>(&mut self, out: &mut Output<W>) {
        for cpu in 0..self.cpus.len() {
            self.flush_cpu(out, cpu);
        }
        debug_assert_eq!(self.pending, 0);
    }

    fn flush_cpu<W: Write>(&mut self, out: &mut Output<W>, cpu: usize) {
        let events = &mut self.cpus[cpu];
        let lost = !self.lost.is_empty() && self.lost.remove(&cpu);
        if events.is_empty() && !lost {
            return;
        }
        // Encoded directly: decoding the events only to let prost nest them would double the work.
        let bundle_len = key_len(1) + encoded_len_varint(cpu as u64) + events.len() + if lost { 2 } else { 0 };
        let packet_len = key_len(10)
            + encoded_len_varint(SEQUENCE_FTRACE.into())
            + key_len(1)
            + encoded_len_varint(bundle_len as u64)
            + bundle_len;
        out.write(|buffer| {
            encode_key(1, WireType::LengthDelimited, buffer); // Trace.packet
            encode_varint(packet_len as u64, buffer);
            encode_key(10, WireType::Varint, buffer); // TracePacket.trusted_packet_sequence_id
            encode_varint(SEQUENCE_FTRACE.into(), buffer);
            encode_key(1, WireType::LengthDelimited, buffer); // TracePacket.ftrace_events
            encode_varint(bundle_len as u64, buffer);
            encode_key(1, WireType::Varint, buffer); // FtraceEventBundle.cpu
            encode_varint(cpu as u64, buffer);
            buffer.extend_from_slice(events); // FtraceEventBundle.event, each with its key
            if lost {
                encode_key(3, WireType::Varint, buffer); // FtraceEventBundle.lost_events
                encode_varint(1, buffer);
            }
        });
        self.pending -= events.len();
        events.clear();
    }

    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.pending
    }
}
