//! `cpus` and `partition` of groups (cgroup v2's `cpuset` controller), and `isolated` of machines (`isolcpus`).

use std::ops::Range;

use toml::de::DeValue;

use super::Spanned;
use super::fields::{Fields, Value};
use crate::error::Problems;
use crate::program::{Cpuset, Group, Partition};
use crate::suggest::did_you_mean;

/// More CPUs than machines have.
const MOST: u32 = 65_535;

pub(super) struct DeclaredCpuset {
    pub(super) cpuset: Cpuset,
    cpus: Option<Range<usize>>,
}

impl DeclaredCpuset {
    pub(super) fn named(&self) -> Option<Spanned<Vec<u32>>> {
        Some(Spanned { value: self.cpuset.cpus.clone()?, span: self.cpus.clone()? })
    }
}

/// Reads `cpus` and `partition` of a declared group.
pub(super) fn parse(fields: &mut Fields<'_, '_>, path: &str) -> DeclaredCpuset {
    let cpus = list(fields, "cpus");
    let partition = partition(fields);
    if let Some((partition, span)) = &partition
        && *partition != Partition::Member
        && cpus.is_none()
        && fields.get("cpus").is_none()
    {
        let message = format!("group `{path}` is a partition without `cpus`");
        fields.bad(span.clone(), message, "of which CPUs?", "add cpus = \"0-3\", the CPUs it has to itself");
    }
    let (cpus, span) = cpus.map_or((None, None), |cpus| (Some(cpus.value), Some(cpus.span)));
    DeclaredCpuset {
        cpuset: Cpuset { cpus, partition: partition.map_or(Partition::Member, |(kind, _)| kind) },
        cpus: span,
    }
}

pub(super) fn partition(fields: &mut Fields<'_, '_>) -> Option<(Partition, Range<usize>)> {
    let (name, span) = fields.string("partition", "the kind of a partition, such as \"root\"")?;
    let partition = Partition::from_name(name);
    if partition.is_none() {
        let help = did_you_mean(name, Partition::ALL.iter().map(|(name, _)| *name));
        fields.bad(span.clone(), format!("unknown partition `{name}`"), "expected member, root or isolated", help);
    }
    Some((partition?, span))
}

/// Reads CPUs, as `"0-3,6"` or a list of numbers. Returns them ascending, and at least one.
pub(super) fn list(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Spanned<Vec<u32>>> {
    let value = fields.get(key)?;
    let cpus = any_list(fields, key, value)?;
    if cpus.is_empty() {
        let message = format!("`{key}` is empty");
        fields.bad(
            value.span(),
            message,
            "expected CPUs, such as \"0-3,6\"",
            format!("name some, or leave `{key}` out"),
        );
        return None;
    }
    Some(Spanned { value: cpus, span: value.span() })
}

/// As [`list`], but possibly empty.
pub(super) fn any_list(fields: &mut Fields<'_, '_>, key: &'static str, value: &Value<'_>) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    match value.get_ref() {
        DeValue::String(text) => match ranges(text) {
            Ok(found) => cpus = found,
            Err(wrong) => {
                let message = format!("`{key}` is not a list of CPUs: {wrong}");
                let help = "write numbers and ranges as the kernel does: \"0-3,6\"";
                fields.bad(value.span(), message, "expected CPUs, such as \"0-3,6\"", help);
                return None;
            }
        },
        DeValue::Array(entries) => {
            for entry in entries {
                cpus.push(fields.integer_in(key, entry, 0..=i64::from(MOST), "a CPU")? as u32);
            }
        }
        _ => {
            fields.wrong(key, value, "CPUs, such as \"0-3,6\"");
            return None;
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Parses `0-3,6`, possibly empty. Returns distinct CPUs in the order of the text.
pub(crate) fn ranges(text: &str) -> Result<Vec<u32>, String> {
    let number = |text: &str| {
        let text = text.trim();
        text.parse::<u32>()
            .ok()
            .filter(|&cpu| cpu <= MOST)
            .ok_or_else(|| format!("`{text}` is not the number of a CPU"))
    };
    let mut cpus = Vec::new();
    let mut seen = vec![false; MOST as usize + 1];
    for part in text.split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last {
            return Err(format!("the range {first}-{last} ends before it begins"));
        }
        cpus.extend((first..=last).filter(|&cpu| !std::mem::replace(&mut seen[cpu as usize], true)));
    }
    Ok(cpus)
}

fn text(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|a, b| a + 1 == *b);
    let runs = runs.map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<String>>().join(",")
}

/// Checks that no partition shares a CPU with a declared sibling. `declared`: groups by number.
pub(super) fn exclusive(problems: &mut Problems, groups: &[Group], declared: &[(usize, DeclaredCpuset)]) {
    for (position, (index, declaration)) in declared.iter().enumerate() {
        let Some((cpus, span)) = declaration.cpuset.cpus.as_ref().zip(declaration.cpus.clone()) else { continue };
        for (other, beside) in &declared[..position] {
            let partition = [declaration, beside].iter().any(|it| it.cpuset.partition != Partition::Member);
            let Some(others) = beside.cpuset.cpus.as_ref() else { continue };
            if !partition || groups[*index].parent != groups[*other].parent {
                continue;
            }
            let both: Vec<u32> = cpus.iter().copied().filter(|cpu| others.contains(cpu)).collect();
            if both.is_empty() {
                continue;
            }
            let (one, two) = (&groups[*index].path, &groups[*other].path);
            let which = if declaration.cpuset.partition == Partition::Member { two } else { one };
            let message = format!("groups `{two}` and `{one}` both name CPU {}", text(&both));
            let label = format!("`{which}` is a partition, which has its CPUs to itself");
            let error = problems
                .new_error(span.clone(), message, label)
                .with_help(format!("take CPU {} out of one of them, or make no partition of `{which}`", text(&both)));
            problems.error(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_the_kernels() {
        assert_eq!(ranges("0-3,6"), Ok(vec![0, 1, 2, 3, 6]));
        assert_eq!(ranges(" 5 , 1 - 2"), Ok(vec![5, 1, 2]));
        assert_eq!(ranges("  "), Ok(vec![]));
        assert_eq!(ranges("3-1").unwrap_err(), "the range 3-1 ends before it begins");
        assert_eq!(ranges("1,,2").unwrap_err(), "`` is not the number of a CPU");
        assert_eq!(ranges("0-99999").unwrap_err(), "`99999` is not the number of a CPU");
        assert_eq!(text(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }
}
