//! `compare --vary`: values of a rule, an option or a tunable, in all combinations.

use clap::ValueEnum;
use miette::miette;

use crate::args::{Compare, PreemptName};

/// A combination of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The values, such as `max=500m, 6.12`.
    pub(crate) label: String,
    /// As of `--map`.
    pub(crate) rules: Vec<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) machine: Option<String>,
    pub(crate) preempt: Option<PreemptName>,
    pub(crate) hz: Option<u32>,
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

/// Options whose values `--vary` can take. A tunable or a rule can be in several.
const OPTIONS: [&str; 4] = ["kernel", "machine", "preempt", "hz"];

/// Rejects an option that has values in `--vary` twice, or in `--vary` and beside it.
pub(crate) fn check(compare: &Compare) -> miette::Result<()> {
    let model = &compare.options.model;
    let beside = [!compare.kernel.is_empty(), !compare.machine.is_empty(), model.preempt.is_some(), model.hz.is_some()];
    for (option, beside) in OPTIONS.into_iter().zip(beside) {
        let is_of = |text: &&String| text.trim().split_once('=').is_some_and(|(key, _)| key == option);
        let varied = compare.vary.iter().filter(is_of).count();
        if varied > 0 && beside {
            let help = format!("write all values in one of them, as in --vary {option}=A,B");
            return Err(miette!(help = help, "--{option} and --vary {option}= both choose the {option}"));
        }
        if varied > 1 {
            let help = format!("write all values in one of them, as in --vary {option}=A,B");
            return Err(miette!(help = help, "--vary {option}= is given twice"));
        }
    }
    Ok(())
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
            preempt: other.preempt.or(self.preempt),
            hz: other.hz.or(self.hz),
            features: join(&self.features, &other.features),
            set: join(&self.set, &other.set),
        }
    }
}

/// Parses the values of one `--vary`.
fn axis(text: &str) -> miette::Result<Vec<Point>> {
    let help = "give a rule, such as 'cgroup=/pod: max=250m,500m,1,max', or 'kernel=6.1,6.12', 'machine=4,8', 'preempt=none,full', \
                'hz=250,1000', 'feature=RUN_TO_PARITY,NO_RUN_TO_PARITY' or a tunable, such as 'base_slice_ns=700000,3000000'; \
                `|` separates values with commas";
    let text = text.trim();
    let wrong = |what: &str| miette!(help = help, "--vary `{text}` {what}");
    let named = text.split('=').next().filter(|key| OPTIONS.contains(key) || *key == "feature");
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
        let setting = format!("{key}={value}");
        match (rule, named) {
            (Some((who, _)), _) => {
                let rules = vec![format!("{}: {fixed}{setting}", who.trim())];
                Ok(Point { rules, label: setting, ..Point::default() })
            }
            (None, Some(option)) => option_point(option, value).map_err(|why| wrong(&why)),
            (None, None) => Ok(Point { label: setting.clone(), set: vec![setting], ..Point::default() }),
        }
    };
    values.iter().map(point).collect()
}

/// Returns the point of an option's value, or why it is none.
fn option_point(option: &str, value: &str) -> Result<Point, String> {
    let text = value.to_owned();
    let point = Point { label: format!("{option}={value}"), ..Point::default() };
    Ok(match option {
        "kernel" => Point { label: text.clone(), kernel: Some(text), ..point },
        "machine" => Point { label: text.clone(), machine: Some(text), ..point },
        "preempt" => {
            let preempt = PreemptName::from_str(value, false);
            let preempt = preempt.map_err(|_| format!("has the value `{value}`, not none, voluntary, lazy or full"))?;
            Point { preempt: Some(preempt), ..point }
        }
        "hz" => {
            let hz = value.parse().ok().filter(|hz| (1..=10_000).contains(hz));
            Point { hz: Some(hz.ok_or_else(|| format!("has the value `{value}`, not 1 to 10000"))?), ..point }
        }
        _ => Point { label: text.clone(), features: vec![text], ..point },
    })
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
        assert_eq!(labels(&["preempt=none,full", "hz=100,1000"]).len(), 4);
        assert_eq!(points(&["hz=100,1000".to_owned()]).unwrap()[1].hz, Some(1000));
        assert_eq!(points(&["preempt=none,full".to_owned()]).unwrap()[1].preempt, Some(PreemptName::Full));
    }

    #[test]
    fn what_has_no_two_values_is_refused() {
        for text in ["cgroup=/pod: max", "kernel=6.12", "a: nice=1,", "nothing", "hz=0,100", "preempt=none,some"] {
            assert!(points(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
