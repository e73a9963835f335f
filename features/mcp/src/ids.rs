//! Ids of what people gave to assistants.

unslide_store::ids! {
    /// The access of one assistant as one account.
    McpGrantId;
}
