//! Builders that die, and servers that go away.

use crate::builder_fixture::{BUILDER_TIMEOUT, World, acme};
use std::time::Duration;
use unslide_artifacts::{Put, keys};
use unslide_model::{Owner, TenantId};
use unslide_store::jobs::{self, JobKind};
use unslide_store::symbols::{self, SymbolReadiness};
use unslide_store::{Uuid, slots, tenants, uploads, usage};
use unslide_symbolicate::object::list_objects;
use unslide_testkit::fixtures::dsym;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_a_dead_builder_is_taken_over() {
    let mut world = World::start(0).await;
    let id = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    // A builder that takes the job and is never heard of again.
    let lease = time::Duration::milliseconds(500);
    let taken = jobs::lease_jobs(&world.store, &[JobKind::Build], "dead", lease, 1).await.unwrap();
    assert_eq!(taken.len(), 1);
    world.builder();
    let (record, _) = world.wait(id).await;
    assert_eq!(record.status, uploads::UploadStatus::Done);
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let late = jobs::complete_job(&mut tx, &taken[0]).await;
    assert!(matches!(late, Err(unslide_store::StoreError::LeaseLost(_))), "the dead one has no say any more");
    drop(tx);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_builders_all_die_ends_with_a_reason() {
    let mut world = World::start(0).await;
    world.config.builder.lease_seconds = 6;
    let id = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    for _ in 0..jobs::MAX_ATTEMPTS {
        let lease = time::Duration::milliseconds(1);
        let taken = jobs::lease_jobs(&world.store, &[JobKind::Build], "dead", lease, 1).await.unwrap();
        assert_eq!(taken.len(), 1);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.builder();
    let (record, _) = world.wait(id).await;
    assert_eq!(
        (record.status, record.reason.as_deref()),
        (uploads::UploadStatus::Failed, Some("kills_builder"))
    );
    world.stop().await;
}

/// The database is away for longer than a lease, twice. The builder lives all the time.
/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_a_living_builder_loses_is_no_death() {
    let mut world = World::start(0).await;
    world.config.builder.lease_seconds = 3;
    let id = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    // The build waits for object storage, in the hands of its builder.
    world.storage(false).await;
    world.builder();
    let mut sql = world.connect().await;
    let lost = "UPDATE jobs SET lease_until = now() - interval '1 second', lease_token = gen_random_uuid()
                WHERE kind = 'build' AND status = 'running'";
    // Without that, two more attempts would count.
    for _ in 0..2 {
        let taken = async {
            while sqlx::query(lost).execute(&mut sql).await.unwrap().rows_affected() == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            // The builder hears that the lease is another one, and has the job again.
            let back = "SELECT count(*) FROM jobs WHERE kind = 'build' AND status = 'running'
                        AND lease_until > now() AND attempts <= 1";
            while sqlx::query_scalar::<_, i64>(back).fetch_one(&mut sql).await.unwrap() == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(BUILDER_TIMEOUT, taken).await.expect("the attempt is taken back");
    }
    sqlx::Connection::close(sql).await.unwrap();
    world.storage(true).await;
    let (record, _) = world.wait(id).await;
    assert_eq!((record.status, record.reason), (uploads::UploadStatus::Done, None));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_object_storage_to_come_back() {
    let mut world = World::start(0).await;
    let id = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    world.storage(false).await;
    world.builder();
    let status = async || {
        uploads::wait_for_status(&world.store, &acme(), id, Duration::ZERO).await.unwrap().unwrap().0.status
    };
    // It has failed, has waited, and is tried again.
    let failed = || world.figure("unslide_objects_requests_total", "transient");
    let tried_again = async {
        while status().await != uploads::UploadStatus::Building || failed() == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let before = failed();
        while failed() == before {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(BUILDER_TIMEOUT, tried_again).await.expect("it is being built");
    assert_eq!(status().await, uploads::UploadStatus::Building);
    world.storage(true).await;
    let (record, objects) = world.wait(id).await;
    assert_eq!((record.status, objects.len()), (uploads::UploadStatus::Done, 1));
    world.stop().await;
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn no_outage_is_so_long_that_an_upload_or_a_deletion_is_given_up() {
    let mut world = World::start(0).await;
    world.config.builder.patience_seconds = 0;
    world.builder();
    let (object, _) = world.one("app", &std::fs::read(dsym("app")).unwrap()).await;
    let id = acme().scope(object.debug_id.unwrap());
    world.wait_until_idle().await;
    world.stop_builders().await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    symbols::delete_symbols(&mut tx, &id.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let upload = world.upload("kit", &std::fs::read(dsym("kit")).unwrap()).await;
    world.storage(false).await;
    world.builder();
    let mut sql = world.connect().await;
    let due_now = "UPDATE jobs SET run_at = now(), last_error = NULL WHERE status = 'queued'";
    for _ in 0..=jobs::MAX_ATTEMPTS {
        let put_off = "SELECT kind, status, attempts FROM jobs WHERE last_error IS NOT NULL ORDER BY kind";
        let both = async {
            loop {
                let jobs: Vec<(String, String, i32)> =
                    sqlx::query_as(put_off).fetch_all(&mut sql).await.unwrap();
                let (waiting, _) = uploads::wait_for_status(&world.store, &acme(), upload, Duration::ZERO)
                    .await
                    .unwrap()
                    .unwrap();
                let waits = waiting.status == uploads::UploadStatus::Queued
                    && waiting.reason.as_deref() == Some("unavailable");
                if waits && jobs.len() == 2 && jobs.iter().all(|(_, status, _)| status != "running") {
                    break jobs;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let jobs = tokio::time::timeout(Duration::from_secs(120), both).await.expect("both are put off");
        let expected = ["build", "purge"].map(|kind| (kind.to_owned(), "queued".to_owned(), 0));
        assert_eq!(jobs, expected, "they run beside others, and are tried again");
        sqlx::raw_sql(due_now).execute(&mut sql).await.unwrap();
        sqlx::raw_sql("NOTIFY unslide_jobs").execute(&mut sql).await.unwrap();
    }
    world.storage(true).await;
    sqlx::raw_sql(due_now).execute(&mut sql).await.unwrap();
    let (done, _) = world.wait(upload).await;
    assert_eq!((done.status, done.reason), (uploads::UploadStatus::Done, None));
    world.wait_until_idle().await;
    assert!(world.alias(&id).await.is_none(), "what was deleted answers no more");
    sqlx::Connection::close(sql).await.unwrap();
    world.stop().await;
}

/// Proves: uploads
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_fails_for_good_leaves_nothing_that_is_being_built() {
    let mut world = World::start(0).await;
    world.config.builder.lease_seconds = 6;
    let app = std::fs::read(dsym("app")).unwrap();
    let object = list_objects(&app).unwrap()[0].object.clone().unwrap();
    let debug_id = object.debug_id.unwrap();
    // The build stays before its last step, with its objects noted and stored.
    let mut other = world.store.tenant(&acme()).await.unwrap();
    slots::lock_debug_id(&mut other, &debug_id).await.unwrap();
    let first = world.upload("first", &app).await;
    world.builder();
    let look = async |world: &World| {
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        let used = usage::get(&mut tx).await.unwrap();
        let readiness = symbols::check_readiness(&mut tx, &[debug_id]).await.unwrap()[0].1;
        tx.rollback().await.unwrap();
        (used.symbol_bytes, used.pending_bytes, readiness)
    };
    let stored = async |world: &World| -> Vec<_> {
        let page = world.objects.list(&keys::tenant_prefix(&acme()), None, 100).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key).collect()
    };
    while stored(&world).await.len() < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let size = app.len() as u64;
    assert_eq!(look(&world).await, (size, size, SymbolReadiness::Building));
    world.kill_builders().await;
    other.rollback().await.unwrap();
    let mut sql = world.connect().await;
    let died = "UPDATE jobs SET attempts = max_attempts, lease_until = now() - interval '1 second'";
    sqlx::raw_sql(died).execute(&mut sql).await.unwrap();
    world.builder();
    let (record, left) = world.wait(first).await;
    assert_eq!(
        (record.status, record.reason.as_deref()),
        (uploads::UploadStatus::Failed, Some("kills_builder"))
    );
    assert!(left.is_empty(), "{left:?}");
    world.wait_until_idle().await;
    assert_eq!(look(&world).await, (0, 0, SymbolReadiness::Missing));
    assert_eq!(
        stored(&world).await,
        [keys::for_upload(acme().scope(first))],
        "the file itself, for a person who looks into it"
    );
    let (_, known) = world.one("again", &app).await;
    assert!(!known);
    assert_eq!(look(&world).await, (size, 0, SymbolReadiness::Ready));
    sqlx::Connection::close(sql).await.unwrap();
    world.stop().await;
}

/// Proves: uploads
#[tokio::test(flavor = "multi_thread")]
async fn files_of_uploads_that_are_over_go_in_their_time() {
    let mut world = World::start(1).await;
    let [old, new] = [world.upload("old", b"notes").await, world.upload("new", b"notes").await];
    let done = world.upload("app", &std::fs::read(dsym("app")).unwrap()).await;
    for id in [old, new, done] {
        world.wait(id).await;
    }
    world.wait_until_idle().await;
    world.stop_builders().await;
    let key = |id| keys::for_upload(acme().scope(id));
    // A builder that died after its last commit has left this one.
    world.objects.put(&key(done), "bytes".into(), &Put::default()).await.unwrap();
    let mut sql = world.connect().await;
    let gone = "SELECT count(*) FROM uploads WHERE file_gone_at IS NOT NULL";
    let gone = async |sql: &mut sqlx::PgConnection| -> i64 {
        sqlx::query_scalar(gone).fetch_one(sql).await.unwrap()
    };
    assert_eq!(gone(&mut sql).await, 1, "the one that was done");
    for (id, hours) in [(old, 30 * 24 + 1), (new, 30 * 24 - 1), (done, 2)] {
        sqlx::query(
            "UPDATE uploads SET file_gone_at = NULL, updated_at = now() - make_interval(hours => $2) WHERE id = $1",
        )
        .bind(id)
        .bind(hours)
        .execute(&mut sql)
        .await
        .unwrap();
    }
    world.builder();
    while gone(&mut sql).await < 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (id, kept) in [(old, false), (new, true), (done, false)] {
        assert_eq!(world.objects.head(&key(id)).await.unwrap().is_some(), kept);
    }
    let (record, _) = world.wait(old).await;
    assert_eq!(
        (record.status, record.reason.as_deref()),
        (uploads::UploadStatus::Failed, Some("unrecognised"))
    );
    sqlx::Connection::close(sql).await.unwrap();
    world.stop().await;
}

/// Proves: outages
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_lost_or_changed_fails_with_its_reason() {
    let mut world = World::start(0).await;
    let app = std::fs::read(dsym("app")).unwrap();
    let [changed, lost] = [world.upload("changed", &app).await, world.upload("lost", &app).await];
    let key = |id| keys::for_upload(acme().scope(id));
    world.objects.put(&key(changed), app[1..].to_vec().into(), &Put::default()).await.unwrap();
    world.objects.delete(&key(lost)).await.unwrap();
    world.builder();
    for (id, reason) in [(changed, "upload_changed"), (lost, "upload_lost")] {
        let (record, _) = world.wait(id).await;
        assert_eq!((record.status, record.reason.as_deref()), (uploads::UploadStatus::Failed, Some(reason)));
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_at_once_are_bounded() {
    let mut world = World::start(0).await;
    let app = std::fs::read(dsym("app")).unwrap();
    let mut uploads = Vec::new();
    for name in ["a", "b", "c", "d"] {
        uploads.push(world.upload(name, &app).await);
    }
    // Every build waits for object storage.
    world.storage(false).await;
    world.config.builder.uploads = 2;
    world.builder();
    let jobs = async |status: &str| {
        let counts = jobs::count_jobs(&world.store).await.unwrap();
        counts.iter().find(|count| count.status == status).map_or(0, |count| count.jobs)
    };
    // The metric follows the row.
    while jobs("running").await < 2 || world.running("build") < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A real pause: nothing says that the builder has looked for a third job. Too short a pause fails nothing.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((jobs("running").await, jobs("queued").await), (2, 2));
    assert_eq!(world.running("build"), 2, "the metric says so");
    world.storage(true).await;
    for upload in uploads {
        assert_eq!(world.wait(upload).await.0.status, uploads::UploadStatus::Done);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_share_the_work_folder_and_wait_for_room_in_it() {
    let mut world = World::start(0).await;
    let app = std::fs::read(dsym("app")).unwrap();
    let uploads = [world.upload("a", &app).await, world.upload("b", &app).await];
    // Room for one upload and what it may be unpacked to, and for less than a second one beside it.
    let size = app.len() as u64;
    world.config.builder.archive_bytes = 2 << 20;
    // An eighth is the extra job's.
    world.config.builder.work_bytes = ((2 << 20) + 2 * size + size / 2) * 8 / 7;
    assert_eq!(world.config.validate(), []);
    // The first one cannot publish.
    let debug_id = list_objects(&app).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let mut other = world.store.tenant(&acme()).await.unwrap();
    slots::lock_debug_id(&mut other, &debug_id).await.unwrap();
    world.builder();
    let figure = |state| world.figure("unslide_builder_work_bytes", state) as u64;
    // The first one keeps its file only; then what is wanted is the second one's.
    while world.running("build") < 2
        || !(size..=size + 1_024).contains(&figure("held"))
        || figure("wanted") == 0
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(figure("wanted") >= 2 * size + (2 << 20));
    other.rollback().await.unwrap();
    for upload in uploads {
        assert_eq!(world.wait(upload).await.0.status, uploads::UploadStatus::Done);
    }
    // One that cannot fit fails with that reason, and holds nobody up.
    let large = vec![0xcf; 4 << 20];
    let (record, _) = world.wait(world.upload("large", &large).await).await;
    assert_eq!((record.status, record.reason.as_deref()), (uploads::UploadStatus::Failed, Some("too_large")));
    while figure("held") > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.stop().await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_builders_takes_no_other_tenants_job_with_it() {
    let mut world = World::start(0).await;
    world.config.builder.lease_seconds = 15;
    let umbrella = TenantId::new("umbrella").unwrap();
    let mut tx = world.store.tenant(&umbrella).await.unwrap();
    tenants::create_tenant(&mut tx, "Umbrella", &tenants::QuotaLimits::default()).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let id_of = |file: &[u8]| list_objects(file).unwrap()[0].object.clone().unwrap().debug_id.unwrap();
    let [app, kit] = ["app", "kit"].map(|name| std::fs::read(dsym(name)).unwrap());
    // A build runs while another job has its debug id: that of the bomb until its builder is
    // killed each time, that of the other beside it for the first two.
    let mut of_bomb = world.store.tenant(&acme()).await.unwrap();
    slots::lock_debug_id(&mut of_bomb, &id_of(&app)).await.unwrap();
    let mut of_neighbour = Some(world.store.tenant(&umbrella).await.unwrap());
    if let Some(tx) = &mut of_neighbour {
        slots::lock_debug_id(tx, &id_of(&kit)).await.unwrap();
    }
    let umbrella = Owner::Tenant(umbrella);
    let bomb = world.upload("bomb", &app).await;
    let neighbour = world.receive_upload(&umbrella, "kit", &kit).await;
    let mut sql = world.connect().await;
    let mut beside = Vec::new();
    let expire = "UPDATE jobs SET lease_until = now() - interval '1 second' WHERE lease_token = ANY ($1)";
    let leases = "SELECT lease_token FROM jobs WHERE status = 'running'";
    for attempt in 1..=i32::try_from(jobs::MAX_ATTEMPTS).unwrap() {
        let of_dead: Vec<Uuid> = sqlx::query_scalar(leases).fetch_all(&mut sql).await.unwrap();
        world.builder();
        // The bomb is being built, and the other one beside it for the first two deaths.
        let begun = "SELECT count(*) FROM jobs WHERE tenant = 'acme' AND kind = 'build' AND attempts = $1";
        let at_once = if attempt <= 2 { 2 } else { 1 };
        let in_work = async {
            while sqlx::query_scalar::<_, i64>(begun).bind(attempt).fetch_one(&mut sql).await.unwrap() == 0
                || world.running("build") < at_once
            {
                // What a killed builder had sent may still renew its lease.
                sqlx::query(expire).bind(&of_dead).execute(&mut sql).await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(300), in_work).await.is_err() {
            let jobs = world.text("SELECT string_agg(j::text, E'\\n') FROM jobs j").await;
            panic!("attempt {attempt}, {} builds run: {jobs}", world.running("build"));
        }
        if at_once == 1 {
            // A real pause, in which another job could be begun beside it. Too short a pause fails nothing.
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        beside.push(world.running("build") - 1);
        world.kill_builders().await;
        if attempt == 2
            && let Some(tx) = of_neighbour.take()
        {
            tx.rollback().await.unwrap();
        }
    }
    assert_eq!(beside, [1, 1, 0, 0, 0, 0], "from the third attempt on a job runs alone");
    let of_dead: Vec<Uuid> = sqlx::query_scalar(leases).fetch_all(&mut sql).await.unwrap();
    sqlx::query(expire).bind(&of_dead).execute(&mut sql).await.unwrap();
    // A purge would wait for it, and the other build, which is to run alone, for the purge.
    of_bomb.rollback().await.unwrap();
    world.builder();
    let (record, _) = world.wait(bomb).await;
    assert_eq!(
        (record.status, record.reason.as_deref()),
        (uploads::UploadStatus::Failed, Some("kills_builder"))
    );
    let (record, _) = world.wait_for_upload(&umbrella, neighbour).await;
    assert_eq!(record.status, uploads::UploadStatus::Done);
    let blamed = "SELECT attempts FROM jobs WHERE tenant = 'umbrella' AND kind = 'build'";
    let blamed: i32 = sqlx::query_scalar(blamed).fetch_one(&mut sql).await.unwrap();
    assert!(blamed <= 3, "two deaths in company, and its own attempt: {blamed}");
    sqlx::Connection::close(sql).await.unwrap();
    world.stop().await;
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_to_run_alone_is_blamed_for_nothing() {
    let mut world = World::start(0).await;
    let app = std::fs::read(dsym("app")).unwrap();
    let [first, suspect] = [world.upload("first", &app).await, world.upload("suspect", &app).await];
    let mut sql = world.connect().await;
    sqlx::query("UPDATE jobs SET attempts = 2, run_at = run_at + interval '1 microsecond' WHERE payload ->> 'upload' = $1")
        .bind(suspect.to_string())
        .execute(&mut sql)
        .await
        .unwrap();
    world.storage(false).await;
    world.builder();
    let mut attempts = async || -> Vec<(i32, String)> {
        let rows = sqlx::query_as("SELECT attempts, status FROM jobs ORDER BY attempts");
        rows.fetch_all(&mut sql).await.unwrap()
    };
    let waiting = [(1, "running".to_owned()), (2, "running".to_owned())];
    while attempts().await != waiting || world.running("build") < 1 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A real pause, in which the second one could be begun as well. Too short a pause fails nothing.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((attempts().await, world.running("build")), (waiting.to_vec(), 1));
    world.kill_builders().await;
    world.storage(true).await;
    world.builder();
    for upload in [first, suspect] {
        assert_eq!(world.wait(upload).await.0.status, uploads::UploadStatus::Done);
    }
    sqlx::Connection::close(sql).await.unwrap();
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_asks_each_server_and_says_what_it_answers() {
    let mut world = World::start(1).await;
    let until = async |world: &World, lacking: &[(&str, &str)]| {
        for _ in 0..3_000 {
            let lacks = world.lacks().await;
            let is_wanted = |((name, reason), (wanted, words)): (&(String, String), &(&str, &str))| {
                name == wanted && reason.contains(words)
            };
            if lacks.len() == lacking.len() && lacks.iter().zip(lacking).all(is_wanted) {
                return lacks;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{:?} and not {lacking:?}", world.lacks().await);
    };
    until(&world, &[]).await;
    world.storage(false).await;
    // On a busy machine a probe may give up before it has this answer.
    until(&world, &[("objects", "list")]).await;
    world.storage(true).await;
    until(&world, &[]).await;
    world.let_connect(false).await;
    let lacks = until(&world, &[("postgres", "")]).await;
    assert!(["PostgreSQL", "did not answer"].iter().any(|why| lacks[0].1.contains(why)), "{lacks:?}");
    world.let_connect(true).await;
    until(&world, &[]).await;
    // A Kafka that takes connections and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let kafka =
        std::mem::replace(&mut world.config.kafka.bootstrap, silent.local_addr().unwrap().to_string());
    world.builder();
    let lacks = until(&world, &[("kafka", "")]).await;
    assert!(!lacks[0].1.is_empty());
    world.config.kafka.bootstrap = kafka;
    world.stop().await;
}
