//! `.ci/run` tests the commit and nothing else. Here it runs in small repositories, whose Makefile shows what it gets.
#![cfg(unix)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prints its surroundings and its standard input, as a test would. Fails if there is a file `broken`.
const MAKEFILE: &str = "\
test:
\t@echo \"in $$PWD: beside it $$(ls ..), commit $$(git rev-parse HEAD), standard input '$$(cat)'\"
\t@echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'
\t@echo no such machine > \"$$VRUNTIME_SKIPPED\"
\t@test ! -e broken
demo:
\t@mkdir -p demo-out/6.12 && echo {} | tee demo-out/comparison.json > demo-out/6.12/trace.perfetto-trace
\t@echo What stands out: all
";

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
    let output = git.args(arguments).output().expect("git is here: the script needs it");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("git prints UTF-8").trim().to_owned()
}

/// A repository of one commit, which has the script.
fn repository(folder: &Path) -> PathBuf {
    let repository = folder.join("repository");
    fs::create_dir_all(repository.join(".ci")).expect("a folder can be made");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/run");
    // The permissions, too.
    fs::copy(script, repository.join(".ci/run")).expect("it can be copied");
    fs::write(repository.join("Makefile"), MAKEFILE).expect("it can be written");
    git(&repository, &["init", "--quiet"]);
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "one"]);
    repository
}

/// What the script prints, and its exit status. Its clone is to be in `folder`, and gone at the end.
fn run(repository: &Path, folder: &Path) -> (String, Option<i32>) {
    let temporary = folder.join("temporary");
    fs::create_dir_all(&temporary).expect("a folder can be made");
    let mut script = Command::new(repository.join(".ci/run"));
    script.env("TMPDIR", &temporary).env_remove("VRUNTIME_SKIPPED");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = script.spawn().expect("it can be run");
    // It need not read this, and must not.
    let _unread = child.stdin.take().map(|mut stdin| stdin.write_all(b"input\n"));
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(fs::read_dir(&temporary).expect("it is there").count(), 0, "it leaves nothing");
    let printed = [output.stdout, output.stderr].concat();
    (String::from_utf8(printed).expect("it prints UTF-8"), output.status.code())
}

#[test]
fn a_clone_of_the_commit_is_tested_alone() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let repository = repository(folder.path());
    let commit = git(&repository, &["rev-parse", "HEAD"]);
    let (printed, status) = run(&repository, folder.path());
    assert!(printed.contains(&format!(": beside it vruntime, commit {commit}, standard input ''\n")), "{printed}");
    assert!(printed.contains(&format!("in {}", folder.path().join("temporary").display())), "{printed}");
    assert!(printed.contains("\nWhat stands out: all\n") && !printed.contains("Not tested"), "{printed}");
    assert!(printed.ends_with("skipped: no such machine\n3 passed, 0 failed, 2 skipped\n"), "{printed}");
    assert_eq!(status, Some(0), "{printed}");
}

#[test]
fn uncommitted_changes_are_reported_and_not_tested() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let repository = repository(folder.path());
    fs::write(repository.join("broken"), "").expect("it can be written");
    let (printed, status) = run(&repository, folder.path());
    assert!(printed.starts_with("Not tested, because not committed:\n?? broken\n"), "{printed}");
    assert_eq!(status, Some(0), "{printed}");
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "two"]);
    let (printed, status) = run(&repository, folder.path());
    assert!(!printed.contains("Not tested") && !printed.contains("What stands out"), "{printed}");
    assert!(printed.contains("\n3 passed, 0 failed, 2 skipped\n"), "{printed}");
    assert!(status.is_some_and(|status| status != 0), "{printed}");
}

#[test]
fn a_shallow_checkout_without_a_branch_is_tested_too() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let repository = repository(folder.path());
    git(&repository, &["commit", "--quiet", "--allow-empty", "-m", "two"]);
    let commit = git(&repository, &["rev-parse", "HEAD"]);
    let source = format!("file://{}", repository.display());
    git(folder.path(), &["clone", "--quiet", "--depth", "1", &source, "shallow"]);
    let shallow = folder.path().join("shallow");
    git(&shallow, &["checkout", "--quiet", "--detach"]);
    git(&repository, &["worktree", "add", "--quiet", "--detach", "../worktree"]);
    for checkout in [shallow, folder.path().join("worktree")] {
        let (printed, status) = run(&checkout, folder.path());
        assert!(printed.contains(&format!("commit {commit},")), "{printed}");
        assert_eq!(status, Some(0), "{printed}");
    }
}

#[test]
fn a_demo_that_shows_nothing_fails() {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let repository = repository(folder.path());
    for (text, instead, why) in [
        ("What stands out: ", "Nothing of: ", "make demo did not print what stands out"),
        ("| tee demo-out/comparison.json ", "", "make demo did not leave demo-out/comparison.json"),
    ] {
        fs::write(repository.join("Makefile"), MAKEFILE.replace(text, instead)).expect("it can be written");
        git(&repository, &["commit", "--quiet", "--all", "-m", "changed"]);
        let (printed, status) = run(&repository, folder.path());
        assert!(printed.contains(why) && printed.contains("\n3 passed, 0 failed, 2 skipped\n"), "{printed}");
        assert_eq!(status, Some(1), "{printed}");
    }
}
