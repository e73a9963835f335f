//! Sending a request again while the API does not answer.

use super::{Client, ClientError};
use crate::output::note;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The pause after the first failed try; doubled each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(400);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// For so long the first answer may take before that is said.
const SILENCE: Duration = Duration::from_secs(2);
/// For so long a request without a body to send may take.
pub(super) const SHORT: Duration = Duration::from_secs(20);
/// Tries of a body whose connection is lost on the way: each may take longer than the time for trying.
const TRIES: u32 = 6;

/// Whether the API answers, told once for all requests of a client.
#[derive(Default)]
pub(super) struct Contact {
    /// It has answered at least once.
    heard: AtomicBool,
    /// That it does not answer has been said, and it has not answered since.
    told: AtomicBool,
}

impl Contact {
    pub(super) fn answered(&self) {
        self.heard.store(true, Relaxed);
        self.told.store(false, Relaxed);
    }
}

impl Client {
    /// Waits for the answer of a request, and says so where the API has not answered for the first time
    /// within two seconds.
    pub(super) async fn first_word<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = std::pin::pin!(answer);
        if !self.contact.heard.load(Relaxed)
            && let Ok(answer) = timeout(SILENCE, &mut answer).await
        {
            return answer;
        }
        if !self.contact.heard.load(Relaxed) {
            self.tell(&format!("has not answered for {} s", SILENCE.as_secs()));
        }
        answer.await
    }

    /// Says once that the API does not answer.
    fn tell(&self, what: &str) {
        if self.retry_for.is_zero() || self.contact.told.swap(true, Relaxed) {
            return;
        }
        note!("the API at {} {what}; trying for up to {} s", self.shown_url(), self.retry_for.as_secs());
    }

    /// Sends a request again, after growing pauses, as long as that may help and for no longer than
    /// `--retry-for` after the first failure. For requests that send a body of any size.
    ///
    /// # Errors
    /// The last try's.
    pub async fn tries<T, F, A>(&self, send: F) -> Result<T, ClientError>
    where
        F: FnMut() -> A,
        A: Future<Output = Result<T, ClientError>>,
    {
        self.try_until(None, may_try_again, send).await
    }

    /// As [`Client::tries`], for requests that are answered soon: a try takes at most [`SHORT`], and the
    /// time for trying begins with the first.
    ///
    /// # Errors
    /// The last try's.
    pub(super) async fn tries_soon<T, F, A>(&self, mut send: F) -> Result<T, ClientError>
    where
        F: FnMut() -> A,
        A: Future<Output = Result<T, ClientError>>,
    {
        self.try_until(Some(SHORT), may_try_again, || self.first_word(send())).await
    }

    /// As [`Client::tries_soon`], for a request that must not arrive twice: only where no connection was
    /// made it is sent again.
    ///
    /// # Errors
    /// The last try's.
    pub(super) async fn tries_to_connect<T, F, A>(&self, send: F) -> Result<T, ClientError>
    where
        F: FnMut() -> A,
        A: Future<Output = Result<T, ClientError>>,
    {
        self.try_until(None, ClientError::is_unsent, send).await
    }

    async fn try_until<T, F, A>(
        &self,
        longest: Option<Duration>,
        again: impl Fn(&ClientError) -> bool,
        mut send: F,
    ) -> Result<T, ClientError>
    where
        F: FnMut() -> A,
        A: Future<Output = Result<T, ClientError>>,
    {
        let begun = Instant::now();
        let (mut failing_since, mut pause) = (None, FIRST_PAUSE);
        for number in 1.. {
            let sent = match longest {
                None => send().await,
                Some(longest) => {
                    let left = self.retry_for.saturating_sub(begun.elapsed());
                    let longest = if self.retry_for.is_zero() { longest } else { longest.min(left) };
                    let silent = || self.no_answer(longest);
                    timeout(longest, send()).await.unwrap_or_else(|_| Err(silent()))
                }
            };
            let error = match sent {
                Err(error) if again(&error) => error,
                other => return other,
            };
            let since =
                if longest.is_some() { begun } else { *failing_since.get_or_insert_with(Instant::now) };
            let over = since.elapsed() + pause >= self.retry_for;
            // A body that was on its way for long has used up no time for trying.
            let enough = longest.is_some() || error.is_unsent() || number >= TRIES;
            if self.retry_for.is_zero() || (over && enough) {
                return Err(error);
            }
            self.tell(error.in_short());
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        unreachable!("the loop ends by returning")
    }
}

/// True where the same request may succeed a little later.
pub(super) fn may_try_again(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::Stalled { .. }
        | ClientError::Silent { .. }
        | ClientError::NoAnswer { .. } => true,
        ClientError::Refused { status, .. } => *status >= 500 || matches!(*status, 408 | 429),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::ApiServer;
    use super::*;

    fn client(retry_for: u32) -> Client {
        let url = Some("http://127.0.0.1:9".to_owned());
        Client::new(&ApiServer { url, api_key: Some("key".to_owned()), retry_for }).unwrap()
    }

    fn refused(status: u16) -> ClientError {
        ClientError::Refused { status, title: "no".to_owned(), detail: None, request_id: None }
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_tried_again_and_what_is_final_is_not() {
        let mut sent = 0;
        let client = client(60);
        let answer = client.tries(|| {
            sent += 1;
            std::future::ready(if sent < 3 { Err(refused(503)) } else { Ok(sent) })
        });
        assert_eq!(answer.await.unwrap(), 3);
        for (status, tries) in [(403, 1), (401, 1)] {
            let mut sent = 0;
            let answer = client.tries(|| {
                sent += 1;
                std::future::ready(Err::<(), _>(refused(status)))
            });
            assert!(answer.await.is_err());
            assert_eq!(sent, tries);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn trying_ends_with_the_time_for_it() {
        for (retry_for, longest) in [(60, None), (60, Some(SHORT)), (7, Some(SHORT))] {
            let client = client(retry_for);
            let begun = Instant::now();
            let tried =
                client.try_until(longest, may_try_again, || async { Err::<(), _>(refused(503)) }).await;
            assert!(tried.is_err());
            let took = begun.elapsed();
            let most = Duration::from_secs(retry_for.into());
            assert!(took <= most && took + LONGEST_PAUSE * 2 >= most, "{took:?} of {most:?}");
        }
        let mut sent = 0;
        let client = client(0);
        let once = client.tries(|| {
            sent += 1;
            std::future::ready(Err::<(), _>(refused(503)))
        });
        assert!(once.await.is_err());
        assert_eq!(sent, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_that_takes_connections_and_says_nothing_is_given_up_in_time() {
        let client = client(30);
        let begun = Instant::now();
        let tried = client.tries_soon(std::future::pending::<Result<(), _>>).await;
        assert!(matches!(tried, Err(ClientError::NoAnswer { .. })));
        assert!(begun.elapsed() <= Duration::from_secs(30), "{:?}", begun.elapsed());
    }
}
