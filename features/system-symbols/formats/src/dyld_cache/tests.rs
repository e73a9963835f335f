//! Dyld shared caches of four generations: every name is found, and none is invented.

use super::{DyldCache, DyldCacheError, list_images, main_file_name};
use bytes::Bytes;
use serde_json::Value;
use std::path::{Path, PathBuf};
use unslide_model::{DebugId, Quality, RelativeAddress};
use unslide_symbolicate::object::{BuiltSymCache, build_symcache};
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;

const MAIN: &str = "dyld_shared_cache_arm64e";
const LAYOUTS: [&str; 4] = ["ios14-single", "ios15-large", "ios16-split", "ios26-split"];

fn folder(layout: &str) -> PathBuf {
    fixtures::dyld_caches().join(layout)
}

fn read(folder: &Path, name: &str) -> std::io::Result<Option<Bytes>> {
    let path = folder.join(name);
    if path.exists() { Ok(Some(std::fs::read(path)?.into())) } else { Ok(None) }
}

fn open(folder: &Path) -> Result<DyldCache, DyldCacheError> {
    DyldCache::open(read(folder, MAIN).unwrap().unwrap(), MAIN, |name| read(folder, name))
}

fn open_without(folder: &Path, absent: &str) -> Result<DyldCache, DyldCacheError> {
    let main = read(folder, MAIN).unwrap().unwrap();
    DyldCache::open(main, MAIN, |name| if name.ends_with(absent) { Ok(None) } else { read(folder, name) })
}

