//! Readers of mutated files: each returns a result or an error, and none panics.
//!
//! A seed mutates [`EACH`] files for each reader. `cargo xtask seeds --count 50 --only mutated` has 5,000 and more.

#[path = "../../../tests/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/read.rs"]
mod read;
#[path = "../../../fuzz/replays.rs"]
mod replays;
#[path = "../../../tests/seed.rs"]
mod seed;
#[path = "../../../fuzz/shown.rs"]
mod shown;
mod support;

use std::fs;
use std::io::{self, Cursor};
use std::path::Path;

use seed::any_seed;
use vruntime_replay::plat_info::PlatInfo;
use vruntime_replay::recorded::rules::Rules;
use vruntime_report::{SavedResults, is_saved_comparison, is_saved_results};
use vruntime_sim::topology::{parse_qemu_smp, read_lstopo};
use vruntime_sim::{MachineSpec, parse_topology};
use vruntime_trace::read::{PerfData, PerfettoTrace, TextReader, TraceDat};
use vruntime_trace::recording::Recording;
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::rtapp::{self, Options};
use vruntime_workload::{recording, scenario};

/// The number of mutated files of each reader.
const EACH: u64 = 100;

/// A quarter for the reader that runs what it reads.
const REPLAYS: u64 = EACH / 4;

const LSTOPO: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000f">
    <info name="OSName" value="Linux"/>
    <object type="NUMANode" os_index="0" cpuset="0x00000003" local_memory="1024"/>
    <object type="Package" os_index="0" cpuset="0x0000000f">
      <object type="L3Cache" cpuset="0x0000000f" cache_size="8388608" depth="3">
        <object type="Core" os_index="0" cpuset="0x00000005">
          <object type="PU" os_index="0" cpuset="0x00000001"/>
          <object type="PU" os_index="2" cpuset="0x00000004"><info name="LinuxCapacity" value="512"/></object>
        </object>
        <object type="Core" os_index="1" cpuset="0x0000000a">
          <object type="PU" os_index="1" cpuset="0x00000002"/>
          <object type="PU" os_index="3" cpuset="0x00000008"/>
        </object>
      </object>
    </object>
  </object>
</topology>
"#;

const CGROUPS: &str = "/proc/7/task/7/cgroup:0::/a\n/proc/7/task/8/cgroup:0::/a/b\n/proc/7/autogroup:/autogroup-1 nice 3\n\
    /proc/sys/kernel/sched_autogroup_enabled:1\n/proc/7/task/8/status:Cpus_allowed_list:\t0-3,7\n\
    /sys/fs/cgroup/a/cpu.weight:300\n/sys/fs/cgroup/a/cpu.max:50000 100000\n/sys/fs/cgroup/a/b/cpuset.cpus:0-1\n";

const PLAT_INFO: &str = "kernel:\n  version: 6.1\ncpus-count: 4\ncpu-capacities:\n  orig: {0: 446, 1: 446, 2: 1024, 3: 1024}\n\
    freq-domains: [[0, 1], [2, 3]]\nname: board\n";

const RULES: [&str; 5] = [
    "web*: nice=5 cpus=0-3,5",
    "cgroup=/pod: max=250m/10ms weight=300 burst=1ms",
    "pid 7: policy=fifo:50",
    "*: remove",
    "a: copies=3 group=/x/y idle=true slice=3ms",
];

const MACHINES: [&str; 5] = [
    "pack:2 l3:1 core:4 pu:2(indexes=2*2:1*2)",
    "numa:2(memory=1GB) core:2 pu:2(indexes=0,4,1,5,2,6,3,7)",
    "cpus=8,sockets=2,cores=2,threads=2,maxcpus=8",
    "core:4(capacity=1024,512,512,333)",
    "smp=4",
];

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The files of a folder of the repository.
fn files(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().filter(|path| path.is_file()).map(|path| fs::read(path).unwrap()).collect()
}

/// Mixes the bits of a number (SplitMix64).
fn mixed(number: u64) -> u64 {
    let bits = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// Draws numbers.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }
}

/// Reads `count` files, each with 1 to 8 mutations of one of `files`. A panic names the file's seed and reader.
fn mutated(reader: &str, files: &[Vec<u8>], count: u64, read: impl Fn(&[u8])) {
    assert!(!files.is_empty(), "{reader} has no files");
    let seed = any_seed();
    for number in 0..count {
        let mut random = Random(mixed(seed.wrapping_mul(1_000_003).wrapping_add(number)));
        let mut bytes = files[random.bits() as usize % files.len()].clone();
        for _ in 0..=random.bits() % 8 {
            mutate::mutate(&mut bytes, random.bits() as usize, random.bits() as u8, random.bits() as u8);
        }
        let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        let readable = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| read(&bytes)));
        assert!(readable.is_ok(), "{reader} panics at number {number}, which begins {begin:?}");
    }
}

