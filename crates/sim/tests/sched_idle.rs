//! Wakeups treat a CPU that runs only SCHED_IDLE tasks as idle (`sched_idle_cpu`), even beside idle CPUs.

use std::io;
use std::path::Path;

use vruntime_report::{Detector, Pattern};
use vruntime_sim::plan::{Input, Overrides, plan};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

/// Six hogs of a policy, and six that compute for 5 ms and sleep for 5 ms, on eight CPUs.
fn patterns(policy: &str) -> Vec<Pattern> {
    let text = format!(
        "scenario = {{ kernel = \"6.12\", machine = \"core:8\", duration = \"4s\" }}\n\
         [[task]]\nname = \"background\"\ninstance = 6\npolicy = \"{policy}\"\nrun = \"1ms\"\n\
         [[task]]\nname = \"worker\"\ninstance = 6\nrun = \"5ms\"\nsleep = \"5ms\"\n"
    );
    let load = &mut |_: &Path| Err(io::ErrorKind::NotFound.into());
    let scenario = scenario::parse("sched-idle.toml", text.as_bytes(), &Options::default(), load).unwrap();
    let planned = plan(Input::Scenario(&scenario), &Overrides::default(), load).unwrap();
    let mut detector = Detector::new();
    vruntime_sim::run(&scenario.workload, &planned.config, &mut detector).unwrap();
    detector.into_detected().violations.iter().map(|violation| violation.pattern).collect()
}

#[test]
fn the_detector_names_wakeups_beside_sched_idle_tasks() {
    let idle = patterns("SCHED_IDLE");
    assert!(idle.contains(&Pattern::SchedIdleCpu), "{idle:?}");
    let normal = patterns("SCHED_OTHER");
    assert!(!normal.contains(&Pattern::SchedIdleCpu), "{normal:?}");
}
