//! `machine`: a topology string, or a table.

use std::ops::Range;
use std::path::PathBuf;

use toml::de::DeValue;

use super::Spanned;
use super::fields::{Fields, Value};

/// A scenario's machine. The machine crate has the defaults, and checks the topology.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// hwloc's synthetic string, such as `pack:2 l3:1 core:4 pu:2`.
    pub topology: Option<Spanned<String>>,
    /// An XML file of `lstopo`, relative to the scenario's folder.
    pub lstopo: Option<Spanned<PathBuf>>,
    /// Capacity of each CPU, 1..=1024. None: all 1024.
    pub capacities: Option<Spanned<Vec<u32>>>,
    /// Distances between NUMA nodes, a row each, as in ACPI's SLIT (10 to itself). None: 10 and 20.
    pub node_distances: Option<Spanned<Vec<Vec<u32>>>>,
    /// Throughput of a core with two busy threads relative to one, thousandths, 1000..=2000.
    pub smt_speedup_permille: Option<u32>,
    /// The frequency governor. None: CPUs run at their highest frequency.
    pub governor: Option<Spanned<String>>,
    /// The least time between frequency changes, nanoseconds.
    pub rate_limit_ns: Option<u64>,
    /// Clocks that CPUs share. Empty: each core has its own.
    pub frequencies: Vec<Spanned<FrequencyTable>>,
    /// Idle states from the shallowest to the deepest. Empty: one.
    pub idle_states: Vec<Spanned<IdleTable>>,
    /// Isolated CPUs (`isolcpus=domain`), ascending.
    pub isolated: Option<Spanned<Vec<u32>>>,
    /// CPUs of this virtual machine's host, 1..=4096. None: as many as needed.
    pub host_cpus: Option<u32>,
}

/// `[[machine.idle_state]]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdleTable {
    /// The name, such as `C1`.
    pub name: String,
    /// Exit latency, nanoseconds.
    pub exit_latency_ns: u64,
    /// Shortest worthwhile stay, nanoseconds.
    pub residency_ns: u64,
}

/// `[[machine.frequency]]`: a clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrequencyTable {
    /// CPUs that share the clock.
    pub cpus: Vec<u32>,
    /// Kilohertz, ascending.
    pub khz: Vec<u32>,
    /// Time of a change, nanoseconds.
    pub transition_ns: Option<u64>,
    /// Power of a busy CPU at each frequency, microwatts, not descending. Empty if unknown.
    pub power_uw: Vec<u64>,
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
    let capacities = capacities(&mut inner);
    let node_distances = node_distances(&mut inner);
    let smt_speedup_permille = smt_speedup(&mut inner);
    let governor = inner
        .string("governor", "the name of a governor, such as \"schedutil\"")
        .map(|(name, span)| Spanned { value: name.to_owned(), span });
    let rate_limit_ns = inner.duration("rate_limit");
    let mut frequencies = Vec::new();
    for entry in inner.array("frequency", "a table [[machine.frequency]] for each clock").unwrap_or_default() {
        frequencies.push(Spanned { value: frequency(&mut inner, entry), span: entry.span() });
    }
    if governor.is_none()
        && let Some(first) = frequencies.first()
    {
        let message = "[machine] has frequencies, but no governor".to_owned();
        inner.bad(first.span.clone(), message, "these", "add governor = \"schedutil\" to [machine]");
    }
    if let (None, Some(value)) = (&governor, inner.get("rate_limit")) {
        let message = "`rate_limit` has no effect: there is no governor";
        let error = inner.problems.new_error(value.span(), message, "of a governor");
        inner.warn(error.with_help("add governor = \"schedutil\" to [machine], or remove it"));
    }
    let isolated = super::cpuset::list(&mut inner, "isolated");
    let host_cpus = inner.integer("host_cpus", 1..=4096, "a number of CPUs");
    let mut idle_states = Vec::new();
    for entry in inner.array("idle_state", "a table [[machine.idle_state]] for each state").unwrap_or_default() {
        idle_states.push(Spanned { value: idle_state(&mut inner, entry), span: entry.span() });
    }
    inner.finish();
    Some(Machine {
        topology,
        lstopo,
        capacities,
        node_distances,
        smt_speedup_permille,
        governor,
        rate_limit_ns,
        frequencies,
        idle_states,
        isolated,
        host_cpus: host_cpus.map(|cpus| cpus as u32),
    })
}

/// 1 MHz to 1 THz, in kHz.
const MHZ: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;

/// 1 uW to 1 kW.
const POWER_UW: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;

/// Returns a number in thousandths of its unit, such as MHz in kHz. None if it is no number.
fn thousandths(value: &super::fields::Value<'_>) -> Option<u64> {
    match value.get_ref() {
        DeValue::Integer(number) => crate::units::scaled(number.as_str(), 1000),
        DeValue::Float(number) => crate::units::scaled(number.as_str(), 1000),
        _ => None,
    }
}

