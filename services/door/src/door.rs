//! The way of one request: from its head to the cell of its tenant.

use crate::asking::{CallerAnswer, CellQuestions};
use crate::callers::{CallerCache, KnownCaller};
use crate::cells::CellEndpoint;
use crate::directory::CellDirectory;
use crate::head::RequestHead;
use crate::metrics::Metrics;
use crate::passing::{RequestBody, send_to_cell};
use crate::refusal::{DoorRefusal, PassedBody, full_body};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::time::Instant;
use unslide_model::{Clock, TenantId};
use unslide_runtime::Shutdown;
use unslide_runtime::clients::{Network, TrustedProxies};
use unslide_runtime::fairness::{FairPermit, FairSemaphore, Rate, TokenBuckets};

/// Requests of which the cells are asked at once.
const ASKS_LIMIT: u32 = 512;
/// Those of one network.
const ASKS_PER_NETWORK: u32 = 64;
/// Requests of callers whom no cell knows, of one network: as many a second, and ten times as many at once.
const UNKNOWN_PER_SECOND: f64 = 20.0;
const UNKNOWN_BURST_SECONDS: f64 = 10.0;

/// The door.
pub struct Door {
    pub directory: Arc<CellDirectory>,
    pub questions: CellQuestions,
    pub callers: CallerCache,
    pub asks: FairSemaphore<Network>,
    pub unknown_callers: TokenBuckets<Network>,
    pub proxies: TrustedProxies,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub shutdown: Shutdown,
}

/// Returns the permits for questions.
pub fn create_ask_permits() -> FairSemaphore<Network> {
    FairSemaphore::new("questions", ASKS_LIMIT, ASKS_PER_NETWORK)
}

/// The cell that gets a request, and the tenant for which it does.
struct Route {
    cell: Arc<CellEndpoint>,
    tenant: Option<TenantId>,
}

impl Door {
    /// Answers a request of the other end of a connection.
    pub async fn answer_request(&self, request: Request<Incoming>, peer: IpAddr) -> Response<PassedBody> {
        if request.uri().path() == "/readyz" {
            return self.tell_readiness();
        }
        let refusal = match self.pass_request(request, peer).await {
            Ok(response) => return response,
            Err(refusal) => refusal,
        };
        self.metrics.count_refused(refusal.reason());
        if let DoorRefusal::CellAway(reason) = &refusal {
            tracing::warn!(reason, "a request could not be passed on to its cell");
        }
        refusal.into_response()
    }

    /// Tells load balancers whether to send requests here, as the api does.
    fn tell_readiness(&self) -> Response<PassedBody> {
        if !self.shutdown.is_announced() {
            return Response::new(full_body("ok\n"));
        }
        let mut response = Response::new(full_body("stopping\n"));
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    }

