//! Sentences on groups' deviations from entitlements, and on limits that throttled them.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::printable::printable;
use crate::results::{CpuResult, GroupResult, Results};
use crate::units::{self, percent};

/// Deviations below this part of the entitlement need no explanation.
const DEVIATION: u64 = 20;
/// Nor do deviations below this part of a CPU.
const NOTICEABLE: u64 = 100;
/// The least part of periods in which a named limit throttled.
const OFTEN: f64 = 0.01;
/// A group that uses this part of its limit uses all of it.
const WHOLE: f64 = 0.95;
/// Waits below this part of a group's CPU time are few.
const FEW_WAITS: u64 = 20;
const MOST: usize = 5;

/// A workload's groups, summed over runs: what they got, their entitlements, and the limits that throttled them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    groups: Vec<GroupResult>,
    runs: u64,
    elapsed_ns: u64,
    cpus: usize,
    /// Time of all CPUs, and its idle part, nanoseconds.
    cpu_time_ns: u64,
    idle_ns: u64,
}

#[derive(Clone, Copy)]
struct Throttled {
    /// Index of the limited group: itself or an ancestor.
    owner: usize,
    periods: u64,
    /// Periods in which it throttled.
    hits: u64,
    /// Throttled time summed over CPUs, nanoseconds.
    ns: u64,
}

impl Throttled {
    /// Returns the part of periods in which it throttled.
    fn part(self) -> f64 {
        self.hits as f64 / self.periods.max(1) as f64
    }

    /// Orders limits by the part of periods in which they throttled.
    fn cmp(&self, other: &Self) -> Ordering {
        self.part().total_cmp(&other.part())
    }
}

impl Explained {
    /// Returns the groups of a run that lasted `elapsed_ns`.
    pub fn new(run: &Results, elapsed_ns: u64) -> Self {
        // Saved results may have any numbers, so sums saturate.
        let sum = |pick: fn(&CpuResult) -> u64| run.cpus.iter().map(pick).fold(0, u64::saturating_add);
        let idle_ns = sum(|cpu| cpu.idle_ns);
        let cpu_time_ns = sum(|cpu| cpu.busy_ns.saturating_add(cpu.overhead_ns)).saturating_add(idle_ns);
        Self { groups: run.groups.clone(), runs: 1, elapsed_ns, cpus: run.cpus.len(), cpu_time_ns, idle_ns }
    }

    pub(crate) fn of(runs: &[Results]) -> Self {
        let each: Vec<Self> = runs.iter().map(|run| Self::new(run, run.elapsed_ns)).collect();
        Self::sum(each.iter())
    }

