//! Who and what something is, and who may do what.

pub(super) mod body_key;
pub(super) mod id;
pub(super) mod owner;
pub(super) mod scope;
pub(super) mod secret;
