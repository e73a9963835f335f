//! Permissions of API keys.

use crate::IdError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A permission of an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Upload and delete symbols.
    #[serde(rename = "symbols:write")]
    SymbolsWrite,
    /// List symbols.
    #[serde(rename = "symbols:read")]
    SymbolsRead,
    /// Download the files of symbols, such as dSYMs.
    #[serde(rename = "symbols:download")]
    SymbolsDownload,
    /// Send reports.
    #[serde(rename = "reports:write")]
    ReportsWrite,
    /// Query reports.
    #[serde(rename = "reports:read")]
    ReportsRead,
    /// Resolve, ignore, assign, comment on, merge and split groups.
    #[serde(rename = "groups:write")]
    GroupsWrite,
    /// Manage the tenant's own keys and settings.
    #[serde(rename = "tenant:admin")]
    TenantAdmin,
    /// Manage every tenant.
    #[serde(rename = "operator")]
    Operator,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 8] = [
        Scope::SymbolsWrite,
        Scope::SymbolsRead,
        Scope::SymbolsDownload,
        Scope::ReportsWrite,
        Scope::ReportsRead,
        Scope::GroupsWrite,
        Scope::TenantAdmin,
        Scope::Operator,
    ];

    /// Returns the scope's name, such as `symbols:write`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::SymbolsWrite => "symbols:write",
            Scope::SymbolsRead => "symbols:read",
            Scope::SymbolsDownload => "symbols:download",
            Scope::ReportsWrite => "reports:write",
            Scope::ReportsRead => "reports:read",
            Scope::GroupsWrite => "groups:write",
            Scope::TenantAdmin => "tenant:admin",
            Scope::Operator => "operator",
        }
    }

    /// Returns one line that says what the scope permits.
    #[must_use]
    pub fn summary(self) -> &'static str {
        match self {
            Scope::SymbolsWrite => "Uploads and deletes symbols.",
            Scope::SymbolsRead => "Lists symbols, and symbolicates reports that are not stored.",
            Scope::SymbolsDownload => "Downloads the files of symbols, such as dSYMs.",
            Scope::ReportsWrite => "Sends reports, and all else that apps measure.",
            Scope::ReportsRead => "Sees reports, groups, and all else that apps sent.",
            Scope::GroupsWrite => "Resolves, ignores, assigns, comments on, merges and splits groups.",
            Scope::TenantAdmin => "Manages keys, settings, rules and dead letters, and deletes reports.",
            Scope::Operator => "Manages every tenant.",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Scope, IdError> {
        Scope::ALL
            .into_iter()
            .find(|scope| scope.as_str() == s)
            .ok_or_else(|| IdError::Scope(Scope::ALL.map(Scope::as_str).join(", ")))
    }
}
