//! CPU time of the kernel's RCU grace-period thread during the measurement.

use std::fs;

const KTHREAD: u64 = 0x0020_0000;

/// The account of `rcu_preempt` or `rcu_sched`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Account {
    ran: u64,
    times: u64,
}

impl Account {
    /// None without such a thread, or its account (schedstats).
    pub(super) fn read() -> Option<Self> {
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
            let Some((name, flags)) = read("stat").as_deref().and_then(name_and_flags) else { continue };
            if flags & KTHREAD != 0 && ["rcu_preempt", "rcu_sched"].contains(&name.as_str()) {
                return account(&read("schedstat")?);
            }
        }
        None
    }

    /// Mean time of a turn since `before`, if there was any.
    pub(super) fn each_ns(self, before: Self) -> Option<u64> {
        self.ran.saturating_sub(before.ran).checked_div(self.times.saturating_sub(before.times))
    }
}

fn name_and_flags(stat: &str) -> Option<(String, u64)> {
    let (head, rest) = stat.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    // State, ppid, pgrp, session, tty_nr, tpgid, flags.
    Some((name.to_owned(), rest.split(' ').nth(6)?.parse().ok()?))
}

fn account(schedstat: &str) -> Option<Account> {
    let mut fields = schedstat.split_whitespace().map(|field| field.parse().ok());
    let (ran, _waited, times) = (fields.next()??, fields.next()?, fields.next()??);
    Some(Account { ran, times })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        let stat = "15 (rcu_preempt) I 2 0 0 0 -1 2129984 0 0 0 0 0 4214 0 0 20 0 1 0 5 0 0 0";
        let (name, flags) = name_and_flags(stat).unwrap();
        assert!(name == "rcu_preempt" && flags & KTHREAD != 0);
        let (name, flags) =
            name_and_flags("99 (a) b (c) S 1 99 99 0 -1 4194560 0 0 0 0 0 1 0 0 20 0 1 0 5 0 0 0").unwrap();
        assert!(name == "a) b (c" && flags & KTHREAD == 0);
        assert_eq!(account("42143940944 1700 1685500\n"), Some(Account { ran: 42_143_940_944, times: 1_685_500 }));
        assert_eq!((account(""), name_and_flags("nothing")), (None, None));
    }

    #[test]
    fn what_passed_between_two_readings_counts() {
        let (before, after) = (Account { ran: 100, times: 10 }, Account { ran: 400, times: 40 });
        assert_eq!((after.each_ns(before), before.each_ns(before)), (Some(10), None));
    }
}
