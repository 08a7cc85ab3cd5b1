//! Where tasks execute other programs.

use super::*;

const SHELL: Named<'static> = Named { pid: 11, comm: b"sh" };
const STOPPER: Named<'static> = Named { pid: 3, comm: b"migration/0" };

fn executes(pid: i32) -> What<'static> {
    What::Executes { pid }
}

/// The shell runs from 1 ms on.
fn started() -> Script {
    let mut script = Script::default();
    script.switch(0, 0, Left::Runnable, None).switch(0, 1, Left::Runnable, None);
    script.wake(MS - 10 * US, 0, SHELL).switch(MS, 0, Left::Runnable, Some(SHELL));
    script
}

/// What the shell does after its first sleep.
fn does(mut script: Script) -> Vec<Op> {
    script.event(9 * MS, 0, What::End);
    ops(&script.finish(), SHELL.pid).split_off(1)
}

#[test]
fn the_scheduler_looks_for_a_cpu_before_the_program_is_loaded() {
    let mut script = started();
    script.event(MS + 400 * US, 0, executes(SHELL.pid)).switch(2 * MS, 0, Left::Dead, None);
    assert_eq!(does(script), [Op::Run { work: 340 * US }, Op::Exec, Op::Run { work: 660 * US }]);
}

#[test]
fn a_program_that_begins_at_once_looks_for_a_cpu_first() {
    let mut script = started();
    script.event(MS + 20 * US, 0, executes(SHELL.pid)).switch(2 * MS, 0, Left::Dead, None);
    assert_eq!(does(script), [Op::Exec, Op::Run { work: MS }]);
}

#[test]
fn a_task_that_the_stopper_moves_looks_for_a_cpu_before_that() {
    let mut script = started();
    script.wake(MS + 150 * US, 0, STOPPER).switch(MS + 150 * US, 0, Left::Runnable, Some(STOPPER));
    script.switch(MS + 155 * US, 0, Left::Sleeping, None).switch(MS + 160 * US, 1, Left::Runnable, Some(SHELL));
    script.event(MS + 310 * US, 1, executes(SHELL.pid)).switch(2 * MS + 10 * US, 1, Left::Dead, None);
    assert_eq!(does(script), [Op::Run { work: 150 * US }, Op::Exec, Op::Run { work: 850 * US }]);
}

#[test]
fn a_move_long_before_is_not_of_this_program() {
    let mut script = started();
    script.wake(MS + 150 * US, 0, STOPPER).switch(MS + 150 * US, 0, Left::Runnable, Some(STOPPER));
    script.switch(MS + 155 * US, 0, Left::Sleeping, None).switch(MS + 160 * US, 1, Left::Runnable, Some(SHELL));
    script.event(4 * MS + 160 * US, 1, executes(SHELL.pid)).switch(5 * MS + 160 * US, 1, Left::Dead, None);
    assert_eq!(does(script), [Op::Run { work: 3090 * US }, Op::Exec, Op::Run { work: 1060 * US }]);
}
