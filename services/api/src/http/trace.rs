//! Ids of requests, and their trace context.

pub use unslide_proto::trace::{Ids, TraceContext};

/// Returns the request's id: the caller's if it is short and harmless, else a new one.
pub fn request_id(given: Option<&str>, ids: &Ids) -> String {
    given
        .filter(|id| {
            (1..=64).contains(&id.len())
                && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        })
        .map_or_else(|| format!("{:016x}", ids.next()), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_of_the_caller_is_kept_only_if_harmless() {
        let ids = Ids::default();
        assert_eq!(request_id(Some("build-17.a_b"), &ids), "build-17.a_b");
        assert_eq!(request_id(Some("a\nb"), &ids).len(), 16);
        assert_eq!(request_id(Some(&"x".repeat(65)), &ids).len(), 16);
        assert_ne!(request_id(None, &ids), request_id(None, &ids));
    }
}
