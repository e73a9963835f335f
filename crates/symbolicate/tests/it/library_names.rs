//! The names file of a library, beside the library itself.

use unslide_model::RelativeAddress;
use unslide_symbolicate::object::{build_symcache, read_library_names};
use unslide_symbolicate::symcache::SymCache;
use unslide_testkit::fixtures;

fn look_up(symcache: &SymCache, offset: u64) -> Option<String> {
    Some(symcache.lookup(RelativeAddress(offset)).into_answer()?.symbol?.decode().into_owned())
}

#[test]
fn the_names_of_a_library_answer_as_the_library_itself() {
    for name in ["app-symtab", "app-stripped", "kit-arm64", "kit-exports", "kit-locals", "kit-external"] {
        let library = std::fs::read(fixtures::binary(name)).unwrap();
        let names = read_library_names(&library).unwrap();
        let (whole, file) =
            (build_symcache(&library).unwrap(), build_symcache(&names.to_file().unwrap()).unwrap());
        assert_eq!((whole.debug_id, whole.quality), (file.debug_id, file.quality), "{name}");
        let (whole, file) =
            (SymCache::parse(whole.symcache).unwrap(), SymCache::parse(file.symcache).unwrap());
        let mut answers = 0;
        for offset in names.code.iter().flat_map(|section| section.clone().step_by(4)) {
            let own = look_up(&whole, offset.into());
            let sent = look_up(&file, offset.into());
            assert_eq!(own, sent, "{name} at {offset:#x}");
            answers += usize::from(own.is_some());
        }
        assert!(answers > 0, "{name}");
    }
}
