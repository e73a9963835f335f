//! The configuration that `unslide dev` leaves for the commands of operators.

use crate::failure::BoxError;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its name in the data folder.
const FILE: &str = "unslide.toml";

/// True where a configuration file is the one of this data folder.
pub fn is_of(config: Option<&Path>, data: &Path) -> bool {
    let Some(config) = config else { return false };
    let own = data.join(FILE);
    match (config.canonicalize(), own.canonicalize()) {
        (Ok(config), Ok(own)) => config == own,
        // The folder was deleted.
        _ => std::path::absolute(config).ok() == std::path::absolute(own).ok(),
    }
}

/// Writes where PostgreSQL, Kafka and the object storage are, readable by this user alone. Gives the
/// file's absolute path.
///
/// # Errors
/// Where the file cannot be written.
pub fn write(data: &Path, api: &unslide_api::Config) -> Result<PathBuf, BoxError> {
    let path = std::path::absolute(data.join(FILE))?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    file.write_all(text(api)?.as_bytes())?;
    Ok(path)
}

fn text(api: &unslide_api::Config) -> Result<String, BoxError> {
    let (postgres, kafka, objects) = (&api.postgres, &api.kafka, &api.objects);
    // A JSON string is a TOML string.
    let quoted = |text: &str| serde_json::to_string(text);
    let partitions = &kafka.partitions;
    Ok(format!(
        "# Written by `unslide dev` on each start.

[postgres]
url = {}
any_login = {}

[kafka]
bootstrap = {}
replication_factor = {}
min_insync_replicas = {}

[kafka.partitions]
input = {}
output = {}
overflow = {}
internal = {}

[objects]
endpoint = {}
bucket = {}
access_key = {}
secret_key = {}
path_style = {}
",
        quoted(postgres.url.reveal())?,
        postgres.any_login,
        quoted(&kafka.bootstrap)?,
        kafka.replication_factor,
        kafka.min_insync_replicas,
        partitions.input,
        partitions.output,
        partitions.overflow,
        partitions.internal,
        quoted(objects.endpoint.as_deref().unwrap_or_default())?,
        quoted(&objects.bucket)?,
        quoted(objects.access_key.as_deref().unwrap_or_default())?,
        quoted(objects.secret_key.reveal())?,
        objects.path_style,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

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
