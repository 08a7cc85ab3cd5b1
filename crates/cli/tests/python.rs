//! The Python package's own tests, `python/tests`, with this build's command.

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

#[path = "../../../tests/skip.rs"]
mod skip;

#[test]
fn the_package_passes_its_tests() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    // What `make test` has made, if it could.
    let made = std::env::var_os("VRUNTIME_PYTHON").filter(|path| Path::new(path).exists());
    let python = |arguments: &[&str]| {
        let mut python = Command::new(made.as_deref().unwrap_or("python3".as_ref()));
        // Nothing is left between the sources.
        python.current_dir(&folder).args(["-B", "-W", "default::ResourceWarning"]).args(arguments);
        python.env("VRUNTIME", cargo_bin("vruntime")).env_remove("VRUNTIME_MESSAGES").output()
    };
    let Ok(version) = python(&["-c", "import sys; print(sys.version_info >= (3, 9))"]) else {
        skip::skip("there is no python3");
        return;
    };
    if version.stdout != b"True\n" {
        skip::skip("python3 is older than 3.9");
        return;
    }
    let optional = "pandas pyarrow tqdm matplotlib distributed joblib optuna nbclient ipykernel ray";
    let find =
        "import sys, importlib.util as u; print(*[name for name in sys.argv[1].split() if u.find_spec(name) is None])";
    let missing =
        python(&["-c", find, optional]).map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if let Some(missing) = missing.ok().filter(|missing| !missing.is_empty()) {
        skip::skip(&format!("Python has no {missing}: only their absence is tested"));
    }
    let output = python(&["-m", "unittest", "discover", "-s", "tests", "-t", "."]).expect("it ran before");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}{stderr}", String::from_utf8_lossy(&output.stdout));
    assert!(!stderr.contains("Ran 0 tests") && !stderr.contains("ResourceWarning"), "{stderr}");
}
