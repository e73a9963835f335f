//! Ids of rules, firings and messages.

unslide_store::ids! {
    /// A rule.
    AlertRuleId;
    /// A firing of a rule.
    AlertFiringId;
    /// A message that a rule sends.
    AlertMessageId;
}
