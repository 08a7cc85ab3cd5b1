//! hwloc's synthetic descriptions: `pack:2 l3:1 core:4 pu:2`.

use vruntime_sched::{CpuPlace, Topology};

use super::MAX_CPUS;
use super::error::{ParseTopologyError, did_you_mean};

/// The known levels, by every name of hwloc and lstopo.
const NAMES: &[(&str, Level)] = &[
    ("machine", Level::Machine),
    ("group", Level::Group),
    ("numa", Level::Numa),
    ("numanode", Level::Numa),
    ("node", Level::Numa),
    ("pack", Level::Package),
    ("package", Level::Package),
    ("socket", Level::Package),
    ("die", Level::Die),
    ("l5", Level::Cache(5)),
    ("l4", Level::Cache(4)),
    ("l3", Level::Cache(3)),
    ("l3cache", Level::Cache(3)),
    ("l2", Level::Cache(2)),
    ("l2cache", Level::Cache(2)),
    ("l1", Level::Cache(1)),
    ("l1d", Level::Cache(1)),
    ("l1dcache", Level::Cache(1)),
    ("l1i", Level::Cache(0)),
    ("l1icache", Level::Cache(0)),
    ("l1cache", Level::Cache(1)),
    ("cluster", Level::Cluster),
    ("core", Level::Core),
    ("pu", Level::Pu),
    ("thread", Level::Pu),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    Machine,
    Group,
    Numa,
    Package,
    Die,
    Cache(u8),
    Cluster,
    Core,
    Pu,
}

/// Parses hwloc's synthetic description of a machine: levels from the outermost inwards, each with its number of
/// objects in one of the level before.
///
/// - Levels: `numa` (`node`), `pack` (`package`, `socket`), `die`, `group`, `l5` to `l1` (caches), `cluster` (of
///   cores that share a mid-level cache), `core`, `pu` (hardware thread). A bare number is that many `pu`. Without
///   `pu`, each core has one.
/// - `[numa]` after a level attaches a NUMA node to each of its objects.
/// - `(capacity=N,...)` after `core` or `pu` sets the CPUs' capacities, 1 to 1024, for each object in turn. hwloc
///   lacks this attribute.
/// - hwloc's `size=` (of caches), `memory=` and `memorysidecachesize=` (of other levels) change nothing.
/// - CPUs have the order of the description, as in hwloc: the threads of one core are neighbours. `indexes=` behind
///   `pu` changes the order: `indexes=0,4,1,5` in turn, `indexes=2*2:1*2` by hwloc's loops of step and number,
///   `indexes=core:pu` by levels, the first fastest. Behind `numa`, `[numa]` and `pack` it numbers nodes and packages
///   in the same ways. Cores and caches have no numbers here: a run notes that it ignores theirs.
///
/// Without an `l3` the innermost named level of `die`, `pack`, `numa` and `machine` shares the last-level cache.
///
/// # Errors
///
/// If a level or an attribute is unknown, a count is missing or out of range, or levels contradict each other. It has
/// the place and the fix.
pub fn parse_synthetic(text: &str) -> Result<Topology, ParseTopologyError> {
    let levels = scan(text)?;
    build(text, &levels)
}

struct Word {
    level: Level,
    count: usize,
    memory: bool,
    capacity: Vec<u32>,
    /// Value and offset of `indexes=`.
    indexes: Option<(String, usize)>,
    /// As `indexes`, of the memory that is attached to the level.
    memory_indexes: Option<(String, usize)>,
    offset: usize,
    len: usize,
}

/// Returns a note on orders (`indexes=`) of levels whose objects have no number in the simulator. None for a text that
/// is no description.
pub(crate) fn ignored_indexes(text: &str) -> Option<String> {
    let words = scan(text).ok()?;
    let is_ignored = |word: &&Word| word.indexes.is_some() && !is_numbered(word.level);
    let ignored: Vec<String> = words.iter().filter(is_ignored).map(|word| format!("`{}`", of(text, word))).collect();
    let of = ignored.join(", ");
    (!ignored.is_empty()).then(|| {
        format!("the simulator ignores `indexes=` of {of}: only CPUs (pu), NUMA nodes (numa) and packages (pack) have numbers")
    })
}

