//! Tasks that a machine runs beside every workload: daemons and kernel threads, as observed in `schedstat`.
//!
//! Recordings and machine files (`vruntime calibrate`) share the format:
//!
//! ```toml
//! name = "kdamond.0"
//! policy = "SCHED_OTHER"   # the default
//! nice = 0                 # of SCHED_OTHER and SCHED_BATCH; 0 is the default
//! priority = 50            # of SCHED_FIFO and SCHED_RR
//! cpus = [0]               # default: all
//! period_ns = 357000000    # from one wakeup to the next, on average
//! work_ns = 1400000        # what it works each time, on average
//! ```

use serde::{Deserialize, Serialize};

use crate::program::Policy;

/// A background task. Only averages are known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Form", into = "Form")]
pub struct Resident {
    /// The name.
    pub name: String,
    /// The policy. Never SCHED_DEADLINE.
    pub policy: Policy,
    /// The CPUs it may use. None: all.
    pub cpus: Option<Vec<u32>>,
    /// Average time between wakeups, nanoseconds. At least 1.
    pub period: u64,
    /// Average work of each wakeup, nanoseconds.
    pub work: u64,
}

impl Resident {
    /// Returns its use of CPU time, in CPUs. Merged tasks can use more than 1.
    pub fn taken(&self) -> f64 {
        self.work as f64 / self.period as f64
    }

    /// Returns its wakeups per second.
    pub fn rate(&self) -> f64 {
        1e9 / self.period as f64
    }
}

/// The format of files.
#[derive(Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Form {
    name: String,
    #[serde(default = "other", skip_serializing_if = "is_other")]
    policy: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    nice: i8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<Vec<u32>>,
    period_ns: u64,
    work_ns: u64,
}

const OTHER: &str = "SCHED_OTHER";

fn other() -> String {
    OTHER.to_owned()
}

fn is_other(policy: &str) -> bool {
    policy == OTHER
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(nice: &i8) -> bool {
    *nice == 0
}

impl TryFrom<Form> for Resident {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let Form { name, policy, nice, priority, cpus, period_ns: period, work_ns: work } = form;
        if !(-20..=19).contains(&nice) {
            return Err(format!("`{name}` has nice {nice}, expected -20 to 19"));
        }
        if period == 0 {
            return Err(format!("`{name}` has a period_ns of 0, expected at least 1"));
        }
        if cpus.as_ref().is_some_and(Vec::is_empty) {
            return Err(format!("`{name}` has no CPU to run on: leave `cpus` out if it may run on all"));
        }
        let fixed = || {
            let fits = priority.filter(|priority| (1..=99).contains(priority));
            fits.ok_or_else(|| format!("`{name}` is {policy} and needs a priority of 1 to 99"))
        };
        let policy = match policy.as_str() {
            OTHER => Policy::Other { nice, slice: None },
            "SCHED_BATCH" => Policy::Batch { nice, slice: None },
            "SCHED_IDLE" => Policy::Idle,
            "SCHED_FIFO" => Policy::Fifo { priority: fixed()? },
            "SCHED_RR" => Policy::RoundRobin { priority: fixed()? },
            _ => {
                return Err(format!(
                    "`{name}` has the policy `{policy}`: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO and SCHED_RR are possible"
                ));
            }
        };
        Ok(Self { name, policy, cpus, period, work })
    }
}

impl From<Resident> for Form {
    fn from(resident: Resident) -> Self {
        let (policy, nice, priority) = match resident.policy {
            Policy::Other { nice, .. } => (OTHER, nice, None),
            Policy::Batch { nice, .. } => ("SCHED_BATCH", nice, None),
            Policy::Idle => ("SCHED_IDLE", 0, None),
            Policy::Fifo { priority } => ("SCHED_FIFO", 0, Some(priority)),
            Policy::RoundRobin { priority } => ("SCHED_RR", 0, Some(priority)),
            Policy::Deadline { .. } => ("SCHED_DEADLINE", 0, None),
        };
        Self {
            name: resident.name,
            policy: policy.to_owned(),
            nice,
            priority,
            cpus: resident.cpus,
            period_ns: resident.period,
            work_ns: resident.work,
        }
    }
}

/// Merges tasks of equal name, policy and CPUs, in order of first appearance. Within an observation, their rates add
/// up. Over observations, rates are averaged. Work is the mean over all wakeups.
pub fn average(observations: &[Vec<Resident>]) -> Vec<Resident> {
    let mut sums: Vec<(&Resident, f64, f64)> = Vec::new();
    for resident in observations.iter().flatten() {
        let wakeups = resident.rate();
        let work = wakeups * resident.work as f64;
        let same = |(seen, ..): &&mut (&Resident, f64, f64)| {
            seen.name == resident.name && seen.policy == resident.policy && seen.cpus == resident.cpus
        };
        match sums.iter_mut().find(same) {
            Some((_, all, worked)) => (*all, *worked) = (*all + wakeups, *worked + work),
            None => sums.push((resident, wakeups, work)),
        }
    }
    let count = observations.len() as f64;
    let averaged = sums.into_iter().map(|(resident, wakeups, work)| Resident {
        period: ((1e9 * count / wakeups).round() as u64).max(1),
        work: (work / wakeups).round() as u64,
        ..resident.clone()
    });
    averaged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Resident, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let policies = [
            Policy::Other { nice: -3, slice: None },
            Policy::Batch { nice: 0, slice: None },
            Policy::Idle,
            Policy::Fifo { priority: 99 },
            Policy::RoundRobin { priority: 1 },
        ];
        for policy in policies {
            for cpus in [None, Some(vec![1, 3])] {
                let resident = Resident { name: "k \"w\"".to_owned(), policy, cpus, period: 7, work: 3 };
                let text = serde_json::to_string(&resident).unwrap();
                assert_eq!(read(&text), Ok(resident), "{text}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_reported() {
        for (fields, says) in [
            (r#""period_ns": 0"#, "period_ns of 0"),
            (r#""period_ns": 1, "nice": 20"#, "nice 20"),
            (r#""period_ns": 1, "cpus": []"#, "no CPU"),
            (r#""period_ns": 1, "policy": "SCHED_FIFO""#, "priority of 1 to 99"),
            (r#""period_ns": 1, "policy": "SCHED_RR", "priority": 100"#, "priority of 1 to 99"),
            (r#""period_ns": 1, "policy": "SCHED_DEADLINE""#, "`SCHED_DEADLINE`"),
            (r#""period_ns": 1, "often": 3"#, "unknown field `often`"),
        ] {
            let error = read(&format!(r#"{{"name": "x", "work_ns": 1, {fields}}}"#)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    /// Rates of 2 and 0 a second average to 1.
    #[test]
    fn looks_are_averaged() {
        let one = |name: &str, period, work| Resident {
            name: name.to_owned(),
            policy: Policy::Idle,
            cpus: None,
            period,
            work,
        };
        let looks = [vec![one("a", 500_000_000, 10), one("b", 1_000_000_000, 10)], vec![one("b", 250_000_000, 30)]];
        assert_eq!(average(&looks), [one("a", 1_000_000_000, 10), one("b", 400_000_000, 26)]);
        assert_eq!(average(&[]), []);
    }
}
