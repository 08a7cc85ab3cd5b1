//! What all programs of a recording have in common, however closely threads stay together and whichever pools count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use vruntime_sim::plan::Ticks;
use vruntime_workload::program::Hotplug;

use super::causes::{Cause, Causes};
use super::endless::{drivers, endless};
use super::exchanges::Exchanges;
use super::exits::{self, Exits};
use super::habits::{Rhythm, missed_beats, rhythms};
use super::locks::Locks;
use super::messages::{self, Messages};
use super::placing::Marked;
use super::pools::{Candidates, Pools};
use super::programs::{POLL_NS, build};
use super::roles::{Place, Roles};
use super::roster::{add_processes, kept};
use super::sessions::is_kernel_thread;
use super::threads::{self, Act, Activity, End, Use};
use super::{Connection, Counts, Coupling, How, Lateness, Reads, Recorded};
use super::{barriers, causes, clocks, handoffs, pauses, possible, sync};

/// A recording before the choices of [`Prepared::programs`].
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(super) threads: Vec<threads::Thread>,
    pub(super) marked: Vec<Marked>,
    pub(super) hotplug: Vec<Hotplug>,
    /// Counts that do not depend on the choices.
    pub(super) counts: Counts,
    /// The trace has wakeups.
    pub(super) wakeups: bool,
    /// Threads that the replay has.
    pub(super) kept: Vec<bool>,
    /// The stretch from which a thread computes without end.
    pub(super) endless: Vec<Option<usize>>,
    pub(super) rhythms: Vec<Rhythm>,
    /// How long each clock-bounded thread computes.
    pub(super) paces: Vec<Option<u64>>,
    /// As [`causes::by_packets`].
    pub(super) by_packets: BTreeSet<(usize, usize)>,
    /// As [`pauses::pauses`].
    pub(super) pauses: Vec<Vec<usize>>,
    /// As [`causes::asked`].
    pub(super) asked: BTreeSet<(usize, usize)>,
    /// What ended the sleep before each stretch of each thread.
    causes: Vec<Vec<Cause>>,
    /// All possible pools.
    pub(super) pools: Pools,
    pub(super) locks: Locks,
    pub(super) exits: Exits,
    pub(super) messages: Messages,
    /// Workers of [exchanges](super::exchanges).
    pub(super) workers: BTreeSet<usize>,
    pub(super) duration_ns: u64,
    pub(super) uses: Vec<Use>,
    pub(super) ticks: Option<Ticks>,
    pub(super) lateness: Lateness,
    pub(super) how: How,
    /// The threads' roles, by pools and whether closed loops continue.
    roles: Arc<Mutex<BTreeMap<(u32, bool), Place>>>,
}

impl Prepared {
    pub(super) fn new(
        activity: Activity,
        duration_ns: u64,
        uses: Vec<Use>,
        ticks: Option<Ticks>,
        lateness: &Lateness,
        how: How,
    ) -> Self {
        let Activity { mut threads, groups: marked, hotplug, mut counts, wakeups, transfers, sockets, .. } = activity;
        add_processes(&mut threads, &how.processes);
        let kept = kept(&threads, &how);
        let yielded = |at, ran| causes::yielded(ticks, at, ran);
        let drivers = drivers(&threads, &|thread| kept[thread] && !is_kernel_thread(&threads[thread].comm));
        let endless: Vec<Option<usize>> = threads
            .iter()
            .zip(drivers)
            .map(|(thread, drives)| if drives { None } else { endless(thread, duration_ns, &yielded) })
            .collect();
        let interrupted = |thread: usize| endless[thread].is_some() || !kept[thread];
        let mut rhythms = rhythms(&threads, lateness, &how, &interrupted);
        counts.sharing = clocks::share_beats(&threads, &mut rhythms, lateness.slack + lateness.timer);
        let paces: Vec<Option<u64>> = threads.iter().map(|thread| clocks::pace(thread, lateness)).collect();
        let by_packets = causes::by_packets(&threads, ticks);
        let asked = causes::asked(&threads);
        let pauses = pauses::pauses(&threads, duration_ns);
        let bare = Causes {
            threads: &[],
            kept: &kept,
            rhythms: &rhythms,
            endless: &endless,
            keep_times: how.reads == Reads::Times,
            ticks,
            by_packets: &by_packets,
            asked: &asked,
            pauses: &pauses,
            table: &[],
        };
        // Acts that are added later change no cause.
        let mut causes = Causes { threads: &threads, ..bare }.table();
        let mut workers = BTreeSet::new();
        let messages = if how.reads == Reads::Messages {
            let Exchanges { transfers: inferred, mut peers, workers: found } =
                Exchanges::new(&threads, &transfers, sockets.count());
            workers = found;
            peers.extend(&sockets.peers);
            let mut all = [transfers.as_slice(), &inferred].concat();
            all.sort_by_key(|transfer| transfer.at);
            Messages::new(&threads, &all, &peers, &how.without_connections)
        } else {
            Messages::default()
        };
        messages.add_causes(&kept, &mut causes);
        let bare = Causes { table: &causes, ..bare };
        let mut hidden = handoffs::hidden(&Causes { threads: &threads, ..bare });
        let talk = messages.pairs();
        hidden.retain(|&(thread, .., (_, act))| match act {
            Act::Awaits { thread: other, .. } | Act::HandsBack { thread: other, .. } => {
                !talk.contains(&(thread, other))
            }
            _ => true,
        });
        counts.hidden_handoffs = hidden.len() as u64 / 2;
        handoffs::add(&mut threads, hidden);
        add_missed_beats(&mut threads, &rhythms, duration_ns);
        messages.add_acts(&mut threads);
        let (exits, marks) = Exits::new(&Causes { threads: &threads, ..bare });
        for (thread, at, act) in marks {
            exits::mark(&mut threads[thread], at, act);
        }
        counts.messages = messages.all.len() as u64;
        counts.shared_sockets = messages::shared(&transfers);
        counts.left_out_connections = how.without_connections.len() as u64;
        let takes = messages.takes(threads.len());
        let whole = Causes { threads: &threads, ..bare };
        let ended_processes = ended_processes(&threads);
        let ends = |thread: usize| threads[thread].tgid.is_some_and(|process| ended_processes.contains(&process));
        let may = |thread: usize| {
            let ended = threads[thread].stretches.last().is_none_or(|last| last.end == End::Exit);
            (!ended || ends(thread))
                && kept[thread]
                && endless[thread].is_none()
                && paces[thread].is_none()
                && !takes[thread]
                && !is_kernel_thread(&threads[thread].comm)
        };
        let attends = |thread: usize| whole.is_attendant(thread);
        let naps = |thread: usize| whole.naps(thread, POLL_NS);
        let candidates = Candidates { may: &may, ends: &ends, attends: &attends, naps: &naps };
        let mut pools = Pools::new(&threads, &whole.woken_by(), &candidates);
        let meet = barriers::find(&threads, &pools);
        pools.remove(&meet);
        let locks = Locks::new(&whole, &mut pools);
        counts.lock_waits = locks.waits() as u64;
        counts.certain_pools = pools.certain(&locks.waits_of_pools(&pools));
        let lateness = *lateness;
        Self {
            threads,
            marked,
            hotplug,
            counts,
            wakeups,
            kept,
            endless,
            rhythms,
            paces,
            by_packets,
            asked,
            pauses,
            causes,
            pools,
            locks,
            exits,
            messages,
            workers,
            duration_ns,
            uses,
            ticks,
            lateness,
            how,
            roles: Arc::default(),
        }
    }

