//! The embedded S3 endpoint, over a temporary folder.

use tempfile::TempDir;
use unslide_artifacts::Settings;
use unslide_embedded::S3Endpoint;
use unslide_model::Secret;

/// It ends with the test's runtime.
pub struct S3Server {
    pub settings: Settings,
    _endpoint: S3Endpoint,
    _folder: TempDir,
}

impl S3Server {
    pub fn start() -> S3Server {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = S3Endpoint::start(folder.path(), "unslide").unwrap();
        let settings = Settings {
            endpoint: Some(endpoint.url()),
            bucket: "unslide".into(),
            access_key: Some(endpoint.access_key.clone()),
            secret_key: Secret::new(endpoint.secret_key.clone()),
            path_style: true,
            ..Settings::default()
        };
        S3Server { settings, _endpoint: endpoint, _folder: folder }
    }
}
