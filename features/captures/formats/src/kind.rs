//! Kinds of captures.

unslide_model::words! {
    /// The kind of a capture.
    pub enum CaptureKind {
        MallocLog = "malloc_log",
        /// A memory graph, or the text that Apple's tools print of one.
        MemoryGraph = "memory_graph",
        /// Samples of any form that `unslide flame` reads.
        Profile = "profile",
        StackSet = "stack_set",
    }
}
