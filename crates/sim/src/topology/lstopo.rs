//! Machines in XML of `lstopo --of xml` (or `hwloc-gather-topology`), hwloc 1.x and 2.x.

mod excess;

use std::collections::{BTreeMap, BTreeSet};

use roxmltree::{Document, Node};
use vruntime_sched::{CpuPlace, Topology};

use self::excess::excess;
use super::MAX_CPUS;
use super::error::ParseTopologyError;

#[derive(Clone, Copy, Default)]
struct Above {
    package: Option<u32>,
    die: Option<u32>,
    node: Option<u32>,
    l3: Option<u32>,
    l2: Option<u32>,
    core: Option<u32>,
}

#[derive(Default)]
struct Walk {
    /// The next id, for all kinds: until the end only equality matters.
    next: u32,
    /// Operating system's index and place of each PU, without the core's efficiency kind.
    cpus: Vec<(u32, Above)>,
    /// Whether the PUs have no os_index. `None`: before the first PU.
    unnumbered: Option<bool>,
}

/// A machine from lstopo's XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lstopo {
    /// The CPUs.
    pub topology: Topology,
    /// What the simulator ignores of the file, a sentence each.
    pub notes: Vec<String>,
}

/// As [`read_lstopo`], without notes.
///
/// # Errors
///
/// As [`read_lstopo`].
pub fn parse_lstopo(text: &str) -> Result<Topology, ParseTopologyError> {
    Ok(read_lstopo(text)?.topology)
}

