//! Real Mach-O files and dSYMs for tests: made by compilers from the sources in `tests/fixtures`, or
//! fetched from a package registry. Each is made once and kept in the build folder, never committed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The package with the published dSYM (Apache-2.0): Swift, C++, Rust and Objective-C in one image.
const CANVAS: &str = "@nativescript/canvas@2.1.18";
/// SHA-512 of the package's file, as the registry states it.
const CANVAS_SHA512: &str = "c23e206c6f985ba1974c0739cca5ba0fb0818c8cb02ca06bc9621b844463488efef6b785767c968eda1fe01a7b275ba27909fee9eec895074952e3b4649b748c";

/// The folder `tests/fixtures` of the repository, with the recipe and its sources.
#[must_use]
pub fn recipe() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// The folder with the output of `tests/fixtures/build`, made when its sources or the compilers change.
///
/// # Panics
/// If a compiler is missing or fails, with what it printed.
#[must_use]
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let recipe = recipe();
        let tools = ["clang-19", "ld64.lld-19", "rustc"].map(find_tool);
        let toolchain = recipe.join("../../rust-toolchain.toml");
        let depends_on = [&recipe, &toolchain].into_iter().chain(&tools).map(PathBuf::as_path);
        make_once("fixtures", depends_on, |target| {
            run(Command::new(recipe.join("build")).arg(target));
        })
    })
}

/// The folder with four small dyld shared caches of made-up libraries, one folder each, and the names that must be
/// found in them (`expected.json`). `tests/fixtures/dyld-cache/generate` makes them when it changes.
///
/// # Panics
/// If Python is missing or fails, with what it printed.
#[must_use]
pub fn dyld_caches() -> &'static Path {
    static CACHES: OnceLock<PathBuf> = OnceLock::new();
    CACHES.get_or_init(|| {
        let recipe = recipe().join("dyld-cache");
        make_once("dyld-caches", [recipe.as_path()], |target| {
            let mut python = Command::new("python3");
            run(python.arg("-B").arg(recipe.join("generate")).arg(target));
        })
    })
}

/// The DWARF file in the dSYM of a fixture, such as `app`.
#[must_use]
pub fn dsym(name: &str) -> PathBuf {
    folder().join(format!("{name}.dSYM/Contents/Resources/DWARF/{name}"))
}

/// A fixture that is not a dSYM, such as `app-symtab`.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    folder().join(name)
}

/// Returns a fixture that is a program for devices as the App Store delivers it: marked as encrypted.
///
/// # Panics
/// If it has no load command for that.
#[must_use]
pub fn encrypted_binary(name: &str) -> Vec<u8> {
    const ENCRYPTION_INFO_64: u32 = 0x2C;
    let mut bytes = std::fs::read(binary(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let word =
        |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    // The header has 32 bytes. Each command begins with its kind and its size; `cryptid` is its fifth word.
    let mut at = 32;
    while word(at) != Some(ENCRYPTION_INFO_64) {
        at += word(at + 4).filter(|size| *size > 0).map_or(bytes.len(), |size| size as usize);
        assert!(at < bytes.len(), "{name} cannot be encrypted");
    }
    bytes[at + 16] = 1;
    bytes
}

/// The DWARF files of a published dSYM with Swift, fetched with `npm pack`: for devices (arm64), and for
/// simulators (arm64 and x86_64). `Err` says why there is none, where the registry cannot be reached;
/// the test that wanted it then says so and ends.
///
/// # Errors
/// The registry's or npm's own words.
///
/// # Panics
/// If the package is not the one that was pinned.
pub fn canvas_dsyms() -> Result<[PathBuf; 2], String> {
    static CANVAS_FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = CANVAS_FOLDER.get_or_init(|| {
        let name = format!("canvas-{}", CANVAS_SHA512.get(..16).unwrap_or(CANVAS_SHA512));
        let _lock = lock(&name);
        if let Some(folder) = made(&name) {
            return Ok(folder);
        }
        let target = cache().join(format!("{name}.{}", std::process::id()));
        std::fs::create_dir_all(&target).map_err(|e| e.to_string())?;
        let packed = Command::new("npm")
            .args(["pack", "--silent", CANVAS, "--pack-destination"])
            .arg(&target)
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("npm: {e}"))?;
        if !packed.status.success() {
            return Err(format!("npm pack {CANVAS}: {}", String::from_utf8_lossy(&packed.stderr)));
        }
        let file = String::from_utf8_lossy(&packed.stdout).trim().to_owned();
        let sum = run(Command::new("sha512sum").arg(&file).current_dir(&target));
        assert!(sum.starts_with(CANVAS_SHA512), "{CANVAS} is not the pinned file: {sum}");
        run(Command::new("tar")
            .args(["xzf", &file, "--wildcards", "*/dSYMs/*/DWARF/*"])
            .current_dir(&target));
        std::fs::remove_file(target.join(&file)).map_err(|e| e.to_string())?;
        Ok(settle(&target, &name))
    });
    let dsym = |folder: &Path, platform: &str| {
        let framework = folder.join("package/platforms/ios/CanvasNative.xcframework").join(platform);
        framework.join("dSYMs/CanvasNative.framework.dSYM/Contents/Resources/DWARF/CanvasNative")
    };
    folder.clone().map(|folder| ["ios-arm64", "ios-arm64_x86_64-simulator"].map(|one| dsym(&folder, one)))
}

/// The one of [`canvas_dsyms`] for devices.
///
/// # Errors
/// As [`canvas_dsyms`].
pub fn canvas_dsym() -> Result<PathBuf, String> {
    canvas_dsyms().map(|[device, _]| device)
}

/// The files in a folder of published samples and in those below it with names of this ending, in order. The
/// samples lie beside the repository and are not part of it: without them `None`, and the terminal says that the test
/// did not run.
///
/// # Panics
/// If there are samples, and the folder has fewer than `least` of them.
#[must_use]
pub fn published(test: &str, folder: &str, ending: &str, least: usize) -> Option<Vec<PathBuf>> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples");
    if !samples.is_dir() {
        tell_skipped(test, "there are no published samples beside the repository");
        return None;
    }
    let (mut left, mut files) = (vec![samples.join(folder)], Vec::new());
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() >= least, "{folder} has {} published samples {ending}", files.len());
    Some(files)
}

