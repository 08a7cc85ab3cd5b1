//! Entitlements: the CPU time that groups should have by weight.
//!
//! A run is cut into pieces: at births of tasks, at changes of weights, policies, limits or groups, and every
//! [`WINDOW`]. In each piece, the CPU time of all tasks is divided down the tree of groups ([`divide`]) among tasks
//! with a demand.
//!
//! A task's demand is the time that it ran. If its burst continues beyond the piece, the rest of the burst is added, up
//! to the task's wait, and less what earlier pieces granted. Since the length of a burst is known only later, pieces
//! are divided with a delay ([`AHEAD`]). Some tasks wake less often if they wait
//! ([`Rhythm::waits_cost_bursts`](crate::accounts::Rhythm)). Their demand is their life in the piece, divided between
//! running and sleeping in the recent proportion.

use std::collections::VecDeque;

use vruntime_trace::SchedPolicy;

use crate::accounts::{Group, State, Task};
use crate::entitlement::{Claim, IDLE_WEIGHT, divide, guaranteed_weight, nice_weight};

/// Longest piece with few tasks, nanoseconds.
const WINDOW: u64 = 100_000_000;
/// Longest piece per task, nanoseconds, which bounds cutting costs.
const WINDOW_PER_TASK: u64 = 10_000;
/// Shortest piece per task, nanoseconds.
const LEAST_PER_TASK: u64 = 20;
/// The most claims and groups, over all pieces, that wait for bursts to end. Beyond that, the oldest piece is divided
/// as if its bursts went on.
const AHEAD: usize = 1 << 16;

/// A task's account at the last cut, with its recent time.
#[derive(Clone, Debug, Default)]
struct Seen {
    cpu: u64,
    sleeping: u64,
    waiting: u64,
    /// Time running and sleeping. Earlier time halves with each active piece.
    ran: u64,
    slept: u64,
    /// Claims that depend on its burst's length, oldest first.
    open: VecDeque<Open>,
    /// Time granted of its burst beyond the run time.
    ahead: u64,
}

/// A claim that depends on the length of a burst.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Number of the piece, and index of the claim.
    piece: u64,
    claim: usize,
    cpu: u64,
    /// Wait in that burst: with as much of the burst left, the task could have run throughout.
    waited: u64,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    task: u32,
    group: u32,
    weight: u64,
    demand: u64,
    burst: Option<Burst>,
}

/// A burst that continues beyond the piece.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Wait in this burst and piece.
    waited: u64,
    /// Later run time of the burst. The maximum while unknown.
    rest: u64,
}

impl Asked {
    /// Returns its claim. Earlier pieces granted `ahead` of its burst, which it has not run.
    fn claim(&self, ahead: u64) -> Claim {
        let more = self.burst.map_or(0, |burst| burst.waited.min(burst.rest.saturating_sub(ahead)));
        let less = ahead.saturating_sub(self.burst.map_or(0, |burst| burst.rest));
        Claim { weight: self.weight, demand: (self.demand + more).saturating_sub(less) }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// The last cut.
    from: u64,
    /// The next cut.
    until: u64,
    seen: Vec<Seen>,
    /// Tasks that may have been active since, once each.
    living: Vec<u32>,
    /// Tasks at the last cut.
    known: usize,
    /// Undivided pieces, and the number of the first.
    pieces: VecDeque<Piece>,
    first: u64,
    /// Claims and groups in them.
    ahead: usize,
    /// Each group's entitlement, with the time of real-time and deadline tasks.
    entitled: Vec<u64>,
    /// Part of each group's quota not entitled yet.
    granted: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Piece {
    capacity: u64,
    claims: Vec<Asked>,
    groups: Vec<Level>,
    /// Claims that depend on unfinished bursts.
    open: usize,
}

/// A group in a piece.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    parent: Option<u32>,
    weight: u64,
    guarantee: Option<u32>,
    /// Quota, and periods that began.
    limit: Option<(u64, u64)>,
    /// Time of real-time and deadline tasks, which weights do not divide.
    urgent: u64,
}

/// Wants of a group with descendants in a piece.
#[derive(Clone, Debug, Default)]
struct Wants {
    demand: u64,
    urgent: u64,
    members: Vec<(Member, Claim)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    /// Index of a claim.
    Task(usize),
    Group(usize),
    /// The root's tasks, beside guarantees.
    Rest,
}

impl Shares {
    #[inline]
    pub(crate) fn due(&self, at: u64) -> bool {
        at >= self.until
    }

    pub(crate) fn last(&self) -> u64 {
        self.from
    }

