//! The tables with rows of tenants, as their owners declare them: the core in [`CORE_TABLES`], each feature in its
//! [`StoreHook`](crate::StoreHook). A test compares the declarations with the catalogue of PostgreSQL, so that no table
//! and no column that names a person is forgotten.
//!
//! The end of rows by their age, the erasures, the deletion of a tenant and the bytes that count against its limit come from the
//! declarations: [`Selection`] has the statements.

mod core;
mod erasing;
mod old_rows;
mod rows;

pub use self::core::CORE_TABLES;
pub use erasing::{Erasing, RemovalCount};
pub use old_rows::purge_old_rows;
pub(crate) use rows::delete_with_tenant;
pub use rows::{Selection, expire_features, feature_files, list_person_sessions};

use crate::{OwnerTx, Result, Store, StoreHook, SymbolWaits};
use serde_json::Value;
use time::Duration;
use unslide_model::TenantId;

/// A table with rows of tenants. The order of the tables in their list is the order in which their rows are locked. A table comes
/// after those that it refers to.
#[derive(Clone, Copy, Debug)]
pub struct OwnedTable {
    /// Its name in the database.
    pub name: &'static str,
    /// The columns that tell the rows of one tenant apart, in the order in which all writers lock rows. Empty if its rows are
    /// searched for here with their tenant only.
    pub key: &'static [KeyColumn],
    /// The column of the app.
    pub app: Option<&'static str>,
    /// The column of the app's version.
    pub version: Option<&'static str>,
    /// The column of the day by which the table is partitioned. Its rows are found by it rather than by their time.
    pub day: Option<&'static str>,
    /// The column of the time at which a row's data arrived.
    pub received_at: Option<&'static str>,
    /// The column that names a session of an app.
    pub session: Option<&'static str>,
    /// The column with the hash of a user's id.
    pub user: Option<&'static str>,
    /// The column with the hash of an installation's id.
    pub installation: Option<&'static str>,
    /// The column that names the public key that the data came with.
    pub sender_key: Option<&'static str>,
    /// The column with the id of the report that a row is about: the row goes with it, or before it by its own age.
    pub report: Option<&'static str>,
    /// The column with the variant of that report. None if a row is about all reports with the id.
    pub report_variant: Option<&'static str>,
    /// True if a row goes with its report, and never alone.
    pub is_part_of_report: bool,
    /// The age that ends its rows.
    pub age: RowAge,
    /// The objects in storage that its rows name. They are condemned when a row is deleted here.
    pub files: Option<RowFiles>,
    /// The column of the bytes that count against the tenant's limit on symbols: a bigint.
    pub counted_bytes: Option<&'static str>,
    /// Its rows that outlive their tenant.
    pub outlives: Option<OutlivingRows>,
    /// The condition of rows that a process works with at the time `$2`. The deletion of their tenant waits for them.
    pub in_use: Option<&'static str>,
    /// Set if its rows wait for symbols.
    pub symbol_waits: Option<SymbolWaits>,
}

impl OwnedTable {
    /// Declares a table of which nothing is known but its name: its rows go with their tenant.
    #[must_use]
    pub const fn new(name: &'static str) -> OwnedTable {
        OwnedTable {
            name,
            key: &[],
            app: None,
            version: None,
            day: None,
            received_at: None,
            session: None,
            user: None,
            installation: None,
            sender_key: None,
            report: None,
            report_variant: None,
            is_part_of_report: false,
            age: RowAge::None,
            files: None,
            counted_bytes: None,
            outlives: None,
            in_use: None,
            symbol_waits: None,
        }
    }

    /// Declares a table with rows that the table `purges` ends. They are kept for this time after the one in the
    /// column that `purges` names.
    #[must_use]
    pub const fn kept_for(name: &'static str, period: Duration) -> OwnedTable {
        OwnedTable { age: RowAge::KeptFor(period), ..OwnedTable::new(name) }
    }

    /// Declares a table of the core with rows that the table `purges` ends, and for which the core has a task.
    #[must_use]
    pub const fn purged(name: &'static str) -> OwnedTable {
        OwnedTable { age: RowAge::Purged, ..OwnedTable::new(name) }
    }

    /// Declares a table with partitions that are dropped by their age.
    #[must_use]
    pub const fn dropped(name: &'static str) -> OwnedTable {
        OwnedTable { age: RowAge::Dropped, ..OwnedTable::new(name) }
    }
}

/// A column of the key by which rows are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyColumn {
    /// A text. Texts are compared byte by byte.
    Text(&'static str),
    /// A value of another type.
    Value(&'static str),
}

impl KeyColumn {
    /// Returns the name of the column.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KeyColumn::Text(name) | KeyColumn::Value(name) => name,
        }
    }

    /// Returns the column of a table `t` as a part of the order of locks.
    fn lock_order(self) -> String {
        match self {
            KeyColumn::Text(name) => format!("t.{name} COLLATE \"C\""),
            KeyColumn::Value(name) => format!("t.{name}"),
        }
    }
}

/// The age that ends rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowAge {
    /// No age of their own: they go with other rows, or because a person deletes them.
    None,
    /// The retention of their tenant, by their day if they have one, else by the time of arrival.
    Retention,
    /// The table `purges` says which rows end, and the core has a task that says when.
    Purged,
    /// The table `purges` says which rows end, this time after the one in the column that it names.
    KeptFor(Duration),
    /// They lie in partitions by time, which are dropped as a whole.
    Dropped,
}

/// The objects in storage that a row names.
#[derive(Clone, Copy, Debug)]
pub struct RowFiles {
    /// The columns that say which these are.
    pub columns: &'static [&'static str],
    /// Returns the objects of a row. The row has the columns as JSON, bytes as `\x` and hexadecimal digits.
    pub list: fn(&TenantId, Value) -> Result<Vec<FeatureFile>>,
}

impl RowFiles {
    /// Returns the expression of a row of a table `t` as JSON.
    fn row_as_json(self) -> String {
        let members: Vec<String> =
            self.columns.iter().map(|column| format!("'{column}', t.{column}")).collect();
        format!("jsonb_build_object({})", members.join(", "))
    }
}

/// A file in object storage that a row of a feature names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureFile {
    /// Its key.
    pub key: String,
    /// Its meaning for people. `None` for a file that may be absent.
    pub needed_as: Option<String>,
}

/// Rows that outlive their tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlivingRows {
    /// The condition that they fulfil; `None` if all do.
    pub condition: Option<&'static str>,
    /// The reason for which they stay.
    pub reason: &'static str,
}

fn list_tables(hooks: &[StoreHook]) -> Vec<&'static OwnedTable> {
    CORE_TABLES.iter().chain(hooks.iter().flat_map(|hook| hook.tables)).collect()
}

impl OwnerTx {
    /// Returns the tables of the core and of all features, in the order in which their rows are locked.
    pub(crate) fn tables(&self) -> Vec<&'static OwnedTable> {
        list_tables(&self.hooks())
    }
}

impl Store {
    /// Returns the tables as [`OwnerTx::tables`] does.
    pub(crate) fn tables(&self) -> Vec<&'static OwnedTable> {
        list_tables(self.hooks())
    }
}
