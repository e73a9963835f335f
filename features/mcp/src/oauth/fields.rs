//! Parameters of requests: each at most once (RFC 6749, section 3.1).

/// The parameters of a request, decoded.
pub struct RequestFields(Vec<(String, String)>);

impl RequestFields {
    /// Reads a query or a form.
    pub fn parse(encoded: &[u8]) -> RequestFields {
        RequestFields(form_urlencoded::parse(encoded).into_owned().collect())
    }

    /// Returns a parameter, or None if it is absent or empty.
    ///
    /// # Errors
    /// Returns an error if the request has the parameter twice.
    pub fn find(&self, name: &str) -> Result<Option<&str>, String> {
        let mut found = self.0.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str());
        match (found.next(), found.next()) {
            (value, None) => Ok(value.filter(|value| !value.is_empty())),
            (_, Some(_)) => Err(format!("{name}: more than once")),
        }
    }

    /// Returns a parameter.
    ///
    /// # Errors
    /// Returns an error if the request lacks the parameter or has it twice.
    pub fn require(&self, name: &str) -> Result<&str, String> {
        self.find(name)?.ok_or_else(|| format!("{name}: missing"))
    }
}
