//! The program `millrace-php`: PHP for Millrace. All of it is in C (`php/c`, with its own `main`), because a SAPI is
//! made of PHP's macros. Where no PHP was found at build time, this program says what is missing.
#![cfg_attr(with_php, no_main)]

#[cfg(not(with_php))]
fn main() {
    eprintln!(
        "millrace-php was built without PHP: {}\nThen build Millrace again: cargo build --release",
        env!("MILLRACE_PHP_MISSING")
    );
    std::process::exit(1);
}
