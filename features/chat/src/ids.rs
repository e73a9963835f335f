//! Ids of Slack apps, of their messages and of accounts.

unslide_store::ids! {
    /// The Slack app of a tenant.
    SlackAppId;
    /// The marker in the metadata of a message, by which it is found again.
    SlackMarkerId;
    /// The key of the account that a person acts as.
    SlackAccountKeyId;
}
