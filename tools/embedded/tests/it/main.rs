//! The embedded servers, for real: they resume, and they end with their owner.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[cfg(feature = "s3")]
mod s3;

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use unslide_embedded::Servers;

fn servers(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unslide-servers")).args(arguments).output().unwrap()
}

/// Starts the servers; their addresses.
fn up(data: &Path) -> Vec<String> {
    let output =
        servers(&["up", data.to_str().unwrap(), "--fast", "--owner", &std::process::id().to_string()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let exports = String::from_utf8(output.stdout).unwrap();
    exports.lines().map(|line| line.split_once('=').unwrap().1.to_owned()).collect()
}

/// Processes that work in the folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let inside = |entry: std::fs::DirEntry| {
        let cwd = std::fs::read_link(entry.path().join("cwd")).ok()?;
        cwd.starts_with(folder).then(|| entry.file_name().to_string_lossy().into_owned())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(inside).collect()
}

#[test]
fn they_resume_on_their_folder_and_end_with_the_one_who_started_them() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().canonicalize().unwrap();
    let first = up(&data);
    let cluster = std::fs::read_to_string(data.join("kafka/logs/meta.properties")).unwrap();
    assert_eq!(up(&data), first, "running ones are found");

    // As when the machine's out-of-memory killer strikes.
    let owner = std::fs::read_to_string(data.join("servers.pid")).unwrap();
    assert!(Command::new("kill").args(["-9", owner.trim()]).status().unwrap().success());
    for _ in 0..3_000 {
        if processes_in(&data).is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(processes_in(&data).is_empty(), "no process outlives its owner");

    assert_eq!(up(&data), first, "addresses and password stay");
    let again = std::fs::read_to_string(data.join("kafka/logs/meta.properties")).unwrap();
    assert_eq!(again, cluster, "it is the same cluster");
    TcpStream::connect(&first[0]).unwrap();

    let output = servers(&["down", data.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(processes_in(&data).is_empty());
    Servers::delete(&data).unwrap();
}
