//! `machine`: a topology in one string, or a table with capacities and the rest.

use std::path::PathBuf;

use toml::de::DeValue;

use super::Spanned;
use super::fields::Fields;

/// The machine a scenario runs on, as far as the file says. What is missing is the machine crate's default; whether
/// the topology makes sense is that crate's to tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// hwloc's synthetic string, such as `pack:2 l3:1 core:4 pu:2`.
    pub topology: Option<Spanned<String>>,
    /// An XML file that `lstopo` wrote, relative to the scenario's folder.
    pub lstopo: Option<Spanned<PathBuf>>,
    /// Capacity of each CPU, 1..=1024; empty: all 1024.
    pub capacities: Vec<u32>,
    /// Distance of each NUMA node to each, a row a node, as in ACPI's SLIT (10 to itself); none: 10 and 20.
    pub node_distances: Option<Spanned<Vec<Vec<u32>>>>,
    /// What a core with two busy threads does in comparison with one busy thread, thousandths, 1000..=2000.
    pub smt_speedup_permille: Option<u32>,
}

pub(super) fn parse(fields: &mut Fields<'_, '_>) -> Option<Machine> {
    let value = fields.get("machine")?;
    match value.get_ref() {
        DeValue::String(text) => {
            let topology = Some(Spanned { value: text.to_string(), span: value.span() });
            return Some(Machine { topology, ..Machine::default() });
        }
        DeValue::Table(_) => {}
        _ => {
            fields.wrong("machine", value, "a topology such as \"pack:1 core:4\", or a table");
            return None;
        }
    }
    let mut inner = Fields::new(fields.problems, "[machine]", value);
    let topology = inner
        .string("topology", "hwloc's synthetic string, such as \"pack:1 core:4\"")
        .map(|(text, span)| Spanned { value: text.to_owned(), span });
    let lstopo = inner
        .string("lstopo", "the path of an XML file")
        .map(|(path, span)| Spanned { value: PathBuf::from(path), span });
    if topology.is_some()
        && let Some(lstopo) = &lstopo
    {
        let message = "[machine] has both `topology` and `lstopo`".to_owned();
        inner.bad(lstopo.span.clone(), message, "one machine too many", "remove one of them");
    }
    let mut capacities = Vec::new();
    for entry in inner.array("capacities", "a list of capacities, one a CPU").unwrap_or_default() {
        let capacity = inner.integer_in("capacities", entry, 1..=1024, "a capacity");
        capacities.extend(capacity.map(|capacity| capacity as u32));
    }
    let node_distances = node_distances(&mut inner);
    let smt_speedup_permille = smt_speedup(&mut inner);
    inner.finish();
    Some(Machine { topology, lstopo, capacities, node_distances, smt_speedup_permille })
}

/// A square table; whether it fits the machine is that crate's to tell.
fn node_distances(fields: &mut Fields<'_, '_>) -> Option<Spanned<Vec<Vec<u32>>>> {
    const KEY: &str = "node_distances";
    let rows = fields.array(KEY, "a list of rows, one a NUMA node, such as [[10, 16], [16, 10]]")?;
    let whole = match (rows.first(), rows.last()) {
        (Some(first), Some(last)) => first.span().start..last.span().end,
        _ => 0..0,
    };
    let mut table = Vec::new();
    for row in rows {
        let DeValue::Array(cells) = row.get_ref() else {
            fields.wrong(KEY, row, "a row: a list of the distances from one NUMA node to each");
            return None;
        };
        if cells.len() != rows.len() {
            let message = format!("this row of `{KEY}` has {} distances", cells.len());
            let label = format!("expected {}, as there are rows", rows.len());
            fields.bad(row.span(), message, &label, "give each NUMA node a row, and each row a distance to each node");
            return None;
        }
        let mut line = Vec::new();
        for cell in cells {
            line.push(fields.integer_in(KEY, cell, 1..=255, "a distance")? as u32);
        }
        table.push(line);
    }
    Some(Spanned { value: table, span: whole })
}

fn smt_speedup(fields: &mut Fields<'_, '_>) -> Option<u32> {
    let value = fields.get("smt_speedup")?;
    let permille = match value.get_ref() {
        DeValue::Float(number) => crate::units::scaled(number.as_str(), 1000),
        DeValue::Integer(number) => number.as_str().parse::<u64>().ok().and_then(|number| number.checked_mul(1000)),
        _ => {
            fields.wrong("smt_speedup", value, "a number such as 1.25");
            return None;
        }
    };
    let permille = permille.filter(|permille| (1000..=2000).contains(permille));
    if permille.is_none() {
        fields.bad(
            value.span(),
            "`smt_speedup` is out of range".to_owned(),
            "expected 1.0 to 2.0, in thousandths",
            "it is what a core with two busy threads does in comparison with one busy thread",
        );
    }
    permille.map(|permille| permille as u32)
}
