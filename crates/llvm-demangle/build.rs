//! Compiles LLVM's demangler, optimised in every profile: its frames are small enough for its stack then.

fn main() {
    println!("cargo::rerun-if-changed=src/bounded.cpp");
    println!("cargo::rerun-if-changed=llvm");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("src/bounded.cpp")
        .include("llvm")
        .define("NDEBUG", None)
        .opt_level(2)
        // Some of the methods that are extended are private.
        .flag("-fno-access-control")
        .warnings(false)
        .compile("unslide_llvm_demangle");
}
