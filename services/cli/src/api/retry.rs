//! Sending a request again while the API does not answer.

use super::{Client, ClientError, SHORT_ANSWER_TIMEOUT};
use crate::note;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The time without an answer after which a note is printed.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// The pause after the first failed try; doubled each time, up to the longest.
const RETRY_BACKOFF_MIN: Duration = Duration::from_millis(400);
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(5);

impl Client {
    /// Says once that the API does not answer.
    fn print_no_answer(&self, what: &str, longest: Duration) {
        if !self.told.swap(true, Relaxed) && !self.is_quiet {
            note!("the API at {} {what}; trying for up to {} s", self.shown_url(), longest.as_secs());
        }
    }

    /// Waits at most `within` for an answer that needs no work at the server, and prints a note if it is
    /// late.
    pub(super) async fn wait_for_answer<T>(&self, answer: impl Future<Output = T>, within: Duration) -> T {
        let mut answer = pin!(answer);
        if let Ok(answer) = timeout(TELL_AFTER, &mut answer).await {
            return answer;
        }
        self.print_no_answer("has not answered for 2 s", within.max(self.retry_for));
        answer.await
    }

    /// Sends a request again, after growing pauses, as long as that may help and `--retry-for` leaves time; of
    /// each try at most 20 s count.
    ///
    /// # Errors
    /// The last try's.
    pub async fn retry_transient<T, F, A>(&self, send: F) -> Result<T, ClientError>
    where
        F: FnMut() -> A,
        A: Future<Output = Result<T, ClientError>>,
    {
        self.retry_if(ClientError::may_pass, send).await
    }

    /// Does the same as [`Client::retry_transient`] for a request that only reads. If no server listened at the address so
    /// far, it is most likely the wrong one: the first try's error says so at once, unless `--retry-for` was given.
    ///
    /// # Errors
    /// The last try's.
    pub(super) async fn retry_reading<T, F, A>(&self, send: F) -> Result<T, ClientError>
    where
        F: FnMut() -> A,
        A: Future<Output = Result<T, ClientError>>,
    {
        let may_listen_later = || self.tries_dead_address || self.was_answered.load(Relaxed);
        self.retry_if(|error| error.may_pass() && (!error.is_dead_address() || may_listen_later()), send)
            .await
    }

    /// Does the same as [`Client::retry_transient`]. `again` says which errors may pass.
    pub(super) async fn retry_if<T, F, A>(
        &self,
        again: impl Fn(&ClientError) -> bool,
        mut send: F,
    ) -> Result<T, ClientError>
    where
        F: FnMut() -> A,
        A: Future<Output = Result<T, ClientError>>,
    {
        let (mut spent, mut pause) = (Duration::ZERO, RETRY_BACKOFF_MIN);
        loop {
            let begun = Instant::now();
            let error = match send().await {
                Err(error) if again(&error) => error,
                other => return other,
            };
            // A file that was on its way for an hour leaves time to send it again.
            spent += begun.elapsed().min(SHORT_ANSWER_TIMEOUT) + pause;
            if spent >= self.retry_for {
                return Err(error);
            }
            self.print_no_answer(error.in_short(), self.retry_for);
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_BACKOFF_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ApiServer;
    use super::*;
    use std::cell::Cell;

    fn client(retry_for: u32) -> Client {
        let url = Some("http://127.0.0.1:9".to_owned());
        let api_key = Some("key".to_owned());
        Client::new(&ApiServer { url, api_key, retry_for: Some(retry_for), ..ApiServer::default() }).unwrap()
    }

    fn refused(status: u16) -> ClientError {
        let title = "no".to_owned();
        ClientError::Refused { status, title, detail: None, request_id: None, is_usage: false, hint: None }
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_and_what_is_final_is_not() {
        let mut sent = 0;
        let client = client(60);
        let answer = client.retry_transient(|| {
            sent += 1;
            std::future::ready(if sent < 3 { Err(refused(503)) } else { Ok(sent) })
        });
        assert_eq!(answer.await.unwrap(), 3);
        for status in [403, 401] {
            let mut sent = 0;
            let answer = client.retry_transient(|| {
                sent += 1;
                std::future::ready(Err::<(), _>(refused(status)))
            });
            assert!(answer.await.is_err());
            assert_eq!(sent, 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_sent_again_only_if_the_first_try_has_done_nothing() {
        for (status, sends) in [(429, 3), (503, 1)] {
            let mut sent = 0;
            let answer = client(60);
            let answer = answer.retry_if(ClientError::is_undone, || {
                sent += 1;
                std::future::ready(if sent < 3 { Err(refused(status)) } else { Ok(()) })
            });
            assert_eq!(answer.await.is_ok(), status == 429);
            assert_eq!(sent, sends);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_command_that_reads_tries_an_address_without_a_server_once_unless_told_otherwise() {
        for (retry_for, was_answered, is_tried_again) in
            [(None, false, false), (None, true, true), (Some(2), false, true)]
        {
            let (url, api_key) = (Some("http://127.0.0.1:9".to_owned()), Some("key".to_owned()));
            let server = ApiServer { url, api_key, retry_for, ..ApiServer::default() };
            let client = Client::new(&server).unwrap();
            client.was_answered.store(was_answered, Relaxed);
            let begun = Instant::now();
            let error = client.get::<serde_json::Value>("/v1/keys").await.unwrap_err();
            assert!(error.is_dead_address(), "{error}");
            assert_eq!(begun.elapsed() > Duration::ZERO, is_tried_again, "{retry_for:?} {was_answered}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_is_told_after_two_seconds_without_an_answer_and_once_until_one_comes() {
        let told = |client: &Client| client.told.load(Relaxed);
        for retry_for in [60, 0] {
            let client = client(retry_for);
            client.wait_for_answer(sleep(Duration::from_millis(1_900)), SHORT_ANSWER_TIMEOUT).await;
            assert!(!told(&client), "an answer came");
            let silent = client.wait_for_answer(sleep(SHORT_ANSWER_TIMEOUT), SHORT_ANSWER_TIMEOUT);
            let looks = async {
                sleep(Duration::from_millis(1_900)).await;
                let before = told(&client);
                sleep(Duration::from_millis(200)).await;
                (before, told(&client))
            };
            assert_eq!(tokio::join!(silent, looks).1, (false, true));
        }
        // The flag stands until an answer comes, so that the tries after this one say nothing.
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = Some(format!("http://{}", server.local_addr().unwrap()));
        let client = Client::new(&ApiServer {
            url,
            api_key: Some("key".to_owned()),
            retry_for: Some(7),
            ..ApiServer::default()
        })
        .unwrap();
        assert!(client.get::<serde_json::Value>("/v1/keys").await.is_err());
        assert!(told(&client), "a host that takes the connection and says nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn trying_ends_with_the_time_for_it() {
        let hour = Duration::from_secs(3_600);
        for (retry_for, takes, tries) in [
            (60, Duration::ZERO, 15),
            (7, Duration::ZERO, 5),
            (60, SHORT_ANSWER_TIMEOUT, 3),
            (60, hour, 3),
            (0, SHORT_ANSWER_TIMEOUT, 1),
        ] {
            let sent = Cell::new(0);
            let client = client(retry_for);
            let tried = client.retry_transient(async || {
                sent.set(sent.get() + 1);
                sleep(takes).await;
                Err::<(), _>(refused(503))
            });
            assert!(tried.await.is_err());
            assert_eq!(sent.get(), tries, "{retry_for} s, each {takes:?}");
        }
    }
}
