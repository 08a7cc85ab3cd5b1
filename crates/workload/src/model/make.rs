//! `kernbench`: compilation of a kernel by `make -j`.

use super::args::Args;
use super::{MOST, MS, ModelError, phase, program, task};
use crate::program::{Channel, Op, Pipe, Repeat, Semaphore, Task, Workload};

/// Sizes of source files in percent of the median, mostly small as in a kernel.
const SIZES: [u64; 16] = [75, 40, 130, 55, 90, 30, 240, 65, 45, 110, 80, 35, 180, 60, 100, 265];
/// Work of the compiler on a median file in user mode, ns.
const COMPILE: u64 = 320 * MS;
/// The kernel's work for it (reads of headers, faults), as bytes of the page cache.
const FAULTS: u64 = 256 << 20;

/// Assembly of a median file, in messages of [`MESSAGE`].
const ASSEMBLY: u64 = 100;
/// Bytes that `cc1` writes at once.
const MESSAGE: u32 = 4096;
/// Bytes that a pipe holds.
const PIPE: u32 = 65_536;
/// Processes that a file's shell runs after the compiler, and their work, ns.
const SHORT: [(&str, u64); 5] =
    [("objtool", 4 * MS), ("fixdep", 3 * MS / 2), ("rm", MS / 3), ("mv", MS / 3), ("sh", 2 * MS / 3)];
/// Jobs of one kind share objects, so there are as many kinds as jobs, up to this.
const MOST_KINDS: usize = 256;

/// Models `make` with N jobs. For each file, a shell runs `gcc`, which runs `cc1` and `as` with a pipe between them.
/// Then the shell runs short processes. A disk reads sources, and objects are written.
pub(super) fn kernbench(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let jobs = args.option("-j", 1..=MOST)?.unwrap_or(8);
    let files = args.option("--files", SIZES.len() as u64..=MOST)?.unwrap_or(1536);
    let compilers_only = args.flag("--compilers-only");
    let mut build = Build::default();
    let tokens = build.semaphore("jobs".to_owned(), jobs as u32);
    build.workload.tasks.push(task("make", None, &program(Vec::new(), Repeat::Forever)));
    let rounds = files / SIZES.len() as u64;
    let at_once = if compilers_only { 1 } else { (jobs as usize).min(MOST_KINDS).div_ceil(SIZES.len()) };
    let several = at_once.min(rounds as usize).max(1);
    let mut starts = Vec::new();
    for kind in 0..SIZES.len() * several {
        let first = if compilers_only { build.compilers(kind, tokens) } else { build.recipe(kind, tokens) };
        starts.extend([Op::SemWait(tokens), Op::Run { work: MS / 2 }, Op::Fork(first)]);
    }
    let linked = build.semaphore("linked".to_owned(), 0);
    let mut workload = build.workload;
    let ld = workload.tasks.len();
    // All jobs have ended when their tokens have returned.
    let end = [vec![Op::SemWait(tokens); jobs as usize], vec![Op::Fork(ld), Op::SemWait(linked)]].concat();
    let link = vec![Op::Exec, Op::Run { work: rounds * 16 * MS / 2 }, Op::Io { bytes: FAULTS }, Op::SemPost(linked)];
    workload.tasks.push(child("ld", 0, link));
    let rest = starts[..starts.len() / several * (rounds as usize % several)].to_vec();
    let mut phases = vec![phase(starts, Repeat::Times(rounds / several as u64))];
    phases.extend((!rest.is_empty()).then(|| phase(rest, Repeat::Times(1))));
    phases.push(phase(end, Repeat::Times(1)));
    workload.tasks[0].phases = phases.into();
    Ok(workload)
}

#[derive(Default)]
struct Build {
    workload: Workload,
}

impl Build {
    fn semaphore(&mut self, name: String, initial: u32) -> usize {
        self.workload.semaphores.push(Semaphore { name, initial });
        self.workload.semaphores.len() - 1
    }

    fn process(&mut self, name: &str, kind: usize, ops: Vec<Op>) -> usize {
        self.workload.tasks.push(child(name, kind, ops));
        self.workload.tasks.len() - 1
    }

