//! `unslide system-symbols remove`: removes the names that only one build has.

use clap::Args;
use unslide_cli::listing::{filter_given, with_query};
use unslide_cli::{
    ApiServer, BoxError, Client, CommandError, Console, Exit, Outcome, block_on, confirm_action, say,
};
use unslide_system_symbols_formats::{RemovedBuild, is_build};

/// Arguments of `unslide system-symbols remove`.
#[derive(Args)]
#[command(after_help = "\
Names that another build has too stay, and so do dSYMs. Reports keep their present names. The key needs the scope operator,
with --tenant-only the scope symbols:write.

Examples:
  unslide system-symbols remove --build 23B87 --dry-run
  unslide system-symbols remove --build 23B87 --arch arm64e --yes")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// Build of the operating system, such as 23B87
    #[arg(long, value_name = "BUILD")]
    build: String,
    /// Only this architecture, such as arm64e
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
    /// Remove what was imported for the key's tenant alone
    #[arg(long)]
    tenant_only: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print one JSON document at the end
    #[arg(long)]
    json: bool,
}

/// Removes the names of a build, page by page, and prints what was removed.
pub fn run(arguments: &Arguments) -> Outcome {
    let build = &arguments.build;
    if !is_build(build) {
        let text = format!("--build {build}: a build looks like 23B87 (Settings > General > About)");
        return Err(CommandError::usage(text).into());
    }
    if !arguments.dry_run {
        let question = format!("This removes the names of {build} that no other build has.");
        confirm_action(&question, arguments.yes)?;
    }
    let client = Client::new(&arguments.server)?;
    let client = if arguments.tenant_only { client } else { client.for_system_symbols() };
    let query = filter_given([
        ("arch", arguments.arch.clone()),
        ("dry_run", arguments.dry_run.then(|| "true".to_owned())),
    ]);
    let path = with_query(&format!("{}/builds/{build}", client.symbols_path()), &query)?;
    let removed = block_on(remove_all(&client, &path))?;
    if arguments.json {
        Console::get().print_json(&serde_json::to_value(&removed)?)?;
    } else {
        say!("{}", describe_removed(build, &removed, arguments.dry_run));
    }
    Ok(Exit::Ready)
}

/// Sends the request until no image is left.
async fn remove_all(client: &Client, path: &str) -> Result<RemovedBuild, BoxError> {
    let mut all = RemovedBuild::default();
    loop {
        let page: RemovedBuild = client.delete_and_read(path).await?;
        all.removed += page.removed;
        all.kept += page.kept;
        if page.remaining == 0 {
            return Ok(all);
        }
    }
}

fn describe_removed(build: &str, removed: &RemovedBuild, is_dry_run: bool) -> String {
    let done = if is_dry_run { "would be removed" } else { "were removed" };
    format!(
        "{build}: names of {} images {done}, {} images keep what they have (another build lists them, or they have other \
         symbols or none)",
        removed.removed, removed.kept
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_was_removed_and_what_stays() {
        let removed = RemovedBuild { removed: 2_871, kept: 541, remaining: 0 };
        let line = describe_removed("23B87", &removed, false);
        assert!(line.starts_with("23B87: names of 2871 images were removed, 541 images keep"), "{line}");
        assert!(describe_removed("23B87", &removed, true).contains("would be removed"));
    }
}
