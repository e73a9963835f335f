//! Errors between the service and its database.

use sqlx::postgres::PgDatabaseError;
use unslide_history::HistoryError;
use unslide_model::ReportId;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database could not be reached, or refused a statement.
    #[error("PostgreSQL cannot be reached or refused a statement")]
    Database(#[source] sqlx::Error),
    /// The migrations could not be applied.
    #[error("cannot migrate the database")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// A migration found its table locked, each time that it was tried.
    #[error(
        "a migration could not lock its table within {seconds} s: end the transactions that hold it (`SELECT * FROM \
         pg_stat_activity WHERE xact_start < now() - interval '1 minute'`), then run `unslide migrate` again"
    )]
    Locked {
        /// How long it was tried.
        seconds: u64,
        /// The last error.
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// The database lacks migrations that this program needs.
    #[error("the database lacks {missing} migrations, the first is {first}: run `unslide migrate`")]
    NotMigrated {
        /// How many are missing.
        missing: usize,
        /// The first one's version.
        first: i64,
    },
    /// The database was made by a program with another base, so that no migration leads to this program's schema.
    #[error(
        "a development version from before the first release made this database, and no migration leads from its schema to this one: \
         start with an empty database, or `unslide dev` with an empty --data-dir"
    )]
    OtherBase,
    /// The server is older than what the migrations need.
    #[error("PostgreSQL {found} is too old: Unslide runs on PostgreSQL 15 to 18. Update the server")]
    OldServer {
        /// The version of the server, as it names itself.
        found: String,
    },
    /// The connection acts as a role that sees every tenant's rows.
    #[error(
        "the role {0} may bypass row-level security; connect as a member of unslide_service that is neither superuser nor BYPASSRLS"
    )]
    UnsafeRole(String),
    /// The login could leave its role for one that sees every tenant's rows.
    #[error(
        "the login {0} could bypass row-level security: it may act as a superuser, as a role with BYPASSRLS or as the tables' owner; connect as a login that is a member of unslide_service only"
    )]
    UnsafeLogin(String),
    /// The server answers and takes no writes.
    #[error(
        "PostgreSQL takes no writes: it is a standby, or default_transaction_read_only is on. Connect to the primary, \
         or set it off"
    )]
    ReadOnly,
    /// Tables of a day are missing, so that nothing of that day can be stored.
    #[error(
        "the tables of {day} are missing: {tables}. Indexers make them; their log says why they could not (`maintenance failed`)"
    )]
    NoPartitions {
        /// The day.
        day: time::Date,
        /// The partitioned tables, separated by commas.
        tables: String,
    },
    /// Two connections share a session of the server.
    #[error(
        "the connections go through a pooler in transaction mode, which mixes roles, locks and prepared statements; set its mode to session, or connect to PostgreSQL itself"
    )]
    SharedSession,
    /// A row holds what no program of ours writes.
    #[error("a row of {table} has an invalid value: {what}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The error.
        what: String,
    },
    /// The caller asked for a body that is in object storage.
    #[error("the report's body lies in a segment")]
    InSegment,
    /// ClickHouse, which has the rows of old reports, could not be reached, or refused a statement.
    #[error("ClickHouse, which has the rows of old reports, cannot be reached or refused a statement")]
    History(#[from] HistoryError),
    /// The row of a report is in ClickHouse, and the settings do not say where that is.
    #[error(
        "the rows of old reports are in ClickHouse, and `history.url` is not set: set it as for the other services"
    )]
    NoHistory,
    /// ClickHouse does not have a row in the version that the report's key names: a replica is behind, or was restored.
    #[error(
        "ClickHouse lacks the row of report {report_id} (variant {variant}) in its version {version}: a replica is behind, or ClickHouse \
         was restored to an earlier moment than PostgreSQL"
    )]
    HistoryBehind {
        /// The report.
        report_id: ReportId,
        /// Which of the reports with this id.
        variant: u32,
        /// The version.
        version: u32,
    },
    /// The job was given to someone else in the meantime.
    #[error("the lease of job {0} was lost")]
    LeaseLost(crate::JobId),
    /// The tenant has as many keys in force as it may have.
    #[error("Key limit reached for tenant {tenant}: {limit} {kind}s are in force. Revoke one first.")]
    TooManyKeys {
        /// The tenant.
        tenant: String,
        /// The limit.
        limit: u32,
        /// The plural of the name that people give keys of the kind.
        kind: &'static str,
    },
    /// The tenant was deleted: no more data is written for it.
    #[error("the tenant was deleted")]
    TenantDeleted,
    /// The tenant is moving to another cell, or is there: no data of it is written here.
    #[error("the tenant is moving to another cell")]
    TenantMoving,
    /// Someone else has read on from this position.
    #[error("the position of {topic}/{partition} is no longer {expected}: another reader moved it")]
    Fenced {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset that this reader believed in.
        expected: i64,
    },
}

/// The SQLSTATE that the database raises if rows are added to a deleted tenant.
const TENANT_DELETED: &str = "UD001";

/// The SQLSTATE that the database raises if rows of a tenant change that another cell may be changing.
const TENANT_MOVING: &str = "UD002";

/// Returns true for an SQLSTATE with which a server refuses all work of a kind: `25006` takes no writes, `28` refuses
/// the login, `3D000` lacks the database, `53` lacks disk, memory or connections, `57P` starts or stops, `58` cannot
/// read its own files.
fn is_outage_state(code: &str) -> bool {
    matches!(code, "25006" | "3D000") || ["28", "53", "57P", "58"].iter().any(|class| code.starts_with(class))
}

