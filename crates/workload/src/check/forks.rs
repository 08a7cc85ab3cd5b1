//! Tasks that are forked without end, or never.

use super::loops::never_ends;
use super::{Class, Finder, Kind, Place, is_endless};
use crate::program::Op;

pub(super) fn check(finder: &mut Finder<'_>, classes: &[Class<'_>]) {
    let class_of = |task: usize| classes.partition_point(|class| class.first <= task) - 1;
    let forked_by = |index: usize| {
        classes[index].ops().filter_map(move |(at, op)| match op {
            Op::Fork(task) => Some((at, class_of(*task))),
            _ => None,
        })
    };
    let mut started: Vec<bool> = classes.iter().map(|class| class.task.start.is_some()).collect();
    let mut todo: Vec<usize> = (0..classes.len()).filter(|index| started[*index]).collect();
    while let Some(index) = todo.pop() {
        for (_, target) in forked_by(index) {
            if !std::mem::replace(&mut started[target], true) {
                todo.push(target);
            }
        }
    }
    for (index, class) in classes.iter().enumerate() {
        if !started[index] {
            let name = &class.task.class;
            let message = format!("task `{name}` is never started");
            let help = format!("`fork` it from another task (\"fork\" : \"{name}\"), or give it an `instance` above 0");
            finder.warn(Kind::Fork, Place::task(class), &message, "only forks start it, and there is none", &help);
        }
    }
    let generations = generations(classes.len(), forked_by);
    for (index, class) in classes.iter().enumerate() {
        for (at, target) in forked_by(index) {
            let phase = &class.task.phases[at.0];
            let name = &classes[target].task.class;
            let place = Place::op(class, at);
            if generations[index] == generations[target] {
                let message = format!("task `{name}` forks itself again, through other tasks");
                let help = "each generation forks the next, and their number may grow without end";
                finder.warn(Kind::Fork, place, &message, "part of the circle", help);
            } else if never_ends(classes[target].task) && (is_endless(phase.repeat) || is_endless(class.task.repeat)) {
                let message = format!("task `{name}` is forked again and again, and never ends");
                let help = format!("their number grows as long as the run lasts; give a `loop` to `{name}`");
                finder.warn(Kind::Fork, place, &message, "forked in a loop without end", &help);
            }
        }
    }
}

/// Returns each class's strongly connected component (Tarjan 1972, without recursion, since files may be long). Classes
/// that fork each other in a cycle share it.
fn generations<I>(count: usize, forked_by: impl Fn(usize) -> I) -> Vec<usize>
where
    I: Iterator<Item = ((usize, usize), usize)>,
{
    const UNSEEN: usize = usize::MAX;
    let targets: Vec<Vec<usize>> =
        (0..count).map(|index| forked_by(index).map(|(_, target)| target).collect()).collect();
    let (mut order, mut low) = (vec![UNSEEN; count], vec![0; count]);
    let mut component = vec![UNSEEN; count];
    let (mut stack, mut path): (Vec<usize>, Vec<(usize, usize)>) = (Vec::new(), Vec::new());
    let mut next = 0;
    for root in 0..count {
        if order[root] == UNSEEN {
            path.push((root, 0));
        }
        while let Some((node, edge)) = path.pop() {
            if edge == 0 {
                order[node] = next;
                low[node] = next;
                next += 1;
                stack.push(node);
            }
            if let Some(&target) = targets[node].get(edge) {
                path.push((node, edge + 1));
                if order[target] == UNSEEN {
                    path.push((target, 0));
                } else if component[target] == UNSEEN {
                    low[node] = low[node].min(order[target]);
                }
                continue;
            }
            if low[node] == order[node] {
                while let Some(member) = stack.pop() {
                    component[member] = node;
                    if member == node {
                        break;
                    }
                }
            }
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
        }
    }
    component
}
