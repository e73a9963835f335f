//! Fetching the servers with Maven, once.

use crate::cache::cache_folder;
use crate::error::{AtPath, Error, tail};
use crate::locale::LOCALE;
use crate::place::{open_folders, public_folder};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The programs to fetch, with their versions: the only place that pins them.
const POM: &str = include_str!("../pom.xml");

/// Reports progress: one short line for people a call.
pub type Progress<'a> = dyn Fn(&str) + Sync + 'a;

/// Fetched servers, complete and ready to run.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// The folder of Kafka's jars.
    pub kafka: PathBuf,
    /// The folder of PostgreSQL's `bin`, `lib` and `share`.
    pub postgres: PathBuf,
}

/// Returns the servers from the cache, and fetches them first if they are not there. Two processes that ask
/// at the same time fetch once. An interrupted fetch is never taken for a whole one.
///
/// # Errors
/// Returns an error if Maven or `tar` is missing or fails, or if the cache cannot be written.
pub fn fetch(progress: &Progress<'_>) -> Result<Distribution, Error> {
    let platform = platform()?;
    let cache = cache_folder();
    let whole = cache.join(format!("servers-{:016x}", fingerprint(&[POM, platform])));
    let distribution = Distribution { kafka: whole.join("kafka"), postgres: whole.join("postgres") };
    if whole.is_dir() {
        return Ok(distribution);
    }
    public_folder(&cache)?;
    let lock_path = cache.join("servers.lock");
    let lock = File::create(&lock_path).at("create", &lock_path)?;
    if lock.try_lock().is_err() {
        progress("another process is fetching the servers: waiting for it");
        lock.lock().at("lock", &lock_path)?;
    }
    if whole.is_dir() {
        return Ok(distribution);
    }
    let part = cache.join("servers.part");
    if part.exists() {
        fs::remove_dir_all(&part).at("remove", &part)?;
    }
    public_folder(&part)?;
    let (kafka, postgres) = (version("kafka"), version("postgres"));
    progress(&format!(
        "fetching Apache Kafka {kafka} and PostgreSQL {postgres} with Maven (about 70 MB, once)"
    ));
    maven(&part, platform, progress)?;
    progress("unpacking PostgreSQL");
    unpack(&part)?;
    fs::rename(&part, &whole).at("rename", &part)?;
    Ok(distribution)
}

fn maven(part: &Path, platform: &str, progress: &Progress<'_>) -> Result<(), Error> {
    let pom = part.join("pom.xml");
    fs::write(&pom, POM).at("write", &pom)?;
    let log = part.join("maven.log");
    let out = File::create(&log).at("create", &log)?;
    let err = out.try_clone().at("write", &log)?;
    if !on_path("mvn") {
        return Err(Error::Missing { tool: "mvn", package: "maven default-jre-headless" });
    }
    // Ends with us: this thread waits for it.
    let mut child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "mvn"])
        .args(["--batch-mode", "--quiet", "-Dstyle.color=never"])
        .arg(format!("-Dpostgres.platform={platform}"))
        .arg("--file")
        .arg(&pom)
        .arg("generate-resources")
        .env(LOCALE.0, LOCALE.1)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| missing(&error, "setpriv", "util-linux", "fetching with Maven"))?;
    let mut ticks: u64 = 0;
    let status = loop {
        match child.try_wait().at("wait for", Path::new("mvn"))? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(100)),
        }
        ticks += 1;
        if ticks.is_multiple_of(50) {
            progress(&format!("still fetching ({} MB in place)", size(part) / 1_000_000));
        }
    };
    if !status.success() {
        return Err(Error::Failed {
            what: "fetching with Maven",
            outcome: status.to_string(),
            tail: tail(&log),
        });
    }
    Ok(())
}

fn on_path(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}

/// Unpacks the archive that came inside PostgreSQL's jar.
fn unpack(part: &Path) -> Result<(), Error> {
    let folder = part.join("postgres-archive");
    let archive = fs::read_dir(&folder)
        .at("read", &folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "txz"))
        .ok_or_else(|| Error::Failed {
            what: "unpacking PostgreSQL",
            outcome: "no archive in its package".to_owned(),
            tail: String::new(),
        })?;
    let target = part.join("postgres");
    public_folder(&target)?;
    let output = Command::new("tar")
        .args(["--extract", "--xz", "--no-same-owner", "--preserve-permissions", "--file"])
        .arg(&archive)
        .arg("--directory")
        .arg(&target)
        .output()
        .map_err(|error| missing(&error, "tar", "tar xz-utils", "unpacking PostgreSQL"))?;
    if !output.status.success() {
        let tail = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Error::Failed {
            what: "unpacking PostgreSQL (needs xz-utils)",
            outcome: output.status.to_string(),
            tail,
        });
    }
    open_folders(&target)?;
    fs::remove_dir_all(&folder).at("remove", &folder)
}

/// Returns the error for a program that could not be started.
pub(crate) fn missing(
    error: &std::io::Error,
    tool: &'static str,
    package: &'static str,
    what: &'static str,
) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        Error::Missing { tool, package }
    } else {
        Error::Failed { what, outcome: error.to_string(), tail: String::new() }
    }
}

/// Returns the name of this machine's kind in the PostgreSQL packages.
fn platform() -> Result<&'static str, Error> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok("linux-amd64"),
        ("linux", "aarch64") => Ok("linux-arm64v8"),
        (os, arch) => Err(Error::Platform(format!("{os} {arch}"))),
    }
}

/// Returns the pinned version of a server, from the pom's properties.
fn version(name: &str) -> &'static str {
    let (open, close) = (format!("<{name}.version>"), format!("</{name}.version>"));
    POM.split_once(&open).and_then(|(_, rest)| rest.split_once(&close)).map_or("", |(version, _)| version)
}

/// Returns the FNV-1a hash of 64 bits. It names the pinned set, so that another pin gets another folder.
fn fingerprint(parts: &[&str]) -> u64 {
    parts.iter().flat_map(|part| part.bytes().chain([0])).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(data) if data.is_dir() => size(&entry.path()),
            Ok(data) => data.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_pom() {
        assert!(version("kafka").starts_with(|c: char| c.is_ascii_digit()));
        assert!(version("postgres").starts_with(|c: char| c.is_ascii_digit()));
        assert_ne!(fingerprint(&[POM, "a"]), fingerprint(&[POM, "b"]));
    }
}
