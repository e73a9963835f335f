//! Archives with JavaScript bundles: the debug ids that their manifest gives to the source maps.

use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use unslide_archive::ManifestFile;
use unslide_model::DebugId;
use unslide_symbolicate::BundleIdentity;

/// The kind of a source map in a manifest.
const SOURCE_MAP: &str = "source_map";
/// The header of a file with the debug id of its bundle.
const DEBUG_ID_HEADER: &str = "debug-id";

/// The manifest at the end of an archive.
#[derive(Default, Deserialize)]
struct Manifest {
    #[serde(default)]
    files: BTreeMap<String, ListedFile>,
    project: Option<String>,
    release: Option<String>,
    dist: Option<String>,
}

/// A file of the archive, under its path.
#[derive(Deserialize)]
struct ListedFile {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// The version of an app that a manifest names.
struct AppRelease<'m> {
    app: &'m str,
    version: &'m str,
    build: &'m str,
}

/// The debug ids of source maps, by their paths in the upload.
#[derive(Default)]
pub(crate) struct BundleIds(HashMap<String, Vec<DebugId>>);

impl BundleIds {
    /// Reads manifests. One that is no manifest gives no ids.
    pub(crate) fn from_manifests(manifests: &[ManifestFile]) -> BundleIds {
        let mut ids = BundleIds::default();
        for file in manifests {
            let manifest: Manifest = serde_json::from_slice(&file.bytes).unwrap_or_default();
            let name = file.path.rsplit('/').next().unwrap_or_default();
            let folder = file.path.strip_suffix(name).unwrap_or_default();
            let maps = manifest.files.iter().filter(|(_, listed)| listed.kind == SOURCE_MAP);
            ids.0.extend(maps.map(|(path, listed)| (format!("{folder}{path}"), manifest.list_ids(listed))));
        }
        ids
    }

    /// Returns the debug ids of a source map beside its own.
    pub(crate) fn find_ids(&self, path: &str) -> &[DebugId] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }
}

impl Manifest {
    /// Returns the debug id that the build gave to a map's bundle, and the one of the app's version and the bundle.
    fn list_ids(&self, map: &ListedFile) -> Vec<DebugId> {
        let own = map.headers.get(DEBUG_ID_HEADER).and_then(|id| id.parse().ok());
        own.into_iter().chain(self.find_identity(map)).collect()
    }

    fn find_identity(&self, map: &ListedFile) -> Option<DebugId> {
        let AppRelease { app, version, build } = self.read_release()?;
        let name = map.url.rsplit('/').next().unwrap_or_default();
        let bundle = name.strip_suffix(".map").unwrap_or(name);
        let platform = find_platform(bundle)?;
        Some(BundleIdentity { app, platform, version, build, bundle }.debug_id())
    }

    /// Reads a release such as `com.example.shop@1.2+45`. The app may be the project, and the build the distribution.
    fn read_release(&self) -> Option<AppRelease<'_>> {
        let release = self.release.as_deref()?;
        let (app, version) = match release.rsplit_once('@') {
            Some((app, version)) => (app, version),
            None => (self.project.as_deref()?, release),
        };
        let (version, build) =
            version.split_once('+').unwrap_or((version, self.dist.as_deref().unwrap_or_default()));
        Some(AppRelease { app, version, build })
    }
}

/// Returns the platform of a bundle by the name that React Native gives it. Bundles of web pages have none.
fn find_platform(bundle: &str) -> Option<&'static str> {
    match bundle.rsplit_once('.')?.1 {
        "jsbundle" => Some("ios"),
        "bundle" => Some("android"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const OWN: &str = "1b5c7a6e-0000-4000-8000-000000000001";

    fn ids(path: &str, manifest: &Value, map: &str) -> Vec<DebugId> {
        let file = ManifestFile { path: path.to_owned(), bytes: manifest.to_string().into_bytes() };
        BundleIds::from_manifests(&[file]).find_ids(map).to_vec()
    }

    fn manifest(name: &str, headers: &Value) -> Value {
        json!({
            "files": {
                format!("files/_/_/{name}.map"): { "type": "source_map", "url": format!("~/{name}.map"), "headers": headers },
                format!("files/_/_/{name}"): { "type": "minified_source", "url": format!("~/{name}") },
            },
            "org": "acme", "project": "com.example.shop", "release": "1.2", "dist": "7",
        })
    }

    #[test]
    fn a_map_has_the_id_of_its_build_and_that_of_the_app() {
        let identity = "7e86e071-f8d1-5305-a545-46470a6ba4e7".parse::<DebugId>().unwrap();
        let path = "files/_/_/main.jsbundle.map";
        let with_own = manifest("main.jsbundle", &json!({ "debug-id": OWN }));
        assert_eq!(ids("manifest.json", &with_own, path), [OWN.parse().unwrap(), identity]);
        assert_eq!(ids("a.zip/manifest.json", &with_own, &format!("a.zip/{path}")).len(), 2);
        assert_eq!(ids("manifest.json", &with_own, "files/_/_/main.jsbundle"), []);
        let mut of_release = manifest("main.jsbundle", &json!({}));
        assert_eq!(ids("manifest.json", &of_release, path), [identity]);
        of_release["release"] = "com.example.shop@1.2+7".into();
        of_release["project"] = "other".into();
        of_release["dist"] = Value::Null;
        assert_eq!(ids("manifest.json", &of_release, path), [identity]);
        of_release["release"] = Value::Null;
        assert_eq!(ids("manifest.json", &of_release, path), []);
    }

    #[test]
    fn a_bundle_of_a_web_page_has_no_app() {
        let page = manifest("app.min.js", &json!({ "debug-id": "no id" }));
        assert_eq!(ids("manifest.json", &page, "files/_/_/app.min.js.map"), []);
        let android = manifest("index.android.bundle", &json!({}));
        assert_eq!(ids("manifest.json", &android, "files/_/_/index.android.bundle.map").len(), 1);
    }

    #[test]
    fn a_text_that_is_no_manifest_gives_no_ids() {
        for wrong in [json!([]), json!({ "files": [] }), json!({ "files": { "a": 1 } })] {
            assert_eq!(ids("manifest.json", &wrong, "a"), []);
        }
    }
}
