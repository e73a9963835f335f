//! Reads names, one per line, and prints the readable form of each, or the name itself if there is none.
//! `scripts/names` compares the output with LLVM's.

#![expect(clippy::print_stderr, reason = "a program for a person to read")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

use std::io::{Read, Write};
use std::time::Instant;
use unslide_symbolicate::demangle::demangle;

fn main() -> std::io::Result<()> {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let names: Vec<&str> = input.lines().collect();
    let start = Instant::now();
    let readable: Vec<Option<String>> = names.iter().map(|name| demangle(name)).collect();
    let time = start.elapsed();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (name, readable) in names.iter().zip(&readable) {
        writeln!(out, "{}", readable.as_deref().unwrap_or(name))?;
    }
    eprintln!("{:.2?} a name", time / u32::try_from(names.len().max(1)).unwrap_or(u32::MAX));
    out.flush()
}
