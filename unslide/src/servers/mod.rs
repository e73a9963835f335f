//! Commands of operators, which reach the servers themselves.

pub mod audit;
pub mod backfill;
pub mod cells;
pub mod connection_check;
pub mod doctor;
pub mod fsck;
pub mod health;
pub mod key;
pub mod leave_history;
pub mod logins;
pub mod migrate;
pub mod simulate;
pub mod tenant;