    /// Sums the first run's groups over all runs.
    pub(crate) fn sum<'a>(mut runs: impl Iterator<Item = &'a Self>) -> Self {
        let Some(mut sum) = runs.next().cloned() else { return Self::default() };
        let at: BTreeMap<String, usize> = sum.groups.iter().map(|group| group.path.clone()).zip(0..).collect();
        for run in runs {
            sum.runs = sum.runs.saturating_add(run.runs);
            sum.elapsed_ns = sum.elapsed_ns.saturating_add(run.elapsed_ns);
            sum.cpu_time_ns = sum.cpu_time_ns.saturating_add(run.cpu_time_ns);
            sum.idle_ns = sum.idle_ns.saturating_add(run.idle_ns);
            for more in &run.groups {
                let Some(group) = at.get(&more.path).map(|&at| &mut sum.groups[at]) else { continue };
                group.cpu_ns = group.cpu_ns.saturating_add(more.cpu_ns);
                group.entitled_ns = group.entitled_ns.saturating_add(more.entitled_ns);
                group.run_delay_ns = group.run_delay_ns.saturating_add(more.run_delay_ns);
                let own = group.own_delay_ns.zip(more.own_delay_ns);
                group.own_delay_ns = own.map(|(own, more)| own.saturating_add(more));
                if let (Some(limit), Some(more)) = (&mut group.limit, more.limit) {
                    limit.nr_periods = limit.nr_periods.saturating_add(more.nr_periods);
                    limit.nr_throttled = limit.nr_throttled.saturating_add(more.nr_throttled);
                    limit.throttled_ns = limit.throttled_ns.saturating_add(more.throttled_ns);
                }
            }
        }
        sum
    }

    /// Explains groups that got less than their entitlement, and then those that got more, each with the largest
    /// deviation first. Limits of other groups follow. At most [`MOST`] sentences, and one that counts the rest.
    ///
    /// `run` precedes each sentence: `with 6.12, `, or nothing.
    pub(crate) fn sentences(&self, run: &str) -> Vec<String> {
        // Rank 2: less than the entitlement; 1: more; 0: no deviation.
        let mut found: Vec<(u8, f64, String)> = Vec::new();
        for at in 1..self.groups.len() {
            let deviates = self.deviates(at);
            let is_short = deviates && self.missing(at) > 0.0;
            let throttled = if is_short { self.reason(at) } else { self.throttled(at) };
            // A limit is explained at its own group.
            let elsewhere =
                throttled.is_some_and(|limit| limit.owner != at && (!deviates || self.deviates(limit.owner)));
            let limit = if elsewhere { self.own_limit(at) } else { throttled };
            let sentence = if elsewhere {
                limit.map(|limit| format!("{}: {}.", self.name(at), self.limit_clause(at, limit)))
            } else {
                self.sentence(at)
            };
            if let Some(sentence) = sentence {
                let missing = self.missing(at);
                let rank = if !deviates || elsewhere { 0 } else { 1 + u8::from(missing > 0.0) };
                let often = limit.map_or(0.0, Throttled::part);
                found.push((rank, if rank > 0 { missing.abs() } else { often }, sentence));
            }
        }
        found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| b.1.total_cmp(&a.1)));
        let more = found.len().saturating_sub(MOST);
        let mut sentences: Vec<String> =
            found.into_iter().take(MOST).map(|(_, _, text)| capital(&format!("{run}{text}"))).collect();
        match more {
            0 => {}
            1 => sentences.push("1 more group was throttled or deviates from its entitlement.".to_owned()),
            _ => sentences.push(format!("{more} more groups were throttled or deviate from their entitlement.")),
        }
        sentences
    }

    /// Explains a group, or the ancestor whose limit throttled it, if needed.
    pub(crate) fn of_group(&self, path: &str) -> Option<String> {
        let at = self.groups.iter().position(|group| group.path == path).filter(|&at| at > 0)?;
        let explained = if self.deviates(at) { at } else { self.throttled(at)?.owner };
        self.sentence(explained)
    }

    /// Whether [`Self::of_group`] names a limit that throttled the group.
    pub(crate) fn names_limit(&self, path: &str) -> bool {
        let at = self.groups.iter().position(|group| group.path == path).filter(|&at| at > 0);
        at.is_some_and(|at| self.throttled(at).is_some() && !(self.deviates(at) && self.missing(at) <= 0.0))
    }

    /// Returns the paths of groups that got more than their entitlement, largest deviation first.
    pub(crate) fn above_entitlement(&self) -> Vec<&str> {
        let mut above: Vec<usize> =
            (1..self.groups.len()).filter(|&at| self.deviates(at) && self.missing(at) < 0.0).collect();
        above.sort_by(|&a, &b| self.missing(a).total_cmp(&self.missing(b)));
        above.into_iter().map(|at| self.groups[at].path.as_str()).collect()
    }

    /// Whether a limit of this group or an ancestor throttled it.
    pub(crate) fn is_throttled(&self, path: &str) -> bool {
        self.groups.iter().position(|group| group.path == path).is_some_and(|at| self.throttled(at).is_some())
    }

    fn sentence(&self, at: usize) -> Option<String> {
        let name = self.name(at);
        if !self.deviates(at) {
            let limit = self.throttled(at)?;
            let clause = self.limit_clause(at, limit);
            if let Some(max) = self.used_up(at).filter(|_| limit.owner == at) {
                let got = self.percent(self.groups[at].cpu_ns);
                let clause = clause.split_once(" throttled it ").map_or(clause.as_str(), |(_, often)| often);
                return Some(format!(
                    "{name} got {got}, all that its CPU limit of {max} allows: it was throttled {clause}."
                ));
            }
            let entitled = self.percent(self.groups[at].entitled_ns);
            let entitlement =
                if self.is_entitled() { format!(" got its entitlement of {entitled}, and") } else { ":".to_owned() };
            return Some(format!("{name}{entitlement} {clause}."));
        }
        let group = &self.groups[at];
        let [got, entitled] = [group.cpu_ns, group.entitled_ns].map(|ns| self.percent(ns));
        let missing = self.missing(at);
        let less = if missing > 0.0 { "less" } else { "more" };
        let reason = if missing <= 0.0 {
            self.why_more(at)
        } else if let Some(limit) = self.reason(at) {
            self.limit_clause(at, limit)
        } else {
            self.why_less(at) + &self.also_throttled(at)
        };
        Some(format!("{name} got {got}, {less} than its entitlement of {entitled}: {reason}."))
    }

    /// Returns the limit that explains why a group got less. It throttled for at least half of the missing time. Among
    /// several, it is the one that throttled most often.
    fn reason(&self, at: usize) -> Option<Throttled> {
        let missing = self.groups[at].entitled_ns.saturating_sub(self.groups[at].cpu_ns);
        self.limits(at).filter(|limit| limit.ns >= missing.div_ceil(2)).max_by(Throttled::cmp)
    }

    /// `. Its CPU limit of 1.5 CPUs (150 ms in each 100 ms) also throttled it in 9 of 50 periods, for 218 ms of
    /// 5.00 s, summed over CPUs`, or nothing.
    fn also_throttled(&self, at: usize) -> String {
        let Some(limit) = self.throttled(at) else { return String::new() };
        let clause = self.limit_clause(at, limit).replacen(" throttled it ", " also throttled it ", 1);
        let [throttled, elapsed] =
            [limit.ns, self.elapsed_ns].map(|ns| units::time(ns as f64 / self.runs.max(1) as f64));
        format!(". {}, for {throttled} of {elapsed}, summed over CPUs", capital(&clause))
    }

    /// Returns why a group got less that no limit explains.
    fn why_less(&self, at: usize) -> String {
        let own = self.groups[at].limit.map_or(0, |limit| limit.throttled_ns);
        let waited = self.share(self.groups[at].run_delay_ns.saturating_sub(own));
        let is_limited = self.lineage(at).any(|of| self.groups[of].limit.is_some_and(|limit| limit.nr_throttled > 0));
        let unrestricted = if is_limited { "" } else { "no limit or cpuset restricted it, and " };
        if waited < self.missing(at) / 2.0 {
            return format!("{unrestricted}its tasks hardly waited for a CPU");
        }
        let narrow = self.lineage(at).find_map(|of| {
            let effective = &self.groups[of].cpuset.as_ref()?.effective;
            (of > 0 && count_cpus(effective)? < self.cpus).then_some((of, effective))
        });
        if let Some((of, cpus)) = narrow {
            let whose = if of == at { "its cpuset".to_owned() } else { format!("the cpuset of {}", self.name(of)) };
            return format!("{whose} has only the CPUs {cpus}");
        }
        let all = self.groups[at].run_delay_ns;
        let waited = percent(self.share(all));
        let own = self.groups[at].own_delay_ns.map(|own| own.min(all) as f64 / all.max(1) as f64 * 100.0);
        let behind = match own {
            None => String::new(),
            Some(own) if own >= 50.0 || is_limited => format!(", for {own:.0} % of that time behind its own tasks"),
            Some(own) => format!(", for {:.0} % of that time behind tasks outside the group", 100.0 - own),
        };
        let idle =
            self.idle().map_or_else(String::new, |idle| format!(", while the CPUs were {} % idle", percent(idle)));
        format!("{unrestricted}its tasks waited (wait {waited} %){behind}{idle}")
    }

    /// Returns the idle part of the CPUs' time, if known.
    fn idle(&self) -> Option<f64> {
        (self.cpu_time_ns > 0).then(|| self.idle_ns as f64 / self.cpu_time_ns as f64)
    }

    fn why_more(&self, at: usize) -> String {
        if let Some(max) = self.exceeded(at) {
            return format!(
                "it exceeded its CPU limit of {max}, since parts of periods have a whole quota, and each CPU can add a slice \
                 and a tick"
            );
        }
        if let Some(parent) = self.groups[at].parent.filter(|&parent| parent > 0)
            && self.deviates(parent)
            && self.missing(parent) < 0.0
        {
            return format!("its parent {} got more, too", self.name(parent));
        }
        let GroupResult { cpu_ns, run_delay_ns, unmeasured, .. } = self.groups[at];
        if !unmeasured.waits && run_delay_ns < cpu_ns / FEW_WAITS {
            let waited = percent(self.share(run_delay_ns));
            return format!(
                "its tasks hardly waited for a CPU (wait {waited} %), and weights count only where tasks wait for one CPU"
            );
        }
        let related = |other: usize| self.lineage(at).any(|of| of == other) || self.lineage(other).any(|of| of == at);
        let mut less: Vec<usize> = (1..self.groups.len()).filter(|&other| !related(other)).collect();
        less.retain(|&other| self.missing(other) * NOTICEABLE as f64 >= 1.0);
        less.sort_by(|&a, &b| self.missing(b).total_cmp(&self.missing(a)));
        // A group is not explained by its descendant.
        let Some(&most) = less.first() else {
            return "other tasks did not get what they were entitled to".to_owned();
        };
        let why = match self.reason(most) {
            Some(_) => "was throttled by a limit and could not use its entitlement",
            None => "did not get its entitlement",
        };
        format!("{} {why}", self.name(most))
    }

    /// Returns the group's own limit in words, if it got more than the limit allows in whole periods. More than two
    /// quotas in each run have another reason, such as a changed limit.
    fn exceeded(&self, at: usize) -> Option<String> {
        let (quota, period) = self.groups[at].limit?.max?;
        let allowed = u128::from(quota) * u128::from(self.elapsed_ns) / u128::from(period.max(1));
        let more = u128::from(self.groups[at].cpu_ns).checked_sub(allowed).filter(|&more| more > 0)?;
        (more <= 2 * u128::from(quota) * u128::from(self.runs)).then(|| units::limit(quota, period))
    }

    /// Returns the group's own limit in words, if the group used all of it.
    fn used_up(&self, at: usize) -> Option<String> {
        let (quota, period) = self.groups[at].limit?.max?;
        let allowed = quota as f64 / period.max(1) as f64 * self.elapsed_ns as f64;
        let more = self.groups[at].cpu_ns as f64 - allowed;
        let is_whole = more >= (WHOLE - 1.0) * allowed && more <= 2.0 * quota as f64 * self.runs as f64;
        is_whole.then(|| units::limit(quota, period))
    }

    /// `its CPU limit of 0.2 CPUs (20 ms in each 100 ms) throttled it in 45 of 50 periods`. Several runs have the mean.
    fn limit_clause(&self, at: usize, limit: Throttled) -> String {
        let Throttled { owner, periods, hits, .. } = limit;
        let mean = |all: u64| units::count(all as f64 / self.runs.max(1) as f64);
        let runs = if self.runs > 1 { format!(" (mean of {} runs)", self.runs) } else { String::new() };
        let whose =
            if owner == at { "its CPU limit".to_owned() } else { format!("the CPU limit of {}", self.name(owner)) };
        let max = self.groups[owner].limit.and_then(|limit| limit.max);
        let max = max.map(|(quota, period)| format!(" of {}", units::limit(quota, period)));
        let max = max.unwrap_or_default();
        format!("{whose}{max} throttled it in {} of {} periods{runs}", mean(hits), mean(periods))
    }

    /// Returns the own or inherited limit that throttled a group most often.
    fn throttled(&self, at: usize) -> Option<Throttled> {
        self.limits(at).max_by(Throttled::cmp)
    }

    /// Returns the own and inherited limits that often throttled a group.
    fn limits(&self, at: usize) -> impl Iterator<Item = Throttled> + '_ {
        self.lineage(at).filter_map(|owner| self.own_limit(owner))
    }

    /// Returns the group's own limit, if it throttled often.
    fn own_limit(&self, owner: usize) -> Option<Throttled> {
        let limit = self.groups[owner].limit?;
        let (periods, hits, ns) = (limit.nr_periods, limit.nr_throttled, limit.throttled_ns);
        let throttled = Throttled { owner, periods, hits, ns };
        (hits > 0 && throttled.part() >= OFTEN).then_some(throttled)
    }

    /// Returns a group and its ancestors, up to the root.
    fn lineage(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        // Parents have lower indices than their children.
        std::iter::successors(Some(at), |&at| self.groups[at].parent.filter(|&parent| parent < at))
    }

    /// Returns the missing CPU time, as a part of a CPU.
    fn missing(&self, at: usize) -> f64 {
        self.share(self.groups[at].entitled_ns) - self.share(self.groups[at].cpu_ns)
    }

    /// Whether a group's deviation needs an explanation.
    fn deviates(&self, at: usize) -> bool {
        let GroupResult { cpu_ns, entitled_ns, .. } = self.groups[at];
        let missing = u128::from(cpu_ns.abs_diff(entitled_ns));
        let is_noticeable = missing * u128::from(NOTICEABLE) >= u128::from(self.elapsed_ns);
        self.is_entitled() && is_noticeable && missing * u128::from(DEVIATION) >= u128::from(entitled_ns)
    }

    /// Whether entitlements are known, as in simulations.
    fn is_entitled(&self) -> bool {
        self.groups.first().is_some_and(|root| root.entitled_ns > 0)
    }

    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.elapsed_ns.max(1) as f64
    }

    fn percent(&self, ns: u64) -> String {
        format!("{} % of a CPU", percent(self.share(ns)))
    }

    fn name(&self, at: usize) -> String {
        format!("group `{}`", printable(&self.groups[at].path))
    }
}

