//! External bodies that no row names, found and condemned: a symbolizer stored one and its transaction
//! was never committed, or the record that names it could not be stored.

use crate::failure::IndexerError;
use crate::reader::replay_target::ReplayTarget;
use crate::topics::Topics;
use std::collections::BTreeSet;
use time::{Duration, OffsetDateTime};
use unslide_artifacts::{ObjectStore, keys};
use unslide_model::TenantId;
use unslide_store::positions::{self, PartitionPosition};
use unslide_store::tenants::{self, TenantStanding};
use unslide_store::{Store, segments};
use unslide_stream::{Settings, topics_facts};

/// From one pass to the next.
const EVERY: Duration = Duration::days(1);
/// How old a body is before it may count as an orphan: much longer than a symbolizer takes from storing
/// it to committing the record that names it.
const AGE: Duration = Duration::days(1);
/// Objects that are listed, and tenants that are looked up, at once.
const PAGE: u16 = 500;

/// What has to be read before a pass can tell orphans: every record that there was when it began.
struct Pass {
    began: OffsetDateTime,
    targets: Vec<ReplayTarget>,
}

/// Looks for bodies without a row.
pub struct Orphans {
    store: Store,
    objects: ObjectStore,
    topics: Topics,
    kafka: Settings,
    pass: Option<Pass>,
    next: Option<OffsetDateTime>,
}

impl Orphans {
    /// Among the objects of all tenants; `topics` are those with records that name bodies.
    pub fn new(store: Store, objects: ObjectStore, topics: Topics, kafka: Settings) -> Orphans {
        Orphans { store, objects, topics, kafka, pass: None, next: None }
    }

    /// Begins a pass where one is due, and does it once everything is read that was there when it began.
    ///
    /// # Errors
    /// Where a server fails; the pass is gone on with the next time.
    pub async fn round(&mut self) -> Result<(), IndexerError> {
        let now = self.store.clock().now();
        if self.next.is_some_and(|next| now < next) {
            return Ok(());
        }
        let pass = match self.pass.take() {
            Some(pass) => pass,
            None => Pass { began: now, targets: self.targets().await? },
        };
        let unread = unread(&pass, &positions::stored(&self.store).await?);
        let shared = unread.contains(self.topics.shared.as_str());
        let names = self.kafka.topics();
        let waiting: BTreeSet<TenantId> =
            unread.iter().filter_map(|topic| self.topics.tenant_of(&names, topic)).collect();
        let before = pass.began - AGE;
        self.pass = Some(pass);
        if shared {
            return Ok(());
        }
        self.condemn_orphans(before, &waiting).await?;
        (self.pass, self.next) = (None, Some(now + EVERY));
        Ok(())
    }

    async fn targets(&self) -> Result<Vec<ReplayTarget>, IndexerError> {
        let topics = self.topics.now(&self.kafka).await?;
        let mut targets = Vec::new();
        for (topic, facts) in topics.iter().zip(topics_facts(&self.kafka, topics.clone()).await?) {
            let facts = facts?;
            let topic_id = facts.id.to_string();
            targets.extend(facts.partitions.iter().filter(|held| held.end > held.start).map(|held| {
                ReplayTarget { topic: topic.clone(), topic_id: topic_id.clone(), held: *held, alone: false }
            }));
        }
        Ok(targets)
    }

