//! Compiles the bounds around LLVM's demangler, optimised in every profile: its frames are small enough for its stack then.
//! The demangler itself is five headers of LLVM 19, which a package manager installs.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// The variable that names the folder in which `llvm/Demangle` lies.
const VARIABLE: &str = "UNSLIDE_LLVM_INCLUDE";
/// The header that includes the others.
const HEADER: &str = "llvm/Demangle/ItaniumDemangle.h";

fn main() {
    println!("cargo::rerun-if-changed=src/bounded.cpp");
    for variable in [VARIABLE, "UNSLIDE_CACHE", "XDG_CACHE_HOME"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let folders = include_folders();
    let Some(include) = folders.iter().find(|folder| folder.join(HEADER).is_file()) else {
        println!(
            "cargo::error=the headers of LLVM 19 are missing ({HEADER}): run scripts/setup, install Debian's package \
             llvm-19-dev, or name their folder in {VARIABLE}; none in {folders:?}"
        );
        return;
    };
    println!("cargo::rerun-if-changed={}", include.join("llvm/Demangle").display());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("src/bounded.cpp")
        .include(include)
        .define("NDEBUG", None)
        .opt_level(2)
        // Some of the methods that are extended are private.
        .flag("-fno-access-control")
        .warnings(false)
        .compile("unslide_llvm_demangle");
}

/// The folders that may have the headers: the one that the variable names and no other, or those of the installed LLVM and
/// of `scripts/setup`.
fn include_folders() -> Vec<PathBuf> {
    if let Some(named) = env::var_os(VARIABLE) {
        return vec![named.into()];
    }
    let asked = Command::new("llvm-config-19").arg("--includedir").output();
    let installed = asked.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let installed = installed.map(|folder| PathBuf::from(folder.trim()));
    let in_home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(in_home);
    let cache = env::var_os("UNSLIDE_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| caches.map(|folder| folder.join("unslide")));
    installed.into_iter().chain(cache.map(|folder| folder.join("llvm-19/include"))).collect()
}