/// Reads a machine from lstopo's XML. CPUs and NUMA nodes have the operating system's order, and CPUs the capacities
/// that Linux reports to hwloc (`LinuxCapacity`). CPUs that were offline are left out. CPUs that were not allowed
/// (`allowed_cpuset`) belong to the machine. Notes name both.
///
/// # Errors
///
/// If the text is no XML or has no PUs, or an `os_index` or a `LinuxCapacity` is invalid. The offset counts bytes.
pub fn read_lstopo(text: &str) -> Result<Lstopo, ParseTopologyError> {
    if text.trim().is_empty() {
        let help = "write the file with `lstopo --of xml FILE`";
        return Err(ParseTopologyError::new(0, 0, "the file is empty".to_owned(), help));
    }
    if let Some((offset, message)) = excess(text) {
        return Err(ParseTopologyError::new(offset, 0, message, "write the file with `lstopo --of xml FILE`"));
    }
    // lstopo writes a DOCTYPE, which needs no other file.
    let options = roxmltree::ParsingOptions { allow_dtd: true, nodes_limit: 1 << 20 };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let offset = line_offset(text, error.pos());
        ParseTopologyError::new(offset, 0, format!("not XML: {error}"), "write the file with `lstopo --of xml FILE`")
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        let range = root.range();
        let message = format!("the outermost element is `{}`", root.tag_name().name());
        let help = "expected `<topology>`, as `lstopo --of xml FILE` writes it";
        return Err(ParseTopologyError::new(range.start, 0, message, help));
    }
    let mut walk = Walk::default();
    walk.descend(root)?;
    let mut notes = Vec::new();
    walk.leave_out_offline(root, &mut notes)?;
    if walk.cpus.is_empty() {
        let message = "there is no object of type PU";
        return Err(ParseTopologyError::new(0, 0, message, "write the file with `lstopo --of xml FILE`, unfiltered"));
    }
    if walk.cpus.len() > MAX_CPUS {
        return Err(ParseTopologyError::too_large(0, 0));
    }
    walk.cpus.sort_by_key(|(index, _)| *index);
    if let Some(pair) = walk.cpus.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let message = format!("two PUs have the os_index {}", pair[0].0);
        let help = "write the file with `lstopo --of xml FILE`, of one machine";
        return Err(ParseTopologyError::new(0, 0, message, help));
    }
    let indexes: Vec<u32> = walk.cpus.iter().map(|(index, _)| *index).collect();
    // The first CPU behind a gap. Without gaps, numbers are positions.
    if let Some((cpu, index)) = (0..).zip(&indexes).find(|(cpu, index)| cpu != *index) {
        notes.push(format!(
            "the file has the CPUs {}: they are numbered 0 to {} here, in this order, also for `cpus` and in results; \
             CPU {index} of the file is CPU {cpu} here",
            list(&indexes),
            indexes.len() - 1
        ));
    }
    let node_ranks = ranks(walk.cpus.iter().filter_map(|(_, above)| above.node));
    let nodes: Vec<u32> = node_ranks.keys().copied().collect();
    // The walk numbers nodes without an os_index from the highest number downwards.
    if nodes.last().is_some_and(|last| *last as usize >= nodes.len() && *last < u32::MAX - walk.next) {
        let last = nodes.len() - 1;
        notes.push(format!("the CPUs of the file are in the NUMA nodes {}: these are 0 to {last} here", list(&nodes)));
    }
    if walk.unnumbered == Some(true) {
        notes.push("the PUs of the file have no os_index: CPUs are numbered in the order of the file".to_owned());
    }
    notes.extend(of_cpusets(root, &indexes));
    let capacities = capacities(root, &indexes, &mut notes)?;
    notes.extend(ignored(root));
    // With sub-NUMA clusters, a cache spans nodes. Linux takes each node's part for a cache.
    let mut parts = BTreeMap::new();
    let mut spans = BTreeMap::new();
    for (_, above) in &walk.cpus {
        let llc = above.l3.or(above.l2).or(above.die).or(above.package).or(above.node);
        let next = parts.len() as u32;
        parts.entry((llc, above.node)).or_insert(next);
        let nodes: &mut BTreeSet<Option<u32>> = spans.entry(above.l3.or(above.l2)).or_default();
        nodes.insert(above.node);
    }
    if spans.iter().any(|(cache, nodes)| cache.is_some() && nodes.len() > 1) {
        let note =
            "caches of the file span NUMA nodes (sub-NUMA clusters): each node's part counts as a cache, as in Linux";
        notes.push(note.to_owned());
    }
    let mut ids = BTreeMap::new();
    let mut counts = [0u32; 4];
    let mut id = |kind: usize, key: Option<u32>| {
        *ids.entry((kind, key)).or_insert_with(|| {
            counts[kind] += 1;
            counts[kind] - 1
        })
    };
    let cpus_of_machine = walk.cpus.iter().map(|&(index, above)| {
        let core = id(0, Some(above.core.unwrap_or(u32::MAX - index)));
        // As Linux: without L3, the L2 is the last level. Without caches in the file, the object around cores has it.
        let llc = above.l3.or(above.l2).or(above.die).or(above.package).or(above.node);
        let llc = id(2, Some(parts[&(llc, above.node)]));
        CpuPlace {
            core,
            cluster: id(1, above.l2.or(above.core).or(Some(u32::MAX - index))),
            llc,
            package: id(3, above.package),
            node: above.node.and_then(|node| node_ranks.get(&node).copied()).unwrap_or(0),
            capacity: capacities.get(&index).copied().unwrap_or(1024),
        }
    });
    let cpus_of_machine: Vec<CpuPlace> = cpus_of_machine.collect();
    let topology = Topology::new(cpus_of_machine, distances(root, node_ranks.len()))
        .map_err(|error| ParseTopologyError::contradiction(&error, 0))?;
    Ok(Lstopo { topology, notes })
}

fn ranks(numbers: impl Iterator<Item = u32>) -> BTreeMap<u32, u32> {
    numbers.collect::<BTreeSet<u32>>().into_iter().zip(0..).collect()
}

/// As Linux: `0-3,6`.
fn list(cpus: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let run = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// hwloc's words of 32 bits from the highest on: `0xf`, `0x1,,0x3`.
fn bitmap(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for (word, digits) in text.split(',').rev().enumerate().take(MAX_CPUS / 32) {
        // An empty word is 0. `0xf...f`, all CPUs above, names none.
        let bits = u32::from_str_radix(digits.trim().trim_start_matches("0x"), 16).unwrap_or(0);
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| word as u32 * 32 + bit));
    }
    cpus
}

