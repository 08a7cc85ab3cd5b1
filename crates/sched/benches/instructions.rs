//! Instruction counts of the scheduler's primitives, by callgrind.
//!
//! `cargo bench -p vruntime-sched --bench instructions` prints the counts of this build beside the committed ones
//! (`benches/instructions.txt`). `-- --save` commits them; `-- --fair-only` compares with those of the fair class alone
//! (`benches/fair-only.txt`). Needs `valgrind`, but neither root nor nightly.
//!
//! The program runs itself under callgrind, which collects instructions only in [`measured`], and writes their sum at
//! the end of [`series`]. A count is the mean of a series, including callees, rounded down.

#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{
    CpuMask, CpuPlace, GroupWeight, Host, NextTask, Policy, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker,
    kernel,
};

const CALLS: u64 = 64;
/// Calls before a series, for the averages to settle.
const WARM_UP: u64 = 64;
const CPUS: u32 = 8;
const HZ: u32 = 250;
const TICK: u64 = 1_000_000_000 / HZ as u64;

/// The measured calls. The CPU is always 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Primitive {
    /// `schedule` of a running task whose slice has ended.
    Pick,
    /// `wake` by an interrupt, after a millisecond of sleep, with all other CPUs busy.
    Wake,
    Tick,
    /// `balance` of a busy CPU among equally busy ones.
    Balance,
    /// `schedule` of a CPU without work while others have some.
    NewIdle,
}

const PRIMITIVES: [Primitive; 5] =
    [Primitive::Pick, Primitive::Wake, Primitive::Tick, Primitive::Balance, Primitive::NewIdle];
const KERNELS: [&str; 2] = ["6.12", "6.1"];
const DEPTHS: [u32; 2] = [0, 3];
const TASKS_PER_CPU: [u32; 3] = [1, 4, 64];

impl Primitive {
    fn name(self) -> &'static str {
        match self {
            Self::Pick => "pick",
            Self::Wake => "wake",
            Self::Tick => "tick",
            Self::Balance => "balance",
            Self::NewIdle => "newidle",
        }
    }
}

/// Names of all series, in order.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    for primitive in PRIMITIVES {
        for kernel in KERNELS {
            for depth in DEPTHS {
                for tasks in TASKS_PER_CPU {
                    names.push(format!("{:<7} {kernel:>4} depth {depth} tasks {tasks:>2}", primitive.name()));
                }
            }
        }
    }
    names
}

/// The function that callgrind collects (`--toggle-collect`).
#[inline(never)]
fn measured(call: &mut dyn FnMut()) {
    call();
    // Prevents a tail call, which callgrind would not see return, and merging of the two functions.
    black_box("measured");
}

/// A series; callgrind writes its sum when this returns (`--dump-after`).
#[inline(never)]
fn series(run: &mut dyn FnMut()) {
    run();
    black_box("series");
}

#[derive(Default)]
struct Machine;

impl Host for Machine {
    fn resched(&mut self, _cpu: CpuId) {}
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    fn arm(&mut self, _timer: Timer, _at: Option<u64>) {}
    fn event(&mut self, _at: u64, _cpu: CpuId, event: &Event) {
        black_box(event);
    }
}

struct Bench<P: Policy<Tunables = Knobs>> {
    shared: Shared<P>,
    rqs: Vec<Rq<P>>,
    host: Machine,
    group: GroupId,
    now: u64,
}

const CPU: CpuId = CpuId(0);

impl<P: Policy<Tunables = Knobs>> Bench<P> {
    fn new(name: &str, depth: u32, tasks: u32, from: u32) -> Self {
        let kernel = kernel(name).expect("a kernel of the table");
        let place = |cpu| CpuPlace { core: cpu, cluster: cpu, llc: cpu / 4, package: cpu / 4, node: 0, capacity: 1024 };
        let topology = Topology::new((0..CPUS).map(place).collect(), None).expect("a machine");
        let config = Config::new(&kernel, &topology, HZ);
        let shared = Shared::new(topology, config);
        let rqs = Rq::all(&shared);
        let mut bench = Self { shared, rqs, host: Machine, group: GroupId::ROOT, now: 1 << 30 };
        for _ in 0..depth {
            let parent = bench.group;
            bench.group = bench.sched().new_group(parent, GroupWeight::Weight(100));
        }
        for _ in 0..tasks {
            for cpu in (from..CPUS).map(CpuId) {
                bench.new_task(CpuMask::from_iter([cpu]), cpu);
            }
        }
        for _ in 0..WARM_UP {
            bench.pass(TICK);
        }
        bench
    }

