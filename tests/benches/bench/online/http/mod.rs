//! `POST /v1/symbolicate` from a warm cache: what a request takes of the api's process by how far it goes, and how many
//! are answered with 1, 8 and 32 clients.

mod allocations;
mod load;
pub mod symbolicator;

use crate::input::Input;
use crate::offline::core::core_time;
use crate::online::flow::print_threads;
use allocations::AllocationCounter;
use load::{Load, LoadFigures, Request};
use unslide_tests::installation::{Installation, TENANT};

/// What is measured is the api and not what one tenant may use of it.
const UNLIMITED: (&str, &str) = ("UNSLIDE_TENANTS__SYMBOLICATION_UNITS_PER_SECOND", "1000000");
/// What is asked.
const PATH: &str = "/v1/symbolicate";
/// The clients that ask at a time.
const CLIENTS: [u32; 3] = [1, 8, 32];

/// Prints the parts of a request, and the load with more and more clients.
pub async fn print(input: &Input, full: bool) {
    println!("\nPOST /v1/symbolicate from a warm cache, everything on this machine");
    let mut installation = Installation::prepare().await;
    let counter = AllocationCounter::build(installation.folder());
    let [preload, file] = counter.variables();
    let settings = [UNLIMITED, (preload.0, &preload.1), (file.0, &file.1)];
    let key = start_api(&mut installation, input, &settings).await;
    let address = installation.url.trim_start_matches("http://").to_owned();
    let load = Load { counter: Some(&counter), address, process: installation.find_process("api") };
    tokio::task::block_in_place(|| measure(input, &load, &key, full));
    installation.stop().await;
}

/// Starts an api and a builder, uploads the dSYM, and gives the line of a request's head with the key.
async fn start_api(installation: &mut Installation, input: &Input, settings: &[(&str, &str)]) -> String {
    installation.start_service("builder", "builder", &[]);
    installation.start_service("api", "api", settings);
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    let upload = installation.client().upload_symbols(input.dsym.clone()).await;
    assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
    format!("authorization: Bearer {}\r\n", installation.key)
}

fn measure(input: &Input, load: &Load<'_>, key: &str, full: bool) {
    let rounds = if full { 1_000 } else { 2 };
    let report = input.report(0);
    let answered = Request::post(PATH, key, &report, 200);
    // The first requests fill the caches.
    load.run(&answered, 2, rounds / 5 + 2);
    parts(load, key, &report, rounds);
    let core = core_time(input);
    println!("  {:<46} {core:>6.3} ms", "the core itself, in this process");
    for clients in CLIENTS {
        let figures = load.run(&answered, clients, rounds * 2);
        println!(
            "  {clients} client(s): {:.0} requests/s, p50 {:.1?}, p99 {:.1?}; {:.3} ms of CPU, {:.1}x the core; \
             {:.0} % of the machine's cores ran",
            figures.per_second,
            figures.p50,
            figures.p99,
            figures.cpu_millis(),
            figures.cpu_millis() / core,
            100.0 * figures.busy
        );
        print_threads(&figures.threads, figures.requests);
    }
}

/// What a request takes that is refused ever later, with one client: a part is what one line has more than the line above.
fn parts(load: &Load<'_>, key: &str, report: &[u8], rounds: u32) {
    let nothing_else = format!("{key}accept: image/png\r\n");
    // Its last byte closes the report.
    let cut = &report[..report.len() - 1];
    let parts = [
        ("refused without a key", Request::post(PATH, "", &[], 401)),
        ("refused after its key", Request::post(PATH, &nothing_else, &[], 406)),
        ("refused after its body was received and read", Request::post(PATH, key, cut, 400)),
        ("answered: symbols fetched, enriched, written", Request::post(PATH, key, report, 200)),
    ];
    println!(
        "  {:<46} CPU, of it kernel; wake-ups; allocations, their KiB, in large pieces",
        "one request, one client:"
    );
    for (name, request) in parts {
        let figures: LoadFigures = load.run(&request, 1, rounds);
        let [count, bytes, large] = figures.allocated();
        println!(
            "  {name:<46} {:>6.3} ms, {:.0} %; {:.1}; {count:.0}, {bytes:.0}, {large:.0}",
            figures.cpu_millis(),
            100.0 * figures.kernel_share,
            figures.wakes()
        );
    }
}