/// Returns the CPUs of an attribute of the outermost objects.
///
/// The files of hwloc 1 have online and allowed CPUs at every object. Those of hwloc 2 have allowed CPUs at the
/// outermost.
fn cpuset(root: Node<'_, '_>, name: &str) -> Option<BTreeSet<u32>> {
    let text = objects(root).find_map(|object| object.attribute(name))?;
    // `0xf...f` stands for all CPUs from here on.
    let all = text.starts_with("0xf...f");
    let cpus: BTreeSet<u32> = bitmap(text).into_iter().collect();
    (!all && !cpus.is_empty()).then_some(cpus)
}

/// Returns notes on CPUs without a place in the file, and on CPUs that tasks of the recorded cpuset may not use.
fn of_cpusets(root: Node<'_, '_>, indexes: &[u32]) -> Vec<String> {
    let mut notes = Vec::new();
    let known: BTreeSet<u32> = indexes.iter().copied().collect();
    let online = cpuset(root, "online_cpuset");
    let is_online = |cpu: &u32| online.as_ref().is_none_or(|online| online.contains(cpu));
    let complete = cpuset(root, "complete_cpuset").unwrap_or_default();
    let unplaced: Vec<u32> = complete.difference(&known).copied().filter(is_online).collect();
    if !unplaced.is_empty() {
        notes.push(format!(
            "the machine of the file has CPUs without a place ({}; complete_cpuset), which were offline or not allowed: \
             they are left out; `lstopo --disallowed --of xml FILE` places those that were not allowed",
            list(&unplaced)
        ));
    }
    let allowed = cpuset(root, "allowed_cpuset");
    let forbidden: Vec<u32> = allowed.map_or_else(Vec::new, |allowed| known.difference(&allowed).copied().collect());
    if !forbidden.is_empty() {
        notes.push(format!(
            "lstopo was not allowed to use the CPUs {} of the file (allowed_cpuset), which are part of the machine: tasks \
             may use them here; `cpus` of a scenario's tasks or groups excludes them",
            list(&forbidden)
        ));
    }
    notes
}

fn capacities(
    root: Node<'_, '_>,
    indexes: &[u32],
    notes: &mut Vec<String>,
) -> Result<BTreeMap<u32, u32>, ParseTopologyError> {
    let mut capacities = BTreeMap::new();
    let mut unknown = Vec::new();
    let kinds = || root.children().filter(|child| child.has_tag_name("cpukind"));
    let mut without: BTreeSet<u32> = indexes.iter().copied().collect();
    for kind in kinds() {
        let cpus = bitmap(kind.attribute("cpuset").unwrap_or(""));
        let info = |name: &str| {
            let mut infos = kind.children().filter(|child| child.has_tag_name("info"));
            infos.find(|info| info.attribute("name") == Some(name))
        };
        if let Some(element) = info("LinuxCapacity") {
            let value = element.attribute("value").unwrap_or("");
            let Some(capacity) = value.parse::<u32>().ok().filter(|capacity| (1..=1024).contains(capacity)) else {
                let message = format!("the LinuxCapacity `{value}` is no capacity");
                return Err(wrong(element, message, "capacities are 1 to 1024, where 1024 is the fastest CPU"));
            };
            for cpu in cpus {
                without.remove(&cpu);
                capacities.insert(cpu, capacity);
            }
        } else {
            let name = info("CoreType").and_then(|info| info.attribute("value")).unwrap_or("of one kind");
            let here: Vec<u32> = cpus.into_iter().filter(|cpu| without.remove(cpu)).collect();
            if !here.is_empty() {
                unknown.push(format!("{} {name}", list(&here)));
            }
        }
    }
    if !without.is_empty() && !capacities.is_empty() {
        unknown.push(format!("{} of no kind", list(&without.into_iter().collect::<Vec<_>>())));
    }
    if !unknown.is_empty() && (kinds().count() > 1 || !capacities.is_empty()) {
        notes.push(format!(
            "the file has kinds of CPUs ({}) without capacities (LinuxCapacity): capacity 1024 is assumed; `capacities` of a scenario's [machine] sets others",
            unknown.join("; ")
        ));
    }
    Ok(capacities)
}

/// Returns an error at an element.
fn wrong(element: Node<'_, '_>, message: String, help: &str) -> ParseTopologyError {
    let range = element.range();
    ParseTopologyError::new(range.start, range.len(), message, help)
}

