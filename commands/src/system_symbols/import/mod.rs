//! `unslide system-symbols import`: reads names from files, asks which the server lacks, and sends these.
//!
//! A run that was cut off can be repeated: each pack is complete for its images, and the server is asked again which
//! names it lacks.

mod archive;
mod find;
mod measure;
mod outcome;
mod pack;
mod read;
mod send;

pub use measure::{CacheTotals, measure_cache};

use clap::Args;
use find::{SourceFile, UnusableFile, find_sources};
use outcome::{ImportOutcome, SourceOutcome};
use pack::Pack;
use read::{ImageFile, WithoutNames};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;
use std::path::PathBuf;
use tokio::task::block_in_place;
use unslide_cli::{ApiServer, BoxError, Client, CommandError, Console, Outcome, block_on, check_paths};
use unslide_model::{DebugId, Quality};
use unslide_system_symbols_formats::dyld_cache::{CacheHeader, CacheImage, list_images};
use unslide_system_symbols_formats::{Release, is_build};

/// Images that are read before those that fill a pack are sent.
const READ_BATCH: usize = 64;

/// Arguments of `unslide system-symbols import`.
#[derive(Args)]
#[command(after_help = "\
Reads dyld shared caches (all files of one in one folder), DeviceSupport folders, folders of libraries, and zip or tar
archives of these. Only names and where functions begin are sent. The key needs the scope operator, with --tenant-only
the scope symbols:write.

Examples:
  unslide system-symbols import ~/Library/Developer/Xcode/iOS\\ DeviceSupport/
  unslide system-symbols import --build 23B87 ./23B87
  unslide system-symbols import --dry-run DeviceSupport.zip")]
pub struct Arguments {
    #[command(flatten)]
    server: ApiServer,
    /// A dyld shared cache's main file, a folder that is searched to any depth, an archive, or a library
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Version of the operating system, such as 26.2, if no folder's name has it
    #[arg(long, value_name = "VERSION")]
    os: Option<String>,
    /// Build of the operating system, such as 23B87, if no folder's name has it
    #[arg(long, value_name = "BUILD")]
    build: Option<String>,
    /// Only caches of this architecture, such as arm64e
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,
    /// Import for the key's tenant alone, rather than for all tenants
    #[arg(long)]
    tenant_only: bool,
    /// Say what the server lacks, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not wait until the server has built what was sent
    #[arg(long)]
    no_wait: bool,
    /// Print one JSON document at the end, and no progress
    #[arg(long)]
    json: bool,
    /// Print no progress; what failed is still named on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Imports files, and prints the outcome of each source.
pub fn run(arguments: &Arguments) -> Outcome {
    if arguments.quiet || arguments.json {
        Console::get().be_quiet();
    }
    check_paths(arguments.paths.iter().map(PathBuf::as_path))?;
    if let Some(build) = arguments.build.as_ref().filter(|build| !is_build(build)) {
        let text = format!("--build {build}: a build looks like 23B87 (Settings > General > About)");
        return Err(CommandError::usage(text).into());
    }
    let client = Client::new(&arguments.server)?;
    let client = if arguments.tenant_only { client } else { client.for_system_symbols() };
    let mut sources = find_sources(&arguments.paths);
    if sources.is_empty() {
        return Err(CommandError::missing("no dyld shared cache and no Mach-O file was found").into());
    }
    let unusable = std::mem::take(&mut sources.unusable);
    let outcome = ImportOutcome { unusable, ..ImportOutcome::default() };
    let mut import = Import {
        arguments,
        client,
        outcome,
        seen: HashSet::new(),
        uploads: BTreeSet::new(),
        builds: BTreeMap::new(),
    };
    let done = block_on(async { Ok(import.import_all(&sources).await) })?;
    import.outcome.ended = done.err();
    import.outcome.show_result(arguments.json, arguments.dry_run)
}

/// One run of the command.
struct Import<'a> {
    arguments: &'a Arguments,
    client: Client,
    outcome: ImportOutcome,
    /// Images of this run: two builds share most of them.
    seen: HashSet<DebugId>,
    /// Ids of the uploads that are waited for.
    uploads: BTreeSet<String>,
    /// The images of each build and architecture, for a later removal of the build.
    builds: BTreeMap<(String, &'static str), BTreeSet<DebugId>>,
}

/// One source that is being sent.
struct Sending {
    outcome: SourceOutcome,
    pack: Pack,
    packs: usize,
}

impl Import<'_> {
    async fn import_all(&mut self, sources: &find::ImportSources) -> Result<(), BoxError> {
        for cache in &sources.caches {
            self.import_cache(cache).await?;
        }
        for (release, paths) in &sources.libraries {
            let paths: Vec<PathBuf> = paths.iter().cloned().collect();
            self.import_libraries(release, &paths).await?;
        }
        if !self.arguments.no_wait {
            for id in &self.uploads {
                self.outcome.refused.extend(send::wait_for_build(&self.client, id).await?);
            }
        }
        if !self.arguments.dry_run {
            send::record_builds(&self.client, &self.builds).await?;
        }
        Ok(())
    }

    /// Returns the qualities of the names that the server has.
    async fn find_known(&self, ids: &[DebugId]) -> Result<HashMap<DebugId, Quality>, BoxError> {
        self.client.check_qualities(ids).await.map_err(send::explain_refusal)
    }

    fn choose_release(&self, found: &Release) -> Release {
        found.clone().with_options(self.arguments.os.as_ref(), self.arguments.build.as_ref())
    }

    fn add_unusable(&mut self, source: &SourceFile, reason: &dyn Display) {
        let path = source.path.clone();
        self.outcome.unusable.push(UnusableFile { path, reason: reason.to_string() });
    }