fn is_numbered(level: Level) -> bool {
    matches!(level, Level::Pu | Level::Numa | Level::Package)
}

fn scan(text: &str) -> Result<Vec<Word>, ParseTopologyError> {
    let mut words: Vec<Word> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let offset = text.len() - rest.len();
        let Some(first) = rest.chars().next() else { break };
        if first == '[' {
            let Some(end) = rest.find(']') else {
                return Err(ParseTopologyError::new(offset, rest.len(), "`[` is never closed", "write `[numa]`"));
            };
            let name = rest[1..end].split(['(', ':']).next().unwrap_or("").trim();
            let numa = NAMES.iter().any(|(known, level)| *level == Level::Numa && known.eq_ignore_ascii_case(name));
            if !numa {
                let message = format!("`{}` cannot be attached to another level", &rest[..=end]);
                return Err(ParseTopologyError::new(offset, end + 1, message, "only `[numa]` can"));
            }
            let mut order = None;
            if let Some((before, inside)) = rest[..end].split_once('(') {
                let inside = inside.trim_end().trim_end_matches(')');
                attributes(inside, offset + before.len() + 1, Level::Numa)?;
                order = indexes(inside, offset + before.len() + 1);
            }
            match words.last_mut() {
                Some(word) => (word.memory, word.memory_indexes) = (true, order),
                None => words.push(Word {
                    level: Level::Machine,
                    count: 1,
                    memory: true,
                    capacity: Vec::new(),
                    indexes: None,
                    memory_indexes: order,
                    offset,
                    len: end + 1,
                }),
            }
            rest = &rest[end + 1..];
            continue;
        }
        if first == '(' {
            let Some(end) = rest.find(')') else {
                return Err(ParseTopologyError::new(offset, rest.len(), "`(` is never closed", "add a `)`"));
            };
            let level = words.last().map_or(Level::Machine, |word| word.level);
            let capacity = attributes(&rest[1..end], offset + 1, level)?;
            if let (Some(word), Some(order)) = (words.last_mut(), indexes(&rest[1..end], offset + 1)) {
                word.indexes = Some(order);
            }
            if !capacity.is_empty()
                && let Some(word) = words.last_mut()
            {
                word.capacity = capacity;
                word.len = offset + end + 1 - word.offset;
            }
            rest = &rest[end + 1..];
            continue;
        }
        let len = rest.find(|c: char| c.is_whitespace() || "([".contains(c)).unwrap_or(rest.len());
        // `4 cores` means 4.
        if let [Word { level: Level::Pu, count, .. }] = words[..]
            && PLURALS.contains(&rest[..len].to_ascii_lowercase().as_str())
        {
            let message = format!("`{}` has no count", &rest[..len]);
            return Err(ParseTopologyError::new(offset, len, message, format!("write \"{count}\" for {count} CPUs")));
        }
        words.push(word(&rest[..len], offset)?);
        rest = &rest[len..];
    }
    if words.is_empty() {
        return Err(ParseTopologyError::new(
            0,
            text.len(),
            "nothing is described",
            "write for example `pack:1 core:4 pu:2`",
        ));
    }
    Ok(words)
}

/// Words behind a number of CPUs, in machines of people.
const PLURALS: [&str; 8] = ["cores", "core", "cpus", "cpu", "vcpus", "vcpu", "threads", "processors"];

