//! Draws a scenario that the reader accepts, and every kernel that it may name.

use std::fmt::Write;

/// Machines, and their numbers of CPUs.
const MACHINES: [(&str, u64); 9] = [
    ("1", 1),
    ("2", 2),
    ("3", 3),
    ("8", 8),
    ("pack:1 core:2 pu:2", 4),
    ("pack:2 l3:1 core:2 pu:2", 8),
    ("numa:2 core:2 pu:2", 8),
    ("pack:1 core:4(capacity=1024,1024,333,333)", 4),
    ("numa:4 core:4", 16),
];

/// Lengths of work and sleep.
const TIMES: [&str; 8] = ["1us", "37us", "100us", "450us", "1ms", "3.3ms", "8ms", "21ms"];

/// Mixes the bits of a number (SplitMix64).
fn mixed(number: u64) -> u64 {
    let bits = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

pub(crate) struct Random {
    state: u64,
    cpus: u64,
    /// The kernel's place in the list of all.
    kernel: usize,
    groups: Vec<String>,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mixed(seed), cpus: 1, kernel: 0, groups: Vec::new() }
    }

    /// Draws a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.state) % end
    }

    fn in_percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    /// Whether the kernel is this one or a later one.
    fn since(&self, name: &str) -> bool {
        let first = vruntime_sched::kernels::kernels().iter().position(|kernel| kernel.name == name);
        first.is_some_and(|first| self.kernel >= first)
    }

    /// Draws one of the groups, of which there is at least one.
    fn group(&mut self) -> String {
        let index = self.below(self.groups.len() as u64);
        self.groups[index as usize].clone()
    }

    /// Draws a list of CPUs, at least one.
    fn cpu_list(&mut self) -> String {
        let first = self.below(self.cpus);
        let mut list = vec![first];
        list.extend((0..self.cpus).filter(|cpu| *cpu != first).filter(|_| self.in_percent(40)));
        list.sort_unstable();
        format!("[{}]", list.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
    }

    pub(crate) fn scenario(&mut self) -> String {
        let kernels = vruntime_sched::kernels::kernels();
        self.kernel = self.below(kernels.len() as u64) as usize;
        let kernel = kernels[self.kernel].name;
        let (machine, cpus) = MACHINES[self.below(MACHINES.len() as u64) as usize];
        self.cpus = cpus;
        let mut text = format!("kernel = {kernel:?}\nmachine = {machine:?}\nseed = {}\n", self.below(4));
        let _ = writeln!(text, "duration = \"{}ms\"", 1 + self.below(120));
        let _ = writeln!(text, "hz = {}", self.of(&["100", "250", "300", "1000"]));
        let _ = writeln!(text, "preempt = {:?}", self.of(&["none", "voluntary", "full"]));
        let _ = writeln!(text, "costs = {:?}", self.of(&["default", "zero", "zero", "vm", "emulated"]));
        for key in ["gate", "group_switches", "autogroup"] {
            if self.in_percent(20) && (key != "autogroup" || self.since("3.10")) {
                let _ = writeln!(text, "{key} = true");
            }
        }
        self.groups(&mut text);
        self.hotplug(&mut text);
        let tasks = 1 + self.below(7);
        for number in 0..tasks {
            self.task(&mut text, number);
        }
        self.partners(&mut text);
        self.changes(&mut text, tasks);
        text
    }

    fn limit(&mut self) -> String {
        let period = 1 + self.below(40);
        match self.below(4) {
            0 => "max".to_owned(),
            1 => format!("{}m/{period}ms", 1000 / period + self.below(2000) + 1),
            _ => format!("{}ms/{period}ms", 1 + self.below(2 * period)),
        }
    }

    fn groups(&mut self, text: &mut String) {
        for path in ["/a", "/a/b", "/a/b/c", "/d", "/d/e"] {
            if !self.since("3.10") || !self.in_percent(40) {
                continue;
            }
            self.groups.push(path.to_owned());
            let _ = writeln!(text, "\n[groups.{path:?}]");
            if self.since("5.15") && self.in_percent(15) {
                text.push_str("idle = true\n");
            } else if self.in_percent(60) {
                let _ = writeln!(text, "weight = {}", self.of(&["1", "20", "100", "300", "2500", "10000"]));
            }
            if self.since("3.10") && self.in_percent(50) {
                let limit = self.limit();
                let _ = writeln!(text, "max = \"{limit}\"");
                if limit != "max" && self.since("5.14-el9") && self.in_percent(30) {
                    text.push_str("burst = \"1ms\"\n");
                }
            }
            if self.in_percent(20) && !path.contains('b') && !path.contains('e') {
                let _ = writeln!(text, "cpus = {}", self.cpu_list());
            }
            if self.since("5.4") && self.in_percent(20) {
                let _ = writeln!(text, "uclamp.max = \"{}.00\"", 20 + self.below(80));
            }
        }
    }

    /// CPU 0 stays online.
    fn hotplug(&mut self, text: &mut String) {
        if self.cpus == 1 || !self.in_percent(25) {
            return;
        }
        let cpu = 1 + self.below(self.cpus - 1);
        for (at, online) in [(self.below(20), false), (20 + self.below(40), true)] {
            let _ = writeln!(text, "\n[[hotplug]]\nat = \"{at}ms\"\ncpu = {cpu}\nonline = {online}");
        }
    }

    fn policy(&mut self, text: &mut String) {
        match self.below(10) {
            0..4 => {}
            4 => {
                let _ = writeln!(text, "nice = {}", self.below(40) as i64 - 20);
            }
            5 if self.since("2.6.22") => {
                let _ = writeln!(text, "policy = \"SCHED_BATCH\"\nnice = {}", self.below(40) as i64 - 20);
            }
            6 if self.since("2.6.23") => text.push_str("policy = \"SCHED_IDLE\"\n"),
            7 => {
                let _ = writeln!(text, "policy = \"SCHED_FIFO\"\npriority = {}", 1 + self.below(99));
            }
            8 => {
                let _ = writeln!(text, "policy = \"rr:{}\"", 1 + self.below(99));
            }
            _ if self.since("6.12") => {
                let _ = writeln!(text, "slice = \"{}\"", self.of(&["100us", "1ms", "20ms"]));
            }
            _ => {}
        }
    }

    fn task(&mut self, text: &mut String, number: u64) {
        let _ = writeln!(text, "\n[[task]]\nname = \"t{number}\"");
        if self.since("3.17") && self.in_percent(8) {
            let (run, sleep) = (self.of(&TIMES[..5]), self.of(&TIMES));
            let _ = writeln!(text, "policy = \"deadline:1ms/9ms/10ms\"\nrun = \"{run}\"\nsleep = \"{sleep}\"");
            return;
        }
        if self.in_percent(40) {
            let _ = writeln!(text, "instance = {}", 2 + self.below(6));
        }
        if self.in_percent(30) {
            let _ = writeln!(text, "start = \"{}\"", self.of(&TIMES));
        }
        if self.in_percent(30) {
            let _ = writeln!(text, "loops = {}", 1 + self.below(30));
        }
        if !self.groups.is_empty() && self.in_percent(60) {
            let group = self.group();
            let _ = writeln!(text, "group = {group:?}");
        } else if self.in_percent(20) {
            let _ = writeln!(text, "session = {:?}", self.of(&["x", "y"]));
        }
        if self.in_percent(30) {
            let _ = writeln!(text, "cpus = {}", self.cpu_list());
        }
        self.policy(text);
        let run = self.of(&TIMES);
        match self.below(5) {
            0 => {
                let _ = writeln!(text, "run = \"{run}\"");
            }
            1 => {
                let _ = writeln!(text, "run = \"{run}\"\nperiod = \"10ms\"");
            }
            2 => {
                let _ = writeln!(text, "exec = true\nrun = \"{run}\"\nsleep = \"{}\"", self.of(&TIMES));
            }
            3 => {
                let steps = self.steps();
                let _ = writeln!(text, "steps = [{{ run = \"{run}\" }}, {steps}]");
            }
            _ => {
                let _ = writeln!(text, "run = \"{run}\"\nsleep = \"{}\"", self.of(&TIMES));
            }
        }
    }

    fn steps(&mut self) -> String {
        let count = 1 + self.below(4);
        let steps: Vec<String> = (0..count)
            .map(|_| match self.below(12) {
                0 => "{ yield = true }".to_owned(),
                1 => "{ wait_event = \"q\", exclusive = true }".to_owned(),
                2 => "{ wait_event = \"q\", timeout = \"3ms\" }".to_owned(),
                3 => format!("{{ wake_up = \"q\", nr = {}, sync = {} }}", 1 + self.below(3), self.in_percent(50)),
                4 => "{ wake_up_all = \"q\" }".to_owned(),
                5 => "{ wait_for_completion = \"c\", timeout = \"1ms\" }".to_owned(),
                6 => "{ complete = \"c\" }".to_owned(),
                7 => format!("{{ write = \"p\", bytes = {} }}", 1 + self.below(3000)),
                8 => format!("{{ read = \"p\", bytes = {} }}", 1 + self.below(3000)),
                9 => "{ spin_post = \"f\" }".to_owned(),
                10 => {
                    let run = self.of(&TIMES[..5]);
                    format!("{{ spin_lock = \"l\" }}, {{ run = \"{run}\" }}, {{ spin_unlock = \"l\" }}")
                }
                _ => format!("{{ sleep = \"{}\" }}", self.of(&TIMES)),
            })
            .collect();
        steps.join(", ")
    }

    /// Partners of every wait and pipe that a task may have, and requests.
    fn partners(&mut self, text: &mut String) {
        text.push_str("\n[[task]]\nname = \"partner\"\nsteps = [{ sleep = \"2ms\" }, { wake_up = \"q\" }, ");
        text.push_str("{ complete = \"c\" }, { spin_post = \"f\" }, { write = \"p\", bytes = 500 }]\n");
        text.push_str("\n[[task]]\nname = \"other\"\nsteps = [{ read = \"p\", bytes = 700 }, { run = \"10us\" }, ");
        text.push_str("{ wait_event = \"q\" }, { wait_for_completion = \"c\", timeout = \"5ms\" }]\n");
        if self.in_percent(30) {
            let kind = self.of(&["pipe", "socket"]);
            let _ = writeln!(text, "\n[pipes.p]\nkind = {kind:?}\ncapacity = {}", 4096 << self.below(4));
        }
        if self.in_percent(30) {
            let arrivals = self.of(&["poisson", "constant"]);
            let _ = writeln!(text, "\n[[requests]]\nqueue = \"q\"\nrate = {}", 10 << self.below(8));
            let _ = writeln!(text, "arrivals = {arrivals:?}");
        }
    }

    fn changes(&mut self, text: &mut String, tasks: u64) {
        for _ in 0..self.below(4) {
            let _ = writeln!(text, "\n[[change]]\nat = \"{}us\"", self.below(60_000));
            if self.groups.is_empty() || self.in_percent(60) {
                let _ = writeln!(text, "task = \"t{}\"", self.below(tasks));
                match self.below(3) {
                    0 => {
                        let _ = writeln!(text, "cpus = {}", self.cpu_list());
                    }
                    1 if self.since("2.6.22") => {
                        let policy = self.of(&["SCHED_OTHER", "SCHED_BATCH"]);
                        let _ = writeln!(text, "policy = {policy:?}\nnice = {}", self.below(20));
                    }
                    _ => text.push_str("policy = \"fifo:3\"\n"),
                }
            } else {
                let group = self.group();
                let _ = writeln!(text, "group = {group:?}");
                if self.since("3.10") && self.in_percent(60) {
                    let _ = writeln!(text, "max = \"{}\"", self.limit());
                } else if self.since("5.15") {
                    text.push_str("idle = false\nweight = 77\n");
                } else {
                    text.push_str("weight = 77\n");
                }
            }
        }
    }
}
