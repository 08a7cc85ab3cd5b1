//! The fair server (6.12+): each CPU's deadline reservation for fair tasks, instead of real-time throttling.
//!
//! The server is *deferred*. Queued fair tasks activate it, but it waits until it could only just have its runtime by
//! its deadline (zero laxity). Fair tasks' run time, and idle time, reduce its runtime. If that uses it up, a new
//! period and wait begin. So the server runs only if fair tasks starve. Then its period starts, and it runs at each
//! period's start while they starve. If a fair task still runs after the tick that throttled the server, a new deferred
//! period begins. Its turn is 950 ms after the last one's end.
//!
//! 6.17+, and stable 6.12.117: without fair tasks, the server stays active until its turn, and then stops. Earlier
//! kernels stop it when the last fair task leaves.

use alloc::boxed::Box;

use super::entity::DlEntity;
use super::params::{DlAttrs, ServerLimits};
use super::queue::{Charged, DlDequeue, DlEnqueue, DlRq, Env, SERVER};

/// What depends on the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a behaviour of its own")]
pub struct ServerRules {
    /// Whether a server that had to run, if restarted before its deadline, begins a new period and wait (6.18.15).
    /// Otherwise it keeps the deadline, with its share's runtime (6.12.117, 6.19.14, 7.0.13, 7.1.13; assumed for late
    /// releases of 6.18).
    pub forgets: bool,
    /// Whether a server without runtime after its next period's start waits for a whole period (6.17+), or continues in
    /// that period.
    pub waits: bool,
    /// Whether a server whose turn is on an idle CPU stays queued there (6.18.15).
    pub stays: bool,
    /// Whether a server without fair tasks stays active until its turn (6.17+, 6.12.117), or stops at once.
    pub lingers: bool,
}

/// Least time by which a timer is deferred.
const MIN_RES_NS: u64 = 1_000_000;

/// The server of one CPU.
#[derive(Debug)]
pub struct Server {
    pub(super) se: DlEntity,
    /// Whether fair tasks have been queued since the last turn without one.
    pub(super) active: bool,
}

impl Server {
    /// Returns its entity, for observers.
    pub fn entity(&self) -> &DlEntity {
        &self.se
    }
}

impl DlRq {
    /// Adds a fair server, unless `limits` has no runtime.
    pub fn add_server(&mut self, limits: ServerLimits) {
        if limits.runtime == 0 {
            return;
        }
        let mut se = DlEntity::new(DlAttrs::new(limits.runtime, limits.period));
        se.defer = true;
        self.add_rq_bw(&mut se);
        self.server = Some(Box::new(Server { se, active: false }));
    }