fn word(word: &str, offset: usize) -> Result<Word, ParseTopologyError> {
    let make = |level, count, len| {
        let (capacity, indexes, memory_indexes) = (Vec::new(), None, None);
        Word { level, count, memory: false, capacity, indexes, memory_indexes, offset, len }
    };
    let (name, number) = match word.split_once(':') {
        Some((name, number)) => (name, number),
        None if word.starts_with(|c: char| c.is_ascii_digit()) => ("pu", word),
        // A number is not meant as a level.
        None if word.trim_start_matches(['-', '+', '.']).starts_with(|c: char| c.is_ascii_digit()) => {
            let help = "write a whole number from 1 on, such as 4".to_owned();
            let message = format!("`{word}` is not a number of CPUs");
            return Err(ParseTopologyError::new(offset, word.len(), message, help));
        }
        None => {
            let help = format!("write how many in each object of the level before: `{word}:2`");
            return Err(ParseTopologyError::new(offset, word.len(), format!("`{word}` has no count"), help));
        }
    };
    let Some((_, level)) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let help = did_you_mean(name, &names, "levels are numa, pack, die, l3, l2, cluster, core, pu");
        return Err(ParseTopologyError::new(offset, name.len(), format!("there is no level `{name}`"), help));
    };
    let at = offset + word.len() - number.len();
    match number.parse::<usize>() {
        Ok(0) => Err(ParseTopologyError::new(at, number.len(), "a count of 0", "counts begin at 1")),
        Ok(count) if count > MAX_CPUS => Err(ParseTopologyError::too_large(at, number.len())),
        Ok(count) => Ok(make(*level, count, word.len())),
        Err(_) => {
            let message = match number {
                "" => format!("expected a number after `{word}`"),
                _ => format!("`{number}` is no count"),
            };
            Err(ParseTopologyError::new(at, number.len(), message, "write a whole number, such as `core:4`"))
        }
    }
}

const ATTRIBUTES: [(&str, &str, &str); 5] = [
    ("capacity", "capacity=1024,512", "only cores and PUs have a capacity"),
    ("size", "size=32MB", "only caches have a size"),
    ("memory", "memory=16GB", "caches have no memory, but a size"),
    ("memorysidecachesize", "memorysidecachesize=16GB", "caches have no memory, but a size"),
    ("indexes", "indexes=0,2,1,3", "there is nothing to number"),
];

/// Returns the capacities among attributes: `size=1MB capacity=1024,512`. hwloc's change nothing. Unknown ones are
/// errors.
fn attributes(text: &str, offset: usize, level: Level) -> Result<Vec<u32>, ParseTopologyError> {
    let mut capacities = Vec::new();
    for part in text.split_whitespace() {
        let at = offset + (part.as_ptr() as usize - text.as_ptr() as usize);
        let wrong = |message: String, help: String| Err(ParseTopologyError::new(at, part.len(), message, help));
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let Some((name, form, elsewhere)) = ATTRIBUTES.iter().find(|(known, ..)| *known == name) else {
            let names = ATTRIBUTES.map(|(name, ..)| name);
            let help = did_you_mean(name, &names, &format!("attributes are {}", names.join(", ")));
            return wrong(format!("there is no attribute `{name}`"), help);
        };
        if value.is_empty() {
            return wrong(format!("`{name}` has no value"), format!("write it as {form}"));
        }
        let cache = matches!(level, Level::Cache(_));
        let (here, help) = match *name {
            "capacity" => (matches!(level, Level::Core | Level::Pu), "move it behind `core:N` or `pu:N`"),
            "size" => (cache, "move it behind a cache, such as `l3:1`"),
            "indexes" => (true, ""),
            _ => (!cache, "write `size` for that of a cache"),
        };
        if !here {
            return wrong((*elsewhere).to_owned(), help.to_owned());
        }
        if *name == "capacity" {
            for value in value.split(',') {
                let Ok(capacity @ 1..=1024) = value.parse::<u32>() else {
                    let help = "capacities are 1 to 1024, where 1024 is the fastest CPU of the machine";
                    return wrong(format!("`{value}` is no capacity"), help.to_owned());
                };
                capacities.push(capacity);
            }
            continue;
        }
        let (sound, what) = match *name {
            // A list, or the order in which hwloc counts: `0,2,1,3`, `2*2:1*2`, `core:pu`.
            "indexes" => (value.starts_with(|c: char| c.is_ascii_alphanumeric()), "order of numbers"),
            _ => (is_bytes(value), "number of bytes"),
        };
        if !sound {
            return wrong(format!("`{value}` is no {what}"), format!("write it as {form}"));
        }
    }
    Ok(capacities)
}

