//! Notations of policies: `SCHED_FIFO`, `fifo`, `fifo:50`, `SCHED_RR:10`, `deadline:2ms/10ms/10ms`.

use crate::rtapp::PolicyName;
use crate::units::parse_duration;

/// The notations, for messages.
pub const EXPECTED: &str = "other, batch, idle, fifo:50, rr:10 or deadline:2ms/10ms/10ms, or a name such as SCHED_FIFO";

/// A policy with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The policy.
    pub name: PolicyName,
    /// The priority of `fifo:50`.
    pub priority: Option<u8>,
    /// Runtime, deadline and period, nanoseconds.
    pub times: Option<[u64; 3]>,
}

/// Parses a policy, by its short or kernel name in any case.
///
/// # Errors
/// Why `text` is no policy.
///
/// ```
/// use vruntime_workload::policy::written;
/// use vruntime_workload::rtapp::PolicyName;
///
/// let fifo = written("fifo:50").unwrap();
/// assert_eq!((fifo.name, fifo.priority), (PolicyName::Fifo, Some(50)));
/// assert_eq!(written("SCHED_FIFO").unwrap().name, PolicyName::Fifo);
/// assert!(written("SCHED_FIFO:100").unwrap_err().contains("1 to 99"));
/// ```
pub fn written(text: &str) -> Result<Written, String> {
    let (name, rest) = text.trim().split_once(':').map_or((text.trim(), None), |(name, rest)| (name, Some(rest)));
    let name = named(name.trim_end()).ok_or_else(|| format!("unknown policy `{name}`"))?;
    let plain = Written { name, priority: None, times: None };
    let Some(rest) = rest.map(str::trim) else { return Ok(plain) };
    match name {
        PolicyName::Fifo | PolicyName::RoundRobin => {
            let priority = rest.parse().ok().filter(|priority| (1..=99).contains(priority));
            let priority = priority.ok_or_else(|| format!("`{rest}` is not a real-time priority: expected 1 to 99"))?;
            Ok(Written { priority: Some(priority), ..plain })
        }
        PolicyName::Deadline => {
            let times = rest.split('/').map(parse_duration).collect::<Result<Vec<u64>, String>>()?;
            let times = match times[..] {
                [runtime, period] => [runtime, period, period],
                [runtime, deadline, period] => [runtime, deadline, period],
                _ => return Err("expected deadline:RUNTIME/DEADLINE/PERIOD, three times".to_owned()),
            };
            Ok(Written { times: Some(times), ..plain })
        }
        _ => Err(format!("{} has no parameter: expected it without `:{rest}`", name.name())),
    }
}

fn named(text: &str) -> Option<PolicyName> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SCHED_").unwrap_or(&upper);
    if bare == "NORMAL" {
        return Some(PolicyName::Other);
    }
    PolicyName::ALL.iter().find(|(name, _)| name.strip_prefix("SCHED_") == Some(bare)).map(|(_, policy)| *policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_every_policy_mean_the_same() {
        for (kernel, policy) in PolicyName::ALL {
            let short = kernel.strip_prefix("SCHED_").unwrap().to_lowercase();
            for text in [kernel, &short] {
                assert_eq!(written(text), Ok(Written { name: policy, priority: None, times: None }), "{text}");
            }
        }
        assert_eq!(written("normal"), written("SCHED_OTHER"));
        let rr = Written { name: PolicyName::RoundRobin, priority: Some(7), times: None };
        assert_eq!((written("rr:7"), written("SCHED_RR: 7")), (Ok(rr), Ok(rr)));
        let times = written("SCHED_DEADLINE:2ms/10ms").unwrap().times;
        assert_eq!(times, Some([2_000_000, 10_000_000, 10_000_000]));
        assert_eq!(times, written("deadline:2ms/10ms/10ms").unwrap().times);
    }

    #[test]
    fn what_is_no_policy_says_why() {
        for (text, why) in [
            ("SCHED_FIFFO", "unknown policy `SCHED_FIFFO`"),
            ("fifo:0", "1 to 99"),
            ("rr:", "1 to 99"),
            ("other:5", "has no parameter"),
            ("deadline:2ms", "three times"),
            ("deadline:2/3/4", "unit"),
        ] {
            assert!(written(text).unwrap_err().contains(why), "{text}: {:?}", written(text));
        }
    }
}
