//! Keeps the commit of builds that `unslide upload` has sent.

use serde_json::{Value, json};
use unslide_cli::{AddedLine, Client, CoreCommand, SourceCommit, UploadedBuilds};
use unslide_model::{DebugId, shorten_commit};

/// The path of the operation, and the most debug ids that it takes.
const COMMIT_PATH: &str = "/v1/builds/commit";
const DEBUG_IDS_LIMIT: usize = 500;

/// Sends the commit of uploaded builds, and says so.
pub fn add_line<'c>(client: &'c Client, command: CoreCommand<'c>) -> AddedLine<'c> {
    Box::pin(async move {
        let CoreCommand::Upload(UploadedBuilds { debug_ids, commit }) = command else { return Ok(None) };
        for some in debug_ids.chunks(DEBUG_IDS_LIMIT) {
            client.put::<Value>(COMMIT_PATH, &build_body(some, commit)).await?;
        }
        let short = shorten_commit(&commit.commit);
        let builds = if debug_ids.len() == 1 { "1 build" } else { &format!("{} builds", debug_ids.len()) };
        Ok(Some(format!("the commit {short} is kept with {builds}")))
    })
}

fn build_body(debug_ids: &[DebugId], commit: &SourceCommit) -> Value {
    let SourceCommit { commit, repository, pull_request, source_root } = commit;
    json!({
        "debug_ids": debug_ids, "commit": commit, "repository": repository, "pull_request": pull_request,
        "source_root": source_root,
    })
}