fn ignored(root: Node<'_, '_>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for element in root.descendants() {
        let name = match (element.tag_name().name(), element.attribute("type")) {
            ("object", Some(kind @ ("Group" | "L4Cache" | "L5Cache" | "MemCache" | "PCIDev" | "OSDev"))) => kind,
            // Latencies between NUMA nodes are read.
            ("distances2", kind) if !kind.is_some_and(is_numa) => "distances2",
            // hwloc writes locality and capacity for every machine.
            ("memattr", _) if !matches!(element.attribute("name"), Some("Capacity" | "Locality")) => "memattr",
            _ => continue,
        };
        *counts.entry(name).or_default() += 1;
    }
    let named = counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>();
    (!named.is_empty()).then(|| format!("the simulator ignores these objects of the file: {}", named.join(", ")))
}

impl Walk {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn node(&mut self, element: Node<'_, '_>) -> u32 {
        let index = element.attribute("os_index").and_then(|index| index.parse().ok());
        // Without a number: one that no node has.
        index.unwrap_or_else(|| u32::MAX - self.fresh())
    }

    /// Walks the objects, with a list instead of recursion, because nesting has no limit.
    fn descend(&mut self, root: Node<'_, '_>) -> Result<(), ParseTopologyError> {
        let mut stack = vec![(root, Above::default())];
        while let Some((element, mut above)) = stack.pop() {
            // In hwloc 2 a NUMA node is a memory child of the object with this memory.
            let memory = |child: &Node<'_, '_>| child.attribute("type").is_some_and(is_numa) && !has_objects(*child);
            // Of several, such as HBM beside DRAM, Linux schedules by the first.
            if let Some(node) = element.children().find(memory) {
                above.node = Some(self.node(node));
            }
            match element.attribute("type").unwrap_or("") {
                "Package" | "Socket" => above.package = Some(self.fresh()),
                "Die" => above.die = Some(self.fresh()),
                "Core" => above.core = Some(self.fresh()),
                "L3Cache" => above.l3 = Some(self.fresh()),
                "L2Cache" => above.l2 = Some(self.fresh()),
                kind if is_numa(kind) && has_objects(element) => above.node = Some(self.node(element)),
                // hwloc 1: one type for all caches.
                "Cache" => match element.attribute("depth") {
                    Some("3") => above.l3 = Some(self.fresh()),
                    Some("2") => above.l2 = Some(self.fresh()),
                    _ => {}
                },
                "PU" => {
                    let index = self.index_of_cpu(element)?;
                    self.cpus.push((index, above));
                    continue;
                }
                _ => {}
            }
            // From the first child on, for PUs without an os_index.
            let from = stack.len();
            stack.extend(objects(element).map(|child| (child, above)));
            stack[from..].reverse();
        }
        Ok(())
    }

    /// Returns the number of a PU: its os_index, or its position if no PU has one.
    fn index_of_cpu(&mut self, element: Node<'_, '_>) -> Result<u32, ParseTopologyError> {
        let index = element.attribute("os_index");
        let unnumbered = *self.unnumbered.get_or_insert(index.is_none());
        let help = "write the file with `lstopo --of xml FILE`, which numbers every PU";
        match index {
            None if unnumbered => Ok(self.cpus.len() as u32),
            Some(index) if !unnumbered => {
                let message = format!("the os_index `{index}` of a PU is no number");
                index.parse().map_err(|_| wrong(element, message, help))
            }
            _ => Err(wrong(element, "some PUs have an os_index, and others have none".to_owned(), help)),
        }
    }

    /// Removes CPUs that were offline, which hwloc 1 can list (`lstopo --whole-system`).
    fn leave_out_offline(&mut self, root: Node<'_, '_>, notes: &mut Vec<String>) -> Result<(), ParseTopologyError> {
        let Some(online) = cpuset(root, "online_cpuset") else { return Ok(()) };
        let (here, offline): (Vec<_>, Vec<_>) = self.cpus.drain(..).partition(|(cpu, _)| online.contains(cpu));
        self.cpus = here;
        if offline.is_empty() {
            return Ok(());
        }
        if self.cpus.is_empty() {
            let message = "no PU of the file is online (online_cpuset)";
            return Err(ParseTopologyError::new(0, 0, message, "write the file with `lstopo --of xml FILE`"));
        }
        let mut offline: Vec<u32> = offline.into_iter().map(|(cpu, _)| cpu).collect();
        offline.sort_unstable();
        notes.push(format!("the CPUs {} of the file were offline (online_cpuset): they are left out", list(&offline)));
        Ok(())
    }
}

