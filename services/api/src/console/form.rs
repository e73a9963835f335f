//! What a page's form sent.

use crate::http::problem::{Kind, Problem};
use crate::requests::body::Chunks;
use crate::state::Api;
use axum::extract::{FromRequest, Request};
use std::collections::BTreeMap;

/// Bytes of a form.
const FORM_BYTES: u64 = 16 << 10;

/// The fields of a form by their names. Of several of one name the last counts.
#[derive(Default)]
pub struct Form(BTreeMap<String, String>);

impl FromRequest<Api> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, api: &Api) -> Result<Form, Problem> {
        let (parts, body) = request.into_parts();
        let mut chunks = Chunks::new(&parts.headers, body, FORM_BYTES, api.limits.pace())?;
        let mut sent = Vec::new();
        while let Some(piece) = chunks.next().await? {
            sent.extend_from_slice(&piece);
        }
        Ok(Form(form_urlencoded::parse(&sent).into_owned().collect()))
    }
}

impl Form {
    /// A field, without the space around it; `None` where it is empty or absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// A field as text; empty where it is absent.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    /// A field as the JSON text that an operation takes.
    ///
    /// # Errors
    /// [`Kind::InvalidBody`] where it is none of the words that are taken.
    pub fn word<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, Problem> {
        let value = serde_json::Value::String(self.text(name));
        serde_json::from_value(value).map_err(|error| Problem::new(Kind::InvalidBody, format!("{name}: {error}")))
    }

    /// A field as a number, where there is one.
    ///
    /// # Errors
    /// [`Kind::InvalidBody`] where it is none.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let read = |text: &str| {
            text.parse().map_err(|_| Problem::new(Kind::InvalidBody, format!("{name}: {text:?} is not a number")))
        };
        self.get(name).map(read).transpose()
    }
}
