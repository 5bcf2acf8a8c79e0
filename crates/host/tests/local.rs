//! Tests on the real machine.
fn main() {}
