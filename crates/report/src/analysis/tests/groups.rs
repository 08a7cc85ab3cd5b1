//! Groups of recordings and of our traces.

use std::collections::BTreeMap;

use vruntime_trace::GroupInfo;

use super::*;
use crate::data::Cell;
use crate::table::has_room_in;

const BOTH: [AnalysisKind; 2] = [AnalysisKind::Groups, AnalysisKind::Throttling];

#[derive(Debug, Default)]
struct KnownGroups {
    threads: BTreeMap<i32, &'static str>,
    groups: BTreeMap<&'static str, GroupInfo<'static>>,
    affinities: BTreeMap<i32, Vec<u32>>,
}

impl MachineGroups for KnownGroups {
    fn hierarchy(&self) -> i32 {
        4
    }
    fn group_of(&self, thread: i32, cgroup: Option<&str>) -> Option<String> {
        cgroup.or_else(|| self.threads.get(&thread).copied()).map(str::to_owned)
    }
    fn settings(&self, group: &str) -> Option<GroupInfo<'static>> {
        self.groups.get(group).cloned()
    }
    fn affinity_of(&self, thread: i32) -> Option<&[u32]> {
        self.affinities.get(&thread).map(Vec::as_slice)
    }
}

fn weighing(weight: u32, max: Option<(u64, u64)>) -> GroupInfo<'static> {
    GroupInfo { weight, max, ..GroupInfo::default() }
}

fn analyse_with(known: KnownGroups, text: &str) -> Analyses {
    analyse_kinds(&BOTH, known, text)
}

fn analyse_kinds(kinds: &[AnalysisKind], known: KnownGroups, text: &str) -> Analyses {
    let mut reader = TextReader::new(text.as_bytes());
    let mut analyses = Analyses::new(kinds, &AnalysisOptions::default()).with_groups(Arc::new(known));
    while let Some(record) = reader.next_record().expect("it is a trace") {
        analyses.add(&record);
    }
    analyses.end();
    analyses
}

/// `a` in a group of weight 300 and `b` in one of 100 want a whole CPU. Each has half of it for 400 ms.
fn halves() -> String {
    let mut text = switch(0, 0, IDLE, "R", A);
    text += &wake("sched_wakeup_new", 0, 0, A, B, 0);
    for round in 0..20_u64 {
        let at = round * 20_000;
        text += &switch(0, at + 10_000, A, "R", B);
        text += &switch(0, at + 20_000, B, "R", A);
    }
    text
}

#[test]
fn what_groups_used_is_set_against_what_they_were_entitled_to() {
    let known = KnownGroups {
        threads: [(7, "/heavy"), (8, "/light/below")].into(),
        groups: [("/heavy", weighing(300, None)), ("/light", weighing(100, None))].into(),
        ..KnownGroups::default()
    };
    let analyses = analyse_with(known, &halves());
    let tables = analyses.tables();
    let cells = |key: &str| ["/", "/heavy", "/light", "/light/below"].map(|path| cell(&tables[0], path, key));
    assert_eq!(cells("cpu_ns"), [400, 200, 200, 200].map(|ms| Value::from(ms * 1_000_000)));
    assert_eq!(cells("weight"), [Value::Null, 300.into(), 100.into(), Value::Null]);
    let entitled = cells("entitled_ns").map(|ns| ns.as_f64().expect("it is known") / 1e6);
    for (entitled, expected) in entitled.into_iter().zip([400.0, 300.0, 100.0, 100.0]) {
        assert!((entitled - expected).abs() < 0.01, "{entitled} for {expected}");
    }
    assert_eq!(cells("run_delay_ns")[1], 200_000_000, "it waits for ten milliseconds of each round");
    assert!(tables[1].rows.is_empty(), "none has a limit");
    assert_eq!(analyses.lacks(), None);
    let sentences = analyses.sentences();
    assert!(
        sentences.iter().any(|line| line.contains("furthest below its entitlement is /heavy: it got 66.67 %")),
        "{sentences:?}"
    );
}

#[test]
fn without_weights_there_is_no_entitlement_and_without_groups_nothing() {
    let attach = |pid: u32, root: u32| {
        format!(
            "  a-7 [000] 0.000000: cgroup_attach_task: dst_root={root} dst_id=5 dst_level=1 dst_path=/web pid={pid} comm=x\n"
        )
    };
    let analyses = analyse(&BOTH, &AnalysisOptions::default(), &(attach(7, 0) + &attach(8, 3) + &halves()));
    let table = &analyses.tables()[0];
    assert_eq!(cell(table, "/web", "cpu_ns"), 200_000_000, "another hierarchy is not what schedules");
    assert_eq!((cell(table, "/web", "entitled_ns"), cell(table, "/web", "tasks")), (Value::Null, 1.into()));
    assert_eq!(analyses.lacks().map(|(kind, _)| kind), Some(AnalysisKind::Throttling));
    assert!(
        analyses.notes().iter().any(|note| note.contains("(counted for the root group): 1")),
        "{:?}",
        analyses.notes()
    );
    let analyses = analyse(&BOTH, &AnalysisOptions::default(), &halves());
    assert_eq!(analyses.lacks().map(|(kind, _)| kind), Some(AnalysisKind::Groups));
    assert!(analyses.tables().is_empty());
}