    /// Adds the processes of a file, and returns the first.
    fn recipe(&mut self, kind: usize, tokens: usize) -> usize {
        let percent = SIZES[kind % SIZES.len()];
        let (compiled, done) =
            (self.semaphore(format!("compiled-{kind}"), 0), self.semaphore(format!("done-{kind}"), 0));
        self.workload.pipes.push(Pipe { name: format!("assembly-{kind}"), capacity: PIPE, kind: Channel::Pipe });
        let pipe = self.workload.pipes.len() - 1;
        let messages = (ASSEMBLY * percent / 100).max(1);
        let (work, faults) = (COMPILE * percent / 100, FAULTS * percent / 100);
        let mut cc1 = vec![Op::Exec, source(kind), Op::Run { work: work / 2 }, Op::Io { bytes: faults }];
        let mut assembler = vec![Op::Exec];
        for _ in 0..messages {
            // The second half of the work produces the assembly.
            cc1.extend([Op::Run { work: work / 2 / messages }, Op::PipeWrite { pipe, bytes: MESSAGE }]);
            assembler.extend([Op::PipeRead { pipe, bytes: MESSAGE }, Op::Run { work: work / 10 / messages }]);
        }
        cc1.push(Op::SemPost(compiled));
        assembler.extend([Op::Io { bytes: faults / 10 }, Op::SemPost(compiled)]);
        let (cc1, assembler) = (self.process("cc1", kind, cc1), self.process("as", kind, assembler));
        let gcc = vec![
            Op::Exec,
            Op::Run { work: MS },
            Op::Fork(cc1),
            Op::Fork(assembler),
            Op::SemWait(compiled),
            Op::SemWait(compiled),
            Op::SemPost(done),
        ];
        let gcc = self.process("gcc", kind, gcc);
        let mut shell = vec![Op::Exec, Op::Run { work: MS / 2 }, Op::Fork(gcc), Op::SemWait(done)];
        for (name, work) in SHORT {
            let short = self.process(name, kind, vec![Op::Exec, Op::Run { work }, Op::SemPost(done)]);
            shell.extend([Op::Fork(short), Op::SemWait(done)]);
        }
        shell.push(Op::SemPost(tokens));
        self.process("recipe", kind, shell)
    }

    /// As [`Self::recipe`], but only `gcc`, `cc1` and `as`, one after another.
    fn compilers(&mut self, kind: usize, tokens: usize) -> usize {
        let done = self.semaphore(format!("done-{kind}"), 0);
        let wait = |op: &[Op]| [op, &[Op::SemPost(done)]].concat();
        let scaled = |whole: u64| whole * SIZES[kind] / 100;
        let cc1 = wait(&[
            Op::Exec,
            source(kind),
            Op::Run { work: scaled(COMPILE) / 2 },
            Op::Io { bytes: scaled(FAULTS) },
            Op::Run { work: scaled(COMPILE) / 2 },
        ]);
        let assembler =
            wait(&[Op::Exec, Op::Run { work: scaled(COMPILE) / 10 }, Op::Io { bytes: scaled(FAULTS) / 10 }]);
        let first = self.workload.tasks.len();
        let gcc = vec![
            Op::Exec,
            Op::Run { work: MS },
            Op::Fork(first + 1),
            Op::SemWait(done),
            Op::Fork(first + 2),
            Op::SemWait(done),
            Op::SemPost(tokens),
        ];
        for (name, ops) in [("gcc", gcc), ("cc1", cc1), ("as", assembler)] {
            self.process(name, kind, ops);
        }
        first
    }
}

/// Returns the disk's read of a source.
fn source(kind: usize) -> Op {
    Op::Device { time: (2 + 3 * (kind as u64 % 3)) * MS }
}

/// Returns a process that starts by a fork.
fn child(name: &str, kind: usize, ops: Vec<Op>) -> Task {
    Task { start: None, ..task(name, Some(kind as u64), &program(ops, Repeat::Times(1))) }
}