    async fn pass_request(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Response<PassedBody>, DoorRefusal> {
        let (parts, body) = request.into_parts();
        let client = match self.proxies.is_trusted(peer) {
            true => self.proxies.forwarded_for(&parts.headers),
            false => Some(peer),
        };
        let head = RequestHead::read(&parts, client)?;
        let mut body = RequestBody::new(body);
        let route = self.find_route(&head, client.map(Network::from_address), &mut body).await?;
        // Sent again if the tenant moves at this moment: it changes nothing.
        let may_repeat = head.method.is_safe() && body.is_empty();
        let client = &self.questions.client;
        let sent = send_to_cell(client, &route.cell, &head, body.boxed_unsync()).await;
        let is_refused =
            !sent.as_ref().is_ok_and(|response| response.status() != StatusCode::SERVICE_UNAVAILABLE);
        let moved = route.tenant.filter(|_| is_refused && may_repeat);
        let moved = moved.and_then(|tenant| self.directory.find_cell(&tenant));
        let (cell, response) = match moved.filter(|cell| cell.name != route.cell.name) {
            Some(cell) => {
                let sent = send_to_cell(client, &cell, &head, full_body("")).await;
                (cell, sent?)
            }
            None => (route.cell, sent?),
        };
        self.metrics.count_request(&cell.name, response.status());
        Ok(response)
    }

    /// Finds the cell of a request.
    async fn find_route(
        &self,
        head: &RequestHead,
        network: Option<Network>,
        body: &mut RequestBody,
    ) -> Result<Route, DoorRefusal> {
        let cells = self.directory.list_cells();
        if let [only] = &*cells {
            return Ok(Route { cell: only.clone(), tenant: None });
        }
        let hash = head.credential.hash;
        if let Some(known) = self.callers.find(hash, Instant::now())
            && let Some(route) = self.find_known(&known, head, &cells)
        {
            self.metrics.count_caller("remembered");
            return Ok(route);
        }
        let permit = self.try_ask(network)?;
        let timer = self.metrics.ask_seconds.start_timer();
        let mut answer = self.questions.find_caller(&cells, head, None).await;
        let is_in_head = head.credential.is_api_key || body.is_empty();
        let is_by_body = !is_in_head && !matches!(answer, CallerAnswer::Tenant { .. });
        if is_by_body {
            let beginning = body.read_beginning().await?;
            answer = self.questions.find_caller(&cells, head, Some(&beginning)).await;
        }
        timer.observe_duration();
        drop(permit);
        match answer {
            CallerAnswer::Tenant { tenant, cell } => {
                self.metrics.count_caller("asked");
                let known = KnownCaller::Tenant { tenant: tenant.clone(), named_by: cell.name.clone() };
                self.remember_caller(head, &known, is_by_body);
                let cell = self.directory.find_cell(&tenant).unwrap_or(cell);
                Ok(Route { cell, tenant: Some(tenant) })
            }
            CallerAnswer::Anyone { cell, is_complete } => {
                self.metrics.count_caller("anyone");
                if is_complete && head.method.is_safe() {
                    self.callers.insert(hash, KnownCaller::Anyone, Instant::now());
                }
                Ok(self
                    .find_home(head, &cells)
                    .filter(|home| home.cell.is_answering())
                    .unwrap_or(Route { cell, tenant: None }))
            }
            CallerAnswer::Unknown => {
                self.metrics.count_caller("unknown");
                self.charge_unknown(network);
                self.find_home(head, &cells).ok_or(DoorRefusal::CallerUnknown)
            }
            CallerAnswer::Silent => {
                self.metrics.count_caller("silent");
                let known = self.callers.find_old(hash).filter(|known| *known != KnownCaller::Anyone);
                known
                    .and_then(|known| self.find_known(&known, head, &cells))
                    .ok_or(DoorRefusal::CallerUnknown)
            }
        }
    }

    /// Returns the cell of a caller that the door remembers.
    fn find_known(
        &self,
        known: &KnownCaller,
        head: &RequestHead,
        cells: &[Arc<CellEndpoint>],
    ) -> Option<Route> {
        match known {
            KnownCaller::Tenant { tenant, named_by } => {
                let cell =
                    self.directory.find_cell(tenant).or_else(|| self.directory.find_named(named_by))?;
                Some(Route { cell, tenant: Some(tenant.clone()) })
            }
            KnownCaller::Anyone => self.find_home(head, cells).filter(|home| home.cell.is_answering()),
        }
    }

    fn remember_caller(&self, head: &RequestHead, known: &KnownCaller, is_by_body: bool) {
        let now = Instant::now();
        // The next request may be the same but for its body.
        if !is_by_body {
            self.callers.insert(head.credential.hash, known.clone(), now);
        }
        if let Some(browser) = head.credential.browser {
            self.callers.insert(browser, known.clone(), now);
        }
    }

    /// Returns the cell for requests of no tenant: that of the browser's last tenant, or the first by name.
    fn find_home(&self, head: &RequestHead, cells: &[Arc<CellEndpoint>]) -> Option<Route> {
        let last = head.credential.browser.and_then(|browser| self.callers.find_old(browser));
        let cell = match last {
            Some(KnownCaller::Tenant { tenant, .. }) => self.directory.find_cell(&tenant),
            _ => None,
        };
        let cell = cell.or_else(|| cells.first().cloned())?;
        Some(Route { cell, tenant: None })
    }

    /// Takes a permit to ask the cells, unless the network's requests were of unknown callers too often.
    fn try_ask(&self, network: Option<Network>) -> Result<FairPermit<Network>, DoorRefusal> {
        let Some(network) = network else {
            return self.asks.try_acquire_unassigned(1).map_err(|_| DoorRefusal::Crowded);
        };
        let now = self.clock.monotonic_micros();
        let wait = self
            .unknown_callers
            .with_bucket(network, unknown_rate(), now, |bucket| bucket.wait_micros(unknown_rate(), now, 1.0));
        if wait > 0 {
            return Err(DoorRefusal::Crowded);
        }
        self.asks.try_acquire(&network, 1).map_err(|_| DoorRefusal::Crowded)
    }

    fn charge_unknown(&self, network: Option<Network>) {
        let Some(network) = network else { return };
        let now = self.clock.monotonic_micros();
        self.unknown_callers.with_bucket(network, unknown_rate(), now, |bucket| {
            bucket.charge_tokens(unknown_rate(), now, 1.0);
        });
    }
}

fn unknown_rate() -> Rate {
    Rate::with_burst(UNKNOWN_PER_SECOND, UNKNOWN_BURST_SECONDS)
}