    /// Returns the server, if this CPU has one.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_deref()
    }

    fn with_server<T>(&mut self, call: impl FnOnce(&mut Self, &mut Server) -> T) -> Option<T> {
        let mut server = self.server.take()?;
        let answer = call(self, &mut server);
        self.server = Some(server);
        Some(answer)
    }

    /// Activates the server. Returns whether it is queued at once.
    pub fn server_start(&mut self, env: &Env) -> bool {
        let start = |this: &mut Self, server: &mut Server| {
            if core::mem::replace(&mut server.active, true) {
                return false;
            }
            this.enqueue(&mut server.se, SERVER, DlEnqueue::Wakeup, env)
        };
        self.with_server(start).unwrap_or(false)
    }

    /// Stops a server picked without a task, or of a CPU going offline. If it had to run, fair tasks queued before its
    /// deadline let it run at once.
    pub fn server_stop(&mut self, now: u64) {
        self.with_server(|this, server| {
            if !core::mem::replace(&mut server.active, false) {
                return;
            }
            this.dequeue(&mut server.se, SERVER, DlDequeue::Sleep, now);
            server.se.replenish_at = None;
            server.se.defer_armed = false;
            server.se.throttled = false;
            this.sync_timers(&mut server.se, SERVER);
        });
    }

    /// Charges `delta` ns of a fair task, run by the server or not.
    pub fn server_charge(&mut self, delta: u64, env: &Env) -> Charged {
        let charge = |this: &mut Self, server: &mut Server| {
            let se = &mut server.se;
            if !server.active {
                return Charged::Runs;
            }
            // Wall-clock time: not scaled on a slow CPU.
            se.runtime -= delta as i64;
            if se.throttled {
                if se.exceeded() {
                    // Fair tasks ran without it: a starvation is over.
                    se.defer_running = false;
                    se.replenish_at = None;
                    se.new_period(env.now);
                    se.start_timer(env.now);
                    this.sync_timers(se, SERVER);
                }
                return Charged::Throttled;
            }
            this.throttle_if_exceeded(se, SERVER, env)
        };
        self.with_server(charge).unwrap_or(Charged::Runs)
    }

    /// Charges `delta` ns of idle time, which fair tasks could have had.
    pub fn server_idle(&mut self, delta: u64) {
        self.with_server(|_, server| {
            let se = &mut server.se;
            if se.runtime < 0 {
                return;
            }
            se.runtime -= delta as i64;
            if se.runtime < 0 {
                se.defer_running = false;
                se.runtime = 0;
            }
        });
    }

    /// Handles its timer. Returns whether it is queued now.
    pub fn server_timer(&mut self, env: &Env) -> bool {
        let fire = |this: &mut Self, server: &mut Server| {
            let se = &mut server.se;
            if !se.throttled {
                return false;
            }
            if se.defer_armed {
                let waits = se.deadline.saturating_sub(se.runtime.max(0) as u64);
                if env.now + MIN_RES_NS < waits {
                    se.replenish_at = Some(waits);
                    this.sync_timers(se, SERVER);
                    return false;
                }
                se.defer_running = true;
            }
            this.enqueue(se, SERVER, DlEnqueue::Replenish, env)
        };
        self.with_server(fire).unwrap_or(false)
    }

    /// Notes that a timer of the server has fired.
    pub fn server_fired(&mut self, timer: super::queue::DlTimer) {
        self.with_server(|this, server| this.fired(&mut server.se, SERVER, timer));
    }

    /// Handles the server's 0-lag time.
    pub fn server_became_inactive(&mut self) {
        self.with_server(|this, server| this.became_inactive(&mut server.se));
    }
}

#[cfg(test)]
mod tests {
    use super::super::bandwidth::{GlobalLimit, RootDomain};
    use super::super::grub::Grub;
    use super::super::queue::DlTimer;
    use super::*;

    const MS: u64 = 1_000_000;

    const FORGETS: ServerRules = ServerRules { forgets: true, waits: true, stays: true, lingers: true };

    fn env(now_ms: u64) -> Env {
        let domain = RootDomain::new(core::iter::once(1024), GlobalLimit::default());
        Env::new(now_ms * MS, 1024, &domain, Grub::default())
    }

    fn later(now_ms: u64) -> Env {
        Env { server: FORGETS, ..env(now_ms) }
    }

    fn cpu() -> DlRq {
        let mut rq = DlRq::default();
        rq.add_server(ServerLimits::default());
        rq
    }

    fn fire(rq: &mut DlRq, ms: u64) -> bool {
        assert_eq!(rq.due_timer(ms * MS), Some((SERVER, DlTimer::Replenish)), "at {ms} ms: {rq:?}");
        rq.server_fired(DlTimer::Replenish);
        rq.server_timer(&env(ms))
    }

    /// From 950 ms to 1 s, then at each period's start.
    #[test]
    fn under_starvation_it_runs_at_zero_laxity_and_then_in_each_period() {
        let mut rq = cpu();
        assert!(!rq.server_start(&env(0)));
        assert_eq!(rq.next_timer(), Some(950 * MS));
        for start in [950, 1950, 2950] {
            assert!(fire(&mut rq, start));
            assert_eq!(rq.earliest(), Some((start + 1000) * MS));
            assert_eq!(rq.server_charge(20 * MS, &env(start + 20)), Charged::Runs);
            assert_eq!(rq.server_charge(30 * MS, &env(start + 50)), Charged::Throttled);
            assert_eq!(rq.next_timer(), Some((start + 1000) * MS));
        }
    }

