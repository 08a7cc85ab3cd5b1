//! `cpus`, `partition` and `isolated` in scenario files.

use vruntime_workload::program::{Changed, GroupChange, Partition};
use vruntime_workload::scenario::{self, Scenario};
use vruntime_workload::{Error, rtapp::Options};

fn read(text: &str) -> Result<Scenario, Error> {
    let text = format!("{text}\n[[task]]\nname = \"t\"\nrun = \"1ms\"\n");
    scenario::parse("c.toml", text.as_bytes(), &Options::default(), &mut |_| unreachable!())
}

/// Line and column, message, label and help of the first problem.
fn wrong(text: &str) -> ((usize, usize), String, String, String) {
    let error = read(text).unwrap_err();
    let help = error.help().unwrap_or_default().to_owned();
    (error.location().unwrap(), error.message().to_owned(), error.label().to_owned(), help)
}

#[test]
fn what_is_written_is_read() {
    let text = r#"
machine = { topology = "8", isolated = "7" }
[groups."/a"]
cpus = "0-2,5"
partition = "root"
[groups."/b"]
cpus = [3, 4]
[[change]]
at = "1s"
group = "/b"
cpus = ""
weight = 50
[[change]]
at = "2s"
group = "/a"
partition = "isolated"
"#;
    let scenario = read(text).unwrap();
    assert_eq!(scenario.machine.unwrap().isolated.unwrap().value, [7]);
    let cpusets: Vec<_> = scenario.workload.groups.iter().map(|group| group.cpuset.clone()).collect();
    assert_eq!((cpusets[1].cpus.as_deref(), cpusets[1].partition), (Some(&[0, 1, 2, 5][..]), Partition::Root));
    assert_eq!((cpusets[2].cpus.as_deref(), cpusets[2].partition), (Some(&[3, 4][..]), Partition::Member));
    let changes: Vec<_> = scenario.workload.changes.iter().map(|change| change.what.clone()).collect();
    assert!(matches!(changes[0], Changed::Group { group: 2, to: GroupChange { weight: Some(50), .. } }));
    assert_eq!(changes[1], Changed::Cpuset { group: 2, cpus: Some(vec![]), partition: None });
    assert_eq!(changes[2], Changed::Cpuset { group: 1, cpus: None, partition: Some(Partition::Isolated) });
    let named: Vec<_> = scenario.cpus.iter().map(|cpus| cpus.value.clone()).collect();
    assert_eq!(named, [vec![0, 1, 2, 5], vec![3, 4], vec![]]);
}

#[test]
fn what_is_wrong_is_reported_with_its_place() {
    let (at, message, _, help) = wrong("[groups.\"/a\"]\ncpus = \"3-1\"");
    assert_eq!((at, message.as_str()), ((2, 8), "`cpus` is not a list of CPUs: the range 3-1 ends before it begins"));
    assert_eq!(help, "write numbers and ranges as the kernel does: \"0-3,6\"");
    let (at, message, ..) = wrong("[groups.\"/a\"]\ncpus = []");
    assert_eq!((at, message.as_str()), ((2, 8), "`cpus` is empty"));
    let (at, message, _, help) = wrong("[groups.\"/a\"]\npartition = \"root\"");
    assert_eq!((at, message.as_str()), ((2, 13), "group `/a` is a partition without `cpus`"));
    assert_eq!(help, "add cpus = \"0-3\", the CPUs it has to itself");
    let (at, message, label, help) = wrong("[groups.\"/a\"]\ncpus = \"0\"\npartition = \"rot\"");
    assert_eq!((at, message.as_str()), ((3, 13), "unknown partition `rot`"));
    assert_eq!((label.as_str(), help.as_str()), ("expected member, root or isolated", "did you mean `root`?"));
    let (_, message, ..) = wrong("[groups.\"/\"]\ncpus = \"0\"");
    assert_eq!(message, "the root group has all CPUs, and is a partition always");
    let (_, message, ..) = wrong("[[change]]\nat = \"1s\"\ngroup = \"/\"\npartition = \"member\"");
    assert_eq!(message, "the root group has all CPUs, and is a partition always");
    let (at, message, label, help) =
        wrong("[groups.\"/a\"]\ncpus = \"0-3\"\npartition = \"root\"\n[groups.\"/b\"]\ncpus = \"2-5\"");
    assert_eq!((at, message.as_str()), ((5, 8), "groups `/a` and `/b` both name CPU 2-3"));
    assert_eq!(label, "`/a` is a partition, which has its CPUs to itself");
    assert_eq!(help, "take CPU 2-3 out of one of them, or make no partition of `/a`");
    let (at, message, ..) = wrong("machine = { topology = \"4\", isolated = \"x\" }");
    assert_eq!((at, message.as_str()), ((1, 40), "`isolated` is not a list of CPUs: `x` is not the number of a CPU"));
    // Members may overlap, and so may a partition and what is below it.
    read("[groups.\"/a\"]\ncpus = \"0-3\"\n[groups.\"/b\"]\ncpus = \"2-5\"").unwrap();
    read("[groups.\"/a\"]\ncpus = \"0-3\"\npartition = \"root\"\n[groups.\"/a/b\"]\ncpus = \"2-3\"").unwrap();
}