/// Says on the terminal that a test did not run.
///
/// # Panics
/// Where `CI` is `true`: there nothing is left out.
pub fn skipped(test: &str, reason: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{test} could not run: {reason}");
    tell_skipped(test, reason);
}

/// Past the test runner, which hides what passing tests print.
fn tell_skipped(test: &str, reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}

/// Runs a command that must succeed, and returns what it printed.
///
/// # Panics
/// If it is missing or fails, with what it printed on standard error.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    assert!(
        output.status.success(),
        "{} failed: {}",
        command.get_program().display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the path of a program.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn find_tool(tool: &str) -> PathBuf {
    let needed = "tests need clang-19, lld-19 and llvm-19 (Debian packages of these names), python3 and rustc \
                  with `rustup target add aarch64-apple-ios`";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{tool} is not found; {needed}"))
}

/// The build folder of the running test: `target/debug/deps/test` lies three levels below it.
fn cache() -> PathBuf {
    let executable = std::env::current_exe().unwrap_or_default();
    executable.ancestors().nth(3).map_or_else(std::env::temp_dir, Path::to_owned).join("test-fixtures")
}

fn made(name: &str) -> Option<PathBuf> {
    Some(cache().join(name)).filter(|folder| folder.is_dir())
}

/// Makes a folder in the build folder, once for each state of the folders, files and programs that it depends on. Each
/// test may be a process of its own: one of them makes it, and the others wait.
///
/// # Panics
/// If it cannot be written.
pub fn make_once<'p>(
    name: &str,
    depends_on: impl IntoIterator<Item = &'p Path>,
    make: impl FnOnce(&Path),
) -> PathBuf {
    let mut key = Fnv::new();
    for path in depends_on {
        key.path(path);
    }
    let name = format!("{name}-{:016x}", key.0);
    made(&name).unwrap_or_else(|| {
        let _lock = lock(&name);
        made(&name).unwrap_or_else(|| {
            let target = cache().join(format!("{name}.{}", std::process::id()));
            std::fs::create_dir_all(&target).unwrap_or_else(|error| panic!("{}: {error}", target.display()));
            make(&target);
            settle(&target, &name)
        })
    })
}

/// Waits until no other process makes the folder of this name. The lock ends with the returned file.
fn lock(name: &str) -> File {
    let path = cache().join(format!("{name}.lock"));
    let locked = std::fs::create_dir_all(cache()).and_then(|()| {
        let file = File::create(&path)?;
        file.lock()?;
        Ok(file)
    });
    locked.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn settle(target: &Path, name: &str) -> PathBuf {
    let folder = cache().join(name);
    if std::fs::rename(target, &folder).is_err() {
        // Another process was first; a leftover is only a waste of space.
        let _ = std::fs::remove_dir_all(target);
    }
    assert!(folder.is_dir(), "{} cannot be made", folder.display());
    folder
}

/// FNV-1a: a key for a folder, no protection against anyone.
pub(crate) struct Fnv(pub(crate) u64);

impl Fnv {
    pub(crate) fn new() -> Fnv {
        Fnv(0xCBF2_9CE4_8422_2325)
    }

    /// Adds the contents of a folder or a text. Of a program, add its size and its time: it is large.
    fn path(&mut self, path: &Path) {
        const LARGEST_TEXT: u64 = 1 << 16;
        let about = std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if about.is_dir() {
            self.folder(path);
        } else if about.len() <= LARGEST_TEXT {
            self.bytes(&std::fs::read(path).unwrap_or_default());
        } else {
            let changed = about.modified();
            self.bytes(format!("{} {} {changed:?}", path.display(), about.len()).as_bytes());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    pub(crate) fn folder(&mut self, folder: &Path) {
        let read = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            self.bytes(path.file_name().unwrap_or_default().as_encoded_bytes());
            if path.is_dir() {
                self.folder(&path);
            } else {
                self.bytes(&std::fs::read(&path).unwrap_or_default());
            }
        }
    }
}
