//! The fuzz targets' checks over inputs that are close to valid ones.

use proptest::prelude::*;

#[path = "../../../../../fuzz/checks/captures/memory_graph.rs"]
mod memory_graph;
#[path = "../../../../../fuzz/checks/captures/profile.rs"]
mod profile;

/// Lines that the readers of texts know, whole and damaged.
const LINES: [&str; 16] = [
    "Call graph:",
    "Process: Shop [1]",
    "Powerstats for: Shop [1]",
    "UUID: A1B2C3D4-0000-3111-8222-0123456789AB",
    "  Thread 0x1    3 samples (1-3)",
    "  3  main + 1 (a.c:1,2 in Shop + 17) [0x1011]",
    "   *18446744073709551615  ??? (kernel + 1) [0xffffffffffffffff] 1-3",
    "    5 Thread_1: worker",
    "    + 5 main  (in Shop) + 1,2  [0x1011,0x1012,...]",
    "    +   9 ???  (in Shop)  load address 0x1000 + 0x11  [0x1011]",
    "    ! : | 2 a(in) (b  (in",
    "",
    "Binary Images:",
    "  0x1000 - 0x1fff +Shop (1) <A1B2C3D4-0000-3111-8222-0123456789AB> /Shop",
    "  *0xffff000000000000 - ??? kernel <> ",
    "main;a_[k];;b 3",
];

proptest! {
    #[test]
    fn graphs_of_memory_with_any_edges_add_up(
        edges in prop::collection::vec((0..12_u32, 0..12_u32, 0..5_usize), 0..60),
        roots in prop::collection::vec(0..12_u32, 0..4),
    ) {
        memory_graph::check(&crate::memory_graph::random(12, edges, roots));
    }

    #[test]
    fn graphs_of_memory_with_damage_are_read_or_refused(at in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = crate::memory_graph::random(4, vec![(0, 1, 0), (1, 2, 1), (3, 3, 4)], vec![0]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        memory_graph::check(&bytes);
    }

    #[test]
    fn lines_in_any_order_are_read_or_refused(lines in prop::collection::vec(prop::sample::select(&LINES[..]), 0..40)) {
        profile::check(lines.join("\n").as_bytes());
    }
}
