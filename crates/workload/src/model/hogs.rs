//! Benchmarks that only compute (sysbench), and groups without tasks.

use super::args::Args;
use super::{MOST, MS, ModelError, S, of_one_process, program, task};
use crate::program::{Group, Op, Repeat, Workload};

pub(super) fn sysbench(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    if !args.flag("cpu") && !args.flag("--test=cpu") {
        return Err(args.wrong("only the test `cpu` is built in".to_owned()));
    }
    let _ = args.flag("run");
    let threads = args.option("--num-threads", 1..=MOST)?;
    let threads = threads.or(args.option("--threads", 1..=MOST)?).unwrap_or(1);
    let seconds = args.option("--max-time", 1..=1_000_000)?;
    let seconds = seconds.or(args.option("--time", 1..=1_000_000)?).unwrap_or(10);
    let event = program(vec![Op::Run { work: MS }], Repeat::Forever);
    let tasks = (0..threads).map(|index| task("sysbench", Some(index), &event));
    let mut workload = Workload { tasks: tasks.collect(), duration: Some(seconds * S), ..Workload::default() };
    of_one_process(&mut workload);
    Ok(workload)
}

pub(super) fn idle_groups(args: &mut Args<'_>) -> Result<Workload, ModelError> {
    let groups = args.number("N", 1..=MOST)?;
    let group = |index| Group { path: format!("/idle-{index}"), parent: Some(0), ..Group::default() };
    Ok(Workload { groups: [Group::root()].into_iter().chain((0..groups).map(group)).collect(), ..Workload::default() })
}