    /// Condemns the orphans of all tenants but those with a topic of their own that is not read far enough.
    async fn condemn_orphans(
        &self,
        before: OffsetDateTime,
        waiting: &BTreeSet<TenantId>,
    ) -> Result<(), IndexerError> {
        let (mut last, mut failed) = (None, None);
        loop {
            let page = tenants::list(&self.store, last.as_ref(), PAGE.into()).await?;
            let Some(end) = page.last() else { break };
            last = Some(end.id.clone());
            // Everything of a deleted tenant is taken away by the builder.
            let kept = page
                .iter()
                .filter(|tenant| tenant.state != TenantStanding::Deleted && !waiting.contains(&tenant.id));
            for tenant in kept {
                if let Err(trouble) = self.condemn_orphans_of(&tenant.id, before).await {
                    failed = failed.or(Some(trouble));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn condemn_orphans_of(
        &self,
        tenant: &TenantId,
        before: OffsetDateTime,
    ) -> Result<(), IndexerError> {
        let prefix = keys::outputs_prefix(tenant);
        let mut after = None;
        loop {
            let page = self.objects.list(&prefix, after.as_ref(), PAGE).await?;
            let old = page.entries.iter().filter(|entry| entry.modified.is_some_and(|at| at < before));
            let old: Vec<String> = old.map(|entry| entry.key.to_string()).collect();
            if !old.is_empty() {
                let mut tx = self.store.tenant(tenant).await?;
                segments::condemn_unnamed(&mut tx, &old).await?;
                tx.commit().await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

/// The topics with records that a pass has to wait for.
fn unread(pass: &Pass, positions: &[PartitionPosition]) -> BTreeSet<String> {
    let unread = pass.targets.iter().filter(|target| !target.is_reached(positions));
    unread.map(|target| target.topic.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::tests::world::{World, start, tenant};
    use unslide_artifacts::Put;
    use unslide_artifacts::keys::ObjectKey;
    use unslide_model::ReportId;
    use unslide_store::quarantine::{self, NewRecord};
    use unslide_stream::PartitionFacts;

    fn orphans(world: &World) -> Orphans {
        let topics = Topics { shared: "out".into(), tenants: false };
        Orphans::new(world.store.clone(), world.objects.clone(), topics, Settings::default())
    }

    async fn put(world: &World, name: &str) {
        let key = ObjectKey::of_tenant(&tenant("acme"), &format!("t/acme/outputs/{name}")).unwrap();
        world.objects.put(&key, "x".into(), &Put::default()).await.unwrap();
    }

    #[tokio::test]
    async fn bodies_that_no_row_names_are_deleted_once_they_are_old() {
        let world = World::new().await;
        world.memory.set_time(start());
        for name in ["named", "quarantined", "orphan", "written-again"] {
            put(&world, name).await;
        }
        let acme = tenant("acme");
        let mut batch = world.store.batch().await.unwrap();
        let tx = batch.enter(&acme).await.unwrap();
        segments::add_external_bodies(tx, &[(start(), ReportId([1; 16]), 0, "t/acme/outputs/named")])
            .await
            .unwrap();
        let record = NewRecord {
            topic: "out".into(),
            topic_id: "a".into(),
            partition: 0,
            offset: 7,
            tenant: Some(acme.clone()),
            reason: "body_at_fault".into(),
            detail: "x".into(),
            body_key: Some("t/acme/outputs/quarantined".into()),
        };
        assert!(quarantine::add(&mut batch, &record).await.unwrap());
        batch.commit().await.unwrap();
        world.wait(AGE + Duration::HOUR);
        world.memory.set_time(world.store.clock().now());
        put(&world, "young").await;
        let before = world.store.clock().now() - AGE;
        let waiting = BTreeSet::from([acme.clone()]);
        orphans(&world).condemn_orphans(before, &waiting).await.unwrap();
        assert_eq!(
            world.number("SELECT count(*) FROM condemned_objects").await,
            0,
            "its topic is not read yet"
        );
        orphans(&world).condemn_orphans(before, &BTreeSet::new()).await.unwrap();
        assert_eq!(world.number("SELECT count(*) FROM condemned_objects").await, 2);
        // A symbolizer prepares its record once more.
        world.wait(Duration::MINUTE);
        world.memory.set_time(world.store.clock().now());
        put(&world, "written-again").await;
        world.wait(Duration::hours(2));
        world.rounds().await;
        let kept =
            ["named", "quarantined", "written-again", "young"].map(|name| format!("t/acme/outputs/{name}"));
        assert_eq!(world.keys().await, kept.into());
        assert_eq!(world.number("SELECT count(*) FROM condemned_objects").await, 0);
        world.end().await;
    }

    #[test]
    fn a_pass_waits_for_every_record_that_there_was_when_it_began() {
        let target = |topic: &str| ReplayTarget {
            topic: topic.into(),
            topic_id: "a".into(),
            held: PartitionFacts { partition: 0, start: 0, end: 20 },
            alone: false,
        };
        let pass =
            Pass { began: OffsetDateTime::UNIX_EPOCH, targets: vec![target("out"), target("out.acme")] };
        let at = |topic: &str, next_offset| PartitionPosition {
            topic: topic.into(),
            partition: 0,
            topic_id: "a".into(),
            next_offset,
        };
        assert_eq!(unread(&pass, &[at("out", 20)]), ["out.acme".to_owned()].into());
        assert!(unread(&pass, &[at("out", 20), at("out.acme", 21)]).is_empty());
    }
}
