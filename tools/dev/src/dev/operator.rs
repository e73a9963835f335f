//! The configuration that `unslide dev` leaves for the commands of operators.

use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use unslide_cli::BoxError;
use unslide_embedded::private_file;
use unslide_store::cells::CellSettings;

/// Its name in the data folder.
const FILE: &str = "unslide.toml";

/// Returns true if a configuration file is the one of this data folder.
pub fn is_of(config: Option<&Path>, data: &Path) -> bool {
    let Some(config) = config else { return false };
    let own = data.join(FILE);
    match (config.canonicalize(), own.canonicalize()) {
        (Ok(config), Ok(own)) => config == own,
        // The folder was deleted.
        _ => std::path::absolute(config).ok() == std::path::absolute(own).ok(),
    }
}

/// Returns the absolute path of the file of a data folder.
///
/// # Errors
/// Returns an error if the current folder is gone.
pub fn path_in(data: &Path) -> Result<PathBuf, BoxError> {
    Ok(std::path::absolute(data.join(FILE))?)
}

/// Writes the addresses of PostgreSQL, Kafka, the object storage and the admin server, and the directory of cells, to a file that
/// only this user can read. Returns the file's absolute path.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn write(
    data: &Path,
    api: &unslide_api::Config,
    admin: SocketAddr,
    cells: Option<&CellSettings>,
) -> Result<PathBuf, BoxError> {
    let path = path_in(data)?;
    private_file(&path, &text(api, admin, cells)?)?;
    Ok(path)
}

fn text(
    api: &unslide_api::Config,
    admin: SocketAddr,
    cells: Option<&CellSettings>,
) -> Result<String, BoxError> {
    let (postgres, kafka, objects) = (&api.postgres, &api.kafka, &api.objects);
    let mut settings = json!({
        "admin": { "listen": admin },
        "postgres": { "url": postgres.url.reveal(), "any_login": postgres.any_login },
        "kafka": {
            "bootstrap": kafka.bootstrap,
            "replication_factor": kafka.replication_factor,
            "min_insync_replicas": kafka.min_insync_replicas,
            "partitions": kafka.partitions,
        },
        "objects": {
            "endpoint": objects.endpoint.as_deref().unwrap_or_default(),
            "bucket": objects.bucket,
            "access_key": objects.access_key.as_deref().unwrap_or_default(),
            "secret_key": objects.secret_key.reveal(),
            "path_style": objects.path_style,
        },
    });
    if let Some(cells) = cells {
        settings["kafka"]["topic_prefix"] = kafka.topic_prefix.clone().into();
        settings["cells"] =
            json!({ "name": cells.name, "directory": cells.directory.reveal(), "files": cells.files });
    }
    Ok(format!("# Written by `unslide dev` on each start.\n\n{}", toml::to_string(&settings)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_folder_knows_its_own_file_also_when_it_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        assert!(is_of(Some(&data.join(FILE)), &data));
        fs::create_dir(&data).unwrap();
        fs::write(data.join(FILE), "").unwrap();
        assert!(is_of(Some(&folder.path().join("data/../data").join(FILE)), &data));
        assert!(!is_of(Some(&folder.path().join(FILE)), &data));
        assert!(!is_of(None, &data));
    }
}
