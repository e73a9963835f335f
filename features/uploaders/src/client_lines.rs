//! The lines that a pipeline needs for each client: variables and the command.

/// The server and the key of a pipeline.
pub struct PipelineTarget<'t> {
    /// The origin of the server.
    pub url: &'t str,
    pub tenant: &'t str,
    /// The app, or a placeholder for it.
    pub app: &'t str,
    /// The text of the key, or a placeholder for it.
    pub key: &'t str,
    /// The key in the form of Sentry's tokens, or a placeholder for it.
    pub sentry_token: &'t str,
}

/// A client and its lines.
#[derive(Debug)]
pub struct ClientLines {
    pub client: &'static str,
    pub lines: String,
}

/// Returns the lines for each client, that of this product first.
pub fn list_clients(target: &PipelineTarget<'_>) -> Vec<ClientLines> {
    let PipelineTarget { url, key, .. } = target;
    let own = format!(
        "export UNSLIDE_URL={url} UNSLIDE_API_KEY={key}\n\
         unslide upload build/Shop.xcarchive\n\
         unslide symbols check --wait build/Shop.xcarchive"
    );
    let curl = format!(
        "tar -C build -cz dSYMs | curl -sSf -H \"Authorization: Bearer {key}\" --data-binary @- \"{url}/v1/symbols?name=dSYMs.tar.gz\""
    );
    let mut clients = vec![ClientLines { client: "unslide", lines: own }];
    clients.extend(list_sentry_clients(target));
    clients.extend(list_other_clients(target));
    clients.push(ClientLines { client: "curl", lines: curl });
    clients
}

fn list_sentry_clients(target: &PipelineTarget<'_>) -> [ClientLines; 3] {
    let PipelineTarget { url, tenant, app, key, sentry_token } = target;
    let sentry_cli = format!(
        "export SENTRY_AUTH_TOKEN={sentry_token} SENTRY_PROJECT={app}\n\
         sentry-cli debug-files upload --wait build/dSYMs"
    );
    let sentry = format!(
        "export SENTRY_URL={url} SENTRY_AUTH_TOKEN={sentry_token} SENTRY_PROJECT={app}\n\
         sentry debug-files upload --wait build/dSYMs"
    );
    let fastlane = format!(
        "sentry_debug_files_upload(url: \"{url}\", auth_token: \"{key}\", org_slug: \"{tenant}\", project_slug: \"{app}\")"
    );
    [
        ClientLines { client: "sentry-cli", lines: sentry_cli },
        ClientLines { client: "sentry", lines: sentry },
        ClientLines { client: "fastlane sentry_debug_files_upload", lines: fastlane },
    ]
}

fn list_other_clients(target: &PipelineTarget<'_>) -> [ClientLines; 4] {
    let PipelineTarget { url, key, .. } = target;
    let datadog = format!(
        "export DATADOG_API_KEY={key} DATADOG_DSYM_INTAKE_URL={url}\n\
         datadog-ci dsyms upload build/dSYMs\n\
         UNSLIDE_URL={url} UNSLIDE_API_KEY={key} unslide symbols check --wait build/dSYMs"
    );
    let with_port = add_port(url);
    let bugsnag_cli = format!(
        "bugsnag-cli upload xcode-archive --api-key {key} --upload-api-root-url {with_port} Shop.xcarchive"
    );
    let bugsnag = format!("bugsnag-dsym-upload --api-key {key} --upload-server {url} build/dSYMs");
    let posthog = format!(
        "export POSTHOG_CLI_HOST={url} POSTHOG_CLI_API_KEY=phx_{key} POSTHOG_CLI_PROJECT_ID=1\n\
         posthog-cli dsym upload --directory build/dSYMs"
    );
    [
        ClientLines { client: "datadog-ci", lines: datadog },
        ClientLines { client: "bugsnag-cli", lines: bugsnag_cli },
        ClientLines { client: "bugsnag-dsym-upload", lines: bugsnag },
        ClientLines { client: "posthog-cli", lines: posthog },
    ]
}

/// Returns an origin with its port: bugsnag-cli takes 443 for one without.
fn add_port(url: &str) -> String {
    let has_port = url.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (has_port, url.starts_with("https://")) {
        (true, _) => url.to_owned(),
        (false, true) => format!("{url}:443"),
        (false, false) => format!("{url}:80"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_gets_the_address_and_the_key() {
        let target = PipelineTarget {
            url: "https://crashes.example.com",
            tenant: "acme",
            app: "com.example.shop",
            key: "unslide_a_b",
            sentry_token: "sntrys_a_b",
        };
        for ClientLines { client, lines } in list_clients(&target) {
            let has_token = lines.contains("sntrys_a_b");
            assert!(has_token || lines.contains(target.url), "{client}: {lines}");
            assert!(has_token || lines.contains(target.key), "{client}: {lines}");
        }
    }

    #[test]
    fn an_origin_has_a_port() {
        assert_eq!(add_port("https://crashes.example.com"), "https://crashes.example.com:443");
        assert_eq!(add_port("http://crashes"), "http://crashes:80");
        assert_eq!(add_port("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(add_port("http://[::1]"), "http://[::1]:80");
    }
}
