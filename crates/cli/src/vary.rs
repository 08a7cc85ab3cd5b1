//! `compare --vary`: values of a rule, an option or a tunable, in all combinations.

use miette::miette;

/// A combination of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The values, such as `max=500m, 6.12`.
    pub(crate) label: String,
    /// As of `--map`.
    pub(crate) rules: Vec<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) machine: Option<String>,
    /// As of `--feature`.
    pub(crate) features: Vec<String>,
    /// As of `--set`.
    pub(crate) set: Vec<String>,
}

const MOST: usize = 1000;

pub(crate) fn points(vary: &[String]) -> miette::Result<Vec<Point>> {
    let mut points = vec![Point::default()];
    for text in vary {
        let axis = axis(text)?;
        let combined = points.iter().flat_map(|point| axis.iter().map(move |value| point.with(value)));
        points = combined.collect();
        if points.len() > MOST {
            return Err(miette!(help = "vary fewer values at once", "--vary makes more than {MOST} combinations"));
        }
    }
    Ok(if vary.is_empty() { Vec::new() } else { points })
}

impl Point {
    fn with(&self, other: &Self) -> Self {
        let join = |one: &[String], other: &[String]| [one, other].concat();
        let label =
            if self.label.is_empty() { other.label.clone() } else { format!("{}, {}", self.label, other.label) };
        Self {
            label,
            rules: join(&self.rules, &other.rules),
            kernel: other.kernel.clone().or_else(|| self.kernel.clone()),
            machine: other.machine.clone().or_else(|| self.machine.clone()),
            features: join(&self.features, &other.features),
            set: join(&self.set, &other.set),
        }
    }
}

/// Parses the values of one `--vary`.
fn axis(text: &str) -> miette::Result<Vec<Point>> {
    let help = "give a rule, such as 'cgroup=/pod: max=250m,500m,1,max', or 'kernel=6.1,6.12', 'machine=4,8', \
                'feature=RUN_TO_PARITY,NO_RUN_TO_PARITY' or a tunable, such as 'base_slice_ns=700000,3000000'; `|` separates values \
                with commas";
    let text = text.trim();
    let wrong = |what: &str| miette!(help = help, "--vary `{text}` {what}");
    let named = ["kernel=", "machine=", "feature="].into_iter().find(|name| text.starts_with(name));
    // Names may contain colons: `: ` takes precedence.
    let rule = if named.is_some() { None } else { text.split_once(": ").or_else(|| text.split_once(':')) };
    let (fixed, last) = match rule {
        Some((_, what)) => {
            let what = what.trim();
            let at = what.rfind(char::is_whitespace).map_or(0, |at| at + 1);
            (what[..at].to_owned(), &what[at..])
        }
        None => (String::new(), text),
    };
    let (key, values) = last.split_once('=').ok_or_else(|| wrong("has no values"))?;
    let separator = if values.contains('|') { '|' } else { ',' };
    let values: Vec<&str> = values.split(separator).map(str::trim).collect();
    if values.iter().any(|value| value.is_empty()) {
        return Err(wrong("has an empty value"));
    }
    if values.len() < 2 {
        return Err(wrong("has one value, and nothing to compare it with"));
    }
    let point = |value: &&str| {
        let value = (*value).to_owned();
        let setting = format!("{key}={value}");
        match (rule, named) {
            (Some((who, _)), _) => {
                Point { rules: vec![format!("{}: {fixed}{setting}", who.trim())], label: setting, ..Point::default() }
            }
            (None, Some("kernel=")) => Point { label: value.clone(), kernel: Some(value), ..Point::default() },
            (None, Some("machine=")) => Point { label: value.clone(), machine: Some(value), ..Point::default() },
            (None, Some(_)) => Point { label: value.clone(), features: vec![value], ..Point::default() },
            (None, None) => Point { label: setting.clone(), set: vec![setting], ..Point::default() },
        }
    };
    Ok(values.iter().map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(vary: &[&str]) -> Vec<String> {
        let vary: Vec<String> = vary.iter().map(|text| (*text).to_owned()).collect();
        points(&vary).unwrap().into_iter().map(|point| point.label).collect()
    }

    #[test]
    fn a_rule_has_a_value_at_its_end() {
        let points = points(&["cgroup=/pod: weight=50 max=250m,500m,max".to_owned()]).unwrap();
        let rules: Vec<&str> = points.iter().map(|point| point.rules[0].as_str()).collect();
        assert_eq!(
            rules,
            ["cgroup=/pod: weight=50 max=250m", "cgroup=/pod: weight=50 max=500m", "cgroup=/pod: weight=50 max=max"]
        );
        assert_eq!(
            labels(&["a: policy=other,deadline:2ms/10ms/10ms"]),
            ["policy=other", "policy=deadline:2ms/10ms/10ms"]
        );
        assert_eq!(labels(&["a: cpus=0-1|0,2-3"]), ["cpus=0-1", "cpus=0,2-3"]);
    }

    #[test]
    fn several_are_combined() {
        assert_eq!(
            labels(&["kernel=6.1,6.12", "a: nice=0,5"]),
            ["6.1, nice=0", "6.1, nice=5", "6.12, nice=0", "6.12, nice=5"]
        );
        assert_eq!(labels(&["machine=pack:1 core:2|pack:2 core:2"]), ["pack:1 core:2", "pack:2 core:2"]);
        assert_eq!(points(&["hz_like=1,2".to_owned()]).unwrap()[1].set, ["hz_like=2"]);
        assert!(points(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_has_no_two_values_is_refused() {
        for text in ["cgroup=/pod: max", "kernel=6.12", "a: nice=1,", "nothing"] {
            assert!(points(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
