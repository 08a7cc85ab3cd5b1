//! Machines that `lstopo --of xml` (or `hwloc-gather-topology`) wrote down, hwloc 1.x and 2.x.

use roxmltree::{Document, Node};
use vruntime_sched::{CpuPlace, Topology};

use super::MAX_CPUS;
use super::error::ParseTopologyError;

/// What of the tree above an object is known while walking down.
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
    /// Ids given so far, a counter for all kinds: only equality matters until the end.
    next: u32,
    /// Operating system's index and place of each PU, with the core's efficiency kind left out.
    cpus: Vec<(u32, Above)>,
}

/// A machine from lstopo's XML. CPUs are ordered by the operating system's index.
///
/// # Errors
///
/// When the text is no XML or has no PUs; the offset is a byte's.
pub fn parse_lstopo(text: &str) -> Result<Topology, ParseTopologyError> {
    // lstopo writes a DOCTYPE; nothing of it is fetched or expanded.
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
    walk.descend(root);
    if walk.cpus.is_empty() {
        let message = "there is no object of type PU";
        return Err(ParseTopologyError::new(0, 0, message, "write the file with `lstopo --of xml FILE`, unfiltered"));
    }
    if walk.cpus.len() > MAX_CPUS {
        return Err(ParseTopologyError::too_large(0, 0));
    }
    walk.cpus.sort_by_key(|(index, _)| *index);
    let mut ids = std::collections::BTreeMap::new();
    let mut counts = [0u32; 5];
    let mut id = |kind: usize, key: Option<u32>| {
        *ids.entry((kind, key)).or_insert_with(|| {
            counts[kind] += 1;
            counts[kind] - 1
        })
    };
    let places = walk.cpus.iter().map(|&(index, above)| {
        let core = id(0, Some(above.core.unwrap_or(u32::MAX - index)));
        // Any cache above the core is shared; the last level is the L3, or what encloses the cores if there is none.
        let llc = id(2, above.l3.or(above.die).or(above.package).or(above.node));
        CpuPlace {
            core,
            cluster: id(1, above.l2.or(above.core).or(Some(u32::MAX - index))),
            llc,
            package: id(3, above.package),
            node: id(4, above.node),
            capacity: 1024,
        }
    });
    let places: Vec<CpuPlace> = places.collect();
    Topology::new(places, distances(root)).map_err(|error| ParseTopologyError::contradiction(&error, 0))
}

impl Walk {
    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// Walks the objects; a list instead of recursion, because a file may nest as deep as it likes.
    fn descend(&mut self, root: Node<'_, '_>) {
        let mut stack = vec![(root, Above::default())];
        while let Some((element, mut above)) = stack.pop() {
            // In hwloc 2 a NUMA node is a child (of kind memory) of the object whose memory it is.
            let memory = |child: &Node<'_, '_>| child.attribute("type").is_some_and(is_numa) && !has_objects(*child);
            if element.children().any(|child| memory(&child)) {
                above.node = Some(self.fresh());
            }
            match element.attribute("type").unwrap_or("") {
                "Package" | "Socket" => above.package = Some(self.fresh()),
                "Die" => above.die = Some(self.fresh()),
                "Core" => above.core = Some(self.fresh()),
                "L3Cache" => above.l3 = Some(self.fresh()),
                "L2Cache" => above.l2 = Some(self.fresh()),
                kind if is_numa(kind) && has_objects(element) => above.node = Some(self.fresh()),
                // hwloc 1: one type for all caches.
                "Cache" => match element.attribute("depth") {
                    Some("3") => above.l3 = Some(self.fresh()),
                    Some("2") => above.l2 = Some(self.fresh()),
                    _ => {}
                },
                "PU" => {
                    let index = element.attribute("os_index").and_then(|index| index.parse().ok());
                    let index = index.unwrap_or(self.cpus.len() as u32);
                    self.cpus.push((index, above));
                    continue;
                }
                _ => {}
            }
            stack.extend(objects(element).map(|child| (child, above)));
        }
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

/// hwloc 2's `<distances2 type="NUMANode">` of latencies, if the file has one.
fn distances(root: Node<'_, '_>) -> Option<Vec<Vec<u32>>> {
    let table = root
        .descendants()
        .find(|element| element.has_tag_name("distances2") && element.attribute("type").is_some_and(is_numa))?;
    let size: usize = table.attribute("nbobjs")?.parse().ok()?;
    let values: Vec<u32> = table
        .children()
        .filter(|child| child.has_tag_name("u64values"))
        .filter_map(|child| child.text())
        .flat_map(str::split_whitespace)
        .filter_map(|value| value.parse().ok())
        .collect();
    (size > 0 && size <= MAX_CPUS && values.len() == size * size)
        .then(|| values.chunks(size).map(<[u32]>::to_vec).collect())
}

fn line_offset(text: &str, position: roxmltree::TextPos) -> usize {
    let line: usize = text.split_inclusive('\n').take(position.row.saturating_sub(1) as usize).map(str::len).sum();
    (line + position.col.saturating_sub(1) as usize).min(text.len())
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn what_is_no_machine() {
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
}
