//! `kernbench`: a kernel is compiled by `make -j`.

use super::args::Args;
use super::{MOST, MS, ModelError, phase, program, task};
use crate::program::{Op, Phase, Repeat, Semaphore, Task, Workload};

/// The sizes of source files, percent of the median: many small ones and a few large ones, as in a kernel.
const SIZES: [u64; 16] = [75, 40, 130, 55, 90, 30, 240, 65, 45, 110, 80, 35, 180, 60, 100, 265];
/// What the compiler works on a middling file in user mode.
const COMPILE: u64 = 320 * MS;
/// What the kernel does for it meanwhile, as bytes of the page cache: reading headers, and pages to write to.
const FAULTS: u64 = 256 << 20;

/// `make` keeps N jobs going; for each file `gcc` runs `cc1` and then `as`, each a process of its own that it waits
/// for. Sources are read from a disk now and then, and objects are written.
pub(super) fn kernbench(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let jobs = args.option("-j", 1..=MOST)?.unwrap_or(8);
    let rounds = args.option("--files", SIZES.len() as u64..=MOST)?.unwrap_or(1536) / SIZES.len() as u64;
    let mut workload = Workload::default();
    let semaphore = |workload: &mut Workload, name: String, initial| {
        workload.semaphores.push(Semaphore { name, initial });
        workload.semaphores.len() - 1
    };
    let tokens = semaphore(&mut workload, "jobs".to_owned(), jobs as u32);
    workload.tasks.push(task("make", None, &program(Vec::new(), Repeat::Forever)));
    let mut starts = Vec::new();
    for (kind, percent) in SIZES.iter().enumerate() {
        let done = semaphore(&mut workload, format!("done-{kind}"), 0);
        let wait = |op: &[Op]| [op, &[Op::SemPost(done)]].concat();
        let scaled = |whole: u64| whole * percent / 100;
        let read = Op::Device { time: (2 + 3 * (kind as u64 % 3)) * MS };
        let cc1 = wait(&[
            Op::Exec,
            read,
            Op::Run { work: scaled(COMPILE) / 2 },
            Op::Io { bytes: scaled(FAULTS) },
            Op::Run { work: scaled(COMPILE) / 2 },
        ]);
        let assembler =
            wait(&[Op::Exec, Op::Run { work: scaled(COMPILE) / 10 }, Op::Io { bytes: scaled(FAULTS) / 10 }]);
        let first = workload.tasks.len();
        let gcc = vec![
            Op::Exec,
            Op::Run { work: MS },
            Op::Fork(first + 1),
            Op::SemWait(done),
            Op::Fork(first + 2),
            Op::SemWait(done),
            Op::SemPost(tokens),
        ];
        workload
            .tasks
            .extend([("gcc", gcc), ("cc1", cc1), ("as", assembler)].map(|(name, ops)| child(name, kind, ops)));
        starts.extend([Op::SemWait(tokens), Op::Run { work: MS / 2 }, Op::Fork(first)]);
    }
    let ld = workload.tasks.len();
    let linked = semaphore(&mut workload, "linked".to_owned(), 0);
    // All jobs have ended when their tokens are back.
    let end = [vec![Op::SemWait(tokens); jobs as usize], vec![Op::Fork(ld), Op::SemWait(linked)]].concat();
    let link = vec![Op::Exec, Op::Run { work: rounds * 16 * MS / 2 }, Op::Io { bytes: FAULTS }, Op::SemPost(linked)];
    workload.tasks.push(child("ld", 0, link));
    let phases: [Phase; 2] = [phase(starts, Repeat::Times(rounds)), phase(end, Repeat::Times(1))];
    workload.tasks[0].phases = phases.into();
    Ok(workload)
}

/// A process that exists after a fork.
fn child(name: &str, kind: usize, ops: Vec<Op>) -> Task {
    Task { start: None, ..task(name, Some(kind as u64), &program(ops, Repeat::Times(1))) }
}
