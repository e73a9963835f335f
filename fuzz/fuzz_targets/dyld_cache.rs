#![no_main]

#[path = "../checks/dyld_cache.rs"]
mod check;

libfuzzer_sys::fuzz_target!(init: unslide_fuzz::without_swift(), |data: &[u8]| check::check(data));
