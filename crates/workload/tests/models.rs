//! The benchmarks: every one is called as it says, makes what it promises, and refuses what it does not know.

use std::io;

use vruntime_workload::model::{models, parse};
use vruntime_workload::program::{Channel, Op, Policy, Repeat};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

#[test]
fn all_that_are_offered_exist() {
    assert!(models().count() >= 8);
    let commands = [
        "lat_ctx -s 0 2",
        "pipe-test",
        "hackbench 2",
        "sysbench cpu",
        "wakers 10 1ms",
        "idle-groups 100",
        "schbench",
        "cyclictest",
        "kernbench -j 4",
        "stress-ng --pipe 2",
    ];
    for (usage, what) in models() {
        let name = usage.split(' ').next().unwrap();
        let command = commands.iter().find(|command| command.split(' ').next() == Some(name));
        let workload = parse(command.unwrap_or_else(|| panic!("no example of {name}"))).unwrap();
        assert!(!what.is_empty());
        assert_eq!(workload.groups[0].path, "/");
        assert!(name == "idle-groups" || !workload.tasks.is_empty(), "{name}");
    }
}

#[test]
fn parameters_are_the_originals() {
    let ring = parse("lat_ctx -s 16 3").unwrap();
    assert_eq!((ring.tasks.len(), ring.pipes.len()), (3, 3));
    assert!(ring.tasks.iter().all(|task| task.phases[0].ops.contains(&Op::Mem { bytes: 16 << 10 })));
    let process = parse("hackbench -pipe 10 process 1000").unwrap();
    let mut thread = parse("hackbench -pipe 10 thread 1000").unwrap();
    assert!(process.tasks.iter().all(|task| task.process.is_none()));
    assert!(thread.tasks.iter().all(|task| task.process == Some(0)));
    for task in &mut thread.tasks {
        task.process = None;
    }
    assert!(
        (&process.tasks, &process.pipes) == (&thread.tasks, &thread.pipes),
        "they differ in their address spaces and their command line alone"
    );
    assert_eq!((process.tasks.len(), process.pipes.len()), (400, 200));
    assert_eq!(process.pipes[0].capacity, 65_536);
    let (sent, received) = (&process.tasks[20].phases[1], &process.tasks[0].phases[1]);
    assert_eq!((sent.ops.len(), sent.repeat), (20, Repeat::Times(1000)));
    assert_eq!((received.ops.len(), received.repeat), (1, Repeat::Times(20_000)));
    assert_eq!(parse("hackbench 1").unwrap().tasks[20].phases[1].repeat, Repeat::Times(100));
    let pipes = parse("stress-ng --pipe 3 --pipe-data-size 4096 --timeout 20").unwrap();
    assert_eq!((pipes.tasks.len(), pipes.pipes.len(), pipes.duration), (6, 3, Some(20_000_000_000)));
    assert!(pipes.pipes.iter().all(|pipe| pipe.kind == Channel::Packets && pipe.capacity == 65_536));
    assert_eq!(pipes.tasks[4].phases[0].ops[1], Op::PipeWrite { pipe: 2, bytes: 4096 });
    assert_eq!(pipes.tasks[5].phases[0].ops[0], Op::PipeRead { pipe: 2, bytes: 4096 });
    assert_eq!(parse("stress-ng --pipe=1").unwrap().tasks[1].phases[0].ops[0], Op::PipeRead { pipe: 0, bytes: 512 });
    assert!(parse("stress-ng --cpu 4").unwrap_err().message.contains("--pipe N"));
    let threads = parse("sysbench --test=cpu --num-threads=5 --max-time=5 run").unwrap();
    assert_eq!((threads.tasks.len(), threads.duration), (5, Some(5_000_000_000)));
    let likewise = parse("sysbench cpu --threads=5 --time=5").unwrap();
    assert!((&threads.tasks, threads.duration) == (&likewise.tasks, likewise.duration));
    assert_eq!(parse("idle-groups 10000").unwrap().groups.len(), 10_001);
    let clocks = parse("cyclictest -t 3 -p 80 -i 500").unwrap();
    let priorities = clocks.tasks.iter().map(|task| task.settings.policy).collect::<Vec<_>>();
    assert_eq!(priorities, [80, 79, 78].map(|priority| Some(Policy::Fifo { priority })));
    let pair = parse("pipe-test 1000").unwrap();
    assert_eq!((pair.duration, pair.tasks[1].phases[0].repeat), (None, Repeat::Times(1000)));
    assert_eq!(parse("schbench -m 3 -t 4").unwrap().tasks.len(), 15);
}

#[test]
fn what_means_nothing_is_refused() {
    let wrong = [
        ("", "unknown model"),
        ("hackbnch 3", "hackbench"),
        ("hackbench", "GROUPS is missing"),
        ("hackbench 0", "expected a number from 1"),
        ("hackbench 3 process thread", "either"),
        ("hackbench 3 10 10", "`10` means nothing here"),
        ("lat_ctx -s 0", "N is missing"),
        ("lat_ctx -s x 2", "-s is `x`"),
        ("lat_ctx 1", "expected a number from 2"),
        ("sysbench memory", "only the test `cpu`"),
        ("wakers 3 1", "a time needs its unit"),
        ("wakers 3 0ms", "must not be 0"),
        ("cyclictest -p 100", "expected a number from 1 to 99"),
        ("idle-groups 1000000000", "expected a number"),
        ("pipe-test 3 4", "means nothing"),
        ("schbench -t", "-t is ``"),
    ];
    for (command, expected) in wrong {
        let error = parse(command).unwrap_err();
        assert!(error.to_string().contains(expected), "{command}: {error}");
    }
}

#[test]
fn scenarios_name_them() {
    let text = "[[workload]]\nmodel = \"hackbench 1\"\ngroup = \"/a\"\n[[workload]]\nmodel = \"idle-groups 3\"\ngroup = \"/b\"\n\
                [[workload]]\nmodel = \"pipe-test\"\ncopies = 2\n";
    let none = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let read = scenario::parse("s.toml", text.as_bytes(), &Options::default(), &mut { none }).unwrap();
    let names: Vec<&str> = read.workload.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names.len(), 44);
    assert_eq!(
        (names[0], names[40], names[43]),
        ("hackbench/hackbench-receiver-0", "pipe-test-0/pipe-test-0", "pipe-test-1/pipe-test-1")
    );
    let paths: Vec<&str> = read.workload.groups.iter().map(|group| group.path.as_str()).collect();
    assert_eq!(paths, ["/", "/a", "/b", "/b/idle-0", "/b/idle-1", "/b/idle-2"]);
    // The second copy has pipes of its own.
    assert!(read.workload.tasks[42].phases[0].ops.contains(&Op::PipeWrite { pipe: 22, bytes: 4 }));
    assert!(read.source_map.place(43, None, None).is_some());
}
