//! People as the directory of a tenant knows them. One feature keeps the directory, and another one the sign-in of people:
//! neither knows the other.

/// A person in the directory of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The id that the identity provider has for the person. It never goes to another person.
    pub id: String,
    /// False for a person who has left.
    pub is_active: bool,
    /// Names of the person's groups.
    pub groups: Vec<String>,
}

/// People whom a transaction has changed in the directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryChange<'c> {
    /// Who changed them, for the audit log.
    pub actor: &'c str,
    /// Their entries after the change.
    pub entries: &'c [DirectoryEntry],
}