/// Returns value and offset of `indexes=` in attributes that begin at `offset`.
fn indexes(text: &str, offset: usize) -> Option<(String, usize)> {
    let value = text.split_whitespace().find_map(|part| part.strip_prefix("indexes="))?;
    Some((value.to_owned(), offset + (value.as_ptr() as usize - text.as_ptr() as usize)))
}

/// Returns the numbers of the objects of a level, which is the last of `words`, or the memory attached to it.
fn numbered(words: &[Word], kind: &Kind, order: &(String, usize)) -> Result<Vec<usize>, ParseTopologyError> {
    let total: usize = words.iter().map(|word| word.count).product();
    let (value, offset) = order;
    numbers(words, total, value, kind).map_err(|why| {
        let Kind { one, many } = kind;
        let help = format!("number every {one} once: indexes=0,2,1,3, indexes=2*2:1*2 or indexes=core:pu");
        let message = format!("`{value}` does not number the {many}: {why}");
        ParseTopologyError::new(*offset, value.len(), message, help)
    })
}

/// What `indexes=` numbers, in words.
struct Kind {
    one: &'static str,
    many: &'static str,
}

const CPUS: Kind = Kind { one: "CPU", many: "CPUs" };
const NODES: Kind = Kind { one: "node", many: "nodes" };
const PACKAGES: Kind = Kind { one: "package", many: "packages" };

/// Returns each object's number, by place in the description, for a value of `indexes=`.
fn numbers(words: &[Word], total: usize, value: &str, kind: &Kind) -> Result<Vec<usize>, String> {
    let Kind { one, many } = kind;
    let numbers: Vec<usize> = if value.bytes().all(|byte| byte.is_ascii_digit() || byte == b',') {
        let numbers: Result<Vec<usize>, _> = value.split(',').map(str::parse).collect();
        numbers.map_err(|_| format!("`{value}` is not a list of numbers"))?
    } else {
        let loops = if value.starts_with(|c: char| c.is_ascii_digit()) {
            let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
            let read = |part: &str| part.split_once('*').and_then(|(step, nb)| Some((number(step)?, number(nb)?)));
            value.split(':').map(read).collect::<Option<Vec<_>>>().ok_or("a loop is STEP*NUMBER, such as 2*2:1*2")?
        } else {
            by_levels(words, total, value)?
        };
        in_loops(loops, total, many)?
    };
    let mut seen = vec![false; total];
    for &number in &numbers {
        match seen.get_mut(number) {
            None => return Err(format!("there is no {one} {number}: the description has {total}, 0 to {}", total - 1)),
            Some(true) => return Err(format!("{one} {number} is listed twice")),
            Some(seen) => *seen = true,
        }
    }
    if numbers.len() == total { Ok(numbers) } else { Err(format!("{} numbers for {total} {many}", numbers.len())) }
}

/// Counts through nested loops, the first fastest. As in hwloc, a missing innermost step is added.
fn in_loops(mut loops: Vec<(usize, usize)>, total: usize, many: &str) -> Result<Vec<usize>, String> {
    let counted = loops.iter().try_fold(1_usize, |product, (_, nb)| product.checked_mul(*nb));
    let counted = counted.filter(|counted| *counted <= total && total.is_multiple_of(*counted));
    let counted = counted.ok_or_else(|| format!("its loops do not count the {total} {many}"))?;
    if counted < total {
        if loops.iter().map(|(step, _)| *step).min() != Some(total / counted) {
            return Err(format!("its loops count {counted} {many}, and there are {total}"));
        }
        loops.push((1, total / counted));
    }
    let number = |leaf: usize| {
        let add =
            |(sum, unit): (usize, usize), &(step, nb): &(usize, usize)| (sum + leaf / step % nb * unit, unit * nb);
        loops.iter().fold((0, 1), add).0
    };
    Ok((0..total).map(number).collect())
}