    fn sched(&mut self) -> Scheduler<'_, P, Vec<Rq<P>>, Machine> {
        Scheduler { rqs: &mut self.rqs, shared: &self.shared, host: &mut self.host, now: self.now }
    }

    /// A task that starts on one of `cpus`, and may run anywhere.
    fn new_task(&mut self, cpus: CpuMask, on: CpuId) {
        let attrs = TaskAttrs { group: self.group, affinity: Some(Arc::new(cpus)), ..TaskAttrs::default() };
        let mut sched = self.sched();
        let task = sched.new_task(&attrs, on);
        sched.wake_new(task, on);
        sched.set_affinity(task, None, CpuId(0)).expect("no deadline task");
        self.reschedule();
    }

    fn reschedule(&mut self) {
        for cpu in (0..CPUS).map(CpuId) {
            let mut sched = self.sched();
            if sched.need_resched(cpu) {
                let _ = sched.schedule(cpu, PrevState::Preempted);
            }
        }
    }

    fn pass(&mut self, time: u64) {
        self.now += time;
        for cpu in (0..CPUS).map(CpuId) {
            let mut sched = self.sched();
            if sched.running(cpu) != Running::Idle {
                let _ = sched.tick(cpu);
            }
        }
        self.reschedule();
    }

    fn sleep(&mut self) -> Option<TaskId> {
        let NextTask { prev, .. } = self.sched().schedule(CPU, PrevState::Sleeping);
        match prev {
            Running::Task(task) => Some(task),
            _ => None,
        }
    }

    fn step(&mut self, primitive: Primitive, collect: fn(&mut dyn FnMut())) {
        match primitive {
            Primitive::Pick => {
                self.now += TICK;
                let _ = self.sched().tick(CPU);
                collect(&mut || _ = black_box(self.sched().schedule(CPU, PrevState::Preempted)));
            }
            Primitive::Wake => {
                let sleeper = self.sleep();
                self.now += 1_000_000;
                if let Some(task) = sleeper {
                    collect(&mut || _ = black_box(self.sched().wake(task, CPU, Waker::Irq)));
                }
                self.reschedule();
            }
            Primitive::Tick => {
                self.now += TICK;
                collect(&mut || _ = black_box(self.sched().tick(CPU)));
                self.reschedule();
            }
            Primitive::Balance => {
                // Longer than the longest interval of a busy CPU.
                for _ in 0..80 {
                    self.pass(TICK);
                }
                collect(&mut || self.sched().balance(CPU));
                self.reschedule();
            }
            Primitive::NewIdle => {
                self.pass(TICK);
                let mut next = Running::Idle;
                collect(&mut || next = self.sched().schedule(CPU, PrevState::Preempted).next);
                if next != Running::Idle {
                    // Another task replaces the pulled one, which ends.
                    let _ = self.sched().schedule(CPU, PrevState::Dead);
                    self.new_task((1..CPUS).map(CpuId).collect(), CpuId(1));
                }
            }
        }
    }
}

fn measure<P: Policy<Tunables = Knobs>>(primitive: Primitive, kernel: &str, depth: u32, tasks: u32) {
    let from = u32::from(primitive == Primitive::NewIdle);
    let mut bench = Bench::<P>::new(kernel, depth, tasks, from);
    for _ in 0..WARM_UP {
        bench.step(primitive, |call| call());
    }
    series(&mut || (0..CALLS).for_each(|_| bench.step(primitive, measured)));
}

fn measure_all() {
    for primitive in PRIMITIVES {
        for kernel in KERNELS {
            for depth in DEPTHS {
                for tasks in TASKS_PER_CPU {
                    if kernel == "6.1" {
                        measure::<Cfs>(primitive, kernel, depth, tasks);
                    } else {
                        measure::<Eevdf>(primitive, kernel, depth, tasks);
                    }
                }
            }
        }
    }
}

/// The counts of this build, in the order of [`names`].
fn count() -> Result<Vec<u64>, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = program.with_extension("callgrind");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let out = folder.join("out");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*instructions::measured*"])
        .arg("--dump-after=*instructions::series*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .arg("--run")
        .output()
        .map_err(|error| {
            format!("cannot start valgrind ({error}): install it, such as with apt-get install valgrind")
        })?;
    if !output.status.success() {
        return Err(format!("valgrind failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let counts = (1..=names().len()).map(|part| read_total(&part_of(&out, part))).collect();
    let _ = std::fs::remove_dir_all(&folder);
    counts
}

fn part_of(out: &Path, part: usize) -> PathBuf {
    PathBuf::from(format!("{}.{part}", out.display()))
}

/// The sum of a callgrind file, divided by the calls.
fn read_total(path: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("summary:").or(line.strip_prefix("totals:")));
    let total = total.and_then(|total| total.trim().parse::<u64>().ok());
    total.map(|total| total / CALLS).ok_or_else(|| format!("no sum of instructions in {}", path.display()))
}

fn committed(path: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let (name, count) = line.rsplit_once(' ')?;
        Some((name.trim_end().to_owned(), count.parse().ok()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}

const COMMITTED: &str = "instructions.txt";
const FAIR_ONLY: &str = "fair-only.txt";

fn compare(old: &str, save: bool) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches");
    let (path, old) = (folder.join(COMMITTED), committed(&folder.join(old)));
    let counts = count()?;
    let mut text = String::from(
        "# Instructions a call, by callgrind (x86-64, release): `cargo bench --bench instructions -- --save`.\n",
    );
    println!("{:<34} {:>8} {:>8} {:>8}", "instructions a call", "old", "new", "change");
    for (name, new) in names().iter().zip(counts) {
        match old.get(name) {
            Some(&old) if old > 0 => {
                let change = (new as f64 - old as f64) * 100.0 / old as f64;
                println!("{name:<34} {old:>8} {new:>8} {change:>+7.1}%");
            }
            _ => println!("{name:<34} {:>8} {new:>8}", "-"),
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<34} {new}");
    }
    if save {
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if has("--run") {
        measure_all();
        return ExitCode::SUCCESS;
    }
    let old = if has("--fair-only") { FAIR_ONLY } else { COMMITTED };
    match compare(old, has("--save")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