    /// Returns the causes of wakeups.
    pub(super) fn causes(&self) -> Causes<'_> {
        Causes {
            threads: &self.threads,
            kept: &self.kept,
            rhythms: &self.rhythms,
            endless: &self.endless,
            keep_times: self.how.reads == Reads::Times,
            ticks: self.ticks,
            by_packets: &self.by_packets,
            asked: &self.asked,
            pauses: &self.pauses,
            table: &self.causes,
        }
    }

    /// Returns the place of the threads' [`Roles`].
    pub(super) fn roles(&self, pools: u32, goes_on: bool) -> Place {
        // The data of a poisoned lock is whole.
        let mut all = self.roles.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry((pools, goes_on)).or_default())
    }

    /// Whether the programs have wakeups that may be [synchronous](super::sync).
    pub(crate) fn synchronizes(&self, pools: u32, goes_on: bool) -> bool {
        let roles = self.roles(pools, goes_on);
        let Roles { wakes, .. } = roles.get_or_init(|| Roles::new(self, pools, goes_on));
        !sync::find(&self.causes(), wakes).is_empty()
    }

    /// Makes the programs.
    pub(crate) fn programs(&self, (coupling, sync): (Coupling, bool), pools: u32, goes_on: bool) -> Recorded {
        build(self, &How { coupling, sync, pools, goes_on, ..self.how.clone() })
    }

    /// Returns connections without whose messages every task can do these programs.
    pub(crate) fn impossible(&self, programs: &Recorded) -> BTreeSet<Connection> {
        let links = possible::stuck(&programs.workload, programs.first_link);
        links.into_iter().flat_map(|link| self.messages.connections_of(link)).collect()
    }

    /// Returns the connections whose messages the programs lack.
    pub(crate) fn without_connections(&self) -> &BTreeSet<Connection> {
        &self.how.without_connections
    }

    /// Makes the programs with the recorder's choices.
    pub(super) fn as_chosen(&self) -> Recorded {
        build(self, &self.how)
    }
}

/// Returns the processes that ended in the recording.
fn ended_processes(threads: &[threads::Thread]) -> BTreeSet<i32> {
    let mut ended: BTreeSet<i32> = threads.iter().filter_map(|thread| thread.tgid).collect();
    for process in threads.iter().filter(|thread| thread.exit().is_none()).filter_map(|thread| thread.tgid) {
        ended.remove(&process);
    }
    ended
}

/// Adds the beats that paced threads missed.
fn add_missed_beats(threads: &mut [threads::Thread], rhythms: &[Rhythm], duration_ns: u64) {
    for (thread, rhythm) in threads.iter_mut().zip(rhythms) {
        let Rhythm::Paced { period } = *rhythm else { continue };
        for (index, work) in missed_beats(thread, period, duration_ns) {
            let stretch = &mut thread.stretches[index];
            let place = stretch.acts.partition_point(|&(done, _)| done <= work);
            stretch.acts.insert(place, (work, Act::IsLate { at: stretch.ended }));
        }
    }
}
