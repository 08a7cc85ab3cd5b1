//! `uclamp` in scenario files: the names of cgroup v2's files, and what to write for them.

use vruntime_workload::program::Clamps;
use vruntime_workload::scenario::{self, Scenario};
use vruntime_workload::{Error, rtapp::Options};

fn read(text: &str) -> Result<Scenario, Error> {
    let text = format!("{text}\n[[task]]\nname = \"t\"\nrun = \"1ms\"\n");
    scenario::parse("u.toml", text.as_bytes(), &Options::default(), &mut |_| unreachable!())
}

/// Message and help of the first problem.
fn wrong(text: &str) -> (String, String) {
    let error = read(text).unwrap_err();
    (error.message().to_owned(), error.help().unwrap_or_default().to_owned())
}

const CHANGE: &str = "[groups.\"/a\"]\n[[change]]\nat = \"1s\"\ngroup = \"/a\"\n";

#[test]
fn a_key_in_quotes_is_reported_with_its_form() {
    for head in ["[groups.\"/a\"]\n", CHANGE] {
        let (message, help) = wrong(&format!("{head}\"uclamp.min\" = \"50.00\""));
        assert_eq!(
            (message.as_str(), help.as_str()),
            ("unknown key `uclamp.min`", "write it without quotes: uclamp.min = \"50.00\"")
        );
        // And that is so.
        let written = help.split_once(": ").unwrap().1;
        read(&format!("{head}{written}")).unwrap();
        let (_, help) = wrong(&format!("{head}\"cpu.uclamp.max\" = 20"));
        assert_eq!(help, "write it without quotes: uclamp.max = 20");
        let (_, help) = wrong(&format!("{head}\"cpu.weight\" = 20"));
        assert_eq!(help, "here it is `weight`");
        let (_, help) = wrong(&format!("{head}\"cpu.max.burst\" = 20"));
        assert_eq!(help, "here it is `burst`");
        // A value of several lines is not repeated.
        let (_, help) = wrong(&format!("{head}\"uclamp.min\" = [\n1,\n2]"));
        assert_eq!(help, "write it without quotes: uclamp.min = ...");
        let (message, help) = wrong(&format!("{head}uclamp = \"50.00\""));
        assert_eq!(
            (message.as_str(), help.as_str()),
            ("`uclamp` of group `/a` is a string", "write uclamp.min = \"25.00\" or uclamp.max = \"50.00\", or both")
        );
    }
    let scenario = read("[groups.\"/a\"]\nuclamp.min = \"50.00\"").unwrap();
    assert_eq!(scenario.workload.groups[1].uclamp, Some(Clamps { min: 512, max: 1024 }));
}
