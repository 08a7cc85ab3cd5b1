//! Threads that meet at barriers, as those of OpenMP.
//!
//! Each has its own part of the work, and waits for the others at the part's end. The last to arrive wakes all of them
//! at once. A pool's members wake one another for single pieces of work instead. So such threads are no pool: none can
//! do another's part, however much CPU time it has.

use std::collections::BTreeSet;

use super::pools::Pools;
use super::threads::{Act, Thread};

/// With two threads, each wakeup is of all others.
const FEWEST_THREADS: usize = 3;
/// Fewer groups of wakeups show nothing.
const FEWEST: usize = 20;
/// Wakeups belong together with at most this much work between them.
const TOGETHER_NS: u64 = 30_000;
/// The percentage of groups of wakeups that must be of all others. It is 95 for three threads of OpenMP, and at most 28
/// for seven other programs with several wakeups at once. These are x264, pigz, Ruby, Java's streams, `sysbench mutex`,
/// Node.js and Python's pool.
const MOSTLY_PCT: usize = 75;
/// The percentage of them that one thread may make. One that distributes work makes all.
const BY_ONE_PCT: usize = 80;

/// Returns the pools of threads that meet at barriers.
pub(super) fn find(threads: &[Thread], pools: &Pools) -> BTreeSet<usize> {
    let meets = |members: &Vec<usize>| members.len() >= FEWEST_THREADS && meet(threads, members);
    pools.of_threads().into_iter().filter(|(_, members)| meets(members)).map(|(pool, _)| pool).collect()
}

fn meet(threads: &[Thread], members: &[usize]) -> bool {
    let mut all = 0;
    // Of each member.
    let mut whole = vec![0; members.len()];
    for (number, &member) in members.iter().enumerate() {
        let mut ends = |woken: &mut BTreeSet<usize>| {
            all += usize::from(!woken.is_empty());
            whole[number] += usize::from(woken.len() + 1 == members.len());
            woken.clear();
        };
        for stretch in &threads[member].stretches {
            let (mut woken, mut before) = (BTreeSet::new(), 0);
            for &(at, act) in &stretch.acts {
                let Act::Wake { thread, .. } = act else { continue };
                if members.binary_search(&thread).is_err() {
                    continue;
                }
                if at > before + TOGETHER_NS {
                    ends(&mut woken);
                }
                woken.insert(thread);
                before = at;
            }
            ends(&mut woken);
        }
    }
    let sum: usize = whole.iter().sum();
    let most = whole.iter().copied().max().unwrap_or(0);
    all >= FEWEST && sum * 100 >= all * MOSTLY_PCT && most * 100 <= sum * BY_ONE_PCT
}