impl Results {
    /// Returns sentences on deviations from entitlements, and on limits.
    pub fn group_sentences(&self) -> Vec<String> {
        Explained::of(std::slice::from_ref(self)).sentences("")
    }
}

/// Returns the number of CPUs in a list such as `0-3,6`. None for another form.
fn count_cpus(list: &str) -> Option<usize> {
    let count = |range: &str| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let [from, to] = [from, to].map(|number| number.trim().parse::<usize>());
        to.ok()?.checked_sub(from.ok()?)?.checked_add(1)
    };
    list.split(',').map(count).sum()
}

pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{CpuResult, CpusetResult, LimitResult};

    /// Saved results can have any number.
    #[test]
    fn sums_of_huge_figures_saturate() {
        let mut run = results(&[("/", None, 0, 0), ("/a", Some(0), 1, 1)]);
        (run.groups[1].cpu_ns, run.elapsed_ns) = (u64::MAX, u64::MAX);
        let sum = Explained::of(&[run.clone(), run]);
        assert_eq!((sum.groups[1].cpu_ns, sum.elapsed_ns), (u64::MAX, u64::MAX));
    }

    /// A second on four CPUs: groups with a parent, CPU time and entitlement in ms.
    fn results(groups: &[(&str, Option<usize>, u64, u64)]) -> Results {
        let group = |&(path, parent, cpu_ms, entitled_ms): &(&str, Option<usize>, u64, u64)| GroupResult {
            path: path.to_owned(),
            parent,
            cpu_ns: cpu_ms * 1_000_000,
            entitled_ns: entitled_ms * 1_000_000,
            run_delay_ns: 500_000_000,
            ..GroupResult::default()
        };
        Results {
            elapsed_ns: 1_000_000_000,
            groups: groups.iter().map(group).collect(),
            cpus: vec![CpuResult::default(); 4],
            ..Results::default()
        }
    }

    fn limit(throttled: u64) -> LimitResult {
        let max = Some((50_000_000, 100_000_000));
        let throttled_ns = throttled * 10_000_000;
        LimitResult { max, nr_periods: 10, nr_throttled: throttled, throttled_ns, ..LimitResult::default() }
    }

    /// A limit is the reason only if the throttled time is at least half of the missing time.
    #[test]
    fn a_limit_that_throttled_for_a_small_part_is_not_the_reason() {
        let groups = [("/", None, 900, 900), ("/web", Some(0), 400, 500), ("/batch", Some(0), 500, 400)];
        let mut run = results(&groups);
        run.groups[1].limit = Some(LimitResult { throttled_ns: 49_999_999, ..limit(9) });
        assert_eq!(
            run.group_sentences(),
            [
                "Group `/web` got 40.00 % of a CPU, less than its entitlement of 50.00 % of a CPU: its tasks waited \
                 (wait 50.00 %). Its CPU limit of 0.5 CPUs (50.0 ms in each 100 ms) also throttled it in 9 of \
                 10 periods, for 50.0 ms of 1.00 s, summed over CPUs.",
                "Group `/batch` got 50.00 % of a CPU, more than its entitlement of 40.00 % of a CPU: group `/web` did not \
                 get its entitlement.",
            ]
        );
        run.groups[1].limit = Some(LimitResult { throttled_ns: 50_000_000, ..limit(9) });
        let sentences = run.group_sentences();
        assert!(
            sentences[0]
                .ends_with(": its CPU limit of 0.5 CPUs (50.0 ms in each 100 ms) throttled it in 9 of 10 periods.")
        );
        assert!(sentences[1].ends_with("group `/web` was throttled by a limit and could not use its entitlement."));

        // The time that a group's only task waits for its own limit is no wait for a CPU.
        run.groups[1].limit = Some(LimitResult { throttled_ns: 40_000_000, ..limit(1) });
        run.groups[1].run_delay_ns = 80_000_000;
        let sentences = run.group_sentences();
        assert!(
            sentences[0].contains(": its tasks hardly waited for a CPU. Its CPU limit of 0.5 CPUs"),
            "{sentences:?}"
        );
        run.groups[1].limit = Some(LimitResult { nr_periods: 1000, ..limit(1) });
        let sentences = run.group_sentences();
        assert!(sentences[0].ends_with("50.00 % of a CPU: its tasks waited (wait 8.00 %)."));
    }

    /// The limit of an ancestor that deviates, too, does not hide the group's own reason.
    #[test]
    fn a_group_below_a_limit_that_hardly_throttled_is_explained() {
        let mut run = results(&[("/", None, 900, 900), ("/shop", Some(0), 300, 500), ("/shop/web", Some(1), 250, 400)]);
        run.groups[1].limit = Some(LimitResult { throttled_ns: 10_000_000, ..limit(2) });
        let sentences = run.group_sentences();
        let limit = "CPU limit of group `/shop` of 0.5 CPUs (50.0 ms in each 100 ms) also throttled it in 2 of 10 periods, \
                     for 10.0 ms of 1.00 s, summed over CPUs.";
        assert!(sentences[0].starts_with("Group `/shop` got 30.00 %"), "{sentences:?}");
        assert!(sentences[1].starts_with("Group `/shop/web` got 25.00 %"), "{sentences:?}");
        assert!(sentences[1].ends_with(limit), "{sentences:?}");
    }

    #[test]
    fn a_limit_is_named_below_the_entitlement_and_at_it() {
        let mut run = results(&[("/", None, 900, 900), ("/web", Some(0), 400, 500), ("/batch", Some(0), 500, 400)]);
        run.groups[1].limit = Some(limit(9));
        assert_eq!(
            run.group_sentences(),
            [
                "Group `/web` got 40.00 % of a CPU, less than its entitlement of 50.00 % of a CPU: its CPU limit of 0.5 \
                 CPUs (50.0 ms in each 100 ms) throttled it in 9 of 10 periods.",
                "Group `/batch` got 50.00 % of a CPU, more than its entitlement of 40.00 % of a CPU: group `/web` was \
                 throttled by a limit and could not use its entitlement.",
            ]
        );
        (run.groups[1].cpu_ns, run.groups[2].cpu_ns) = (500_000_000, 400_000_000);
        assert_eq!(
            run.group_sentences(),
            [
                "Group `/web` got 50.00 % of a CPU, all that its CPU limit of 0.5 CPUs (50.0 ms in each 100 ms) allows: it was \
                 throttled in 9 of 10 periods."
            ]
        );
        run.groups[1].limit = Some(limit(0));
        assert!(run.group_sentences().is_empty(), "a limit that throttled no group is not named");
    }

    /// Both limits of a nested group are named.
    #[test]
    fn a_limit_below_a_limit_is_named_too() {
        let mut run = results(&[("/", None, 150, 150), ("/shop", Some(0), 150, 150), ("/shop/web", Some(1), 60, 60)]);
        (run.groups[1].limit, run.groups[2].limit) = (Some(limit(9)), Some(limit(8)));
        let sentences = run.group_sentences();
        assert!(
            sentences[0]
                .starts_with("Group `/shop` got its entitlement of 15.00 % of a CPU, and its CPU limit of 0.5 CPUs"),
            "{sentences:?}"
        );
        let nested =
            "Group `/shop/web`: its CPU limit of 0.5 CPUs (50.0 ms in each 100 ms) throttled it in 8 of 10 periods.";
        assert_eq!(sentences[1..], [nested]);
        run.groups[2].limit = Some(limit(0));
        assert_eq!(run.group_sentences().len(), 1, "the parent's limit is explained at the parent");
    }

    #[test]
    fn the_limit_of_an_ancestor_is_named() {
        let mut run = results(&[("/", None, 900, 900), ("/shop", Some(0), 500, 500), ("/shop/web", Some(1), 300, 400)]);
        run.groups[1].limit = Some(limit(5));
        let sentences = run.group_sentences();
        assert_eq!(
            sentences[0],
            "Group `/shop/web` got 30.00 % of a CPU, less than its entitlement of 40.00 % of a CPU: the CPU limit of group \
             `/shop` of 0.5 CPUs (50.0 ms in each 100 ms) throttled it in 5 of 10 periods."
        );
        assert!(
            sentences[1].starts_with("Group `/shop` got 50.00 % of a CPU, all that its CPU limit"),
            "{sentences:?}"
        );
        let explained =
            |run: &Results, path| Explained::of(std::slice::from_ref(run)).of_group(path).expect("it is throttled");
        assert!(explained(&run, "/shop/web").starts_with("group `/shop/web` got 30.00 %"));
        run.groups[2].cpu_ns = 400_000_000;
        assert!(
            explained(&run, "/shop/web").starts_with("group `/shop` got 50.00 % of a CPU, all that its CPU limit"),
            "its own is as it should be"
        );
        run.groups[2].cpu_ns = 300_000_000;
        run.groups[1].cpu_ns = 400_000_000;
        let sentences = run.group_sentences();
        assert_eq!(
            (sentences.len(), sentences[0].starts_with("Group `/shop` got 40.00 %")),
            (1, true),
            "{sentences:?}"
        );
    }

    #[test]
    fn cpusets_and_waits_are_reasons() {
        let mut run = results(&[("/", None, 900, 900), ("/web", Some(0), 400, 500), ("/batch", Some(0), 500, 400)]);
        let reason = |run: &Results| run.group_sentences()[0].split_once(": ").map(|(_, why)| why.to_owned());
        assert_eq!(
            reason(&run).as_deref(),
            Some("no limit or cpuset restricted it, and its tasks waited (wait 50.00 %).")
        );
        run.groups[1].cpuset = Some(CpusetResult { effective: "0-1,3".to_owned(), partition: "member".to_owned() });
        assert_eq!(reason(&run).as_deref(), Some("its cpuset has only the CPUs 0-1,3."));
        run.groups[1].cpuset = Some(CpusetResult { effective: "0-3".to_owned(), partition: "member".to_owned() });
        run.groups[1].run_delay_ns = 0;
        assert!(reason(&run).is_some_and(|why| why.ends_with("hardly waited for a CPU.")));
    }

    /// A group can wait for its own tasks while CPUs are idle.
    #[test]
    fn waits_name_the_tasks_that_had_the_cpu_and_the_idle_part() {
        let mut run = results(&[("/", None, 900, 900), ("/web", Some(0), 400, 500), ("/batch", Some(0), 500, 400)]);
        (run.cpus[0].busy_ns, run.cpus[0].overhead_ns, run.cpus[0].idle_ns) = (400, 100, 500);
        run.groups[1].own_delay_ns = Some(420_000_000);
        let of = |run: &Results| run.group_sentences().remove(0);
        let own = "its tasks waited (wait 50.00 %), for 84 % of that time behind its own tasks, while the CPUs were 50.00 % idle.";
        assert!(of(&run).ends_with(own), "{}", of(&run));
        assert!(
            Explained::of(&[run.clone(), run.clone()]).sentences("").remove(0).ends_with(own),
            "the same over runs"
        );
        run.groups[1].own_delay_ns = Some(120_000_000);
        assert!(of(&run).contains(", for 76 % of that time behind tasks outside the group, while"), "{}", of(&run));
        // The rest can be throttled time.
        run.groups[1].limit = Some(LimitResult { throttled_ns: 1_000_000, ..limit(9) });
        assert!(of(&run).contains(", for 24 % of that time behind its own tasks, while"), "{}", of(&run));
        run.groups[1].own_delay_ns = None;
        assert!(of(&run).contains(" (wait 50.00 %), while the CPUs"), "as in saved results: {}", of(&run));
    }

    /// A group whose tasks never wait takes nothing from another group.
    #[test]
    fn a_group_that_hardly_waits_gets_more_for_its_own_reason() {
        let mut run = results(&[("/", None, 900, 900), ("/web", Some(0), 400, 500), ("/batch", Some(0), 500, 400)]);
        let reason = |run: &Results| run.group_sentences()[1].split_once(": ").map(|(_, why)| why.to_owned());
        run.groups[2].run_delay_ns = 25_000_000;
        assert_eq!(reason(&run).as_deref(), Some("group `/web` did not get its entitlement."));
        run.groups[2].run_delay_ns -= 1;
        let alone =
            "its tasks hardly waited for a CPU (wait 2.50 %), and weights count only where tasks wait for one CPU.";
        assert_eq!(reason(&run).as_deref(), Some(alone));
        run.groups[2].unmeasured.waits = true;
        assert_eq!(reason(&run).as_deref(), Some("group `/web` did not get its entitlement."));
    }

    /// At its entitlement, a group below its limit is not said to have all of it.
    #[test]
    fn a_limit_counts_as_used_up_from_95_percent() {
        let mut run = results(&[("/", None, 900, 900), ("/web", Some(0), 475, 475)]);
        run.groups[1].limit = Some(limit(9));
        assert!(
            run.group_sentences()[0]
                .starts_with("Group `/web` got 47.50 % of a CPU, all that its CPU limit of 0.5 CPUs")
        );
        (run.groups[1].cpu_ns, run.groups[1].entitled_ns) = (474_000_000, 474_000_000);
        assert!(
            run.group_sentences()[0].starts_with("Group `/web` got its entitlement of 47.40 % of a CPU, and its CPU")
        );
        // A limit that was lower before.
        (run.groups[1].cpu_ns, run.groups[1].entitled_ns) = (601_000_000, 601_000_000);
        assert!(
            run.group_sentences()[0].starts_with("Group `/web` got its entitlement of 60.10 % of a CPU, and its CPU")
        );
    }

    #[test]
    fn small_deviations_are_not_explained() {
        let of = |cpu, entitled| results(&[("/", None, 900, 900), ("/web", Some(0), cpu, entitled)]).group_sentences();
        assert!(of(960, 1000).is_empty() && of(50, 59).is_empty());
        assert!(!of(950, 1000).is_empty() && !of(50, 60).is_empty());
        let mut run = results(&[("/", None, 900, 0), ("/web", Some(0), 400, 0)]);
        assert!(run.group_sentences().is_empty());
        run.groups[1].limit = Some(limit(9));
        assert_eq!(
            run.group_sentences(),
            ["Group `/web`: its CPU limit of 0.5 CPUs (50.0 ms in each 100 ms) throttled it in 9 of 10 periods."]
        );
    }

    /// The first period may have begun before the run.
    #[test]
    fn a_limit_that_is_exceeded_is_named() {
        let mut run = results(&[("/", None, 600, 600), ("/web", Some(0), 600, 500)]);
        run.groups[1].limit = Some(limit(9));
        let sentence = run.group_sentences().remove(0);
        assert!(
            sentence.contains(
                "more than its entitlement of 50.00 % of a CPU: it exceeded its CPU limit of 0.5 CPUs (50.0 ms in each 100 ms), since"
            ),
            "{sentence}"
        );
        let other = "other tasks did not get what they were entitled to.";
        for (cpu_ms, entitled_ms) in [(500, 400), (601, 500)] {
            (run.groups[1].cpu_ns, run.groups[1].entitled_ns) = (cpu_ms * 1_000_000, entitled_ms * 1_000_000);
            let sentence = run.group_sentences().remove(0);
            assert!(sentence.ends_with(other), "not above the limit, or too far above it: {sentence}");
        }
    }

    #[test]
    fn figures_are_summed_over_runs() {
        let mut runs = vec![results(&[("/", None, 900, 900), ("/web", Some(0), 400, 500)]); 2];
        for (run, throttled) in runs.iter_mut().zip([9, 8]) {
            run.groups[1].limit = Some(limit(throttled));
        }
        let explained = Explained::of(&runs);
        assert!(explained.is_throttled("/web") && !explained.is_throttled("/"));
        let sentence = explained.of_group("/web").expect("it deviates");
        assert!(
            sentence.contains("got 40.00 %") && sentence.ends_with("8.50 of 10 periods (mean of 2 runs)."),
            "{sentence}"
        );
        let sentences = explained.sentences("with 6.12, ");
        assert!(sentences[0].starts_with("With 6.12, group `/web` got 40.00 %"), "{sentences:?}");
        let one = Explained::new(&runs[0], 1_000_000_000);
        assert_eq!(Explained::sum([&one, &Explained::new(&runs[1], 1_000_000_000)].into_iter()), explained);
        assert_eq!(Explained::sum(std::iter::empty()), Explained::default());
    }
}
