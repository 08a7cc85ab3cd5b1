//! Requests from outside, as over a network. A device interrupts a CPU. The handler adds an event to a wait queue, in
//! which requests wait if tasks do not keep up, and wakes a waiter.
//!
//! The device puts each request into a random CPU's queue. The handler takes as long as a timer's. Each wakeup is
//! extra.

use std::collections::BTreeMap;

use vruntime_sched::Policy;
use vruntime_sched::event::OverheadKind;
use vruntime_trace::Sink;
use vruntime_workload::program::{Arrivals, Requests, Workload};

use crate::cpu::NEVER;
use crate::machine::Machine;
use crate::rng::Rng;

/// Requests for a CPU stopped by the host arrive again after this time, nanoseconds.
const AGAIN_NS: u64 = 100_000;

#[derive(Debug)]
pub(crate) struct Devices {
    streams: Vec<Stream>,
    /// Requests on their way, by time and number.
    coming: BTreeMap<(u64, u64), Request>,
    sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    stream: usize,
    due: u64,
    cpu: usize,
    /// Whether the interrupt was delayed. Then the stream's next request is already on its way.
    late: bool,
}

#[derive(Debug)]
struct Stream {
    requests: Requests,
    sent: u64,
    /// The last request's time, picoseconds after the start.
    last_ps: u128,
    rng: Rng,
}

impl Stream {
    fn next(&mut self) -> Option<u64> {
        if self.requests.count.is_some_and(|count| self.sent >= count) {
            return None;
        }
        let after = match &self.requests.arrivals {
            // The first arrives at the start.
            Arrivals::Constant { period_ps } => u128::from(*period_ps) * u128::from(self.sent) / 1000,
            Arrivals::Poisson { period_ps } => {
                self.last_ps += u128::from(self.rng.exponential(*period_ps));
                self.last_ps / 1000
            }
            Arrivals::At(times) => u128::from(*times.get(usize::try_from(self.sent).ok()?)?),
        };
        self.sent += 1;
        Some(self.requests.start.saturating_add(u64::try_from(after).unwrap_or(NEVER)))
    }
}

impl Devices {
    pub(crate) fn new(workload: &Workload, seed: u64, cpus: usize) -> Option<Box<Self>> {
        if workload.requests.is_empty() {
            return None;
        }
        let stream = |(index, requests): (u64, &Requests)| {
            let rng = Rng::new(seed ^ 0xa54f_f53a_5f1d_36f1 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            Stream { requests: requests.clone(), sent: 0, last_ps: 0, rng }
        };
        let streams = (0..).zip(&workload.requests).map(stream).collect();
        let mut this = Self { streams, coming: BTreeMap::new(), sequence: 0 };
        (0..this.streams.len()).for_each(|stream| this.send(stream, cpus, 0));
        Some(Box::new(this))
    }

    /// `late`: the interrupt's delay, nanoseconds.
    fn send(&mut self, stream: usize, cpus: usize, late: u64) {
        let this = &mut self.streams[stream];
        let Some(due) = this.next() else { return };
        let cpu = this.rng.below(cpus as u64) as usize;
        self.put(due.saturating_add(late), Request { stream, due, cpu, late: false });
    }

    fn put(&mut self, at: u64, request: Request) {
        self.coming.insert((at, self.sequence), request);
        self.sequence += 1;
    }

    /// Returns each stream's queue, and its requests that have arrived by `now`.
    pub(crate) fn arrived(&self, now: u64) -> impl Iterator<Item = (usize, u64)> {
        let coming = move |stream| self.coming.values().filter(|it| it.stream == stream && it.due > now).count() as u64;
        self.streams.iter().enumerate().map(move |(index, this)| (this.requests.queue, this.sent - coming(index)))
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn arm_requests(&mut self) {
        let Some(devices) = &self.devices else { return };
        let source = self.core.requests_source();
        match devices.coming.keys().next() {
            Some(&(at, _)) => self.core.queue.arm(source, at.max(self.core.now)),
            None => self.core.queue.cancel(source),
        }
    }

    #[inline(never)]
    pub(crate) fn on_request(&mut self) {
        let (now, cpus, late) = (self.core.now, self.core.cpus.len(), self.interrupt_latency());
        let next = self.devices.as_mut().and_then(|devices| {
            let (_, request) = devices.coming.pop_first()?;
            if !request.late {
                devices.send(request.stream, cpus, late);
            }
            Some(request)
        });
        let Some(request) = next else { return };
        let cpu = self.working(request.cpu);
        if let Some(at) = self.interrupted(cpu, true) {
            let at = if at == NEVER { now.saturating_add(AGAIN_NS) } else { at };
            if let Some(devices) = &mut self.devices {
                devices.put(at.max(now + 1), Request { cpu, late: true, ..request });
            }
            self.arm_requests();
            return;
        }
        self.core.charge(cpu, OverheadKind::Timer, self.core.costs.timer_ns);
        let queue = self.workload.requests[request.stream].queue;
        self.request_event(cpu, queue as u32, request.due);
        self.take_due(cpu, true);
        self.arm_requests();
        self.leave_interrupt(cpu);
    }
}
