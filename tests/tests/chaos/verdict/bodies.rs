//! The bodies of two stores, as the service reads them: from their rows, or from segments.
//! Proves: replay

use crate::installation_under_test::World;
use futures::{StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};
use sqlx::{Connection, PgConnection, Row};
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::segment::{self, BodyId, MAX_BODY_BYTES};
use unslide_artifacts::{ObjectStore, keys};
use unslide_model::{ReportId, Secret, SystemClock, TenantId};
use unslide_store::queries::report::{self, FoundReport};
use unslide_store::segments::ReportBody;
use unslide_store::{Settings, Store, Uuid};
use unslide_tests::installation::{BUCKET, Place};

/// Bodies that are read at the same time.
const AT_ONCE: usize = 16;
/// After so long a run some bodies have moved, whatever the faults were.
const LONG: Duration = Duration::from_secs(60);

/// The bodies of a store.
struct Bodies {
    /// A line for each, in the order of the reports.
    lines: Vec<String>,
    /// Those that cannot be read as they should.
    wrong: Vec<String>,
    /// How many are in segments.
    moved: usize,
}

/// Where the bodies of the store and of its replay differ; and whether the comparison was worth
/// something.
pub async fn differences(
    world: &Arc<World>,
    (kept, replayed): (&str, &str),
    length: Duration,
) -> Result<Vec<String>, String> {
    let place = world.installation.lock().await.place().clone();
    let objects = objects(&place).await;
    let (kept, again) = (read(kept, &objects).await?, read(replayed, &objects).await?);
    world.note(&format!("bodies: {}, {} of them in segments", kept.lines.len(), kept.moved));
    let mut differences: Vec<String> = [&kept, &again]
        .iter()
        .flat_map(|bodies| &bodies.wrong)
        .map(|line| format!("bodies: {line}"))
        .collect();
    if length >= LONG && kept.moved == 0 {
        differences.push("bodies: none has moved into a segment".to_owned());
    }
    if again.moved > 0 {
        differences.push(format!("bodies: {} of the replay have moved", again.moved));
    }
    let lacks = |of: &Bodies, line: &String| of.lines.binary_search(line).is_err();
    let only_kept = kept.lines.iter().filter(|line| lacks(&again, line));
    differences.extend(only_kept.map(|line| format!("bodies: only in the store: {line}")));
    let only_again = again.lines.iter().filter(|line| lacks(&kept, line));
    differences.extend(only_again.map(|line| format!("bodies: only in the replay: {line}")));
    Ok(differences)
}

async fn objects(place: &Place) -> ObjectStore {
    let settings = unslide_artifacts::Settings {
        endpoint: Some(place.objects.clone()),
        bucket: BUCKET.to_owned(),
        access_key: Some(place.object_keys.0.clone()),
        secret_key: Secret::new(place.object_keys.1.clone()),
        path_style: true,
        ..unslide_artifacts::Settings::default()
    };
    ObjectStore::s3(&settings).await
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Opens a store by the URL of its database.
pub async fn open_store(url: &str) -> Result<Store, String> {
    Store::connect(&Settings::with_url(url), Arc::new(SystemClock)).await.map_err(text)
}

async fn read(url: &str, objects: &ObjectStore) -> Result<Bodies, String> {
    let mut database = PgConnection::connect(url).await.map_err(text)?;
    let all = "SELECT tenant, report_id, variant FROM report_keys WHERE deleted_at IS NULL ORDER BY 1, 2, 3";
    let rows = sqlx::query(all).fetch_all(&mut database).await.map_err(text)?;
    let store = open_store(url).await?;
    let mut reports = Vec::with_capacity(rows.len());
    for of_one in rows.chunk_by(|a, b| a.get::<String, _>(0) == b.get::<String, _>(0)) {
        let tenant = TenantId::new(&of_one[0].get::<String, _>(0)).map_err(text)?;
        let mut tx = store.tenant(&tenant).await.map_err(text)?;
        for row in of_one {
            let id = ReportId::from_uuid(row.get::<Uuid, _>(1));
            let variant = u32::try_from(row.get::<i32, _>(2)).map_err(text)?;
            let stored = report::get(&mut tx, id, variant).await.map_err(text)?;
            reports.push((tenant.clone(), id, variant, stored));
        }
        tx.rollback().await.map_err(text)?;
    }
    store.close().await;
    let moved =
        reports.iter().filter(|(.., stored)| matches!(stored, Some((_, ReportBody::Segment(_))))).count();
    let lines = reports.into_iter().map(|(tenant, id, variant, stored)| async move {
        let name = format!("{tenant} {id} {variant}");
        let Some((found, stored)) = stored else { return Ok(Err(format!("{name} has none"))) };
        let name = format!("{name} revision {}", found.listed.revision);
        Ok::<_, String>(match body(objects, &tenant, &found, &stored).await? {
            Ok(json) => Ok(format!("{name}: {}", sum(&json))),
            Err(wrong) => Err(format!("{name}: {wrong}")),
        })
    });
    let read: Vec<Result<String, String>> = stream::iter(lines).buffered(AT_ONCE).try_collect().await?;
    let (mut lines, mut wrong) = (Vec::new(), Vec::new());
    for line in read {
        match line {
            Ok(line) => lines.push(line),
            Err(line) => wrong.push(line),
        }
    }
    lines.sort_unstable();
    Ok(Bodies { lines, wrong, moved })
}

/// A body, or what is wrong with it.
async fn body(
    objects: &ObjectStore,
    tenant: &TenantId,
    report: &FoundReport,
    stored: &ReportBody,
) -> Result<Result<Vec<u8>, String>, String> {
    let ReportBody::Segment(place) = stored else { return Ok(stored.decompress_json().map_err(text)) };
    let key = keys::for_segment(tenant, place.day, place.segment);
    let Some(frame) = segment::fetch_frame(objects, &key, place.offset, place.length).await.map_err(text)?
    else {
        return Ok(Err(format!("its segment {key} is gone")));
    };
    let listed = &report.listed;
    let (report_id, variant, revision) = (listed.report_id, listed.variant, listed.revision);
    let id = BodyId { tenant: tenant.clone(), report_id, variant, revision };
    Ok(segment::open_frame(&id, &place.key, frame, MAX_BODY_BYTES).map_err(text))
}

fn sum(bytes: &[u8]) -> String {
    let mut sum = format!("{} bytes, ", bytes.len());
    for byte in Sha256::digest(bytes) {
        let _ = write!(sum, "{byte:02x}");
    }
    sum
}