#[test]
fn mutated_workloads_are_read_or_refused() {
    let options = |strict| Options { strict, max_tasks: 1000 };
    mutated("rt-app", &files("fuzz/corpus/rtapp"), EACH, |bytes| {
        for strict in [false, true] {
            match rtapp::parse("fuzz.json", bytes, &options(strict)) {
                Ok(read) => shown::read(&read.workload, &read.source_map, &read.warnings),
                Err(error) => shown::can_be_shown(&error),
            }
        }
    });
    let scenarios = [files("fuzz/corpus/scenario"), texts(&[support::EVERYTHING])].concat();
    mutated("scenario", &scenarios, EACH, |bytes| {
        let loader = &mut |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
        match scenario::parse("fuzz.toml", bytes, &options(false), loader) {
            Ok(read) => shown::read(&read.workload, &read.source_map, &read.warnings),
            Err(error) => shown::can_be_shown(&error),
        }
    });
    mutated("recorded run", &files("fidelity/ground-truth/linux-6.12"), EACH, |bytes| {
        if let Err(error) = recording::parse("fuzz.json", bytes) {
            shown::can_be_shown(&error);
        }
    });
}

#[test]
fn mutated_traces_are_read_or_refused() {
    mutated("trace text", &files("fuzz/corpus/trace_text"), EACH, |bytes| read::to_the_end(TextReader::new(bytes)));
    mutated("trace.dat", &files("fuzz/corpus/trace_dat"), EACH, |bytes| {
        if let Ok(events) = TraceDat::new(Cursor::new(bytes)) {
            read::to_the_end(events);
        }
    });
    mutated("perf.data", &files("fuzz/corpus/perf_data"), EACH, |bytes| {
        if let Ok(events) = PerfData::new(Cursor::new(bytes)) {
            read::to_the_end(events);
        }
    });
    mutated("Perfetto", &files("fuzz/corpus/perfetto"), EACH, |bytes| {
        if let Ok(events) = PerfettoTrace::new(Cursor::new(bytes)) {
            read::to_the_end(events);
        }
    });
    mutated("section of a recording", &files("fuzz/corpus/recording"), EACH, |bytes| {
        if let Ok(read) = Recording::parse(bytes, 0) {
            let written = read.to_bytes();
            assert_eq!(Recording::parse(&written, 0).map(|again| again.to_bytes()).ok(), Some(written));
        }
    });
}

#[test]
fn mutated_traces_are_replayed_or_refused() {
    mutated("replay", &files("fuzz/corpus/replay"), REPLAYS, |bytes| _ = replays::replay(bytes));
}

#[test]
fn mutated_machines_rules_groups_and_results_are_read_or_refused() {
    let as_text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    mutated("lstopo", &texts(&[LSTOPO]), EACH, |bytes| {
        if let Ok(read) = read_lstopo(&as_text(bytes)) {
            let _machine = MachineSpec::new(read.topology);
        }
    });
    mutated("machine", &texts(&MACHINES), EACH, |bytes| {
        let text = as_text(bytes);
        let _smp = parse_qemu_smp(&text);
        if let Ok(topology) = parse_topology(&text) {
            let _machine = MachineSpec::new(topology);
        }
    });
    mutated("rules", &texts(&RULES), EACH, |bytes| {
        if let Err(error) = Rules::default().add(&as_text(bytes)) {
            assert!(error.span().is_none_or(|span| error.source_text().text().get(span).is_some()), "{error}");
        }
    });
    mutated("groups", &texts(&[CGROUPS]), EACH, |bytes| {
        if let Err(error) = Cgroups::read("groups", bytes) {
            assert!(error.span().is_none_or(|span| error.source_text().text().get(span).is_some()), "{error}");
        }
    });
    mutated("LISA's plat_info", &texts(&[PLAT_INFO]), EACH, |bytes| {
        let _read = PlatInfo::parse("plat_info.yml", &as_text(bytes));
    });
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("everything.toml");
    fs::write(&scenario, support::EVERYTHING).unwrap();
    let results = support::well(&["run", scenario.to_str().unwrap(), "--duration", "50ms", "--json"]);
    mutated("results", &texts(&[&results]), EACH, |bytes| {
        let _kinds = (is_saved_results(bytes), is_saved_comparison(bytes));
        let _read = SavedResults::read(bytes);
    });
}
