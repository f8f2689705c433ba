//! Prints docs/settings.md: `cargo run -p millrace-settings --example reference > docs/settings.md`.

fn main() {
    print!("{}", millrace_settings::reference());
}