    /// Cuts before a change, if the last cut is old enough.
    pub(crate) fn change(&mut self, at: u64, tasks: &mut [Task], groups: &[Group]) {
        if groups.len() > 1 && at.saturating_sub(self.from) > LEAST_PER_TASK * tasks.len() as u64 {
            self.cut(at, tasks, groups);
        }
    }

    /// Ends the piece since the last cut. Parents precede children.
    pub(crate) fn cut(&mut self, at: u64, tasks: &mut [Task], groups: &[Group]) {
        let from = std::mem::replace(&mut self.from, at);
        self.until = at.saturating_add(WINDOW.max(WINDOW_PER_TASK * tasks.len() as u64));
        self.seen.resize_with(tasks.len(), Seen::default);
        self.living.extend(self.known as u32..tasks.len() as u32);
        self.known = tasks.len();

        let mut piece =
            Piece { groups: groups.iter().map(|group| Level::of(group, from, at)).collect(), ..Piece::default() };
        let Self { seen, living, pieces, first, .. } = self;
        let number = *first + pieces.len() as u64;
        living.retain(|&index| {
            let task = &mut tasks[index as usize];
            let seen = &mut seen[index as usize];
            let Wanted { got, demand, burst } = seen.piece(task, at);
            seen.tell(task, pieces, *first);
            piece.capacity += got;
            match task.policy {
                SchedPolicy::Fifo | SchedPolicy::RoundRobin | SchedPolicy::Deadline => {
                    piece.groups[task.group as usize].urgent += got;
                }
                policy if demand > 0 || burst.is_some() => {
                    if burst.is_some() {
                        let waited = seen.waiting.saturating_sub(task.rhythm.delay);
                        seen.open.push_back(Open { piece: number, claim: piece.claims.len(), cpu: seen.cpu, waited });
                        piece.open += 1;
                    }
                    let weight = if policy == SchedPolicy::Idle { IDLE_WEIGHT } else { nice_weight(task.nice) };
                    piece.claims.push(Asked { task: index, group: task.group, weight, demand, burst });
                }
                _ => {}
            }
            task.state != State::Dead
        });
        self.ahead += piece.size();
        self.pieces.push_back(piece);
        while self.pieces.front().is_some_and(|piece| piece.open == 0 || self.ahead > AHEAD) {
            let Some(piece) = self.pieces.pop_front() else { break };
            self.ahead -= piece.size();
            self.first += 1;
            self.divide(&piece);
        }
    }

    pub(crate) fn finish(&mut self, at: u64, tasks: &mut [Task], groups: &[Group]) {
        self.cut(at, tasks, groups);
        for piece in std::mem::take(&mut self.pieces) {
            self.divide(&piece);
        }
    }

    fn divide(&mut self, piece: &Piece) {
        let groups = &piece.groups;
        self.entitled.resize(groups.len(), 0);
        self.granted.resize(groups.len(), 0);
        let mut wants = vec![Wants::default(); groups.len()];
        for (wants, group) in wants.iter_mut().zip(groups) {
            wants.urgent = group.urgent;
        }
        for (index, asked) in piece.claims.iter().enumerate() {
            let claim = asked.claim(self.seen[asked.task as usize].ahead);
            let group = &mut wants[asked.group as usize];
            group.demand += claim.demand;
            group.members.push((Member::Task(index), claim));
        }
        for index in (0..groups.len()).rev() {
            let group = &groups[index];
            if let Some((quota, periods)) = group.limit {
                self.granted[index] = self.granted[index].min(quota).saturating_add(quota.saturating_mul(periods));
                wants[index].demand = wants[index].demand.min(self.granted[index]);
            }
            let Some(parent) = group.parent.map(|parent| parent as usize).filter(|&parent| parent < index) else {
                continue;
            };
            let Wants { demand, urgent, .. } = wants[index];
            wants[parent].demand += demand;
            wants[parent].urgent += urgent;
            if demand > 0 {
                wants[parent].members.push((Member::Group(index), Claim { weight: group.weight, demand }));
            }
        }
        share_guarantees(groups, &mut wants);
        let mut parts = vec![0; groups.len()];
        if let (Some(part), Some(root)) = (parts.first_mut(), wants.first()) {
            *part = piece.capacity.saturating_sub(root.urgent);
        }
        for (index, wants) in wants.iter().enumerate() {
            let part = parts[index];
            self.granted[index] = self.granted[index].saturating_sub(part);
            self.entitled[index] += part + wants.urgent;
            let claims: Vec<Claim> = wants.members.iter().map(|&(_, claim)| claim).collect();
            for (&(member, _), part) in wants.members.iter().zip(divide(part, &claims)) {
                match member {
                    Member::Group(group) => parts[group] = part,
                    Member::Task(claim) => {
                        let asked = &piece.claims[claim];
                        let seen = &mut self.seen[asked.task as usize];
                        seen.ahead = asked.burst.map_or(0, |_| (seen.ahead + part).saturating_sub(asked.demand));
                    }
                    Member::Rest => {}
                }
            }
        }
    }