fn is_numa(kind: &str) -> bool {
    matches!(kind, "NUMANode" | "Node")
}

fn objects<'a, 'input>(element: Node<'a, 'input>) -> impl Iterator<Item = Node<'a, 'input>> {
    element.children().filter(|child| child.has_tag_name("object"))
}

fn has_objects(element: Node<'_, '_>) -> bool {
    objects(element).next().is_some()
}

/// Returns hwloc 2's latencies (`<distances2 type="NUMANode">`) of `nodes` nodes: a row per node, by os_index.
fn distances(root: Node<'_, '_>, nodes: usize) -> Option<Vec<Vec<u32>>> {
    let table = root
        .descendants()
        .find(|element| element.has_tag_name("distances2") && element.attribute("type").is_some_and(is_numa))?;
    let size: usize = table.attribute("nbobjs")?.parse().ok()?;
    let numbers = |name: &'static str| {
        let children = table.children().filter(move |child| child.has_tag_name(name));
        let words = children.filter_map(|child| child.text()).flat_map(str::split_whitespace);
        words.filter_map(|word| word.parse::<u32>().ok()).collect::<Vec<u32>>()
    };
    let (values, indexes) = (numbers("u64values"), numbers("indexes"));
    if size == 0 || size > MAX_CPUS || size != nodes || values.len() != size * size {
        return None;
    }
    // In the file's order of nodes, or ascending without indexes.
    let mut order: Vec<usize> = (0..size).collect();
    if indexes.len() == size {
        order.sort_by_key(|&row| indexes[row]);
    }
    Some(order.iter().map(|&row| order.iter().map(|&column| values[row * size + column]).collect()).collect())
}

fn line_offset(text: &str, position: roxmltree::TextPos) -> usize {
    let line: usize = text.split_inclusive('\n').take(position.row.saturating_sub(1) as usize).map(str::len).sum();
    (line + position.col.saturating_sub(1) as usize).min(text.len())
}

#[cfg(test)]
mod tests {
    use super::excess::MAX_DEPTH;
    use super::*;
    use proptest::prelude::*;

    const TWO_NODES: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0">
    <object type="Package" os_index="0">
      <object type="NUMANode" os_index="0"/>
      <object type="L3Cache">
        <object type="L2Cache"><object type="L1Cache"><object type="Core" os_index="0">
          <object type="PU" os_index="0"/><object type="PU" os_index="2"/>
        </object></object></object>
      </object>
    </object>
    <object type="Package" os_index="1">
      <object type="NUMANode" os_index="1"/>
      <object type="L3Cache">
        <object type="L2Cache"><object type="L1Cache"><object type="Core" os_index="0">
          <object type="PU" os_index="1"/><object type="PU" os_index="3"/>
        </object></object></object>
      </object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5"><u64values length="11">10 21 21 10</u64values></distances2>
</topology>"#;

    #[test]
    fn two_packages_of_hwloc_2() {
        let machine = parse_lstopo(TWO_NODES).unwrap();
        let column = |of: fn(&CpuPlace) -> u32| machine.cpus().iter().map(of).collect::<Vec<_>>();
        assert_eq!(column(|p| p.core), [0, 1, 0, 1]);
        assert_eq!(column(|p| p.llc), [0, 1, 0, 1]);
        assert_eq!(column(|p| p.package), [0, 1, 0, 1]);
        assert_eq!(column(|p| p.node), [0, 1, 0, 1]);
        assert_eq!(machine.distance(0, 1), 21);
    }

