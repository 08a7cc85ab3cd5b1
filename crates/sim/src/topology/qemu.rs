//! QEMU's `-smp`: `8,sockets=2,cores=4,threads=1`.

use vruntime_sched::{CpuPlace, Topology};

use super::MAX_CPUS;
use super::error::{ParseTopologyError, did_you_mean};

const KEYS: &[&str] = &["cpus", "sockets", "dies", "clusters", "cores", "threads", "maxcpus"];

/// Reads QEMU's `-smp`: the number of CPUs, then `sockets`, `dies`, `clusters`, `cores` and `threads`, each in one of
/// the level before. The default is 1, but missing `cores` complete the product (QEMU 6.2+). As on QEMU's x86 machines,
/// each die has one last-level cache, a core's threads are neighbours, and there is one NUMA node.
///
/// ```
/// let machine = vruntime_sim::topology::parse_qemu_smp("8,sockets=2,cores=4,threads=1").unwrap();
/// assert_eq!((machine.cpus()[3].llc, machine.cpus()[4].llc), (0, 1));
/// ```
///
/// # Errors
///
/// If a key is unknown, a value is no positive number, or the product is not the number of CPUs.
pub fn parse_qemu_smp(text: &str) -> Result<Topology, ParseTopologyError> {
    let mut values: [Option<usize>; 7] = [None; 7];
    let mut offset = 0;
    for (position, part) in text.split(',').enumerate() {
        let at = offset + (part.len() - part.trim_start().len());
        offset += part.len() + 1;
        let part = part.trim();
        let (key, number) = match part.split_once('=') {
            Some((key, number)) => (key.trim(), number.trim()),
            None if position == 0 => ("cpus", part),
            None => {
                let help = format!("write `key=number`, with one of {}", KEYS.join(", "));
                return Err(ParseTopologyError::new(at, part.len(), format!("`{part}` has no value"), help));
            }
        };
        let Some(index) = KEYS.iter().position(|known| *known == key) else {
            let help = did_you_mean(key, KEYS, &format!("keys are {}", KEYS.join(", ")));
            return Err(ParseTopologyError::new(at, key.len(), format!("there is no `{key}`"), help));
        };
        let number_at = at + part.len() - number.len();
        let Ok(value @ 1..=MAX_CPUS) = number.parse::<usize>() else {
            let message = format!("`{number}` is not a number of {key}");
            let help = format!("write a number from 1 to {MAX_CPUS}");
            return Err(ParseTopologyError::new(number_at, number.len(), message, help));
        };
        values[index] = Some(value);
    }
    let [cpus, sockets, dies, clusters, cores, threads, _] = values;
    let has_clusters = clusters.is_some();
    let (sockets, dies, clusters, threads) =
        (sockets.unwrap_or(1), dies.unwrap_or(1), clusters.unwrap_or(1), threads.unwrap_or(1));
    let outside = sockets.saturating_mul(dies).saturating_mul(clusters).saturating_mul(threads);
    let cores = cores.unwrap_or_else(|| cpus.map_or(1, |cpus| (cpus / outside.max(1)).max(1)));
    let total = outside.saturating_mul(cores);
    if total > MAX_CPUS {
        return Err(ParseTopologyError::too_large(0, text.len()));
    }
    if let Some(cpus) = cpus
        && cpus != total
    {
        let given = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
        let message = format!("{given}, but sockets * dies * clusters * cores * threads = {total}");
        return Err(ParseTopologyError::new(
            0,
            text.len(),
            message,
            format!("write `{total}` CPUs, or change a factor"),
        ));
    }
    let place = |cpu: usize| {
        let core = cpu / threads;
        let cluster = core / cores;
        let die = cluster / clusters;
        CpuPlace {
            core: core as u32,
            cluster: if has_clusters { cluster } else { core } as u32,
            llc: die as u32,
            package: (die / dies) as u32,
            node: 0,
            capacity: 1024,
        }
    };
    Topology::new((0..total).map(place).collect(), None)
        .map_err(|error| ParseTopologyError::contradiction(&error, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_machines() {
        let machine = parse_qemu_smp("8,sockets=1,cores=4,threads=2").unwrap();
        let cores: Vec<u32> = machine.cpus().iter().map(|place| place.core).collect();
        assert_eq!(cores, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert!(machine.cpus().iter().all(|place| place.llc == 0 && place.cluster == place.core));
        assert_eq!(parse_qemu_smp("2").unwrap(), Topology::flat(2));
        assert_eq!(parse_qemu_smp("8,sockets=2").unwrap(), parse_qemu_smp("8,sockets=2,cores=4,threads=1").unwrap());
    }

    #[test]
    fn every_error_has_its_place() {
        for (text, offset, help) in [
            ("8,socket=2", 2, "did you mean `sockets`?"),
            ("8,sockets=0", 10, "a number from 1"),
            ("8,sockets=2,cores=3", 0, "write `6`"),
            ("8,cores", 2, "key=number"),
            ("x", 0, "a number from 1"),
            ("cpus=8, cores = 99999999", 16, "a number from 1"),
            ("sockets=8000,cores=8000", 0, "smaller counts"),
        ] {
            let error = parse_qemu_smp(text).unwrap_err();
            assert_eq!(error.offset, offset, "{text}: {error}");
            assert!(error.help.contains(help), "{text}: {error}");
        }
    }
}
