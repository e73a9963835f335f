//! The likely cause of a failed request, for the person who typed the command.

use super::server::LoginSource;
use reqwest::Url;
use std::error::Error;
use std::io;

/// Parts of an address that belong to its pages and not to the address.
const PAGE_PATHS: [&str; 3] = ["/v1", "/console", "/docs"];

/// Returns the end of the sentence that an API does not answer: the cause, if it is a frequent one with a remedy.
pub fn describe_failure(error: &reqwest::Error) -> &'static str {
    let is_tls = |wanted: fn(&rustls::Error) -> bool| find_tls_error(error).is_some_and(wanted);
    let is_cut_off = || list_causes(error).iter().any(|error| error.to_string() == "tls handshake eof");
    if is_tls(|error| matches!(error, rustls::Error::InvalidMessage(_))) || is_cut_off() {
        return " over TLS: the server speaks plain HTTP there, so the address begins with http://, or has another port";
    }
    if is_tls(|error| matches!(error, rustls::Error::InvalidCertificate(_))) {
        return " with a certificate that this machine trusts: install the certificate of its issuer, or use the name that the certificate has";
    }
    if error.is_timeout() {
        return " in time: a firewall may drop the packets, or the host is down";
    }
    if list_causes(error).iter().any(|error| error.to_string().contains("invalid HTTP version")) {
        return " in HTTP: if the server expects TLS, the address begins with https://";
    }
    ""
}

/// Returns true if the server speaks no TLS, or has a certificate that is not trusted: a later try fails as well.
pub fn is_tls_failure(error: &reqwest::Error) -> bool {
    find_tls_error(error).is_some_and(|error| {
        matches!(error, rustls::Error::InvalidMessage(_) | rustls::Error::InvalidCertificate(_))
    })
}

/// Returns an error and its causes.
fn list_causes<'e>(error: &'e (dyn Error + 'static)) -> Vec<&'e (dyn Error + 'static)> {
    let mut causes = vec![error];
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause);
        next = cause.source();
    }
    causes
}

fn find_tls_error(error: &reqwest::Error) -> Option<&rustls::Error> {
    list_causes(error).into_iter().find_map(unwrap_tls_error)
}

/// Errors of input and output hide the error that they wrap from the chain of causes, and may wrap each other.
fn unwrap_tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    error.downcast_ref().or_else(|| unwrap_tls_error(error.downcast_ref::<io::Error>()?.get_ref()?))
}

/// Returns the likely cause of a refusal, if it lies on this machine.
pub fn describe_refusal(status: u16, url: &str, key_source: &LoginSource) -> Option<String> {
    match status {
        401 => Some(format!(
            "The key from {key_source} is mistyped, expired, revoked, or of another installation than {url}: `unslide login` \
             keeps another one"
        )),
        404 | 405 => {
            let path = Url::parse(url).ok()?.path().to_owned();
            let of_page = |page: &&&str| format!("{path}/").contains(&format!("{page}/"));
            let page = PAGE_PATHS.iter().find(of_page)?;
            let (base, _) = url.split_once(page)?;
            Some(format!("The address of the API ends before {page}: use {base}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_tls_is_found_below_errors_of_input_and_output() {
        let tls = rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType);
        let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, tls.clone()));
        assert_eq!(unwrap_tls_error(&wrapped), Some(&tls));
        assert_eq!(unwrap_tls_error(&io::Error::other("cut")), None);
    }

    #[test]
    fn a_refusal_names_the_source_of_the_key_and_an_end_of_the_address_that_is_too_much() {
        let key = LoginSource::Variable("UNSLIDE_API_KEY");
        let refused = |status, url: &str| describe_refusal(status, url, &key);
        assert!(refused(401, "http://a").unwrap().starts_with("The key from UNSLIDE_API_KEY is mistyped"));
        let hint = refused(404, "https://a.example/v1").unwrap();
        assert!(hint.ends_with("use https://a.example"), "{hint}");
        let hint = refused(404, "http://127.0.0.1:8080/console/groups").unwrap();
        assert!(hint.ends_with("use http://127.0.0.1:8080"), "{hint}");
        for (status, url) in
            [(404, "https://a.example"), (404, "https://a.example/unslide"), (403, "http://a/v1")]
        {
            assert_eq!(refused(status, url), None, "{url}");
        }
    }
}