    #[test]
    fn hwloc_1_with_caches_by_depth() {
        let text = r#"<topology><object type="Machine"><object type="NUMANode"><object type="Socket">
            <object type="Cache" depth="3"><object type="Cache" depth="2"><object type="Core"><object type="PU" os_index="0"/></object></object>
            <object type="Cache" depth="2"><object type="Core"><object type="PU" os_index="1"/></object></object></object>
            </object></object></object></topology>"#;
        let machine = parse_lstopo(text).unwrap();
        assert_eq!(
            machine.cpus().iter().map(|p| (p.core, p.cluster, p.llc)).collect::<Vec<_>>(),
            [(0, 0, 0), (1, 1, 0)]
        );
    }

    /// Siblings 0 and 4, 1 and 5; nodes that alternate, in reverse order; kinds of CPUs.
    const HYBRID: &str = r#"<topology version="3.0"><object type="Machine">
        <object type="Package"><object type="NUMANode" os_index="1"/><object type="L3Cache">
            <object type="Core"><object type="PU" os_index="1"/><object type="PU" os_index="5"/></object></object></object>
        <object type="Package"><object type="NUMANode" os_index="0"/><object type="L3Cache">
            <object type="Core"><object type="PU" os_index="0"/><object type="PU" os_index="4"/></object></object></object>
        <object type="Package"><object type="NUMANode" os_index="3"/><object type="Group"><object type="L3Cache">
            <object type="Core"><object type="PU" os_index="40"/></object></object></object></object>
        <object type="OSDev" name="sda"/></object>
        <distances2 type="NUMANode" nbobjs="3" indexing="os"><indexes length="6">1 0 3</indexes>
            <u64values length="27">10 21 31 21 10 41 31 41 10</u64values></distances2>
        <cpukind cpuset="0x00000033"><info name="LinuxCapacity" value="718"/></cpukind>
        <cpukind cpuset="0x00000100,0x0"><info name="LinuxCapacity" value="997"/></cpukind></topology>"#;

