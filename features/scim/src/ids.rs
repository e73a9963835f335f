//! Ids of users and groups of a directory.

unslide_store::ids! {
    /// A user whom an identity provider has sent.
    ScimUserId;
    /// A group that an identity provider has sent.
    ScimGroupId;
}
