//! The addresses by which the service names itself to assistants.

use http::HeaderMap;
use http::header::HOST;
use reqwest::Url;
use unslide_model::TenantId;

/// The path of the protocol, for the tenant of the key or of the token.
pub const MCP_PATH: &str = "/mcp";
/// The path of the page on which a person gives access.
pub const AUTHORIZE_PATH: &str = "/console/oauth/authorize";

/// The address of the service without a slash at its end. It is the issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl(String);

/// The resource that a token is for: the protocol at the path with the name of a tenant, or at the one without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpResource {
    /// The tenant that the path names.
    pub tenant: Option<TenantId>,
}

impl McpResource {
    /// Returns the path of the resource.
    pub fn path(&self) -> String {
        let tenant = self.tenant.as_ref().map(|tenant| format!("/{tenant}"));
        format!("{MCP_PATH}{}", tenant.unwrap_or_default())
    }
}

impl ServiceUrl {
    /// Returns the address in the settings, or the one that a request names if there is none.
    pub fn from_request(public_url: &str, headers: &HeaderMap) -> ServiceUrl {
        if !public_url.is_empty() {
            return ServiceUrl(public_url.trim_end_matches('/').to_owned());
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
        let is_local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|local| host.starts_with(local));
        ServiceUrl(format!("{}://{host}", if is_local { "http" } else { "https" }))
    }

    /// Returns the issuer of tokens.
    pub fn issuer(&self) -> &str {
        &self.0
    }

    /// Returns the address of a path of the service.
    pub fn address_of(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Reads the address of a resource of this service. The scheme and the host are read in any case.
    pub fn parse_resource(&self, text: &str) -> Option<McpResource> {
        let (own, asked) = (Url::parse(&self.0).ok()?, Url::parse(text).ok()?);
        let path = asked.as_str().trim_end_matches('/').strip_prefix(own.as_str().trim_end_matches('/'))?;
        match path.strip_prefix(MCP_PATH)? {
            "" => Some(McpResource { tenant: None }),
            rest => Some(McpResource { tenant: Some(TenantId::new(rest.strip_prefix('/')?).ok()?) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_protocol_at_this_service_are_its_resources() {
        let service = ServiceUrl::from_request("https://crashes.example.com/", &HeaderMap::new());
        let read = |text: &str| service.parse_resource(text).map(|resource| resource.path());
        for (text, path) in [
            ("https://crashes.example.com/mcp", "/mcp"),
            ("HTTPS://Crashes.Example.com:443/mcp/", "/mcp"),
            ("https://crashes.example.com/mcp/acme", "/mcp/acme"),
        ] {
            assert_eq!(read(text).as_deref(), Some(path), "{text}");
        }
        for text in [
            "",
            "/mcp",
            "https://crashes.example.com",
            "https://crashes.example.com/mcpx",
            "https://crashes.example.com/mcp/acme/umbrella",
            "https://crashes.example.com/mcp/../mcp/a",
            "https://crashes.example.com/mcp?a=b",
            "https://crashes.example.com/mcp#a",
            "http://crashes.example.com/mcp",
            "https://crashes.example.com:444/mcp",
            "https://crashes.example.com.evil.example/mcp",
            "https://a@crashes.example.com/mcp",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn without_a_setting_the_request_names_the_service() {
        let from_host = |host: &'static str| {
            let headers = HeaderMap::from_iter([(HOST, host.parse().unwrap())]);
            ServiceUrl::from_request("", &headers).issuer().to_owned()
        };
        assert_eq!(from_host("127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(from_host("crashes.example.com"), "https://crashes.example.com");
    }
}