    /// Returns groups' entitlements up to the last cut, nanoseconds.
    pub(crate) fn entitled(&self, groups: usize) -> Vec<u64> {
        let mut entitled = self.entitled.clone();
        entitled.resize(groups, 0);
        entitled
    }
}

/// Divides guarantees. The root's tasks have the rest, and a group without a guarantee has none.
fn share_guarantees(groups: &[Level], wants: &mut [Wants]) {
    if groups.iter().all(|group| group.guarantee.is_none()) {
        return;
    }
    let Some(root) = wants.first_mut() else { return };
    let rest = 100_u32.saturating_sub(groups.iter().filter_map(|group| group.guarantee).sum());
    let is_group = |member: &Member| matches!(member, Member::Group(_));
    let own = root.members.iter().filter(|(member, _)| !is_group(member));
    let demand = own.map(|(_, claim)| claim.demand).sum();
    root.members.retain(|(member, _)| is_group(member));
    for (member, claim) in &mut root.members {
        if let Member::Group(group) = *member {
            claim.weight = guaranteed_weight(groups[group].guarantee.unwrap_or(0));
        }
    }
    root.members.push((Member::Rest, Claim { weight: guaranteed_weight(rest), demand }));
}

impl Piece {
    /// Returns its part of [`AHEAD`].
    fn size(&self) -> usize {
        1 + self.claims.len() + self.groups.len()
    }
}

impl Level {
    fn of(group: &Group, from: u64, at: u64) -> Self {
        let limit = group.limit.and_then(|limit| limit.max);
        let periods = |period: u64| at.div_ceil(period.max(1)) - from.div_ceil(period.max(1));
        Self {
            parent: group.parent,
            weight: group.claim(),
            guarantee: group.guarantee,
            limit: limit.map(|(quota, period)| (quota, periods(period))),
            urgent: 0,
        }
    }
}

struct Wanted {
    got: u64,
    demand: u64,
    burst: Option<Burst>,
}

impl Seen {
    /// Reports the known length of a burst to pieces that wait for it.
    fn tell(&mut self, task: &mut Task, pieces: &mut VecDeque<Piece>, first: u64) {
        let ended = task.rhythm.ended.take();
        let cpu = ended.unwrap_or(self.cpu);
        while let Some(open) = self.open.front() {
            let rest = cpu.saturating_sub(open.cpu);
            if ended.is_none() && rest < open.waited {
                break;
            }
            // Pieces divided early are gone.
            if let Some(piece) = open.piece.checked_sub(first).and_then(|index| pieces.get_mut(index as usize)) {
                if let (true, Some(burst)) = (ended.is_some(), &mut piece.claims[open.claim].burst) {
                    burst.rest = rest;
                }
                piece.open -= 1;
            }
            self.open.pop_front();
        }
    }

    /// Computes a task's run time and demand in the piece that ends at `at`.
    fn piece(&mut self, task: &Task, at: u64) -> Wanted {
        // The account ends with the last change of state.
        let since = at.saturating_sub(task.since);
        let (mut cpu, mut sleeping, mut waiting) =
            (task.account.cpu_ns, task.account.sleeping_ns, task.account.run_delay_ns);
        match task.state {
            State::Unborn | State::Dead => {}
            State::Sleeping => sleeping += since,
            State::Woken | State::Waiting => waiting += since,
            State::Running => cpu += since,
        }
        let (ran, slept, waited) = (cpu - self.cpu, sleeping - self.sleeping, waiting - self.waiting);
        let open = waiting - self.waiting.max(task.rhythm.delay).min(waiting);
        (self.cpu, self.sleeping, self.waiting) = (cpu, sleeping, waiting);
        if ran + slept > 0 {
            (self.ran, self.slept) = (self.ran / 2 + ran, self.slept / 2 + slept);
        }
        if task.state != State::Dead && task.rhythm.waits_cost_bursts() {
            let alive = u128::from(ran + slept + waited);
            let known = u128::from(self.ran) + u128::from(self.slept);
            let wanted = (alive * u128::from(self.ran)).checked_div(known).map_or(waited, |wanted| wanted as u64);
            return Wanted { got: ran, demand: wanted.max(ran), burst: None };
        }
        let burst = task.state.is_runnable().then_some(Burst { waited: open, rest: u64::MAX });
        Wanted { got: ran, demand: ran, burst }
    }
}