/// A forked task is in its parent's group. Later use of a moved task counts for the new group, and so does a new
/// weight.
#[test]
fn groups_are_inherited_and_left() {
    let mut text = switch(0, 0, IDLE, "R", A);
    text += "  a-7 [000] 0.010000: cgroup_attach_task: dst_root=4 dst_id=5 dst_level=1 dst_path=/web pid=7 comm=a\n";
    text += "  a-7 [000] 0.020000: sched_process_fork: comm=a pid=7 child_comm=b child_pid=8\n";
    text += &wake("sched_wakeup_new", 0, 20_000, A, B, 0);
    text += &switch(0, 30_000, A, "S", B);
    text += "  b-8 [000] 0.035000: cgroup_attach_task: dst_root=4 dst_id=1 dst_level=0 dst_path=/ pid=8 comm=b\n";
    text += &switch(0, 40_000, B, "X", IDLE);
    let known = KnownGroups { groups: [("/web", weighing(100, None))].into(), ..KnownGroups::default() };
    let analyses = analyse_with(known, &text);
    let table = &analyses.tables()[0];
    assert_eq!(cell(table, "/web", "cpu_ns"), 25_000_000);
    assert_eq!(cell(table, "/", "cpu_ns"), 40_000_000);
    assert_eq!(cell(table, "/", "entitled_ns"), 40_000_000);
    assert!(analyses.notes().is_empty(), "{:?}", analyses.notes());
}

/// 20 ms in 100 ms: `a` runs for 20 ms and waits for 80, while its CPU is idle or runs `c`.
#[test]
fn a_recorded_limit_shows_in_what_is_used_of_it() {
    let mut text = String::new();
    for period in 0..10_u64 {
        let (at, other) = (period * 100_000, if period < 5 { IDLE } else { C });
        text += &switch(0, at, other, if period < 6 { "R" } else { "S" }, A);
        if period == 5 {
            text += &wake("sched_wakeup_new", 0, at + 1, A, C, 0);
        } else if period > 5 {
            text += &wake("sched_wakeup", 0, at + 1, A, C, 0);
        }
        let next = if period < 5 { IDLE } else { C };
        text += &switch(0, at + 20_000, A, "R+", next);
    }
    text += &switch(0, 1_000_000, C, "S", A);
    text += &switch(0, 1_010_000, A, "S", IDLE);
    text += &wake("sched_waking", 1, 1_350_000, B, C, 0);
    let known = KnownGroups {
        threads: [(7, "/capped/below")].into(),
        groups: [("/capped", weighing(100, Some((20_000_000, 100_000_000))))].into(),
        ..KnownGroups::default()
    };
    let analyses = analyse_with(known, &text);
    let table = &analyses.tables()[1];
    assert_eq!(table.rows.len(), 1, "a group below has no limit of its own");
    let of = |key: &str| cell(table, "/capped", key);
    assert_eq!((of("periods"), of("used_up")), (11.into(), 10.into()), "{}", table.json());
    let used = of("used").as_f64().expect("it is known");
    assert!((used - 210.0 / 220.0).abs() < 1e-9 && of("most_used") == 1.0, "{}", table.json());
    // Four waits of 80 ms are on an idle CPU, and an equal one before C.
    assert_eq!((of("throttled_least_ns"), of("throttled_most_ns")), (400_000_000.into(), 800_000_000.into()));
}