/// Returns true for an SQLSTATE of a server that serves again without a change of the settings: `08` loses the connection,
/// `53` lacks disk, memory or connections, `57P01` to `57P03` starts or stops.
fn is_passing_state(code: &str) -> bool {
    matches!(code, "57P01" | "57P02" | "57P03") || code.starts_with("08") || code.starts_with("53")
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        match code.as_deref() {
            Some(TENANT_DELETED) => return StoreError::TenantDeleted,
            Some(TENANT_MOVING) => return StoreError::TenantMoving,
            _ => {}
        }
        match error {
            sqlx::Error::ColumnDecode { index, source } => {
                StoreError::corrupt("an answer", format!("column {index}: {source}"))
            }
            error => StoreError::Database(error),
        }
    }
}

impl StoreError {
    /// Returns true if the same work may succeed when it is done again: outages, deadlocks, serialization
    /// failures.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        match self {
            _ if self.is_outage() => true,
            StoreError::Database(sqlx::Error::Database(error)) => error
                .code()
                .is_some_and(|code| matches!(code.as_ref(), "40001" | "40P01" | "55P03" | "57014")),
            // A retry sees that it is deleted.
            StoreError::TenantDeleted => true,
            // It is soon over, or the new cell serves it.
            StoreError::TenantMoving => true,
            _ if self.is_history() => true,
            _ => false,
        }
    }

    /// Returns true if no work can succeed for now, and no work is the cause: the server cannot be reached,
    /// takes no writes, has no disk space or memory left, or refuses the login or a right of the services.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            _ if self.is_connection() => true,
            StoreError::Database(sqlx::Error::Database(error)) => {
                // A row that the policies of row-level security refuse has the same code as a missing right,
                // and is a fault of the program.
                let is_policy = error
                    .try_downcast_ref::<PgDatabaseError>()
                    .is_some_and(|error| error.routine() == Some("ExecWithCheckOptions"));
                error.code().is_some_and(|code| is_outage_state(&code) || code == "42501" && !is_policy)
            }
            StoreError::Database(sqlx::Error::Tls(_)) => true,
            StoreError::ReadOnly | StoreError::NoPartitions { .. } => true,
            _ => false,
        }
    }

    /// Returns true if a row is needed that is in ClickHouse, and cannot be had now. Work without such rows succeeds.
    #[must_use]
    pub fn is_history(&self) -> bool {
        matches!(self, StoreError::History(_) | StoreError::NoHistory | StoreError::HistoryBehind { .. })
    }

    /// Returns true if the server cannot be reached, starts or stops, or has no disk space, memory or connection left: a start
    /// waits for it.
    #[must_use]
    pub fn is_connection(&self) -> bool {
        match self {
            StoreError::Database(sqlx::Error::Database(error)) => {
                error.code().is_some_and(|code| is_passing_state(&code))
            }
            StoreError::Database(error) => matches!(
                error,
                sqlx::Error::Io(_)
                    | sqlx::Error::PoolTimedOut
                    | sqlx::Error::PoolClosed
                    | sqlx::Error::Protocol(_)
                    | sqlx::Error::WorkerCrashed
            ),
            _ => false,
        }
    }

    /// Returns true if the database refuses the values themselves, and would refuse them again: a text or
    /// number that a column cannot hold.
    #[must_use]
    pub fn is_data(&self) -> bool {
        self.has_class(&["22", "54"])
    }

    /// Returns true if the values of single records are at fault and others may be stored: a column cannot
    /// hold them (see [`StoreError::is_data`]), a constraint refuses them, or a row of theirs should not
    /// exist.
    #[must_use]
    pub fn is_of_record(&self) -> bool {
        self.is_data() || self.has_class(&["23"]) || matches!(self, StoreError::Corrupt { .. })
    }

    /// Returns true if the login lacks a right for what it tried, such as the right to act as the role of the
    /// services.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        self.has_class(&["42501"])
    }

    /// Returns true if a statement ran out of time: the database is slow, or the statement has too much to
    /// do.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.has_class(&["57014"])
    }

    /// Returns true for an error of the database with an SQLSTATE of one of these classes.
    fn has_class(&self, classes: &[&str]) -> bool {
        let StoreError::Database(sqlx::Error::Database(error)) = self else { return false };
        error.code().is_some_and(|code| classes.iter().any(|class| code.starts_with(class)))
    }

    /// Makes the error for a row of a table that cannot be read.
    pub fn corrupt(table: &'static str, what: impl std::fmt::Display) -> StoreError {
        StoreError::Corrupt { table, what: what.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_waits_for_a_server_that_lacks_disk_and_not_for_other_settings() {
        for state in ["08006", "53100", "53200", "53300", "57P01", "57P03"] {
            assert!(is_passing_state(state), "{state}");
        }
        for state in ["25006", "28P01", "3D000", "42501", "57014"] {
            assert!(!is_passing_state(state), "{state}");
        }
    }

    #[test]
    fn states_of_an_outage_are_no_faults_of_a_statement() {
        for state in ["25006", "28P01", "28000", "3D000", "53100", "53200", "53300", "57P01", "58030"] {
            assert!(is_outage_state(state), "{state}");
        }
        for state in ["22001", "23505", "25P02", "40001", "42501", "42703", "57014", "55P03", "XX000"] {
            assert!(!is_outage_state(state), "{state}");
        }
    }
}