    /// Every 50 ms of fair tasks without the server begin a new wait.
    #[test]
    fn it_stays_away_while_fair_tasks_get_theirs() {
        let mut rq = cpu();
        rq.server_start(&env(0));
        assert_eq!(rq.server_charge(30 * MS, &env(30)), Charged::Throttled);
        assert_eq!(rq.next_timer(), Some(950 * MS));
        rq.server_charge(20 * MS, &env(50));
        assert_eq!(rq.next_timer(), Some(1000 * MS));
        // 30 ms of the next period's runtime: the timer finds that it may wait that much longer.
        rq.server_charge(30 * MS, &env(500));
        assert!(!fire(&mut rq, 1000));
        assert_eq!(rq.next_timer(), Some(1030 * MS));
        assert!(fire(&mut rq, 1030));
    }

    #[test]
    fn it_is_not_active_without_fair_tasks() {
        let mut rq = cpu();
        rq.server_start(&env(0));
        rq.server_stop(10 * MS);
        // It had used nothing: its 0-lag time is the start of its period.
        assert_eq!((rq.is_empty(), rq.next_timer(), rq.running_bw()), (true, None, 0));
        rq.server_start(&env(900));
        // Its old deadline of 1 s is too near for the rest of its runtime: a new period.
        assert_eq!(rq.next_timer(), Some(1850 * MS));
    }

    fn found_no_task(env: impl Fn(u64) -> Env) -> DlRq {
        let mut rq = cpu();
        rq.server_start(&env(0));
        rq.server_charge(MS, &env(1));
        assert!(fire(&mut rq, 950));
        rq.server_stop(950 * MS);
        rq
    }

    /// A task queued before the deadline runs at once, with the server's share until then.
    #[test]
    fn a_server_that_found_no_task_runs_at_once_when_one_arrives() {
        let mut rq = found_no_task(env);
        assert!(rq.is_empty());
        assert!(rq.server_start(&env(1110)));
        let se = rq.server().unwrap().entity();
        assert_eq!((se.deadline, se.runtime / MS as i64), (1950 * MS, 41));
        // After its deadline the server waits like one that never had to run.
        rq.server_stop(1110 * MS);
        assert!(!rq.server_start(&env(2000)));
        assert_eq!(rq.next_timer(), Some(2950 * MS));
    }

    /// 6.18.15: the server waits like one that never had to run.
    #[test]
    fn a_server_that_found_no_task_begins_a_new_period_in_6_18() {
        let mut rq = found_no_task(later);
        assert!(!rq.server_start(&later(1110)));
        assert_eq!(rq.next_timer(), Some(2060 * MS));
    }

    /// 6.12 gives the next runtime at once, less the excess. 6.18 waits for a whole period.
    #[test]
    fn a_late_charge_renews_or_throttles_the_server() {
        let run = |env: &dyn Fn(u64) -> Env| {
            let mut rq = DlRq::default();
            rq.add_server(ServerLimits { runtime: 9 * MS, period: 10 * MS });
            rq.server_start(&env(0));
            rq.server_fired(DlTimer::Replenish);
            assert!(rq.server_timer(&env(1)));
            let charged = rq.server_charge(12 * MS, &env(13));
            (charged, rq.next_timer(), rq)
        };
        let (charged, timer, rq) = run(&env);
        assert_eq!((charged, timer, rq.earliest()), (Charged::Renewed, None, Some(21 * MS)));
        assert_eq!(rq.server().unwrap().entity().runtime, 6 * MS as i64);
        for rules in [FORGETS, ServerRules { waits: true, ..ServerRules::default() }] {
            let env = |ms| Env { server: rules, ..env(ms) };
            let (charged, timer, mut rq) = run(&env);
            assert_eq!((charged, timer, rq.earliest()), (Charged::Throttled, Some(23 * MS), None), "{rules:?}");
            rq.server_fired(DlTimer::Replenish);
            assert!(rq.server_timer(&env(23)));
            let se = rq.server().unwrap().entity();
            assert_eq!((se.deadline, se.runtime), (33 * MS, 9 * MS as i64), "{rules:?}");
        }
    }

    #[test]
    fn it_may_be_switched_off() {
        let mut rq = DlRq::default();
        rq.add_server(ServerLimits { runtime: 0, ..ServerLimits::default() });
        assert!(rq.server().is_none() && !rq.server_start(&env(0)));
    }
}