fn by_levels(words: &[Word], total: usize, value: &str) -> Result<Vec<(usize, usize)>, String> {
    let width = |index: usize| words[..=index].iter().map(|word| word.count).product::<usize>();
    let place = |name: &str| {
        let (_, level) = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        words.iter().position(|word| word.level == *level)
    };
    let named = |name: &str| place(name).ok_or_else(|| format!("the description has no level `{name}`"));
    let levels = value.split(':').map(named).collect::<Result<Vec<usize>, String>>()?;
    let each = |&place: &usize| {
        let above = levels.iter().filter(|other| **other < place).max();
        (total / width(place), width(place) / above.map_or(1, |above| width(*above)))
    };
    Ok(levels.iter().map(each).collect())
}

fn is_bytes(value: &str) -> bool {
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit());
    let units = ["", "B", "kB", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"];
    unit.len() < value.len() && units.contains(&unit)
}

/// Returns a level's rank, outermost first. Levels of either order share one.
fn rank(level: Level) -> u8 {
    match level {
        Level::Machine => 0,
        Level::Group | Level::Numa | Level::Package => 1,
        Level::Die => 2,
        Level::Cache(5) => 3,
        Level::Cache(4) => 4,
        Level::Cache(3) => 5,
        Level::Cluster | Level::Cache(2) => 6,
        Level::Cache(_) => 7,
        Level::Core => 8,
        Level::Pu => 9,
    }
}

fn build(text: &str, words: &[Word]) -> Result<Topology, ParseTopologyError> {
    for pair in words.windows(2) {
        let (outer, inner) = (rank(pair[0].level), rank(pair[1].level));
        // Intel's L2 and L1 may stand on either side of their core.
        let private = |level| matches!(level, Level::Cache(0..=2));
        let around_core = pair[0].level == Level::Core && private(pair[1].level);
        if inner < outer && !around_core || (inner == outer && pair[0].level == pair[1].level) {
            let word = &pair[1];
            let message = format!("`{}` cannot be inside `{}`", of(text, word), of(text, &pair[0]));
            let help = "order the levels from the outermost: numa, pack, die, l3, l2 or cluster, core, pu";
            return Err(ParseTopologyError::new(word.offset, word.len, message, help));
        }
    }
    let mut total: usize = 1;
    for word in words {
        total = total.saturating_mul(word.count);
        if total > MAX_CPUS {
            return Err(ParseTopologyError::too_large(word.offset, word.len));
        }
    }
    // The index of a leaf's object of a level: the leaf's number divided by the leaves in one object.
    let below = |index: usize| words[index + 1..].iter().map(|word| word.count).product::<usize>();
    let position = |wanted: &[Level]| words.iter().rposition(|word| wanted.contains(&word.level));
    let outermost_first = |wanted: &[Level]| wanted.iter().find_map(|&level| position(&[level]));
    let id = |at: Option<usize>, leaf: usize| at.map_or(0, |index| (leaf / below(index)) as u32);

    // Without `core`, the innermost objects are cores.
    let core = position(&[Level::Core]).unwrap_or(words.len() - 1);
    let package = position(&[Level::Package]);
    let node = words.iter().rposition(|word| word.level == Level::Numa || word.memory);
    let llc =
        outermost_first(&[Level::Cache(3), Level::Cache(4), Level::Cache(5), Level::Die, Level::Package, Level::Numa])
            .or(node);
    // Caches must be inside nodes: with several nodes in a package and no L3, each node has its own.
    let llc = match (llc, node) {
        (Some(llc), Some(node)) if below(node) < below(llc) => Some(node),
        (llc, _) => llc,
    };
    // A cluster is cores that share a cache: a level named cluster, or an L2 outside cores.
    let cluster = position(&[Level::Cluster])
        .or_else(|| position(&[Level::Cache(2)]).filter(|&index| index < core))
        .filter(|&index| llc.is_none_or(|llc| below(index) <= below(llc)));

    let mut given = words.iter().rev().filter(|word| !word.capacity.is_empty());
    let capacities = given.next();
    if let (Some(inner), Some(outer)) = (capacities, given.next()) {
        let message = format!("capacities of `{}` and of `{}`", of(text, outer), of(text, inner));
        return Err(ParseTopologyError::new(inner.offset, inner.len, message, "give them once"));
    }
    if let Some((index, word)) =
        words.iter().enumerate().find(|(index, word)| word.capacity.len() > total / below(*index))
    {
        let (objects, capacities) = (total / below(index), word.capacity.len());
        let message = format!("{capacities} capacities for {objects} of them");
        let help = "give one for each, or fewer, which are then given in turn";
        return Err(ParseTopologyError::new(word.offset, word.len, message, help));
    }
    let place = |leaf: usize| {
        let core = id(Some(core), leaf);
        let capacity = capacities.map_or(1024, |word| {
            let index = if word.level == Level::Core { core as usize } else { leaf };
            word.capacity[index % word.capacity.len()]
        });
        CpuPlace {
            core,
            cluster: cluster.map_or(core, |index| id(Some(index), leaf)),
            llc: id(llc, leaf),
            package: id(package, leaf),
            node: id(node, leaf),
            capacity,
        }
    };
    let mut cpus: Vec<CpuPlace> = (0..total).map(place).collect();
    for (at, word) in words.iter().enumerate() {
        let above = &words[..=at];
        if let Some(order) = &word.indexes {
            match word.level {
                Level::Numa => {
                    renumber(&mut cpus, &numbered(above, &NODES, order)?, |cpu| &mut cpu.node, node == Some(at));
                }
                Level::Package => {
                    renumber(
                        &mut cpus,
                        &numbered(above, &PACKAGES, order)?,
                        |cpu| &mut cpu.package,
                        package == Some(at),
                    );
                }
                _ => {}
            }
        }
        if let Some(order) = &word.memory_indexes {
            // Memory in front of the first level is that of the machine.
            renumber(&mut cpus, &numbered(above, &NODES, order)?, |cpu| &mut cpu.node, node == Some(at));
        }
    }
    if let Some(Word { indexes: Some(order), level: Level::Pu, .. }) = words.last() {
        let numbers = numbered(words, &CPUS, order)?;
        let mut numbered: Vec<(usize, CpuPlace)> = numbers.into_iter().zip(cpus).collect();
        numbered.sort_by_key(|(number, _)| *number);
        cpus = numbered.into_iter().map(|(_, place)| place).collect();
    }
    Topology::new(cpus, None).map_err(|error| ParseTopologyError::contradiction(&error, text.len()))
}

