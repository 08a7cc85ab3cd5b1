//! The seed of what tests draw at random without proptest. It is read from the variable that property tests use, too:
//! `make test` sets it to a number of the commit's. Each test that needs it has this file as a module.

/// Returns `PROPTEST_RNG_SEED`, or 0 without it. Prints it, which the test runner shows if the test fails.
pub(crate) fn any_seed() -> u64 {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    eprintln!("PROPTEST_RNG_SEED={seed}");
    seed
}
