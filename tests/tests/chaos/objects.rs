//! The S3 endpoint's process.

use std::path::Path;
use unslide_embedded::S3Endpoint;
use unslide_tests::installation::BUCKET;

/// The argument that makes this program the endpoint.
pub const COMMAND: &str = "serve-objects";

/// Serves the folder until it is killed, and writes into it where.
pub fn serve(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let endpoint = S3Endpoint::start(&folder.join("objects"), BUCKET).expect("an S3 endpoint");
        let keys = &endpoint;
        let facts = format!("{} {} {}", endpoint.url(), keys.access_key, keys.secret_key);
        let part = folder.join("objects-facts.part");
        std::fs::write(&part, facts).expect("written");
        std::fs::rename(&part, folder.join("objects-facts")).expect("renamed");
        std::future::pending::<()>().await;
    });
}