/// Replaces the number of each CPU's node or package, if the numbers are those of the level in use.
fn renumber(cpus: &mut [CpuPlace], numbers: &[usize], field: fn(&mut CpuPlace) -> &mut u32, is_used: bool) {
    for cpu in cpus.iter_mut().filter(|_| is_used) {
        let number = field(cpu);
        *number = numbers.get(*number as usize).map_or(*number, |&new| new as u32);
    }
}

fn of<'a>(text: &'a str, word: &Word) -> &'a str {
    &text[word.offset..word.offset + word.len]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(text: &str, of: fn(&CpuPlace) -> u32) -> Vec<u32> {
        parse_synthetic(text).unwrap().cpus().iter().map(of).collect()
    }

    #[test]
    fn a_server_with_two_packages() {
        let text = "pack:2 l3:1 core:2 pu:2";
        assert_eq!(column(text, |p| p.core), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(column(text, |p| p.llc), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(column(text, |p| p.package), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(column(text, |p| p.node), [0; 8]);
    }

    #[test]
    fn several_caches_in_a_package_and_clusters_in_a_cache() {
        assert_eq!(column("pack:1 l3:2 l2:2 core:2", |p| p.llc), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(column("pack:1 l3:2 l2:2 core:2", |p| p.cluster), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(column("pack:1 l3:1 l2:4 core:1", |p| p.cluster), [0, 1, 2, 3]);
    }

    #[test]
    fn memory_hangs_on_levels_or_is_one() {
        assert_eq!(column("numa:2 core:2", |p| p.node), [0, 0, 1, 1]);
        assert_eq!(column("pack:2 [numa] core:2", |p| p.node), [0, 0, 1, 1]);
        assert_eq!(column("[numa] core:2 pu:1", |p| p.node), [0, 0]);
        assert_eq!(column("pack:1 die:2 [numa(memory=1GB)] core:1 pu:2", |p| p.node), [0, 0, 1, 1]);
        assert_eq!(column("pack:1 numa:2 core:2", |p| p.llc), [0, 0, 1, 1]);
    }

    #[test]
    fn a_number_alone_is_that_many_cpus_in_one_cache() {
        let flat = parse_synthetic("8").unwrap();
        assert_eq!(flat, Topology::flat(8));
        assert_eq!(parse_synthetic("core:4 pu:1").unwrap(), Topology::flat(4));
    }

    #[test]
    fn attributes_are_read_past_but_for_capacity() {
        let text = "(memory=4GiB) pack:1 [numa(memory=1GB memorysidecachesize=65536)] l3:1(size=32MB indexes=0) \
                    core:4(capacity=1024,512) pu:1(indexes=core:pu)";
        assert_eq!(column(text, |p| p.capacity), [1024, 512, 1024, 512]);
        let error = parse_synthetic("core:4(capacity=2000)").unwrap_err();
        assert_eq!((error.offset, error.len), (7, 13));
    }

    #[test]
    fn indexes_number_nodes_and_packages() {
        assert_eq!(column("numa:2(indexes=1,0) core:2", |p| p.node), [1, 1, 0, 0]);
        assert_eq!(column("pack:2(indexes=1,0) core:2", |p| p.package), [1, 1, 0, 0]);
        assert_eq!(column("pack:2 [numa(memory=1GB indexes=1,0)] core:2", |p| p.node), [1, 1, 0, 0]);
        assert_eq!(column("pack:2 numa:2(indexes=2*2:1*2) core:1", |p| p.node), [0, 2, 1, 3]);
        assert_eq!(column("pack:2 numa:2(indexes=numa:pack) core:1", |p| p.node), [0, 1, 2, 3]);
        for (text, offset, why) in [
            ("numa:2(indexes=1,1) core:2", 15, "node 1 is listed twice"),
            ("pack:2(indexes=2,0) core:2", 15, "there is no package 2: the description has 2, 0 to 1"),
            ("pack:2 [numa(indexes=0)] core:2", 21, "1 numbers for 2 nodes"),
        ] {
            let error = parse_synthetic(text).unwrap_err();
            assert!(error.message.contains(why), "{text}: {error}");
            assert_eq!(error.offset, offset, "{text}");
        }
        let note = ignored_indexes("pack:2 l3:1(indexes=0) core:2(indexes=1,0) pu:2(indexes=0,2,1,3,4,5,6,7)").unwrap();
        assert!(note.contains("`indexes=` of `l3:1`, `core:2`: only CPUs"), "{note}");
        assert_eq!(ignored_indexes("numa:2(indexes=1,0) core:2"), None);
        assert_eq!(crate::plan::Machine::described("core:2(indexes=1,0)").unwrap().ignored.len(), 1);
    }

    /// As numbered by `lstopo -i "pack:1 core:2 pu:2(indexes=...)" --only pu`.
    #[test]
    fn indexes_number_the_cpus() {
        for (indexes, cores) in [
            ("0,1,2,3", [0, 0, 1, 1]),
            ("0,2,1,3", [0, 1, 0, 1]),
            ("2*2:1*2", [0, 1, 0, 1]),
            ("2*2", [0, 1, 0, 1]),
            ("core:pu", [0, 1, 0, 1]),
            ("core", [0, 1, 0, 1]),
            ("pu:core", [0, 0, 1, 1]),
            ("3,1,2,0", [1, 0, 1, 0]),
        ] {
            assert_eq!(column(&format!("core:2 pu:2(indexes={indexes})"), |p| p.core), cores, "{indexes}");
        }
        let siblings = column("pack:2 core:2 pu:2(indexes=pack:core:pu)", |p| p.core);
        assert_eq!(siblings, [0, 2, 1, 3, 0, 2, 1, 3]);
        for (indexes, why) in [
            ("0,1,2", "3 numbers for 4 CPUs"),
            ("0,1,2,4", "no CPU 4"),
            ("0,1,1,2", "CPU 1 is listed twice"),
            ("1*3", "do not count the 4 CPUs"),
            ("1*2", "count 2 CPUs"),
            ("2*2:x", "STEP*NUMBER"),
            ("die:core", "no level `die`"),
        ] {
            let error = parse_synthetic(&format!("core:2 pu:2(indexes={indexes})")).unwrap_err();
            assert!(error.message.contains(why), "{indexes}: {error}");
            assert_eq!(error.offset, 20, "{indexes}");
        }
    }

    #[test]
    fn attributes_that_are_none_are_reported() {
        for (text, offset, message, help) in [
            ("core:4(capcity=512)", 7, "there is no attribute `capcity`", "did you mean `capacity`?"),
            ("core:4(colour=red)", 7, "`colour`", "attributes are capacity, size, memory"),
            ("core:4 (512)", 8, "there is no attribute `512`", "attributes are capacity, size"),
            ("(speed=3) core:4", 1, "`speed`", "attributes are capacity"),
            ("[numa(memory=1GB mem=2)] core:2", 17, "no attribute `mem`", "did you mean `memory`?"),
            ("core:4(capacity)", 7, "`capacity` has no value", "capacity=1024,512"),
            ("core:4(capacity=)", 7, "`capacity` has no value", "capacity=1024,512"),
            ("l3:1(size=big) core:2", 5, "`big` is no number of bytes", "size=32MB"),
            ("l3:1(size=MB) core:2", 5, "`MB` is no number of bytes", "size=32MB"),
            ("numa:2(memory=1XB) core:2", 7, "`1XB` is no number of bytes", "memory=16GB"),
            ("pu:2(indexes=:)", 5, "`:` is no order of numbers", "indexes=0,2,1,3"),
            ("l3:1(memory=1GB) core:2", 5, "caches have no memory", "write `size`"),
            ("core:2(size=1GB)", 7, "only caches have a size", "l3:1"),
            ("numa:2(capacity=5) core:2", 7, "only cores and PUs have a capacity", "behind `core:N`"),
            ("core:2(capacity=1,2,3)", 0, "3 capacities for 2 of them", "one for each"),
            ("core:2(capacity=1) pu:2(capacity=2)", 19, "capacities of `core:2(capacity=1)` and of", "give them once"),
        ] {
            let error = parse_synthetic(text).unwrap_err();
            assert!(error.message.contains(message) && error.help.contains(help), "{text}: {error}");
            assert_eq!(error.offset, offset, "{text}: {error}");
        }
    }

    #[test]
    fn every_error_has_its_place_and_a_mend() {
        for (text, offset, help) in [
            ("", 0, "write for example"),
            ("pack:2 cor:4", 7, "did you mean `core`?"),
            ("pack:2 core", 7, "`core:2`"),
            ("core:0", 5, "counts begin at 1"),
            ("core:x", 5, "a whole number"),
            ("core:9000000000000000000000", 5, "a whole number"),
            ("core:100000", 5, "smaller counts"),
            ("pack:8 core:64 pu:64", 15, "smaller counts"),
            ("core:2 pack:2", 7, "order the levels"),
            ("core:2 core:2", 7, "order the levels"),
            ("pack:2 [numa", 7, "[numa]"),
            ("pack:2 [l3]", 7, "[numa]"),
            ("pack:2(", 6, "add a `)`"),
        ] {
            let error = parse_synthetic(text).unwrap_err();
            assert_eq!(error.offset, offset, "{text}: {error}");
            assert!(error.help.contains(help), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9:()\\[\\]=, é]{0,60}") {
            let _ = parse_synthetic(&text);
        }

        #[test]
        fn every_ordered_description_is_a_machine(numa in 1usize..3, pack in 1usize..3, l3 in 1usize..4, core in 1usize..5, pu in 1usize..4) {
            let text = format!("numa:{numa} pack:{pack} l3:{l3} core:{core} pu:{pu}");
            let topology = parse_synthetic(&text).unwrap();
            prop_assert_eq!(topology.nr_cpus(), numa * pack * l3 * core * pu);
            let cores: std::collections::BTreeSet<u32> = topology.cpus().iter().map(|place| place.core).collect();
            prop_assert_eq!(cores.len(), numa * pack * l3 * core);
        }
    }
}
