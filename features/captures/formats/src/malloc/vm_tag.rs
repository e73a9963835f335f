//! The tags of virtual memory: the purpose of a range of pages, as its allocator names it. From xnu's
//! `vm_statistics.h`.

use std::borrow::Cow;

/// Returns the name of a tag.
#[must_use]
pub fn vm_tag_name(tag: u8) -> Cow<'static, str> {
    let found = NAMES.binary_search_by_key(&tag, |(number, _)| *number).ok().and_then(|at| NAMES.get(at));
    found.map_or_else(|| Cow::Owned(format!("Memory Tag {tag}")), |(_, name)| Cow::Borrowed(*name))
}

/// Names by number, in order.
const NAMES: &[(u8, &str)] = &[
    (0, "NONE_UNTAGGED"),
    (1, "MALLOC"),
    (2, "MALLOC_SMALL"),
    (3, "MALLOC_LARGE"),
    (4, "MALLOC_HUGE"),
    (5, "SBRK"),
    (6, "REALLOC"),
    (7, "MALLOC_TINY"),
    (8, "MALLOC_LARGE_REUSABLE"),
    (9, "MALLOC_LARGE_REUSED"),
    (10, "ANALYSIS_TOOL"),
    (11, "MALLOC_NANO"),
    (12, "MALLOC_MEDIUM"),
    (13, "MALLOC_PROB_GUARD"),
    (20, "MACH_MSG"),
    (21, "IOKIT"),
    (30, "STACK"),
    (31, "GUARD"),
    (32, "SHARED_PMAP"),
    (33, "DYLIB"),
    (34, "OBJC_DISPATCHERS"),
    (35, "UNSHARED_PMAP"),
    (40, "APPKIT"),
    (41, "FOUNDATION"),
    (42, "COREGRAPHICS"),
    (43, "CORESERVICES"),
    (44, "JAVA"),
    (45, "COREDATA"),
    (46, "COREDATA_OBJECTIDS"),
    (50, "ATS"),
    (51, "LAYERKIT"),
    (52, "CGIMAGE"),
    (53, "TCMALLOC"),
    (54, "COREGRAPHICS_DATA"),
    (55, "COREGRAPHICS_SHARED"),
    (56, "COREGRAPHICS_FRAMEBUFFERS"),
    (57, "COREGRAPHICS_BACKINGSTORES"),
    (58, "COREGRAPHICS_XALLOC"),
    (60, "DYLD"),
    (61, "DYLD_MALLOC"),
    (62, "SQLITE"),
    (63, "JAVASCRIPT_CORE"),
    (64, "JAVASCRIPT_JIT_EXECUTABLE_ALLOCATOR"),
    (65, "JAVASCRIPT_JIT_REGISTER_FILE"),
    (66, "GLSL"),
    (67, "OPENCL"),
    (68, "COREIMAGE"),
    (69, "WEBCORE_PURGEABLE_BUFFERS"),
    (70, "IMAGEIO"),
    (71, "COREPROFILE"),
    (72, "ASSETSD"),
    (73, "OS_ALLOC_ONCE"),
    (74, "LIBDISPATCH"),
    (75, "ACCELERATE"),
    (76, "COREUI"),
    (77, "COREUIFILE"),
    (78, "GENEALOGY"),
    (79, "RAWCAMERA"),
    (80, "CORPSEINFO"),
    (81, "ASL"),
    (82, "SWIFT_RUNTIME"),
    (83, "SWIFT_METADATA"),
    (84, "DHMM"),
    (86, "SCENEKIT"),
    (87, "SKYWALK"),
    (88, "IOSURFACE"),
    (89, "LIBNETWORK"),
    (90, "AUDIO"),
    (91, "VIDEOBITSTREAM"),
    (92, "CM_XPC"),
    (93, "CM_RPC"),
    (94, "CM_MEMORYPOOL"),
    (95, "CM_READCACHE"),
    (96, "CM_CRABS"),
    (97, "QUICKLOOK_THUMBNAILS"),
    (98, "ACCOUNTS"),
    (99, "SANITIZER"),
    (100, "IOACCELERATOR"),
    (101, "CM_REGWARP"),
    (102, "EAR_DECODER"),
    (103, "COREUI_CACHED_IMAGE_DATA"),
    (104, "COLORSYNC"),
    (105, "BTINFO"),
    (106, "CM_HLS"),
    (230, "ROSETTA"),
    (231, "ROSETTA_THREAD_CONTEXT"),
    (232, "ROSETTA_INDIRECT_BRANCH_MAP"),
    (233, "ROSETTA_RETURN_STACK"),
    (234, "ROSETTA_EXECUTABLE_HEAP"),
    (235, "ROSETTA_USER_LDT"),
    (236, "ROSETTA_ARENA"),
    (239, "ROSETTA_10"),
    (240, "APPLICATION_SPECIFIC_1"),
    (241, "APPLICATION_SPECIFIC_2"),
    (242, "APPLICATION_SPECIFIC_3"),
    (243, "APPLICATION_SPECIFIC_4"),
    (244, "APPLICATION_SPECIFIC_5"),
    (245, "APPLICATION_SPECIFIC_6"),
    (246, "APPLICATION_SPECIFIC_7"),
    (247, "APPLICATION_SPECIFIC_8"),
    (248, "APPLICATION_SPECIFIC_9"),
    (249, "APPLICATION_SPECIFIC_10"),
    (250, "APPLICATION_SPECIFIC_11"),
    (251, "APPLICATION_SPECIFIC_12"),
    (252, "APPLICATION_SPECIFIC_13"),
    (253, "APPLICATION_SPECIFIC_14"),
    (254, "APPLICATION_SPECIFIC_15"),
    (255, "APPLICATION_SPECIFIC_16"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_have_names_and_those_without_have_numbers() {
        assert!(NAMES.is_sorted_by_key(|(number, _)| *number));
        assert_eq!((vm_tag_name(7), vm_tag_name(88)), ("MALLOC_TINY".into(), "IOSURFACE".into()));
        assert_eq!(vm_tag_name(150), "Memory Tag 150");
    }
}
