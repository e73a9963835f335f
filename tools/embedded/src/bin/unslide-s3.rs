//! `unslide-s3`: the embedded S3 endpoint alone, for tests that stop and start the servers one by one.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks on its output")]

use std::path::PathBuf;
use std::process::ExitCode;
use unslide_embedded::S3Endpoint;

const USAGE: &str = "\
usage: unslide-s3 DIR BUCKET

Serves the folder DIR/s3 with one bucket until it is killed. Prints the URL and both keys as lines for a shell. The port and
the keys are those of the run before.";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(folder), Some(bucket), None) = (words.next(), words.next(), words.next()) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    match S3Endpoint::start(&PathBuf::from(folder), &bucket) {
        Ok(endpoint) => {
            println!("UNSLIDE_OBJECTS__ENDPOINT={}", endpoint.url());
            println!("UNSLIDE_OBJECTS__ACCESS_KEY={}", endpoint.access_key);
            println!("UNSLIDE_OBJECTS__SECRET_KEY={}", endpoint.secret_key);
            std::future::pending().await
        }
        Err(error) => {
            eprintln!("unslide-s3: {error}");
            ExitCode::FAILURE
        }
    }
}
