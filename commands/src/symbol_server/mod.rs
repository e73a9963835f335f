//! `unslide dsym-for-uuid`: the script that lldb, `crashlog` and other tools of a Mac ask for dSYMs.

mod cache;
mod plist;

use cache::{CachedDsym, DsymCache};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use plist::PlistEntry;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use unslide_cli::{
    ApiServer, BoxError, Client, ClientError, ClientFeature, ClientKeyKind, Console, Exit, FeatureCommand,
    Outcome, block_on, map_path, quantity,
};
use unslide_model::DebugId;
use unslide_symbolicate::object::list_objects;

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand {
        follows: "symbols",
        command: DsymForUuid::command,
        run,
        key_kind: Some(ClientKeyKind { name: "names", path: "/v1/names-keys", is_public: false }),
    }],
    ..ClientFeature::new("symbol-server")
};

/// The most images of one call.
const MAX_IMAGES: usize = 1_000;

/// Print the paths of the dSYMs of UUIDs, as lldb's script contract wants it, and download those that are missing
#[derive(Parser)]
#[command(
    name = "dsym-for-uuid",
    mut_arg("retry_for", |retry_for| retry_for.default_value("5s")),
    after_help = "\
The key needs the scope symbols:download. The answer is a property list on standard output. A UUID without a dSYM has the
reason in DBGError, and the exit code is 0. Flags that lldb adds, such as --copyExecutable, are ignored.

Examples:
  unslide dsym-for-uuid 4C4C442C-5555-3144-A13C-CB08E4DDCB6B
  defaults write com.apple.DebugSymbols DBGShellCommands -string /usr/local/bin/unslide-dsym-for-uuid"
)]
struct DsymForUuid {
    #[command(flatten)]
    server: ApiServer,
    /// The folder that keeps downloaded dSYMs [default: ~/Library/Caches/unslide/dsyms on a Mac, else ~/.cache/unslide/dsyms]
    #[arg(long, value_name = "FOLDER", env = "UNSLIDE_DSYM_CACHE")]
    cache: Option<PathBuf>,
    /// The most bytes that the folder keeps; the dSYMs that were used least recently go first
    #[arg(long, value_name = "SIZE", default_value = "20GiB", value_parser = quantity::bytes)]
    cache_size: u64,
    /// UUIDs of images, or paths of programs, after all options
    #[arg(value_name = "UUID", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    images: Vec<OsString>,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = DsymForUuid::from_arg_matches(matches)?;
    let folder = arguments.cache.clone().or_else(cache::default_folder);
    let folder = folder.ok_or("there is no folder for dSYMs: set HOME, or give one with --cache")?;
    let cache = DsymCache::open(&folder, arguments.cache_size)?;
    let mut entries = Vec::new();
    for image in arguments.images.iter().take(MAX_IMAGES) {
        // Flags of lldb say how to search, and there is one way here.
        if !image.to_string_lossy().starts_with('-') {
            entries.extend(answer_image(&cache, &arguments.server, image));
        }
    }
    Console::get().write_bytes(plist::write_plist(&entries).as_bytes());
    Ok(Exit::Ready)
}

/// Answers a UUID, or each architecture of a program.
fn answer_image(cache: &DsymCache, server: &ApiServer, image: &OsString) -> Vec<PlistEntry> {
    let text = image.to_string_lossy();
    match read_ids(&text) {
        Ok(ids) => ids.into_iter().map(|id| answer_id(cache, server, id)).collect(),
        Err(error) => vec![PlistEntry::failed(text.into_owned(), &error.to_string())],
    }
}

/// Reads the UUID that an argument is, or the UUIDs of the program that it names.
fn read_ids(image: &str) -> Result<Vec<DebugId>, BoxError> {
    if let Ok(id) = image.parse() {
        return Ok(vec![id]);
    }
    let bytes =
        map_path(Path::new(image)).map_err(|error| format!("neither a UUID nor a program: {error}"))?;
    let objects = list_objects(&bytes)?.into_iter();
    let ids: Vec<DebugId> = objects.filter_map(|object| object.object.ok()?.debug_id).collect();
    if ids.is_empty() { Err("the program has no UUID".into()) } else { Ok(ids) }
}

fn answer_id(cache: &DsymCache, server: &ApiServer, id: DebugId) -> PlistEntry {
    let uuid = id.to_string().to_uppercase();
    match find_dsym(cache, server, id) {
        Ok(dsym) => PlistEntry::found(uuid, &dsym),
        Err(error) => PlistEntry::failed(uuid, &explain_failure(error.as_ref())),
    }
}

/// Returns the dSYM of the cache, or downloads it.
fn find_dsym(cache: &DsymCache, server: &ApiServer, id: DebugId) -> Result<CachedDsym, BoxError> {
    if let Some(dsym) = cache.find_dsym(id) {
        return Ok(dsym);
    }
    let client = Client::new(server)?;
    let mut download = cache.begin_download()?;
    let path = format!("/v1/symbols/{id}/file?kind=dsym");
    let limit = cache.size_limit();
    let name = block_on(async { Ok(client.download_file(&path, download.as_file_mut(), limit).await?) })?;
    cache.keep_download(download, id, name.as_deref())
}

fn explain_failure(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref() {
        Some(ClientError::Refused { status: 404, .. }) => "Unslide has no dSYM with this UUID".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_testkit::fixtures;

    #[test]
    fn an_argument_is_a_uuid_or_a_program() {
        let id: DebugId = "4c4c442c55553144a13ccb08e4ddcb6b".parse().unwrap();
        assert_eq!(read_ids("4C4C442C-5555-3144-A13C-CB08E4DDCB6B").unwrap(), [id]);
        assert_eq!(read_ids(fixtures::binary("kit").to_str().unwrap()).unwrap().len(), 2);
        let error = read_ids("no/such/program").unwrap_err().to_string();
        assert!(error.starts_with("neither a UUID nor a program"), "{error}");
    }

    #[test]
    fn flags_of_lldb_are_no_options() {
        let line =
            ["dsym-for-uuid", "--cache-size", "1GiB", "--ignoreNegativeCache", "--copyExecutable", "4C4C"];
        let parsed = DsymForUuid::try_parse_from(line).unwrap();
        assert_eq!((parsed.images.len(), parsed.cache_size), (3, 1 << 30));
    }
}
