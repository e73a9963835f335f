//! Source maps: named by the app and the build that their bundle is of.

use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use unslide_cli::symbols::Found;
use unslide_cli::{
    BoxError, CommandError, describe_file, is_archive, starts_as_mach_o, starts_as_source_map,
};
use unslide_model::DebugId;
use unslide_report::platform_name;
use unslide_symbolicate::object::list_objects;
use unslide_symbolicate::{BundleIdentity, with_debug_id};

/// Which source maps, and of what.
#[derive(Args)]
pub struct SourceMapArguments {
    /// The source map of a bundle of JavaScript. It is sent under its own debug id, and also under the app's if
    /// that is given; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub(super) source_map: Vec<PathBuf>,
    /// The app of the source maps: its bundle identifier
    #[arg(long, requires_all = ["source_map", "platform", "app_version"])]
    app: Option<String>,
    /// The platform of the bundles, such as ios or android
    #[arg(long, requires = "app")]
    platform: Option<String>,
    /// The version of the app (CFBundleShortVersionString)
    #[arg(long, value_name = "VERSION", requires = "app")]
    app_version: Option<String>,
    /// The build of the app (CFBundleVersion)
    #[arg(long, default_value = "", hide_default_value = true)]
    build: String,
    /// The file name of the bundle on the device; without it that of the source map without .map
    #[arg(long, value_name = "NAME", requires = "app")]
    bundle: Option<String>,
}

impl SourceMapArguments {
    /// Adds the source maps to the files to send: the file itself if it has a debug id, and a copy in
    /// `folder` with that of the app.
    pub fn add_source_maps(
        &self,
        folder: &Path,
        found: &mut Vec<Found>,
        failed: &mut Vec<(PathBuf, String)>,
    ) -> Result<(), BoxError> {
        if self.bundle.is_some() && self.source_map.len() > 1 {
            return Err(CommandError::usage("--bundle is for one source map").into());
        }
        for (number, path) in self.source_map.iter().enumerate() {
            let copies = folder.join(number.to_string());
            if let Err(reason) = self.add_map(path, &copies, found) {
                failed.push((path.clone(), reason.to_string()));
            }
        }
        Ok(())
    }

    fn add_map(&self, path: &Path, copies: &Path, found: &mut Vec<Found>) -> Result<(), BoxError> {
        if !starts_as_source_map(path)? {
            let is_other = starts_as_mach_o(path)? || is_archive(path)?;
            let other = "it is no source map: give it without --source-map";
            return Err(if is_other { other.into() } else { describe_file(path)?.into() });
        }
        let bytes = fs::read(path)?;
        let facts = list_objects(&bytes)?.into_iter().next().ok_or("it is no source map")?.object?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_app = self.debug_id(name.strip_suffix(".map").unwrap_or(&name));
        if facts.debug_id.is_none() && of_app.is_none() {
            return Err("it has no debug id: give --app, --platform and --app-version".into());
        }
        let shown = path.to_path_buf();
        if facts.debug_id.is_some() {
            found.push(Found {
                path: shown.clone(),
                shown: shown.clone(),
                name: name.clone(),
                size: bytes.len() as u64,
            });
        }
        if let Some(id) = of_app.filter(|id| Some(*id) != facts.debug_id) {
            let copy = with_debug_id(&bytes, id).ok_or("it is no source map")?;
            fs::create_dir_all(copies)?;
            let path = copies.join(&name);
            fs::write(&path, &copy)?;
            found.push(Found { path, shown, name, size: copy.len() as u64 });
        }
        Ok(())
    }

    /// Returns the debug id of a bundle of the app.
    fn debug_id(&self, bundle: &str) -> Option<DebugId> {
        let identity = BundleIdentity {
            app: self.app.as_deref()?,
            platform: &platform_name(self.platform.as_deref()?),
            version: self.app_version.as_deref()?,
            build: &self.build,
            bundle: self.bundle.as_deref().unwrap_or(bundle),
        };
        Some(identity.debug_id())
    }
}
