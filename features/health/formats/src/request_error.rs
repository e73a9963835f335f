//! The errors of requests without an answer.

use super::sent_item::check_word;
use serde_json::Value;

/// An error domain of the system, with the codes that a request meets most.
struct KnownDomain {
    domain: &'static str,
    /// The beginning of each name.
    prefix: &'static str,
    codes: &'static [(i64, &'static str)],
}

const KNOWN_DOMAINS: [KnownDomain; 3] = [
    KnownDomain { domain: "NSURLErrorDomain", prefix: "NSURLError", codes: &URL_ERRORS },
    KnownDomain { domain: "kCFErrorDomainCFNetwork", prefix: "kCFURLError", codes: &URL_ERRORS },
    KnownDomain { domain: "NSPOSIXErrorDomain", prefix: "", codes: &POSIX_ERRORS },
];

/// Numbers of Darwin.
const POSIX_ERRORS: [(i64, &str); 10] = [
    (32, "EPIPE"),
    (50, "ENETDOWN"),
    (51, "ENETUNREACH"),
    (53, "ECONNABORTED"),
    (54, "ECONNRESET"),
    (57, "ENOTCONN"),
    (60, "ETIMEDOUT"),
    (61, "ECONNREFUSED"),
    (64, "EHOSTDOWN"),
    (65, "EHOSTUNREACH"),
];

/// Codes of `NSURLErrorDomain`, which `CFNetwork` has with the same numbers.
const URL_ERRORS: [(i64, &str); 29] = [
    (-1, "Unknown"),
    (-999, "Cancelled"),
    (-1000, "BadURL"),
    (-1001, "TimedOut"),
    (-1002, "UnsupportedURL"),
    (-1003, "CannotFindHost"),
    (-1004, "CannotConnectToHost"),
    (-1005, "NetworkConnectionLost"),
    (-1006, "DNSLookupFailed"),
    (-1007, "HTTPTooManyRedirects"),
    (-1008, "ResourceUnavailable"),
    (-1009, "NotConnectedToInternet"),
    (-1010, "RedirectToNonExistentLocation"),
    (-1011, "BadServerResponse"),
    (-1012, "UserCancelledAuthentication"),
    (-1013, "UserAuthenticationRequired"),
    (-1014, "ZeroByteResource"),
    (-1015, "CannotDecodeRawData"),
    (-1016, "CannotDecodeContentData"),
    (-1017, "CannotParseResponse"),
    (-1018, "InternationalRoamingOff"),
    (-1019, "CallIsActive"),
    (-1020, "DataNotAllowed"),
    (-1022, "AppTransportSecurityRequiresSecureConnection"),
    (-1200, "SecureConnectionFailed"),
    (-1201, "ServerCertificateHasBadDate"),
    (-1202, "ServerCertificateUntrusted"),
    (-1203, "ServerCertificateHasUnknownRoot"),
    (-1204, "ServerCertificateNotYetValid"),
];

/// Returns the name of the code in a result such as `error NSURLErrorDomain -1001`: `NSURLErrorTimedOut`. Returns `None` for a
/// status, and for a domain of an app.
#[must_use]
pub fn find_error_name(result: &str) -> Option<String> {
    let mut words = result.strip_prefix("error ")?.split(' ');
    let (domain, code) = (words.next()?, words.next()?.parse::<i64>().ok()?);
    let known = KNOWN_DOMAINS.iter().find(|known| known.domain == domain)?;
    let (_, name) = known.codes.iter().find(|(known, _)| *known == code)?;
    Some(format!("{}{name}", known.prefix))
}

