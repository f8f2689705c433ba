//! Random operations on the store, compared with a simple reference. `MILLRACE_MODEL_CASES` sets the number of cases
//! with up to 400 operations each; `MILLRACE_MODEL_CASES=20000 cargo test --release -p millrace-pages --test
//! model_test` are about four million.

mod model;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

#[test]
fn the_store_does_what_the_reference_does() {
    let cases =
        std::env::var("MILLRACE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    TestRunner::new(config)
        .run(&vec(any::<u32>(), 1..400), |operations| {
            model::run(&operations);
            Ok(())
        })
        .unwrap();
}
