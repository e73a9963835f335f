//! Ids of captures.

unslide_store::ids! {
    /// A capture.
    CaptureId;
}