/// In our traces the scheduler reports throttling and policies, regardless of inherited priorities.
#[test]
fn marks_tell_exactly() {
    let print = |at: &str, text: &str| format!("  <idle>-0 [000] {at}: print: {text}\n");
    let mut text = print("0.000000", "/capped cpu.weight=100 cpu.max=20000 100000");
    text += &print("0.000000", "/calm cpu.idle=1 cpu.max=max");
    text += "  <idle>-0 [000] 0.000000: cgroup_attach_task: dst_root=0 dst_id=2 dst_level=1 dst_path=/capped pid=7 comm=a\n";
    text += &halves();
    text += &switch(0, 405_000, A, "S", IDLE);
    text += &print("0.410000", "cpu_bandwidth: what=throttle path=/capped");
    text += &print("0.420000", "cpu_bandwidth: what=unthrottle throttled_ns=7000 path=/capped");
    text += &print("0.420000", "cpu_bandwidth: what=period periods=3 throttled=1 burst_ns=5 path=/capped");
    text += &print("0.430000", "cpu_bandwidth: what=period periods=1 throttled=0 burst_ns=0 path=/capped");
    let analyses = analyse(&BOTH, &AnalysisOptions::default(), &text);
    let tables = analyses.tables();
    let of = |key: &str| cell(&tables[1], "/capped", key);
    assert_eq!((of("nr_periods"), of("nr_throttled"), of("throttled_ns")), (4.into(), 3.into(), 7000.into()));
    assert_eq!((of("nr_bursts"), of("burst_ns"), of("quota_ns")), (1.into(), 5.into(), 20_000_000.into()));
    assert_eq!((cell(&tables[0], "/calm", "weight"), cell(&tables[0], "/calm", "tasks")), (0.into(), 0.into()));
    assert!(cell(&tables[0], "/capped", "of_entitled").as_f64().is_some_and(|of| of > 1.5), "{}", tables[0].json());
    assert!(analyses.notes().is_empty(), "{:?}", analyses.notes());
}

/// Endless new groups take bounded time and memory.
#[test]
fn groups_without_end_are_left_out() {
    let attach = |at: u32, path: String| {
        format!(
            "  a-7 [000] 0.{at:06}: cgroup_attach_task: dst_root=0 dst_id=5 dst_level=1 dst_path={path} pid=7 comm=a\n"
        )
    };
    let mut text: String = (0..70_000).map(|group| attach(group, format!("/g{group}"))).collect();
    text += &attach(80_000, "/x".repeat(300));
    let analyses = analyse(&BOTH, &AnalysisOptions::default(), &text);
    assert_eq!(analyses.tables()[0].rows.len(), 1 << 16);
    // With the root.
    let refused = 70_000 - (1 << 16) + 1 + 1;
    assert!(
        analyses.notes().iter().any(|note| note.ends_with(&format!("(left out): {refused}"))),
        "{:?}",
        analyses.notes()
    );
}

#[test]
fn a_task_could_not_run_outside_its_affinity() {
    let text = [
        switch(1, 0, IDLE, "R", A),
        switch(1, 1000, A, "S", IDLE),
        switch(0, 1500, IDLE, "R", B),
        wake("sched_waking", 0, 2000, B, A, 0),
        switch(0, 7000, B, "S", A),
    ]
    .concat();
    let could = |affinity: Option<Vec<u32>>| {
        let affinities = affinity.map(|cpus| (A.1 as i32, cpus)).into_iter().collect();
        let known = KnownGroups { affinities, ..KnownGroups::default() };
        let analyses = analyse_kinds(&[AnalysisKind::IdleWhileWaiting], known, &text);
        analyses.tables()[0].json()[0]["could_ns"].as_u64()
    };
    assert_eq!(could(None), Some(5_000_000), "nothing is known of it");
    assert_eq!(could(Some(vec![0, 1])), Some(5_000_000));
    assert_eq!(could(Some(vec![0])), None);
}

/// A terminal of 80 columns has fewer columns.
#[test]
fn the_table_of_groups_fits_a_narrow_terminal() {
    let moved =
        "  a-7 [000] 0.000000: cgroup_attach_task: dst_root=0 dst_id=5 dst_level=1 dst_path=/web pid=7 comm=a\n";
    let analyses = analyse(&BOTH[..1], &AnalysisOptions::default(), &(moved.to_owned() + &halves()));
    let columns = analyses.tables()[0].columns.clone();
    let left_out = |width: u16, path: &str| {
        let mut table = DataTable { columns: columns.clone(), ..DataTable::default() };
        let ns = |ns: u64| Cell::from(ns);
        table.push(vec![
            path.into(),
            100_u64.into(),
            0.2.into(),
            24_u64.into(),
            ns(1_030_000_000),
            0.3416.into(),
            ns(1_070_000_000),
            0.3561.into(),
            (-43_700_000_i64).into(),
            0.9593.into(),
            ns(6_190_000_000),
        ]);
        let spare = super::super::groups::GroupUse::new(&AnalysisOptions::default()).spare();
        table.narrowed(spare, 10, |heads, lines| has_room_in(width, heads, lines)).1.join(", ")
    };
    assert_eq!(left_out(100, "/vr-batch/jobs"), "");
    assert_eq!(left_out(80, "/vr-batch/jobs"), "Entitled to, CPU time");
    assert_eq!(left_out(80, "/system.slice/cron.service"), "Entitled to, CPU time, Difference");
}
