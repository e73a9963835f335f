//! What `unslide dev` takes: the time until everything is ready, its memory, and its CPU while nothing is to do.

use std::time::{Duration, Instant};
use unslide_tests::binary::{self, Process};

/// Prints the first and the second start on one data folder.
pub fn print(full: bool) {
    // Before that it still ends what its start began.
    let (settle, watched) = if full { (20, 60) } else { (0, 1) };
    let folder = tempfile::tempdir().expect("a folder");
    println!("\nunslide dev: Kafka, PostgreSQL, S3 and all services");
    for start in ["first start", "started again"] {
        let run = run(folder.path(), Duration::from_secs(settle), Duration::from_secs(watched));
        println!(
            "  {start:<14} ready after {:.1} s; {} MB resident in {} processes, {} MB where shared pages count once",
            run.ready.as_secs_f64(),
            run.resident >> 20,
            run.processes,
            run.proportional >> 20
        );
        println!(
            "  {:<14} idle: {:.2} % of a core with {} threads, Kafka and PostgreSQL not counted",
            "",
            run.idle * 100.0,
            run.threads
        );
    }
}

struct Run {
    ready: Duration,
    processes: usize,
    /// The sum of what is resident, in bytes: a page that processes share counts for each.
    resident: u64,
    /// The same, each shared page counted once, in bytes.
    proportional: u64,
    /// The part of a core that the process itself uses with nothing to do.
    idle: f64,
    threads: usize,
}

fn run(folder: &std::path::Path, settle: Duration, watched: Duration) -> Run {
    let data = folder.join("data").display().to_string();
    let log = folder.join("log");
    let command = binary::build_command(&["dev", "--json", "--data-dir", &data, "--listen", "127.0.0.1:0"]);
    let begin = Instant::now();
    let process = Process::start("unslide dev", command, &log);
    while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("\"api_url\"")) {
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "not ready: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let ready = begin.elapsed();
    let tree = tree(process.id());
    let sum = |field| tree.iter().map(|id| memory(*id, field)).sum();
    let (resident, proportional) = (sum("Rss:"), sum("Pss:"));
    std::thread::sleep(settle);
    let before = process.cpu_time();
    std::thread::sleep(watched);
    let idle = (process.cpu_time() - before).as_secs_f64() / watched.as_secs_f64();
    let threads = process.use_by_thread().values().map(|used| used.count).sum();
    let run = Run { ready, processes: tree.len(), resident, proportional, idle, threads };
    std::fs::remove_file(&log).expect("removed");
    process.terminate();
    run
}

/// A process and all that it started, and those started.
fn tree(id: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let children = threads.flat_map(|thread| {
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect::<Vec<u32>>()
    });
    std::iter::once(id).chain(children.flat_map(tree)).collect()
}

/// A field of a process's memory, in bytes; 0 where the process has ended.
fn memory(id: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}
