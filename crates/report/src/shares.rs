//! Entitlements: the CPU time that every group should have had by its weight.
//!
//! A run is cut into pieces: where a task is born, where weights, policies, limits or groups change, and every
//! [`WINDOW`]. In each piece, the CPU time of all tasks is divided down the tree of groups ([`divide`]) among the tasks
//! with a demand.
//!
//! The demand of a task is the time that it ran. If its burst continues beyond the end of the piece, the demand also
//! includes the rest of the burst that it could have run while it waited, less what earlier pieces granted of it. The
//! length of the burst is known only later, so pieces are divided with a delay ([`AHEAD`]). Some tasks wake less often
//! if they wait ([`Rhythm::waits_cost_bursts`](crate::accounts::Rhythm)). Their demand is their life in the piece,
//! divided between running and sleeping in the recent proportion.

use std::collections::VecDeque;

use vruntime_trace::SchedPolicy;

use crate::accounts::{Group, State, Task};
use crate::entitlement::{Claim, IDLE_WEIGHT, divide, guaranteed_weight, nice_weight};

/// Nanoseconds between two cuts at most, while tasks are few.
const WINDOW: u64 = 100_000_000;
/// The same for each task, so that cutting costs little of the time that tasks take.
const WINDOW_PER_TASK: u64 = 10_000;
/// Nanoseconds between two cuts at least, for each task.
const LEAST_PER_TASK: u64 = 20;
/// How many claims and groups, of all pieces together, wait for bursts to end. Beyond it the oldest piece is divided as
/// at the end of the run: bursts that are not over would have gone on.
const AHEAD: usize = 1 << 16;

/// What a task's book said at the last cut, and how it divided its time of late.
#[derive(Clone, Debug, Default)]
struct Seen {
    cpu: u64,
    sleeping: u64,
    waiting: u64,
    /// Running and sleeping; what was halves with every piece in which it did either.
    ran: u64,
    slept: u64,
    /// Its claims, the oldest first, that depend on the length of its burst.
    open: VecDeque<Open>,
    /// What the divided pieces entitled it to of its burst, beyond what it ran of it.
    ahead: u64,
}

/// A claim of which it is not known how much of the time the task waited it would have run.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// The number of the piece, and the claim's in it.
    piece: u64,
    claim: usize,
    /// The task's CPU time at the piece's end.
    cpu: u64,
    /// Its wait in that burst: with at least this much left, it could have run throughout.
    waited: u64,
}

/// What a task wants in a piece.
#[derive(Clone, Copy, Debug)]
struct Asked {
    task: u32,
    group: u32,
    weight: u64,
    /// What it ran, or would have.
    demand: u64,
    burst: Option<Burst>,
}

/// What is not over at the piece's end.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// How long the task waited in the piece, in this burst.
    waited: u64,
    /// What the task runs of it later; all there is as long as that is not known.
    rest: u64,
}

impl Asked {
    /// Returns its claim, if earlier pieces granted `ahead` of its burst that it has not run.
    fn claim(&self, ahead: u64) -> Claim {
        let more = self.burst.map_or(0, |burst| burst.waited.min(burst.rest.saturating_sub(ahead)));
        let less = ahead.saturating_sub(self.burst.map_or(0, |burst| burst.rest));
        Claim { weight: self.weight, demand: (self.demand + more).saturating_sub(less) }
    }
}

/// What is known up to the last cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// When that was.
    from: u64,
    /// When the next is due.
    until: u64,
    seen: Vec<Seen>,
    /// Tasks that may have done something since, each at most once.
    living: Vec<u32>,
    /// How many tasks were known then.
    known: usize,
    /// Pieces that are not divided yet, and the number of the first.
    pieces: VecDeque<Piece>,
    first: u64,
    /// Claims and groups in them.
    ahead: usize,
    /// What each group was entitled to, what its real-time and deadline tasks took included.
    entitled: Vec<u64>,
    /// What each group's limit grants that it was not entitled to yet.
    granted: Vec<u64>,
}

/// What is to be divided.
#[derive(Clone, Debug, Default)]
struct Piece {
    capacity: u64,
    claims: Vec<Asked>,
    groups: Vec<Level>,
    /// How many claims depend on bursts that are not over.
    open: usize,
}

/// A group, as it was in a piece.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    parent: Option<u32>,
    weight: u64,
    guarantee: Option<u32>,
    /// The quota of its limit, and how many periods began.
    limit: Option<(u64, u64)>,
    /// Taken by real-time and deadline tasks, whatever their groups weigh.
    urgent: u64,
}

/// What one group and those below it want in a piece.
#[derive(Clone, Debug, Default)]
struct Wants {
    demand: u64,
    urgent: u64,
    members: Vec<(Member, Claim)>,
}

/// A member of a group in the division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    /// A claim of the piece's.
    Task(usize),
    Group(usize),
    /// The root's own tasks, where guarantees are given.
    Rest,
}

impl Shares {
    /// Whether a cut is due.
    #[inline]
    pub(crate) fn due(&self, at: u64) -> bool {
        at >= self.until
    }

    /// When the last cut was.
    pub(crate) fn last(&self) -> u64 {
        self.from
    }

    /// Cuts at `at`, before something changes, if the last cut was long enough ago.
    pub(crate) fn change(&mut self, at: u64, tasks: &mut [Task], groups: &[Group]) {
        if groups.len() > 1 && at.saturating_sub(self.from) > LEAST_PER_TASK * tasks.len() as u64 {
            self.cut(at, tasks, groups);
        }
    }

    /// Ends the piece that began with the last cut. Parents come before their children.
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

    /// Cuts at the end of the run.
    pub(crate) fn finish(&mut self, at: u64, tasks: &mut [Task], groups: &[Group]) {
        self.cut(at, tasks, groups);
        for piece in std::mem::take(&mut self.pieces) {
            self.divide(&piece);
        }
    }

    /// Divides what was got in a piece.
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

    /// What each group was entitled to by the last cut, nanoseconds.
    pub(crate) fn entitled(&self, groups: usize) -> Vec<u64> {
        let mut entitled = self.entitled.clone();
        entitled.resize(groups, 0);
        entitled
    }
}

/// Divides guarantees: the root's own tasks have the part of the machine that no group is guaranteed, and a group
/// without a guarantee has none.
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
    /// What it takes of [`AHEAD`].
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

/// What a task did and wanted in a piece.
struct Wanted {
    got: u64,
    demand: u64,
    burst: Option<Burst>,
}

impl Seen {
    /// Tells the pieces whose claims waited for it how long the task's burst went on, as far as that is known.
    fn tell(&mut self, task: &mut Task, pieces: &mut VecDeque<Piece>, first: u64) {
        let ended = task.rhythm.ended.take();
        let cpu = ended.unwrap_or(self.cpu);
        while let Some(open) = self.open.front() {
            let rest = cpu.saturating_sub(open.cpu);
            if ended.is_none() && rest < open.waited {
                break;
            }
            // Those that were divided without waiting any longer are gone.
            if let Some(piece) = open.piece.checked_sub(first).and_then(|index| pieces.get_mut(index as usize)) {
                if let (true, Some(burst)) = (ended.is_some(), &mut piece.claims[open.claim].burst) {
                    burst.rest = rest;
                }
                piece.open -= 1;
            }
            self.open.pop_front();
        }
    }

    /// Looks at what a task did in the piece that ends at `at`.
    fn piece(&mut self, task: &Task, at: u64) -> Wanted {
        // Its book ends with its last change of state.
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