fn frequency(fields: &mut Fields<'_, '_>, value: &super::fields::Value<'_>) -> FrequencyTable {
    let mut inner = Fields::new(fields.problems, "[[machine.frequency]]", value);
    let mut table = FrequencyTable::default();
    for entry in inner.array("cpus", "a list of CPUs").unwrap_or_default() {
        let cpu = inner.integer_in("cpus", entry, 0..=65_535, "a CPU");
        table.cpus.extend(cpu.map(|cpu| cpu as u32));
    }
    for entry in inner.array("mhz", "a list of frequencies, ascending, MHz").unwrap_or_default() {
        let Some(khz) = thousandths(entry).filter(|khz| MHZ.contains(khz)) else {
            let help = "frequencies are numbers of MHz, such as 800 or 1497.6";
            inner.bad(entry.span(), "this is no frequency".to_owned(), "expected 1 to 1000000 MHz", help);
            continue;
        };
        if table.khz.last().is_some_and(|&last| u64::from(last) >= khz) {
            let message = "the frequencies do not ascend".to_owned();
            inner.bad(entry.span(), message, "not above the one before it", "list them from the lowest to the highest");
        }
        table.khz.push(khz as u32);
    }
    table.transition_ns = inner.duration("transition");
    for entry in inner
        .array("power_mw", "a list with the power of a busy CPU in mW, one value for each frequency")
        .unwrap_or_default()
    {
        let Some(power) = thousandths(entry).filter(|power| POWER_UW.contains(power)) else {
            let help = "power is numbers of mW, such as 119 or 42.5";
            inner.bad(entry.span(), "this is no power".to_owned(), "expected 0.001 to 1000000 mW", help);
            continue;
        };
        if table.power_uw.last().is_some_and(|&last| last > power) {
            let message = "a higher frequency takes less power".to_owned();
            let help = "give one for each frequency, from the lowest to the highest";
            inner.bad(entry.span(), message, "below the one before it", help);
        }
        table.power_uw.push(power);
    }
    if !table.power_uw.is_empty() && table.power_uw.len() != table.khz.len() && !inner.problems.has_errors() {
        let message = format!("{} figures of power for {} frequencies", table.power_uw.len(), table.khz.len());
        inner.bad(value.span(), message, "this clock", "give `power_mw` as many numbers as `mhz`");
    }
    // Errors of entries have been reported.
    if (table.khz.is_empty() || table.cpus.is_empty()) && !inner.problems.has_errors() {
        let message = "a clock needs CPUs and frequencies".to_owned();
        inner.bad(value.span(), message, "this one", "write it as cpus = [0, 1] and mhz = [800, 1600, 2400]");
    }
    inner.finish();
    table
}

fn idle_state(fields: &mut Fields<'_, '_>, value: &super::fields::Value<'_>) -> IdleTable {
    let mut inner = Fields::new(fields.problems, "[[machine.idle_state]]", value);
    let name = inner.string("name", "a name such as \"C1\"").map_or_else(String::new, |(name, _)| name.to_owned());
    let exit_latency = inner.duration("exit_latency");
    let residency = inner.duration("residency");
    if name.is_empty() || exit_latency.is_none() {
        let help = "write it as name = \"C6\", exit_latency = \"130us\" and residency = \"400us\"";
        inner.bad(value.span(), "an idle state needs a name and an exit latency".to_owned(), "this one", help);
    }
    inner.finish();
    let exit_latency_ns = exit_latency.unwrap_or(0);
    IdleTable { name, exit_latency_ns, residency_ns: residency.unwrap_or(exit_latency_ns) }
}

/// From the first value to the last.
fn span_of(values: &[Value<'_>]) -> Range<usize> {
    match (values.first(), values.last()) {
        (Some(first), Some(last)) => first.span().start..last.span().end,
        _ => 0..0,
    }
}

/// The machine crate checks their number.
fn capacities(fields: &mut Fields<'_, '_>) -> Option<Spanned<Vec<u32>>> {
    const KEY: &str = "capacities";
    let entries = fields.array(KEY, "a list of capacities, one a CPU").filter(|entries| !entries.is_empty())?;
    let capacity = |entry| fields.integer_in(KEY, entry, 1..=1024, "a capacity").map(|capacity| capacity as u32);
    Some(Spanned { value: entries.iter().filter_map(capacity).collect(), span: span_of(entries) })
}

/// Returns a square table. The machine crate checks its size.
fn node_distances(fields: &mut Fields<'_, '_>) -> Option<Spanned<Vec<Vec<u32>>>> {
    const KEY: &str = "node_distances";
    let rows = fields.array(KEY, "a list of rows, one a NUMA node, such as [[10, 16], [16, 10]]")?;
    let whole = span_of(rows);
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
    let written = match value.get_ref() {
        DeValue::Float(number) => number.as_str().parse::<f64>().ok(),
        _ => None,
    };
    let (message, label) = match (permille, written) {
        (Some(permille @ 1000..=2000), _) => return Some(permille as u32),
        (None, Some(1.0..=2.0)) => {
            ("`smt_speedup` is not a whole number of thousandths", "expected at most three decimals")
        }
        _ => ("`smt_speedup` is out of range", "expected 1.0 to 2.0"),
    };
    let help = "it is the combined speed of two busy threads of a core: 1.0 is the speed of one thread alone, 1.25 a quarter more, 2.0 twice";
    fields.bad(value.span(), message.to_owned(), label, help);
    None
}
