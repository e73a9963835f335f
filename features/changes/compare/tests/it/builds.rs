//! Builds of the corpus by real compilers, as symcaches.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use unslide_symbolicate::object::{build_symcache, list_objects};
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;

/// The files of the corpus, with the options that each language needs.
pub const FILES: [(&str, &[&str]); 4] = [
    ("cart.c", &[]),
    ("shelf.cpp", &["-std=c++17", "-fno-rtti", "-fno-exceptions"]),
    ("order.m", &["-fblocks", "-fobjc-runtime=macosx-11.0", "-Wno-objc-root-class"]),
    ("basket.c", &[]),
];

/// The texts of the files of one build.
pub type Sources = [String; 4];

/// How one build is made.
#[derive(Clone, Debug)]
pub struct Build {
    pub sources: Sources,
    pub options: Vec<&'static str>,
    /// The folder of the sources.
    pub folder: &'static str,
}

/// The path, the text and the options of a file.
type ObjectKey = (String, String, Vec<&'static str>);

/// Compiles builds. Objects with the same text and options are compiled once.
pub struct Compiler {
    folder: tempfile::TempDir,
    objects: Mutex<HashMap<ObjectKey, PathBuf>>,
    next: AtomicUsize,
}

/// Returns the corpus as it is.
pub fn read_sources() -> Sources {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    FILES.map(|(file, _)| std::fs::read_to_string(folder.join(file)).unwrap())
}

impl Build {
    /// Makes a build of sources with a level of optimisation.
    pub fn new(sources: Sources, level: &'static str) -> Build {
        Build { sources, options: vec![level], folder: "src" }
    }
}

impl Compiler {
    pub fn new() -> Compiler {
        Compiler {
            folder: tempfile::tempdir().unwrap(),
            objects: Mutex::default(),
            next: AtomicUsize::new(0),
        }
    }

    /// Compiles and links a build, and makes the symcache of its dSYM.
    pub fn build(&self, build: &Build) -> SymCache {
        let files = FILES.iter().zip(&build.sources);
        let objects: Vec<PathBuf> =
            files.map(|((file, own), text)| self.compile(build, file, own, text)).collect();
        let image = self.new_path();
        let tbd = fixtures::recipe().join("src/libSystem.tbd");
        fixtures::run(
            Command::new(fixtures::find_tool("ld64.lld-19"))
                .args(["-arch", "arm64", "-platform_version", "ios", "14.0", "14.0", "-dylib"])
                .args(["-install_name", "@rpath/shop", "-undefined", "dynamic_lookup", "-no_adhoc_codesign"])
                .arg(tbd)
                .args(&objects)
                .arg("-o")
                .arg(&image),
        );
        let dsym = self.new_path();
        fixtures::run(
            Command::new(fixtures::find_tool("dsymutil-19")).arg("-f").arg("-o").arg(&dsym).arg(&image),
        );
        let bytes = std::fs::read(&dsym).unwrap();
        let range = list_objects(&bytes).unwrap().remove(0).range;
        SymCache::parse(build_symcache(&bytes[range]).unwrap().symcache).unwrap()
    }

    fn compile(&self, build: &Build, file: &str, own: &[&'static str], text: &str) -> PathBuf {
        let options: Vec<&str> = build.options.iter().chain(own).copied().collect();
        let source = format!("{}/{file}", build.folder);
        let key = (source.clone(), text.to_owned(), options.clone());
        if let Some(known) = self.objects.lock().unwrap().get(&key) {
            return known.clone();
        }
        let folder = self.new_path();
        std::fs::create_dir_all(folder.join(build.folder)).unwrap();
        std::fs::write(folder.join(&source), text).unwrap();
        let object = folder.join("code.o");
        fixtures::run(
            Command::new(fixtures::find_tool("clang-19"))
                .current_dir(&folder)
                .args(["-target", "arm64-apple-ios14.0", "-g", "-fdebug-compilation-dir=/shop", "-c"])
                .args(&options)
                .arg(&source)
                .arg("-o")
                .arg(&object),
        );
        self.objects.lock().unwrap().insert(key, object.clone());
        object
    }

    fn new_path(&self) -> PathBuf {
        self.folder.path().join(self.next.fetch_add(1, Ordering::Relaxed).to_string())
    }
}
