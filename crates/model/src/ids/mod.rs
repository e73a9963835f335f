//! Ids, owners, permissions and secrets.

pub(super) mod body_key;
pub(super) mod group_ref;
pub(super) mod id;
pub(super) mod owner;
pub(super) mod preset;
pub(super) mod scope;
pub(super) mod secret;
pub(super) mod sender_key;
pub mod short_id;
