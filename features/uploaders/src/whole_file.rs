//! A file that comes in one request, handed to the upload path of the api.

use bytes::Bytes;
use futures::Stream;
use std::time::Duration;
use unslide_api::feature::Capacity;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::Access;
use unslide_api::feature::upload::{AcceptedFile, File, Permit, SymbolsWrite, UploadQuota, receive_file};
use unslide_api::problem::{Kind, Problem};
use unslide_model::{Owner, TenantId};

/// How long a request waits for one of its tenant's permits for uploads.
const UPLOAD_PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of a stored name.
const MAX_NAME_BYTES: usize = 255;

/// What a client reads that sends a file which answers no report.
pub const UNUSED_KINDS: &str = "no report is answered by files of this kind, so it is not stored. Send the dSYMs of Apple \
    platforms here, and the source maps of React Native with sentry-cli or datadog-ci";

/// The sender of files, as the upload path needs it.
#[derive(Clone)]
pub struct FileSender {
    /// The owner of the files.
    pub owner: Owner,
    /// The app that the key is for.
    pub app: Option<String>,
    /// The limits of the sender.
    pub quota: UploadQuota,
}

impl FileSender {
    /// Returns the sender to which a key belongs.
    pub fn from_access(capacity: &Capacity, access: &Access<SymbolsWrite>) -> FileSender {
        FileSender {
            owner: access.symbol_owner(),
            app: access.only_app().map(str::to_owned),
            quota: UploadQuota::from_access(capacity, access),
        }
    }

    /// Stores a file as an upload and adds the job that builds it.
    ///
    /// # Errors
    /// The bytes are invalid or too many, or a server fails.
    pub async fn send_file(
        &self,
        storage: &Storage,
        name: Option<&str>,
        pieces: impl Stream<Item = Result<Bytes, Problem>> + Send,
    ) -> Result<AcceptedFile, Problem> {
        let file = File {
            owner: self.owner.clone(),
            name: name.map(storable_name),
            app: self.app.clone(),
            announced: None,
            may: self.quota,
        };
        receive_file(storage, file, pieces).await
    }
}

/// Waits for a permit for uploads: clients send several requests at once, and most of them do not retry.
///
/// # Errors
/// [`Kind::TenantBusy`] after ten seconds.
pub async fn acquire_upload_permit(
    capacity: &Capacity,
    access: &Access<SymbolsWrite>,
) -> Result<Permit, Problem> {
    acquire_tenant_permit(capacity, access.tenant()).await
}

/// Does the same as [`acquire_upload_permit`] for a request without a key.
///
/// # Errors
/// [`Kind::TenantBusy`] after ten seconds.
pub async fn acquire_tenant_permit(capacity: &Capacity, tenant: &TenantId) -> Result<Permit, Problem> {
    let permit = capacity.permits.uploads.acquire(tenant, 1);
    tokio::time::timeout(UPLOAD_PERMIT_TIMEOUT, permit).await.map_err(|_| {
        let detail = format!(
            "all uploads of the tenant are in use; none ended within {} s",
            UPLOAD_PERMIT_TIMEOUT.as_secs()
        );
        Problem::new(Kind::TenantBusy, detail).retry_after(1)
    })
}

/// Returns the part of a file's name that is stored.
pub fn storable_name(name: &str) -> String {
    let mut stored = String::new();
    for letter in name.chars().filter(|letter| !letter.is_control()) {
        if stored.len() + letter.len_utf8() > MAX_NAME_BYTES {
            break;
        }
        stored.push(letter);
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_control_characters_and_a_bounded_length() {
        assert_eq!(storable_name("Shop\u{0}\n.app"), "Shop.app");
        assert_eq!(storable_name(&"ä".repeat(200)).len(), 254);
    }
}
