//! "Did you mean": the nearest known name.

use crate::plain::escaped;

/// Returns the name nearest to `wrong`, if near enough.
///
/// ```
/// assert_eq!(vruntime_workload::nearest("wbe.json", ["web.json", "hogs.json"]), Some("web.json"));
/// assert_eq!(vruntime_workload::nearest("nowhere.json", ["forever.json"]), None);
/// ```
pub fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance is quadratic in length. Longer names are not typing errors.
    if wrong.len() > 64 {
        return None;
    }
    let low = wrong.to_lowercase();
    names
        .into_iter()
        .filter(|name| name.len() <= 64)
        .map(|name| {
            let name_low = name.to_lowercase();
            let contained =
                name_low.len() >= 3 && low.len() >= 3 && (low.contains(&name_low) || name_low.contains(&low));
            let distance = strsim::damerau_levenshtein(&low, &name_low);
            (if contained { distance.min(1) } else { distance }, distance, name)
        })
        .filter(|(rank, _, name)| *rank <= (wrong.len().max(name.len()) / 3).min(3))
        .min()
        .map(|(_, _, name)| name)
}

/// Returns help for an unknown name: the nearest name, or a list.
pub fn did_you_mean<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match nearest(wrong, names.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known here: {}", list(names)),
    }
}

/// Returns the first 20 names, without characters that terminals obey.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<_> = names.into_iter().collect();
    let more = names.len().saturating_sub(20);
    names.truncate(20);
    let mut text = names.into_iter().map(escaped).collect::<Vec<_>>().join(", ");
    if more > 0 {
        use std::fmt::Write as _;
        let _ = write!(text, " and {more} more");
    }
    if text.is_empty() { "nothing".to_owned() } else { text }
}

/// Names of weight and limit in cgroup v1, Docker and Kubernetes, with the key to write.
const LIMITS_BY_OTHER_NAMES: [(&[&str], &str); 4] = [
    (
        &["shares", "cpu.shares", "cpu_shares"],
        "write `weight`: 1024 shares of cgroup v1 are weight 100, so that 512 shares are weight 50",
    ),
    (
        &["quota", "cpu.cfs_quota_us", "cpu_quota", "period", "cpu.cfs_period_us", "cpu_period"],
        "write `max`, quota and period together: \"50ms/100ms\"",
    ),
    (&["limit", "limits", "cpu_limit"], "write `max`, which takes a limit of Kubernetes: \"500m\" or \"2\""),
    (
        &["request", "requests", "cpu_request"],
        "write `weight`: requests of Kubernetes are weights in the same proportion, 1 CPU 100 and 500m 50",
    ),
];

/// Returns the key for a weight or limit under a foreign name. None if unknown.
pub fn limit_by_other_name(name: &str) -> Option<&'static str> {
    LIMITS_BY_OTHER_NAMES.iter().find(|(names, _)| names.contains(&name)).map(|(_, help)| *help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let keys = ["policy", "priority", "period", "cpus"];
        assert_eq!(nearest("polcy", keys), Some("policy"));
        assert_eq!(nearest("CPU", keys), Some("cpus"));
        assert_eq!(nearest("prioritty", keys), Some("priority"));
        assert_eq!(nearest("zebra", keys), None);
        assert_eq!(nearest(&"p".repeat(1000), keys), None);
        assert_eq!(did_you_mean("zebra", ["a\nb\u{202e}"]), "known here: a\\nb\\u{202e}");
    }
}
