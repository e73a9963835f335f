//! The request that was sent for a message, and its answer, for the page and the command that test a rule.

use super::receiver::{AlertRequest, ReceiverAnswer};
use crate::store::messages::{AlertExchange, ClaimedAlertMessage};
use crate::store::rules::mask_address;
use unslide_model::Secret;

/// In place of a secret.
const HIDDEN: &str = "…";
/// Characters of a request that are kept, and of an answer.
const REQUEST_LENGTH_LIMIT: usize = 8_000;
const ANSWER_LENGTH_LIMIT: usize = 2_000;

impl AlertExchange {
    /// Notes a request over HTTP.
    pub fn note_request(&mut self, message: &ClaimedAlertMessage, request: &AlertRequest) {
        let mut lines = vec![
            format!("POST {}", mask_address(message.channel, request.url.reveal())),
            format!("content-type: {}", request.content_type.as_str()),
        ];
        lines.extend(request.headers.iter().map(|(name, value)| format!("{name}: {value}")));
        self.note_text(message, &format!("{}\n\n{}", lines.join("\n"), request.body));
    }

    /// Notes what is sent in another way than HTTP.
    pub fn note_text(&mut self, message: &ClaimedAlertMessage, text: &str) {
        let hide = |text: String, secret: &Secret| {
            if secret.is_empty() { text } else { text.replace(secret.reveal(), HIDDEN) }
        };
        self.request = hide(text.to_owned(), &message.secret).chars().take(REQUEST_LENGTH_LIMIT).collect();
    }

    /// Notes the answer. Of a receiver in one of the operator's networks a tenant reads the status alone.
    pub fn note_answer(&mut self, answer: &ReceiverAnswer) {
        self.status = Some(answer.status);
        if !answer.is_in_networks {
            let text: String =
                String::from_utf8_lossy(&answer.body).chars().take(ANSWER_LENGTH_LIMIT).collect();
            self.answer = unslide_report::text::escape_line(&text).into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::channels::build_request;
    use super::super::text::tests::message;
    use super::*;
    use crate::store::rules::AlertChannel;

    #[test]
    fn no_secret_of_any_channel_is_in_what_is_shown() {
        for channel in AlertChannel::ALL {
            let mut message = message(channel, &["New: boom"], 1);
            message.address =
                Secret::new("https://hooks.example.com/services/hidden-path?token=hidden-token");
            message.secret = Secret::new(match channel {
                AlertChannel::Webhook => "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                _ => "0123456789abcdef0123456789abcdef",
            });
            let Ok(request) = build_request(&message, "https://crashes.example.com", 1_600_000_000) else {
                assert!(matches!(channel, AlertChannel::Mail | AlertChannel::Kafka), "{channel}");
                continue;
            };
            let mut exchange = AlertExchange::default();
            exchange.note_request(&message, &request);
            let shown = &exchange.request;
            assert!(shown.starts_with("POST https://hooks.example.com/…\n"), "{shown}");
            assert!(shown.contains("boom"), "{shown}");
            for hidden in ["hidden-", message.secret.reveal()] {
                assert!(!shown.contains(hidden), "{channel}: {shown}");
            }
        }
    }

    #[test]
    fn of_an_answer_in_the_operators_networks_the_status_alone_is_shown() {
        let answer = |is_in_networks| {
            let body = b"no_team\x1b".to_vec();
            ReceiverAnswer { status: 404, body, is_in_networks, retry_after: None }
        };
        let note = |is_in_networks| {
            let mut exchange = AlertExchange::default();
            exchange.note_answer(&answer(is_in_networks));
            (exchange.status, exchange.answer)
        };
        assert_eq!(note(false), (Some(404), "no_team\\u{1b}".to_owned()));
        assert_eq!(note(true), (Some(404), String::new()));
    }
}
