//! What becomes of uploads, good and bad.

mod formats;
mod late_code;
mod partial;

use crate::builder_fixture::{World, acme, zip_of};
use crate::feature::{DAMAGED, LENGTH, REFUSED_END};
use std::sync::Arc;
use std::time::Duration;
use unslide_artifacts::{CacheSettings, DerivedContents, Hint, SymcacheCache, keys};
use unslide_model::Quality;
use unslide_store::objects::ObjectStatus;
use unslide_store::{symbols, uploads};
use unslide_symbolicate::symcache::SYMCACHE_VERSION;
use unslide_testkit::fixtures::{binary, dsym, encrypted_binary};

fn read(path: std::path::PathBuf) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zip_of_dsyms_becomes_symcaches_that_answer() {
    let world = World::start(1).await;
    let mut events = world.symbol_events();
    let upload = zip_of(&[
        ("App.xcarchive/dSYMs/app.dSYM/Contents/Info.plist", b"<plist/>"),
        ("App.xcarchive/dSYMs/app.dSYM/Contents/Resources/DWARF/app", &read(dsym("app"))),
        ("App.xcarchive/dSYMs/kit.dSYM/Contents/Resources/DWARF/kit", &read(dsym("kit"))),
        ("../outside/whole", &read(dsym("whole"))),
    ]);
    let id = world.upload("App.xcarchive.zip", &upload).await;
    let (record, objects) = world.wait(id).await;
    assert_eq!((record.status, &record.reason), (uploads::UploadStatus::Done, &None));
    assert_eq!(record.skipped, []);
    let mut archs: Vec<_> =
        objects.iter().map(|o| (o.object.name.as_str(), o.object.arch.as_str())).collect();
    archs.sort_unstable();
    assert_eq!(archs, [("app", "arm64"), ("kit", "arm64"), ("kit", "x86_64"), ("whole", "arm64")]);
    let cache = SymcacheCache::open(
        CacheSettings::new(world.folder().join("cache"), 1 << 30),
        world.objects.clone(),
        Arc::clone(&world.host.clock),
    )
    .unwrap();
    for uploaded in &objects {
        let object = &uploaded.object;
        assert_eq!(
            (object.status, object.kind.as_str(), uploaded.known),
            (ObjectStatus::Ready, "dsym", false)
        );
        assert_eq!(object.quality, Quality::DwarfSymtab);
        let debug_id = acme().scope(object.debug_id.unwrap());
        let symcache = object.symcache().unwrap();
        let meta = world.alias(&debug_id).await.unwrap();
        assert_eq!((meta.generation, meta.quality, meta.object), (1, object.quality, object.content_hash));
        assert_eq!(meta.sha256, symcache.sha256);
        let keys = keys::for_symbols(&debug_id);
        let immutable =
            world.objects.head(&keys.symcache(SYMCACHE_VERSION, &symcache.sha256)).await.unwrap().unwrap();
        assert_eq!(immutable.size, symcache.size);
        let kept = world.objects.head(&keys::for_object(acme().scope(object.content_hash))).await.unwrap();
        assert_eq!(kept.unwrap().size, object.size);
        assert_eq!(world.objects.head(&keys.debuginfo()).await.unwrap().unwrap().size, object.size);
        let slot = world.slot(&debug_id.id).await.unwrap();
        assert_eq!((slot.generation, slot.content_hash), (1, Some(object.content_hash)));
        let found = cache.get(&debug_id, false, Hint::default()).await.unwrap();
        assert_eq!(found.generation(), Some(1));
        let event = events.event().await;
        assert_eq!((event.tenant.as_str(), event.generation, event.deleted), ("acme", 1, false));
        assert!(objects.iter().any(|o| o.object.debug_id == Some(event.parse_debug_id().unwrap())));
    }
    world.files_gone().await;
    assert!(
        world.objects.head(&keys::for_upload(acme().scope(id))).await.unwrap().is_none(),
        "kept by content"
    );
    // The same file again, and a part of it again: nothing changes, and the record says so.
    let (_, again) = world.wait(world.upload("again.zip", &upload).await).await;
    assert!(again.len() == 4 && again.iter().all(|o| o.known && o.object.status == ObjectStatus::Ready));
    let (object, known) = world.one("app", &read(dsym("app"))).await;
    assert!(known);
    assert_eq!(world.slot(&object.debug_id.unwrap()).await.unwrap().generation, 1);
    assert!(world.is_quiet(&mut events).await);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_object_that_offers_more_answers_and_deletion_takes_all() {
    let world = World::start(1).await;
    let mut events = world.symbol_events();
    let (names, _) = world.one("app-symtab", &read(binary("app-symtab"))).await;
    let id = acme().scope(names.debug_id.unwrap());
    assert_eq!((names.quality, events.event().await.generation), (Quality::Symtab, 1));
    let (full, known) = world.one("app.dSYM.zip", &zip_of(&[("app", &read(dsym("app")))])).await;
    assert!(!known && full.debug_id == names.debug_id && full.content_hash != names.content_hash);
    assert_eq!(events.event().await.quality, u32::try_from(Quality::DwarfSymtab.rank()).unwrap());
    let meta = world.alias(&id).await.unwrap();
    assert_eq!((meta.object, meta.generation), (full.content_hash, 2));
    // The program itself offers less than its dSYM: kept by content, and ready, but it does not answer.
    let (program, _) = world.one("app", &read(binary("app"))).await;
    assert_eq!(program.status, ObjectStatus::Ready);
    assert_eq!(world.alias(&id).await.unwrap().object, full.content_hash);
    assert_eq!(world.slot(&id.id).await.unwrap().generation, 2);
    let kept = world.objects.head(&keys::for_object(acme().scope(program.content_hash))).await.unwrap();
    assert_eq!(kept.unwrap().size, program.size);

    world.files_gone().await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let deleted = symbols::delete_symbols(&mut tx, &id.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    assert_eq!((deleted.generation, deleted.objects.len()), (3, 3));
    // Once when it was decided, and once when it was done.
    for _ in 0..2 {
        let event = events.event().await;
        assert_eq!((event.generation, event.deleted), (3, true));
    }
    for prefix in [keys::for_symbols(&id).prefix(), keys::tenant_prefix(&acme())] {
        assert_eq!(world.objects.list(&prefix, None, 10).await.unwrap().entries, []);
    }
    let (_, known) = world.one("app", &read(dsym("app"))).await;
    assert!(!known);
    assert_eq!(world.alias(&id).await.unwrap().generation, 4);
    assert_eq!(events.event().await.generation, 4);
    world.stop().await;
}

/// Proves: bounded-input
#[tokio::test(flavor = "multi_thread")]
async fn derived_objects_lie_beside_the_symcache_and_their_failure_costs_no_symbols() {
    let world = World::start(1).await;
    let app = read(dsym("app"));
    let (object, _) = world.one("app", &app).await;
    assert_eq!((object.status, &object.reason), (ObjectStatus::Ready, &None));
    let id = acme().scope(object.debug_id.unwrap());
    let derived = |name: &str| keys::for_symbols(&id).derived(name);
    let length = world.objects.get(&derived(LENGTH.name), 1 << 10).await.unwrap().unwrap();
    assert_eq!(length.bytes, app.len().to_string().as_bytes());
    assert!(world.objects.head(&derived(DAMAGED.name)).await.unwrap().is_none());
    let settings = CacheSettings::new(world.folder().join("cache"), 1 << 30);
    let cache = SymcacheCache::open(settings, world.objects.clone(), Arc::clone(&world.host.clock)).unwrap();
    assert!(cache.peek_derived(&id, LENGTH.name, Hint::default()).is_none(), "nothing is fetched for it");
    let found = cache.get_derived(&id, LENGTH.name, Hint::default()).await.unwrap();
    assert!(matches!(found, DerivedContents::Found(bytes) if bytes == length.bytes));
    assert!(cache.peek_derived(&id, LENGTH.name, Hint::default()).is_some());
    assert!(cache.peek_derived(&id, LENGTH.name, Hint { tenant: Some(2), system: None }).is_none());

    // A newer object for the same debug id, from which one of them cannot be derived.
    let marked = [&app[..], REFUSED_END].concat();
    let (refused, _) = world.one("app", &marked).await;
    let reason = "damaged-v1: it has too many entries";
    assert_eq!((refused.status, refused.reason.as_deref()), (ObjectStatus::Ready, Some(reason)));
    cache.forget_outdated(&id, 2);
    let found = cache.get_derived(&id, LENGTH.name, Hint::default()).await.unwrap();
    assert!(matches!(found, DerivedContents::Found(bytes) if bytes == marked.len().to_string().as_bytes()));

    world.files_gone().await;
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let deleted = symbols::delete_symbols(&mut tx, &id.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    cache.delete_symbols(&id, deleted.generation);
    let found = cache.get_derived(&id, LENGTH.name, Hint::default()).await.unwrap();
    assert!(matches!(found, DerivedContents::Missing), "even if it is still there");
    for _ in 0..3_000 {
        if world.objects.head(&derived(LENGTH.name)).await.unwrap().is_none() {
            world.stop().await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("a deletion of the symbols left a derived object");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_uploads_end_with_a_reason_and_are_kept() {
    let world = World::start(1).await;
    let whole = zip_of(&[("app", &read(dsym("app")))]);
    let app = read(dsym("app"));
    let mut damaged = app.clone();
    // The number of load commands.
    damaged[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
    let bomb = vec![0; 300 << 20];
    let encrypted = encrypted_binary("app");
    let cases: [(&str, &[u8], &str); 9] = [
        ("cut.zip", &whole[..whole.len() / 2], "truncated"),
        ("notes.txt", b"these are notes", "unrecognised"),
        ("empty", b"", "empty"),
        ("no-binaries.zip", &zip_of(&[("a.txt", b"text"), ("b/c", b"more")]), "nothing_found"),
        ("bomb.zip", &zip_of(&[("App", &[&app[..8], &bomb[..]].concat())]), "bomb"),
        ("damaged", &damaged, "nothing_usable"),
        ("app-encrypted", &encrypted, "encrypted_binary"),
        ("app-encrypted.zip", &zip_of(&[("Shop.app/Shop", &encrypted)]), "encrypted_binary"),
        ("app.7z", b"7z\xbc\xaf\x27\x1crest", "unsupported"),
    ];
    for (name, bytes, reason) in cases {
        let id = world.upload(name, bytes).await;
        let (record, _) = world.wait(id).await;
        assert_eq!(
            (record.status, record.reason.as_deref()),
            (uploads::UploadStatus::Failed, Some(reason)),
            "{name}: {record:?}"
        );
        assert!(record.detail.is_some_and(|detail| detail.len() > 10), "{name}");
        let kept = world.objects.get(&keys::for_upload(acme().scope(id)), u64::MAX).await.unwrap().unwrap();
        assert!(kept.bytes == bytes, "{name} is kept unchanged");
    }
    // One bad object does not cost the others.
    let mixed = zip_of(&[("damaged", &damaged), ("app", &app)]);
    let (record, objects) = world.wait(world.upload("mixed.zip", &mixed).await).await;
    assert_eq!(record.status, uploads::UploadStatus::Done);
    let statuses: Vec<_> = objects.iter().map(|o| (o.path.as_str(), o.object.status)).collect();
    assert_eq!(statuses, [("app", ObjectStatus::Ready), ("damaged", ObjectStatus::Malformed)]);
    assert!(objects[1].object.reason.is_some());
    let mixed = zip_of(&[("Shop.app/Shop", &encrypted), ("app", &app)]);
    let (record, objects) = world.wait(world.upload("mixed.zip", &mixed).await).await;
    assert_eq!((record.status, objects.len()), (uploads::UploadStatus::Done, 1));
    let skipped = &record.skipped[0];
    assert_eq!((skipped.path.as_str(), skipped.reason.as_str()), ("Shop.app/Shop", "encrypted_binary"));
    assert!(skipped.detail.as_ref().unwrap().contains(".xcarchive"), "{skipped:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn builders_that_race_for_a_debug_id_agree_on_the_best() {
    let world = World::start(2).await;
    let files = [binary("app-symtab"), dsym("app"), binary("app")].map(read);
    let mut ids = Vec::new();
    for round in 0..2 {
        for (n, file) in files.iter().enumerate() {
            ids.push(world.upload(&format!("{round}-{n}"), file).await);
        }
    }
    let mut best = None;
    for id in ids {
        let (record, objects) = world.wait(id).await;
        assert_eq!(record.status, uploads::UploadStatus::Done, "{record:?}");
        best = best.max(Some((
            objects[0].object.quality,
            objects[0].object.content_hash,
            objects[0].object.debug_id,
        )));
    }
    let (quality, object, debug_id) = best.unwrap();
    let id = acme().scope(debug_id.unwrap());
    let (meta, slot) = (world.alias(&id).await.unwrap(), world.slot(&id.id).await.unwrap());
    assert_eq!((meta.quality, meta.object), (quality, object));
    assert_eq!((slot.generation, slot.content_hash, slot.quality), (meta.generation, Some(object), quality));
    assert!(slot.generation <= 3, "each object wins once at most");
    world.stop().await;
}

/// Proves: uploads
#[tokio::test(flavor = "multi_thread")]
async fn deletions_that_race_with_builds_leave_storage_and_database_agreed() {
    let world = World::start(2).await;
    let files = [dsym("app"), binary("app-symtab")].map(read);
    let first = world.one("app", &files[0]).await.0;
    let id = acme().scope(first.debug_id.unwrap());
    let mut waiting = Vec::new();
    for round in 0..12_u64 {
        waiting.push(world.upload("app", &files[usize::from(round % 3 == 0)]).await);
        // At another moment of the build each time.
        tokio::time::sleep(Duration::from_millis(round * 17 % 120)).await;
        let mut tx = world.store.tenant(&acme()).await.unwrap();
        // Either way it holds no builder back any longer.
        match symbols::delete_symbols(&mut tx, &id.id).await.unwrap() {
            Some(_) => tx.commit().await.unwrap(),
            None => tx.rollback().await.unwrap(),
        }
        if round % 4 == 3 {
            for id in waiting.drain(..) {
                assert_eq!(world.wait(id).await.0.status, uploads::UploadStatus::Done);
            }
            world.wait_until_idle().await;
            let (slot, alias) = (world.slot(&id.id).await.unwrap(), world.alias(&id).await);
            let answers = alias.map(|alias| (alias.object, alias.generation));
            assert_eq!(answers, slot.content_hash.map(|object| (object, slot.generation)), "round {round}");
            let keys = keys::for_symbols(&id);
            let debuginfo = world.objects.head(&keys.debuginfo()).await.unwrap();
            assert_eq!(debuginfo.is_some(), slot.content_hash.is_some());
        }
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_architectures_than_files_may_be_in_an_upload_are_refused() {
    let world = World::start(1).await;
    // As many architectures as a file may have, of eight bytes each.
    let mut fat = [0xCAFE_BABF_u32, 44].map(u32::to_be_bytes).concat();
    for n in 0..44_u64 {
        let words = [0x0100_000C_u64 << 32, 8 + 44 * 32 + 8 * n, 8, 0];
        fat.extend(words.map(u64::to_be_bytes).concat());
    }
    fat.extend([7; 44 * 8]);
    let names: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &fat[..])).collect();
    let (record, objects) = world.wait(world.upload("many.zip", &zip_of(&entries)).await).await;
    assert_eq!(
        (record.status, record.reason.as_deref()),
        (uploads::UploadStatus::Failed, Some("too_many_entries"))
    );
    assert!(objects.is_empty());
    world.stop().await;
}