/// Reads an error: a word, a code, an object with `domain`, `code` and `name`, or the description of an `NSError`. The
/// description's text and its other values are not read.
pub(super) fn read_error(error: &Value) -> Option<String> {
    match error {
        Value::String(text) => match find_domain_and_code(text) {
            Some((domain, code)) => join_error(Some(domain), Some(code), None),
            None => check_word(text).map(str::to_owned),
        },
        Value::Number(code) => Some(code.as_i64()?.to_string()),
        Value::Object(error) => {
            let get = |key: &str| error.get(key).filter(|value| !value.is_null());
            let text = |key: &str| get(key).map(Value::as_str);
            let code = match get("code") {
                Some(code) => Some(code.as_i64()?),
                None => None,
            };
            let (domain, name) = (text("domain"), text("name"));
            if domain == Some(None) || name == Some(None) {
                return None;
            }
            join_error(domain.flatten(), code, name.flatten())
        }
        _ => None,
    }
}

/// Joins the parts of an error. The name is left out if the domain and the code have a known one.
fn join_error(domain: Option<&str>, code: Option<i64>, name: Option<&str>) -> Option<String> {
    let code = code.map(|code| code.to_string());
    let mut parts: Vec<&str> = [domain, code.as_deref()].into_iter().flatten().collect();
    if find_error_name(&format!("error {}", parts.join(" "))).is_none() {
        parts.extend(name);
    }
    let is_plain = !parts.is_empty() && parts.iter().all(|part| check_word(part).is_some());
    is_plain.then(|| parts.join(" "))
}

/// Finds `Domain=… Code=…` in the description of an `NSError`.
fn find_domain_and_code(text: &str) -> Option<(&str, i64)> {
    let domain = behind(text, "Domain=")?;
    let code = behind(text, "Code=")?;
    Some((domain, code.parse().ok()?))
}

/// Returns the characters between a key and the next blank.
fn behind<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let (_, value) = text.split_once(key)?;
    value.split([' ', '\n']).next().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_is_its_domain_and_code_in_every_form() {
        let timed_out = "NSURLErrorDomain -1001";
        for (sent, expected) in [
            (json!(timed_out), Some(timed_out)),
            (
                json!("Error Domain=NSURLErrorDomain Code=-1001 \"The request timed out.\" UserInfo={k=v}"),
                Some(timed_out),
            ),
            (json!("Error Domain=NSURLErrorDomain Code=-1001\n"), Some(timed_out)),
            (
                json!("URLError(_nsError: Error Domain=NSURLErrorDomain Code=-1001 \"(null)\")"),
                Some(timed_out),
            ),
            (
                json!({"domain": "NSURLErrorDomain", "code": -1001, "name": "Zeitüberschreitung"}),
                Some(timed_out),
            ),
            (json!({"domain": "NSURLErrorDomain", "code": -1001, "name": null}), Some(timed_out)),
            (
                json!({"domain": "com.acme.Cart", "code": 7, "name": "expired"}),
                Some("com.acme.Cart 7 expired"),
            ),
            (json!({"name": "offline"}), Some("offline")),
            (json!(-1001), Some("-1001")),
            (json!({"domain": "com.acme.Cart", "code": 7, "name": "robin@example.com"}), None),
            (json!({"domain": 7, "code": 7}), None),
            (json!({"domain": "a", "code": "seven"}), None),
            (json!({}), None),
            (json!("robin@example.com is not known"), None),
            (json!("e".repeat(61)), None),
            (json!(1.5), None),
            (json!([timed_out]), None),
        ] {
            assert_eq!(read_error(&sent).as_deref(), expected, "{sent}");
        }
    }

    #[test]
    fn the_codes_of_the_system_have_names() {
        for (result, name) in [
            ("error NSURLErrorDomain -1001", Some("NSURLErrorTimedOut")),
            ("error kCFErrorDomainCFNetwork -1009", Some("kCFURLErrorNotConnectedToInternet")),
            ("error NSPOSIXErrorDomain 61", Some("ECONNREFUSED")),
            ("error NSURLErrorDomain -5", None),
            ("error com.acme.Cart 7", None),
            ("error", None),
            ("404", None),
        ] {
            assert_eq!(find_error_name(result).as_deref(), name, "{result}");
        }
    }
}
