//! State of the deadline class that all CPUs share.

use super::bandwidth::{GlobalLimit, RootDomain};
use super::cpudeadline::CpuDeadline;
use super::grub::Grub;
use super::params::{DlTunables, PeriodLimits, ServerLimits};
use super::queue::DlRq;
use super::server::ServerRules;
use crate::balance::roots::{Root, Roots};
use crate::class::pushable::Offers;
use crate::config::Config;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::shared::locations::Table;
use crate::sync::AtomicBool;
use crate::topology::{CpuPlace, Topology};
use crate::tunables::Tunables;

/// Returns the capacity for which a CPU counts at admission. Up to 5.8, all CPUs count alike.
fn counted(capacity: u32, by_capacity: bool) -> u32 {
    if by_capacity { capacity } else { 1024 }
}

/// State of the class that all CPUs share.
#[derive(Debug)]
pub(crate) struct DlShared {
    /// First root domain, the only one without partitions.
    domain: RootDomain,
    /// The default root domain (0), and those after the first, from 1 on.
    others: Table<RootDomain>,
    limit: GlobalLimit,
    pub(crate) cpudl: CpuDeadline,
    pub(crate) offers: Offers,
    pub(crate) grub: Grub,
    pub(crate) periods: PeriodLimits,
    pub(crate) server: Option<ServerLimits>,
    pub(crate) server_rules: ServerRules,
    /// Whether CPUs count by their capacity, or all alike.
    by_capacity: bool,
    /// Whether a real-time or deadline task has existed, so that fair servers are in place.
    pub(crate) servers_started: AtomicBool,
}

impl DlShared {
    pub(crate) fn new<T: Tunables>(topology: &Topology, config: &Config<T>, roots: &Roots) -> Self {
        let tunables = &config.tunables;
        let cpus = topology.nr_cpus();
        let (runtime, period) = (tunables.rt_runtime_ns(), tunables.rt_period_ns());
        let limit = GlobalLimit {
            runtime_us: (runtime <= period).then_some(runtime / 1000),
            period_us: (period / 1000).max(1),
        };
        let DlTunables { periods, server } = tunables.deadline();
        let server = (config.has(Behaviour::FairServer) && server.runtime > 0).then_some(server);
        let by_capacity = config.has(Behaviour::DeadlineByCapacity);
        let capacities = || {
            let capacity = |place: &CpuPlace| counted(place.capacity, by_capacity);
            roots.iter().zip(topology.cpus()).map(move |((_, root), place)| (root, capacity(place)))
        };
        let first = capacities().filter(|(root, _)| *root == Root::default()).map(|(_, capacity)| capacity);
        let domain = RootDomain::new(first, limit);
        if let Some(server) = server {
            (0..domain.cpus()).for_each(|_| domain.reserve(server.bandwidth()));
        }
        let this = Self {
            domain,
            others: Table::new(),
            limit,
            cpudl: CpuDeadline::new(cpus),
            offers: Offers::new(cpus, config.has(Behaviour::OverloadWaiting)),
            grub: if config.has(Behaviour::GrubBounded) { Grub::Bounded } else { Grub::Unbounded },
            periods,
            server,
            server_rules: ServerRules {
                forgets: config.has(Behaviour::ServerForgets),
                waits: config.has(Behaviour::ServerWaits),
                stays: config.has(Behaviour::ServerStays),
                lingers: config.has(Behaviour::ServerLingers),
            },
            by_capacity,
            servers_started: AtomicBool::new(false),
        };
        for (root, capacity) in capacities().filter(|(root, _)| *root != Root::default()) {
            this.set_root(capacity, Root::Offline, root);
        }
        this
    }

    #[inline]
    pub(crate) fn domain(&self, root: Root) -> &RootDomain {
        if root == Root::Domain(0) { &self.domain } else { self.other(root) }
    }

    #[cold]
    fn other(&self, root: Root) -> &RootDomain {
        let fresh = || RootDomain::new(core::iter::empty(), self.limit);
        match root {
            Root::Domain(number) => self.others.entry(number, fresh),
            Root::Isolated | Root::Offline => self.others.entry(0, fresh),
        }
    }

    pub(crate) fn server_bandwidth(&self) -> u64 {
        self.server.map_or(0, ServerLimits::bandwidth)
    }

    /// As [`RootDomain::may_lose`].
    pub(crate) fn may_lose(&self, root: Root, capacity: u32) -> Result<(), (u64, u64)> {
        self.domain(root).may_lose(counted(capacity, self.by_capacity), self.server_bandwidth())
    }

    pub(crate) fn set_root(&self, capacity: u32, from: Root, to: Root) {
        if from == to {
            return;
        }
        let capacity = counted(capacity, self.by_capacity);
        if from != Root::Offline {
            self.domain(from).set_online(capacity, self.server_bandwidth(), false);
        }
        if to != Root::Offline {
            self.domain(to).set_online(capacity, self.server_bandwidth(), true);
        }
    }

    /// Moves a reservation between root domains.
    pub(super) fn move_bw(&self, from: Root, to: Root, bw: u64) {
        if from != to && bw > 0 {
            self.domain(to).reserve(bw);
            self.domain(from).release(bw);
        }
    }

    #[inline(never)]
    pub(crate) fn publish(&self, cpu: CpuId, dl: &DlRq) {
        self.cpudl.set(cpu, dl.earliest());
        self.offers.publish(cpu, self.offered(dl));
    }

    /// Whether a CPU had a deadline task queued when it published last.
    pub(crate) fn has_deadline(&self, cpu: CpuId) -> bool {
        self.cpudl.earliest(cpu).is_some()
    }

    /// Urgency of the most urgent task that a CPU offers.
    pub(crate) fn offered(&self, dl: &DlRq) -> u64 {
        self.offers.offered(&dl.pushable, dl.nr_running())
    }

    /// Whether the published state of a CPU is current.
    pub(super) fn shows(&self, cpu: CpuId, dl: &DlRq) -> bool {
        self.cpudl.earliest(cpu) == dl.earliest() && self.offers.shows(cpu, self.offered(dl))
    }
}
