//! Packets on their way into the file, and the bundles of each CPU on their way into packets.

use std::collections::BTreeSet;
use std::io::Write;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use vruntime_sched::ids::CpuId;

use super::proto::{Data, FtraceEvent, TracePacket};
use crate::output::Output;

/// The two sequences of packets: within each, order is kept.
const SEQUENCE_TRACKS: u32 = 1;
const SEQUENCE_FTRACE: u32 = 2;

/// A CPU's bundle is written when it has this many bytes (about 200 events) ...
const BUNDLE_BYTES: usize = 16 * 1024;
/// ... and all of them are when together they have this many, however many CPUs there are.
const PENDING_BYTES: usize = 16 * 1024 * 1024;

/// Writes one packet that is not a bundle.
pub(super) fn write_packet<W: Write>(out: &mut Output<W>, timestamp: u64, flags: Option<u32>, data: Data) {
    let packet = TracePacket {
        timestamp: Some(timestamp),
        trusted_packet_sequence_id: Some(SEQUENCE_TRACKS),
        sequence_flags: flags,
        data: Some(data),
    };
    // A file is one message with a repeated field 1: each packet is that field's key, a length and the packet.
    out.write(|buffer| prost::encoding::message::encode(1, &packet, buffer));
}

/// For each CPU the events not yet written, already encoded.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    cpus: Vec<Vec<u8>>,
    pending: usize,
    /// The CPUs with missing events before the pending ones.
    lost: BTreeSet<usize>,
}

impl Bundles {
    /// Adds `event` to the bundle of `cpu`.
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

    /// From here on the events of `cpu` are behind a loss.
    pub(super) fn lose<W: Write>(&mut self, out: &mut Output<W>, cpu: CpuId) {
        if cpu.index() >= self.cpus.len() {
            self.cpus.resize_with(cpu.index() + 1, Vec::new);
        }
        self.flush_cpu(out, cpu.index());
        self.lost.insert(cpu.index());
    }

    /// Writes what every CPU has.
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
        // Written by hand, from the inside out: decoding the events again only to let prost nest them would double
        // the work.
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

    /// Returns the pending bytes.
    #[cfg(test)]
    pub(super) fn pending(&self) -> usize {
        self.pending
    }
}
