#![no_main]

#[path = "../checks/enrich.rs"]
mod check;

libfuzzer_sys::fuzz_target!(init: unslide_fuzz::without_swift(), |data: &[u8]| check::check(data));
