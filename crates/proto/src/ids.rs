//! Typed ids of messages.

use crate::report::{Need, Resymbolicate, TerminalOutcome};
use crate::symbol::{SymbolEvent, TenantConfig};
use unslide_model::{DebugId, IdError, ReportId, Scoped, TenantId};

/// The error for a message's field without a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongId {
    /// The tenant's slug is not valid.
    #[error("the field `tenant`: {0}")]
    Tenant(#[from] IdError),
    /// An id does not have sixteen bytes.
    #[error("the field `{field}` has {length} bytes and not 16")]
    Length {
        /// The field's name in the proto file.
        field: &'static str,
        /// The length of its value in bytes.
        length: usize,
    },
}

fn parse_id_bytes(field: &'static str, bytes: &[u8]) -> Result<[u8; 16], WrongId> {
    bytes.try_into().map_err(|_| WrongId::Length { field, length: bytes.len() })
}

impl SymbolEvent {
    /// Returns the owner, or `None` for system symbols.
    ///
    /// # Errors
    /// Returns [`WrongId::Tenant`] if the field does not hold a slug.
    pub fn parse_owner(&self) -> Result<Option<TenantId>, WrongId> {
        if self.tenant.is_empty() { Ok(None) } else { Ok(Some(TenantId::new(&self.tenant)?)) }
    }

    /// Returns the debug id.
    ///
    /// # Errors
    /// Returns [`WrongId::Length`] if the field does not have sixteen bytes.
    pub fn parse_debug_id(&self) -> Result<DebugId, WrongId> {
        parse_id_bytes("debug_id", &self.debug_id).map(DebugId)
    }
}

impl TenantConfig {
    /// Returns the tenant.
    ///
    /// # Errors
    /// Returns [`WrongId::Tenant`] if the field does not hold a slug.
    pub fn parse_tenant_id(&self) -> Result<TenantId, WrongId> {
        Ok(TenantId::new(&self.tenant)?)
    }
}

impl Need {
    /// Returns the debug id.
    ///
    /// # Errors
    /// Returns [`WrongId::Length`] if the field does not have sixteen bytes.
    pub fn parse_debug_id(&self) -> Result<DebugId, WrongId> {
        parse_id_bytes("debug_id", &self.debug_id).map(DebugId)
    }
}

impl Resymbolicate {
    /// Returns the report to symbolicate again.
    ///
    /// # Errors
    /// Returns [`WrongId`] if the tenant or the report id is not valid.
    pub fn parse_report_id(&self) -> Result<Scoped<ReportId>, WrongId> {
        Ok(TenantId::new(&self.tenant)?.scope(ReportId(parse_id_bytes("report_id", &self.report_id)?)))
    }
}

impl TerminalOutcome {
    /// Returns the report, or `None` if its id was not known.
    ///
    /// # Errors
    /// Returns [`WrongId`] if the tenant or the report id is not valid.
    pub fn parse_report_id(&self) -> Result<Option<Scoped<ReportId>>, WrongId> {
        if self.report_id.is_empty() {
            return Ok(None);
        }
        Ok(Some(TenantId::new(&self.tenant)?.scope(ReportId(parse_id_bytes("report_id", &self.report_id)?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_another_length_is_refused_by_name() {
        let event = SymbolEvent { debug_id: vec![1; 15].into(), ..SymbolEvent::default() };
        assert_eq!(event.parse_debug_id(), Err(WrongId::Length { field: "debug_id", length: 15 }));
        assert_eq!(event.parse_owner(), Ok(None));
        let request = Resymbolicate { tenant: "ACME".into(), ..Resymbolicate::default() };
        assert!(matches!(request.parse_report_id(), Err(WrongId::Tenant(_))));
    }
}