    async fn import_cache(&mut self, source: &SourceFile) -> Result<(), BoxError> {
        let name =
            source.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let listed = read::map_bytes(&source.path).map_err(|error| error.to_string()).and_then(|main| {
            let header = CacheHeader::read_main(&main, &name).map_err(|error| error.to_string())?;
            Ok((header, list_images(&main).map_err(|error| error.to_string())?))
        });
        let (header, images) = match listed {
            Ok(listed) => listed,
            Err(reason) => {
                self.add_unusable(source, &reason);
                return Ok(());
            }
        };
        if self.arguments.arch.as_ref().is_some_and(|arch| arch != header.arch) {
            return Ok(());
        }
        let mut release = self.choose_release(&source.release);
        release.version = release.version.or_else(|| header.os_version.clone());
        let outcome = SourceOutcome {
            name: format!("{} {release} {}", header.platform.unwrap_or("system"), header.arch),
            path: Some(source.path.display().to_string()),
            libraries: images.len(),
            ..SourceOutcome::default()
        };
        let ids: Vec<DebugId> = images.iter().map(|image| image.debug_id).collect();
        let known = self.find_known(&ids).await?;
        let symbols = source.path.with_file_name(format!("{}.symbols", header.base_name(&name)));
        let lacks_locals = header.symbols_uuid.filter(|_| !symbols.is_file());
        let best = if lacks_locals.is_some() { Quality::Exports } else { Quality::Symtab };
        let lacking: Vec<&CacheImage> = images
            .iter()
            .filter(|image| known.get(&image.debug_id).is_none_or(|quality| *quality < best))
            .filter(|image| !self.seen.contains(&image.debug_id))
            .collect();
        let mut sending = Sending { outcome, pack: Pack::default(), packs: 0 };
        sending.outcome.known = images.len() - lacking.len();
        sending.outcome.lacks_locals = lacks_locals.map(|uuid| {
            format!("{} (UUID {uuid}) is missing: most functions stay without a name", symbols.display())
        });
        if self.arguments.dry_run {
            sending.outcome.new = lacking.len();
        } else if !lacking.is_empty() {
            let cache = match block_in_place(|| read::open_cache(&source.path)) {
                Ok(cache) => cache,
                Err(error) => {
                    self.add_unusable(source, &error);
                    return Ok(());
                }
            };
            for images in lacking.chunks(READ_BATCH) {
                let read = block_in_place(|| read::read_cache_images(&cache, images));
                self.add_images(&mut sending, read, &known).await?;
            }
        }
        if let Some(build) = release.build {
            self.builds.entry((build, header.arch)).or_default().extend(&ids);
        }
        // Libraries of a folder with their cache have no more names than that.
        self.seen.extend(ids);
        self.finish_source(sending).await
    }

    async fn import_libraries(&mut self, release: &Release, paths: &[PathBuf]) -> Result<(), BoxError> {
        let release = self.choose_release(release);
        let outcome = SourceOutcome { name: format!("system {release}"), ..SourceOutcome::default() };
        let mut sending = Sending { outcome, pack: Pack::default(), packs: 0 };
        for paths in paths.chunks(READ_BATCH) {
            let mut read = block_in_place(|| read::read_libraries(paths));
            read.retain(|image| image.as_ref().map_or(true, |image| !self.seen.contains(&image.debug_id)));
            let ids: Vec<DebugId> = read.iter().flatten().map(|image| image.debug_id).collect();
            sending.outcome.libraries += read.len();
            if let Some(build) = &release.build {
                for image in read.iter().flatten() {
                    self.builds.entry((build.clone(), image.arch)).or_default().insert(image.debug_id);
                }
            }
            if !ids.is_empty() {
                let known = self.find_known(&ids).await?;
                self.add_images(&mut sending, read, &known).await?;
            }
        }
        // Libraries beside their cache, which was read, are no source of their own.
        if sending.outcome.libraries == 0 { Ok(()) } else { self.finish_source(sending).await }
    }

    /// Adds images to the pack, and sends it each time it is full.
    async fn add_images(
        &mut self,
        sending: &mut Sending,
        images: Vec<Result<ImageFile, WithoutNames>>,
        known: &HashMap<DebugId, Quality>,
    ) -> Result<(), BoxError> {
        for image in images {
            let image = match image {
                Ok(image) => image,
                Err(WithoutNames::LeftOut(left_out)) => {
                    sending.outcome.left_out.push(left_out);
                    continue;
                }
                Err(WithoutNames::Nameless { path }) => {
                    sending.outcome.nameless.push(path);
                    continue;
                }
            };
            let is_known = known.get(&image.debug_id).is_some_and(|quality| *quality >= image.quality);
            if !self.seen.insert(image.debug_id) || is_known {
                sending.outcome.known += 1;
                continue;
            }
            sending.outcome.add(&image);
            if self.arguments.dry_run {
                continue;
            }
            if sending.pack.is_full(image.bytes.len()) {
                self.send_pack(sending).await?;
            }
            sending.pack.add(image);
        }
        Ok(())
    }

    async fn send_pack(&mut self, sending: &mut Sending) -> Result<(), BoxError> {
        let pack = std::mem::take(&mut sending.pack);
        sending.packs += 1;
        let name = format!("{} {}.tar", sending.outcome.name, sending.packs);
        let sent = send::send_pack(&self.client, &pack, &name).await?;
        sending.outcome.sent_bytes += sent.bytes;
        self.uploads.insert(sent.upload_id);
        Ok(())
    }

    async fn finish_source(&mut self, mut sending: Sending) -> Result<(), BoxError> {
        if !sending.pack.is_empty() {
            self.send_pack(&mut sending).await?;
        }
        self.outcome.sources.push(sending.outcome);
        Ok(())
    }
}