fn expected(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Builds the symcache of one image, as a builder does it of the file that a client sends.
fn build_image(cache: &DyldCache, id: DebugId) -> BuiltSymCache {
    let image = cache.images().iter().find(|image| image.debug_id == id).unwrap();
    build_symcache(&cache.read_names(image).unwrap().to_file().unwrap()).unwrap()
}

/// Returns the linkage names of an address, and whether they are approximate.
fn look_up(symcache: &SymCache, offset: u64) -> Option<(String, bool)> {
    let found = symcache.lookup(RelativeAddress(offset)).into_answer()?;
    Some((found.symbol?.decode().into_owned(), found.approximate))
}

#[test]
fn every_generation_of_caches_gives_each_name_and_no_other() {
    for layout in LAYOUTS {
        let (cache, wanted) = (open(&folder(layout)).unwrap(), expected(&folder(layout)));
        assert!(!cache.lacks_locals(), "{layout}");
        assert_eq!(cache.images().len(), wanted["images"].as_array().unwrap().len(), "{layout}");
        let mut probes = 0;
        for image in wanted["images"].as_array().unwrap() {
            let id: DebugId = image["uuid"].as_str().unwrap().parse().unwrap();
            let built = build_image(&cache, id);
            let symcache = SymCache::parse(built.symcache).unwrap();
            let own = wanted["probes"].as_array().unwrap().iter().filter(|p| p["uuid"] == image["uuid"]);
            for probe in own {
                let place = format!("{layout} {} {probe}", image["path"]);
                let answer = look_up(&symcache, probe["offset"].as_u64().unwrap());
                let strip = |names: Vec<String>| -> Vec<String> {
                    names.iter().map(|name| name.strip_prefix('_').unwrap_or(name).to_owned()).collect()
                };
                let (names, may_say) = (strip(texts(&probe["names"])), strip(texts(&probe["may_say"])));
                match answer {
                    Some((name, _)) if !names.is_empty() => assert!(names.contains(&name), "{place}: {name}"),
                    Some((name, approximate)) => {
                        assert!(approximate && may_say.contains(&name), "{place}: {name}");
                    }
                    None => assert!(names.is_empty(), "{place}: no name"),
                }
                probes += 1;
            }
        }
        assert!(probes > 100, "{layout} has {probes} probes");
    }
}

#[test]
fn a_names_file_has_no_bytes_of_code_data_or_class_names() {
    let cache = open(&folder("ios26-split")).unwrap();
    let wanted = expected(&folder("ios26-split"));
    for image in cache.images() {
        let names = cache.read_names(image).unwrap();
        let listed = wanted["images"].as_array().unwrap().iter();
        let listed = listed.filter(|listed| listed["path"] == image.path.as_str());
        let data: Vec<String> = listed.flat_map(|listed| texts(&listed["not_functions"])).collect();
        for start in &names.starts {
            let name = String::from_utf8_lossy(start.name.as_bytes().unwrap_or_default()).into_owned();
            assert!(!data.contains(&name) && !name.contains("redacted"), "{}: {name}", image.path);
        }
        // The names are the only texts: the body is these and numbers.
        let named: usize = names.starts.iter().filter_map(|s| s.name.as_bytes()).map(|n| n.len() + 1).sum();
        let file = names.to_file().unwrap();
        let body = u32::from_le_bytes(*file[52..].first_chunk().unwrap()) as usize;
        assert!(body <= named + 6 * (names.starts.len() + names.code.len() + 1), "{}", image.path);
    }
}

#[test]
fn without_local_symbols_the_rest_is_exports() {
    for layout in ["ios15-large", "ios16-split", "ios26-split"] {
        let cache = open_without(&folder(layout), ".symbols").unwrap();
        assert!(cache.lacks_locals(), "{layout}");
        let image = cache.images().iter().find(|image| image.path.ends_with("DemoKit")).unwrap();
        let built = build_image(&cache, image.debug_id);
        assert_eq!(built.quality, Quality::Exports, "{layout}");
    }
}

#[test]
fn a_missing_or_foreign_file_is_named() {
    let folder = folder("ios26-split");
    let missing = open_without(&folder, ".07.dyldlinkedit").unwrap_err().to_string();
    assert!(missing.starts_with("dyld_shared_cache_arm64e.07.dyldlinkedit is missing"), "{missing}");
    let main = read(&folder, MAIN).unwrap().unwrap();
    let foreign = |name: &str| {
        read(&folder, if name.ends_with(".05.dylddata") { "dyld_shared_cache_arm64e.04" } else { name })
    };
    let foreign = DyldCache::open(main, MAIN, foreign).unwrap_err().to_string();
    assert!(foreign.contains(".05.dylddata belongs to another cache"), "{foreign}");
    let part = read(&folder, "dyld_shared_cache_arm64e.02").unwrap().unwrap();
    let part = DyldCache::open(part, "dyld_shared_cache_arm64e.02", |_| Ok(None)).unwrap_err().to_string();
    assert_eq!(part, "a part of a dyld shared cache; import dyld_shared_cache_arm64e");
}

#[test]
fn a_damaged_image_costs_its_own_names_only() {
    let folder = folder("ios14-single");
    let whole = read(&folder, MAIN).unwrap().unwrap();
    let images = list_images(&whole).unwrap();
    assert_eq!(images, open(&folder).unwrap().images());
    let mut damaged = whole.to_vec();
    let first = &images[0];
    // The first mapping of a single file begins at its first byte.
    let at = usize::try_from(first.address - images.iter().map(|i| i.address).min().unwrap()).unwrap();
    let base = damaged.windows(4).position(|word| word == [0xcf, 0xfa, 0xed, 0xfe]).unwrap();
    damaged[base + at..base + at + 4].fill(0);
    let cache = DyldCache::open(damaged.into(), MAIN, |_| Ok(None)).unwrap();
    let broken: Vec<&str> = cache
        .images()
        .iter()
        .filter(|image| cache.read_names(image).is_err())
        .map(|image| image.path.as_str())
        .collect();
    assert_eq!(broken, [first.path.as_str()]);
}

#[test]
fn a_cut_cache_is_refused() {
    let main = read(&folder("ios14-single"), MAIN).unwrap().unwrap();
    for end in (0..main.len()).step_by(997) {
        match DyldCache::open(main.slice(..end), MAIN, |_| Ok(None)) {
            Ok(cache) => cache.images().iter().for_each(|image| drop(cache.read_names(image))),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

#[test]
fn a_part_names_its_main_file() {
    for file in ["", ".02.dylddata", ".symbols"] {
        let name = format!("dyld_shared_cache_arm64e{file}");
        assert_eq!(main_file_name(&name).as_deref(), Some("dyld_shared_cache_arm64e"));
    }
    let development = "dyld_shared_cache_arm64e.development";
    assert_eq!(main_file_name(development).as_deref(), Some(development));
    assert_eq!(
        main_file_name("dyld_shared_cache_arm64e.03.development.dylddata").as_deref(),
        Some(development)
    );
    assert_eq!(main_file_name("other"), None);
}

#[test]
fn a_file_that_is_no_cache_is_refused() {
    let open = |bytes: &'static [u8]| {
        DyldCache::open(Bytes::from_static(bytes), "dyld_shared_cache_arm64e", |_| Ok(None)).unwrap_err()
    };
    assert_eq!(open(b""), DyldCacheError::NotACache);
    assert_eq!(open(b"dyld_v1  arm64e\0"), DyldCacheError::NotACache);
    assert_eq!(open(b"dyld_v1   armv9\0                "), DyldCacheError::NotACache);
}
