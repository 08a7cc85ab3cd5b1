//! scratch
use std::ops::ControlFlow;
use vruntime_sched::event::*;
use vruntime_sched::ids::*;
use vruntime_sched::kernel;
use vruntime_sim::{Config, MachineSpec, parse_topology, run};
use vruntime_trace::Sink;
use vruntime_workload::program::*;
#[derive(Default)]
struct C(std::collections::BTreeMap<String, (u64, u64)>);
impl Sink for C {
    fn event(&mut self, _: u64, _: CpuId, e: &Event) {
        let (k, p) = match e {
            Event::Balance { kind, level, pulled, .. } => (format!("{kind:?} {level}"), *pulled as u64),
            Event::Migrate { cause, .. } => (format!("M {cause:?}"), 0),
            Event::Overhead { kind, .. } => (format!("O {kind:?}"), 0),
            e => (format!("{e:?}").split(' ').next().unwrap().to_string(), 0),
        };
        let x = self.0.entry(k).or_default();
        x.0 += 1;
        x.1 += p;
    }
}
fn main() {
    let n = 768;
    let ops = vec![Op::Run { work: 3_000_000 }, Op::Sleep { time: 5_000_000 }];
    let ph: std::sync::Arc<[Phase]> =
        [Phase { name: "p".into(), repeat: Repeat::Forever, settings: Settings::default(), ops }].into();
    let tasks = (0..n)
        .map(|i| Task {
            name: format!("p{i}"),
            class: "p".into(),
            start: Some(0),
            settings: Settings::default(),
            phases: ph.clone(),
            repeat: Repeat::Times(1),
        })
        .collect();
    let w = Workload {
        tasks,
        groups: vec![Group { path: "/".into(), parent: None, weight: 100, idle: false, max: None }],
        ..Workload::default()
    };
    for k in ["6.12", "6.1"] {
        let spec = MachineSpec::new(parse_topology("pack:2 l3:12 core:8 pu:2").unwrap());
        println!("hz {}", spec.hz);
        let c = Config { duration: Some(5_000_000_000), ..Config::new(kernel(k).unwrap(), spec) };
        let mut s = C::default();
        run(&w, &c, &mut s, &mut |_| ControlFlow::Continue(())).unwrap();
        println!("{k} {:#?}", s.0);
    }
}