    #[test]
    fn a_file_keeps_its_order_and_its_capacities() {
        let Lstopo { topology, notes } = read_lstopo(HYBRID).unwrap();
        let column = |of: fn(&CpuPlace) -> u32| topology.cpus().iter().map(of).collect::<Vec<_>>();
        assert_eq!(column(|p| p.core), [0, 1, 0, 1, 2]);
        assert_eq!(column(|p| p.node), [0, 1, 0, 1, 2]);
        assert_eq!(column(|p| p.capacity), [718, 718, 718, 718, 997]);
        let distances = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| topology.distance(a, b));
        assert_eq!(distances, [21, 41, 31]);
        assert_eq!(
            notes,
            [
                "the file has the CPUs 0-1,4-5,40: they are numbered 0 to 4 here, in this order, also for `cpus` and in \
                 results; CPU 4 of the file is CPU 2 here",
                "the CPUs of the file are in the NUMA nodes 0-1,3: these are 0 to 2 here",
                "the simulator ignores these objects of the file: 1 Group, 1 OSDev",
            ]
        );
    }

    #[test]
    fn kinds_without_capacities_are_reported() {
        let types = HYBRID.replace("LinuxCapacity\" value=\"718", "CoreType\" value=\"IntelAtom");
        let Lstopo { topology, notes } = read_lstopo(&types).unwrap();
        assert_eq!(topology.cpus().iter().map(|p| p.capacity).collect::<Vec<_>>(), [1024, 1024, 1024, 1024, 997]);
        assert!(notes[2].contains("(0-1,4-5 IntelAtom)") && notes[2].contains("LinuxCapacity"), "{notes:?}");
        assert_eq!(read_lstopo(TWO_NODES).unwrap().notes, Vec::<String>::new());
        let twice = HYBRID.replace("os_index=\"40\"", "os_index=\"4\"");
        assert!(read_lstopo(&twice).unwrap_err().message.contains("two PUs have the os_index 4"));
    }

    #[test]
    fn capacities_of_some_cpus_are_reported() {
        let some = HYBRID.replace("0x00000033", "0x00000003");
        let Lstopo { topology, notes } = read_lstopo(&some).unwrap();
        assert_eq!(topology.cpus().iter().map(|p| p.capacity).collect::<Vec<_>>(), [718, 718, 1024, 1024, 997]);
        assert!(notes[2].contains("kinds of CPUs (4-5 of no kind) without capacities"), "{notes:?}");
        for value in ["0", "1025", "-1", "fast", ""] {
            let text = HYBRID.replace("value=\"718\"", &format!("value=\"{value}\""));
            let error = read_lstopo(&text).unwrap_err();
            assert_eq!(error.message, format!("the LinuxCapacity `{value}` is no capacity"));
            assert!(text[error.offset..].starts_with("<info name=\"LinuxCapacity\""), "{error:?}");
        }
    }

    /// Sub-NUMA clusters: a package whose L3 spans two nodes, as hwloc describes it.
    #[test]
    fn a_cache_that_spans_nodes_is_divided() {
        let core = |cpu| format!("<object type='L2Cache'><object type='PU' os_index='{cpu}'/></object>");
        let group = |node: u32| {
            let cores = core(2 * node) + &core(2 * node + 1);
            format!("<object type='Group'><object type='NUMANode' os_index='{node}'/>{cores}</object>")
        };
        let of_package =
            format!("<object type='Package'><object type='L3Cache'>{}{}</object></object>", group(0), group(1));
        let text = format!("<topology><object type='Machine'>{of_package}</object></topology>");
        let Lstopo { topology, notes } = read_lstopo(&text).unwrap();
        let places = topology.cpus().iter().map(|p| (p.llc, p.node, p.package)).collect::<Vec<_>>();
        assert_eq!(places, [(0, 0, 0), (0, 0, 0), (1, 1, 0), (1, 1, 0)]);
        assert!(notes[1].contains("span NUMA nodes"), "{notes:?}");
        // Knights Landing: no L3, and an L2 of two cores. Its package has several nodes.
        let core = |cpu| format!("<object type='Core'><object type='PU' os_index='{cpu}'/></object>");
        let tile = |cpu: u32| format!("<object type='Cache' depth='2'>{}{}</object>", core(cpu), core(cpu + 1));
        let node = |number: u32| {
            format!("<object type='NUMANode' os_index='{number}'>{}{}</object>", tile(4 * number), tile(4 * number + 2))
        };
        let text = format!("<topology><object type='Socket'>{}{}</object></topology>", node(0), node(1));
        let Lstopo { topology, notes } = read_lstopo(&text).unwrap();
        let places = topology.cpus().iter().map(|p| (p.llc, p.node)).collect::<Vec<_>>();
        let nodes = [(0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1), (3, 1), (3, 1)];
        assert_eq!((&places[..], &notes[..]), (&nodes[..], &[][..]));
    }

    /// Returns a machine of four CPUs with sets at the outermost object.
    fn with_sets(sets: &str) -> String {
        TWO_NODES.replace("<object type=\"Machine\" os_index=\"0\">", &format!("<object type=\"Machine\" {sets}>"))
    }

    #[test]
    fn cpus_that_are_not_allowed_are_reported() {
        let all = with_sets("cpuset=\"0xf\" complete_cpuset=\"0xf\" allowed_cpuset=\"0xf\"");
        assert_eq!(read_lstopo(&all).unwrap().notes, Vec::<String>::new());
        let endless = with_sets("complete_cpuset=\"0xf...f\" allowed_cpuset=\"0xf...f\"");
        assert_eq!(read_lstopo(&endless).unwrap().notes, Vec::<String>::new());
        let some = read_lstopo(&with_sets("complete_cpuset=\"0xff\" allowed_cpuset=\"0x7\"")).unwrap();
        assert_eq!(some.topology.nr_cpus(), 4);
        assert!(some.notes[0].contains("CPUs without a place (4-7; complete_cpuset)"), "{:?}", some.notes);
        assert!(some.notes[1].contains("not allowed to use the CPUs 3 of the file"), "{:?}", some.notes);
        assert_eq!(some.notes.len(), 2);
    }

    #[test]
    fn offline_cpus_are_left_out() {
        let sets = "complete_cpuset=\"0xf\" online_cpuset=\"0x0000000b\" allowed_cpuset=\"0xf\"";
        let Lstopo { topology, notes } = read_lstopo(&with_sets(sets)).unwrap();
        assert_eq!(topology.cpus().iter().map(|p| p.node).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!(notes[0], "the CPUs 2 of the file were offline (online_cpuset): they are left out");
        assert!(notes[1].contains("the CPUs 0-1,3: they are numbered 0 to 2"), "{notes:?}");
        assert_eq!(notes.len(), 2);
        let error = read_lstopo(&with_sets("online_cpuset=\"0x10\"")).unwrap_err();
        assert!(error.message.contains("no PU of the file is online"), "{error}");
    }

    #[test]
    fn pus_are_numbered_all_or_none() {
        let file = |pus: &str| {
            format!(
                "<topology><object type='Machine'><object type='Core'>{pus}</object><object type='PU'/></object></topology>"
            )
        };
        let Lstopo { topology, notes } = read_lstopo(&file("<object type='PU'/><object type='PU'/>")).unwrap();
        assert_eq!(topology.cpus().iter().map(|p| p.core).collect::<Vec<_>>(), [0, 0, 1]);
        assert_eq!(notes, ["the PUs of the file have no os_index: CPUs are numbered in the order of the file"]);
        let some = file("<object type='PU' os_index='0'/>");
        let error = read_lstopo(&some).unwrap_err();
        assert_eq!(error.message, "some PUs have an os_index, and others have none");
        assert!(some[error.offset..].starts_with("<object type='PU'/>"), "{error:?}");
        let error = read_lstopo(&file("<object type='PU' os_index='x'/>")).unwrap_err();
        assert_eq!(error.message, "the os_index `x` of a PU is no number");
    }

    #[test]
    fn bitmaps_have_their_highest_word_first() {
        assert_eq!(bitmap("0x00000005"), [0, 2]);
        assert_eq!(bitmap("0x1,,0x80000000"), [31, 64]);
        assert!(bitmap("").is_empty());
    }

    #[test]
    fn what_is_no_machine() {
        assert_eq!(parse_lstopo("\n").unwrap_err().message, "the file is empty");
        assert!(parse_lstopo("<topology><object></topology>").unwrap_err().message.starts_with("not XML"));
        assert!(parse_lstopo("<html/>").unwrap_err().message.contains("html"));
        assert!(parse_lstopo("<topology/>").unwrap_err().message.contains("no object of type PU"));
    }

    proptest! {
        #[test]
        fn no_truncation_panics(cut in 0usize..1200) {
            let cut = (0..=cut.min(TWO_NODES.len())).rev().find(|&cut| TWO_NODES.is_char_boundary(cut)).unwrap_or(0);
            let _ = parse_lstopo(&TWO_NODES[..cut]);
        }
    }

    fn nested(levels: usize, around: &str) -> String {
        let (open, close) = ("<object type='Group'>".repeat(levels), "</object>".repeat(levels));
        format!("<topology>{around}{open}<object type='PU' os_index='0'/>{close}</topology>")
    }

    #[test]
    fn files_nested_too_deep_are_refused() {
        assert_eq!(read_lstopo(&nested(MAX_DEPTH - 1, "")).unwrap().topology.nr_cpus(), 1);
        for levels in [MAX_DEPTH, 12_450, 200_000] {
            let error = read_lstopo(&nested(levels, "")).unwrap_err().to_string();
            assert!(error.contains("nested more than 256 levels"), "{error}");
        }
        // Levels in a DOCTYPE count. Tags in comments, texts and attributes do not.
        let entity = format!("<!DOCTYPE topology [<!ENTITY e '{}'>]>", "<a>".repeat(1000) + &"</a>".repeat(1000));
        assert!(excess(&format!("{entity}<topology>&e;</topology>")).is_some());
        let tags = "<a>".repeat(1000);
        let attributes = "<a b='/>' c='>'/>".repeat(1000);
        for around in [format!("<!-- {tags} -->"), format!("<![CDATA[{tags}]]>"), format!("<?x {tags}?>"), attributes] {
            assert!(read_lstopo(&nested(1, &around)).is_ok(), "{around}");
        }
        for cut in ["<", "<a", "<a b='", "<!--", "<![CDATA[", "<?", "</", "<!"] {
            assert!(read_lstopo(cut).is_err());
        }
    }
}
