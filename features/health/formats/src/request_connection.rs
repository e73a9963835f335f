//! What is known of the connection of a request. Addresses, ports and cipher suites are not read.

use super::samples::UnreadKeys;
use super::sent_item::SentItem;
use serde_json::Value;

/// The networks, and what a request by each counts for.
const NETWORKS: [(&str, &str); 4] = [
    ("wifi", "network wifi"),
    ("cellular", "network cellular"),
    ("wired", "network wired"),
    ("other", "network other"),
];
/// The versions of TLS: as a number, on the wire (RFC 8446 and its predecessors), and what a request counts for.
const TLS_VERSIONS: [(&str, u64, &str); 4] = [
    ("1.0", 0x301, "tls 1.0"),
    ("1.1", 0x302, "tls 1.1"),
    ("1.2", 0x303, "tls 1.2"),
    ("1.3", 0x304, "tls 1.3"),
];

/// Returns what a request counts for. Of `expensive`, `constrained` and `proxy` only what is true: all requests are the rest.
pub(super) fn read_connection(request: &SentItem<'_>, unread: &mut UnreadKeys) -> Vec<&'static str> {
    let network = request.read("network", unread, |network| {
        let network = network.as_str()?;
        NETWORKS.iter().find(|(known, _)| network.eq_ignore_ascii_case(known)).map(|(_, name)| *name)
    });
    let mut flag = |key: &str| request.read(key, unread, Value::as_bool);
    let is_true = |flag: Option<bool>, name| flag.filter(|flag| *flag).map(|_| name);
    let expensive = is_true(flag("expensive"), "network expensive");
    let constrained = is_true(flag("constrained"), "network constrained");
    let reused = flag("reused").map(|reused| if reused { "connection reused" } else { "connection new" });
    let proxy = is_true(flag("proxy"), "connection by proxy");
    let tls = request.read("tls_version", unread, read_tls_version);
    [network, expensive, constrained, reused, proxy, tls].into_iter().flatten().collect()
}

/// Reads a version of TLS: `1.3`, `TLSv1.3`, `TLSv13` or the number on the wire.
fn read_tls_version(version: &Value) -> Option<&'static str> {
    let name = match version {
        Value::String(text) => {
            let text = text.trim().to_ascii_lowercase();
            let number = text.strip_prefix("tls").unwrap_or(&text).trim_start_matches(['v', ' ', '_', '-']);
            let is_it = |known: &str| known == number || known.replace('.', "") == number;
            TLS_VERSIONS.iter().find(|(known, ..)| is_it(known))
        }
        _ => TLS_VERSIONS.iter().find(|(_, wire, _)| version.as_u64() == Some(*wire)),
    };
    name.map(|(.., name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(sent: &Value) -> (Vec<&'static str>, Vec<String>) {
        let mut unread = UnreadKeys::default();
        let request = SentItem::from_value("requests", sent, &mut unread).unwrap();
        (read_connection(&request, &mut unread), unread.into_keys())
    }

    #[test]
    fn a_request_counts_for_its_network_and_its_connection() {
        for (sent, expected) in [
            (json!({}), vec![]),
            (json!({"network": "WiFi", "expensive": false, "constrained": false}), vec!["network wifi"]),
            (
                json!({"network": "cellular", "expensive": true, "constrained": true, "reused": true,
                    "proxy": true, "tls_version": "TLSv1.3"}),
                vec![
                    "network cellular",
                    "network expensive",
                    "network constrained",
                    "connection reused",
                    "connection by proxy",
                    "tls 1.3",
                ],
            ),
            (json!({"reused": false, "proxy": false, "network": null}), vec!["connection new"]),
            (json!({"tls_version": "1.2"}), vec!["tls 1.2"]),
            (json!({"tls_version": "TLS 1.0"}), vec!["tls 1.0"]),
            (json!({"tls_version": "TLSv12"}), vec!["tls 1.2"]),
            (json!({"tls_version": 772}), vec!["tls 1.3"]),
        ] {
            assert_eq!(read(&sent), (expected, vec![]), "{sent}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (sent, key) in [
            (json!({"network": "5G at 192.0.2.7", "reused": true}), "requests.network"),
            (json!({"expensive": "no", "reused": true}), "requests.expensive"),
            (json!({"constrained": 1, "reused": true}), "requests.constrained"),
            (json!({"proxy": "proxy.example.com:3128", "reused": true}), "requests.proxy"),
            (json!({"tls_version": "SSLv3", "reused": true}), "requests.tls_version"),
            (json!({"tls_version": 1.3, "reused": true}), "requests.tls_version"),
        ] {
            assert_eq!(read(&sent), (vec!["connection reused"], vec![key.to_owned()]), "{sent}");
        }
    }
}
