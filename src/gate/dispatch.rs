//! A call in, exactly one answer out, by its deadline.
//!
//! The caller is known by its topic and by nothing that a payload says. Each message is a task of its own, so that no call
//! waits for another; its request is acknowledged only when its answer has been handed over, so that what is lost in
//! between is delivered again, and the duplicate is answered from the store.
//!
//! A batch is answered with one array, and so by the shortest deadline in it. A cancellation changes nothing: the call is
//! a read, has a deadline, and ends with its one answer all the same.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::join_all;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use super::bus::{Bus, BusError, Incoming, Outgoing, OutgoingProperties, Qos};
use super::duplicates::{Duplicates, Known};
use super::jsonrpc::{Fault, Message, Parcel, Request, code, parse};
use super::reply::{Head, Reply};
use super::router::{Router, Tools};
use super::topics::Topics;
use crate::clock;
use crate::config::CallsConfig;
use crate::ids::ClientId;
use crate::tools::Call;
use crate::tools::answer::{ErrorCode, ToolError};

/// Messages that may be at work beside the calls that run: refusals and stored answers on their way out. When all are
/// taken, messages wait in the session's queue, and the broker keeps what does not fit there.
const HANDS_BESIDE_CALLS: usize = 64;
/// What a caller waits when there are too many calls. Most end within a poll interval.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// An answer keeps at most this distance from its deadline, for its way back.
const MAX_MARGIN: Duration = Duration::from_millis(100);

/// Takes requests from the session and hands answers to the bus.
#[derive(Debug)]
pub struct Dispatcher<T: Tools> {
    router: Router<T>,
    bus: Bus,
    topics: Topics,
    calls: CallsConfig,
    permits: Semaphore,
    duplicates: Mutex<Duplicates<Reply>>,
}

/// When a call arrived, and until when its answer is of use.
#[derive(Clone, Copy, Debug)]
struct Term {
    arrived: Instant,
    deadline: Instant,
}

impl Term {
    /// What may pass between the end of a tool and the deadline.
    fn margin(&self) -> Duration {
        (self.deadline.saturating_duration_since(self.arrived) / 10).min(MAX_MARGIN)
    }

    /// When a tool should have ended by itself, with an error that says more than ours.
    fn tool_deadline(&self) -> Instant {
        self.deadline - self.margin()
    }

    /// When a tool that has not ended is given up.
    fn cut_off(&self) -> Instant {
        self.deadline - self.margin() / 2
    }

    fn took(&self) -> Duration {
        clock::instant().saturating_duration_since(self.arrived)
    }
}

impl<T: Tools> Dispatcher<T> {
    /// A dispatcher that answers on this bus. It must be built inside a runtime.
    pub fn new(tools: Arc<T>, bus: Bus, topics: Topics, calls: CallsConfig) -> Dispatcher<T> {
        let permits = Semaphore::new(calls.max_in_flight);
        Dispatcher { router: Router::new(tools), bus, topics, calls, permits, duplicates: Mutex::default() }
    }

    /// Serves until the channel is closed, and then until the last call has ended.
    pub async fn run(self, mut incoming: mpsc::Receiver<Incoming>) {
        let hands = Arc::new(Semaphore::new(self.calls.max_in_flight + HANDS_BESIDE_CALLS));
        let dispatcher = Arc::new(self);
        let mut tasks = JoinSet::new();
        while let Some(message) = incoming.recv().await {
            let Ok(hand) = hands.clone().acquire_owned().await else { break };
            let dispatcher = dispatcher.clone();
            tasks.spawn(async move {
                dispatcher.take(message).await;
                drop(hand);
            });
            while let Some(ended) = tasks.try_join_next() {
                report(ended);
            }
        }
        while let Some(ended) = tasks.join_next().await {
            report(ended);
        }
    }

    /// Deals with one message: answers it if it wants an answer, then acknowledges it.
    async fn take(&self, message: Incoming) {
        let Some(client) = self.topics.requester(&message.topic) else {
            tracing::debug!(topic = message.topic, "a message on a topic that is no caller's is dropped");
            return message.ack.done().await;
        };
        if message.retained {
            tracing::debug!(%client, "a retained request is never executed");
            return message.ack.done().await;
        }
        let Parcel { entries, is_batch } = parse(&message.payload);
        let entries: Vec<_> = entries.into_iter().map(|entry| self.with_limit(entry, message.expiry)).collect();
        let shortest = entries.iter().filter_map(|entry| Some(entry.as_ref().ok()?.1)).min();
        let limit = shortest.unwrap_or(self.calls.default_deadline);
        let arrived = message.arrived.instant;
        let term = Term { arrived, deadline: arrived + limit };
        let answers = join_all(entries.into_iter().map(|entry| self.answer(&client, entry, term))).await;
        let answers: Vec<Answered> = answers.into_iter().flatten().collect();

        if !self.hand_over(&client, &message, &answers, is_batch, term).await {
            return;
        }
        message.ack.done().await;
        for answered in answers {
            self.publish_copy(&client, answered).await;
        }
    }

    /// Finds an entry's time limit; a wish that cannot be read is a fault.
    fn with_limit(
        &self,
        entry: Result<Message, Fault>,
        expiry: Option<Duration>,
    ) -> Result<(Message, Duration), Fault> {
        match entry? {
            Message::Unanswered => Ok((Message::Unanswered, self.calls.max_deadline)),
            Message::Request(request) => match limit(&request, expiry, &self.calls) {
                Ok(limit) => Ok((Message::Request(request), limit)),
                Err(message) => Err(Fault { id: Some(request.id), code: code::INVALID_PARAMS, message }),
            },
        }
    }

    async fn answer(
        &self,
        client: &ClientId,
        entry: Result<(Message, Duration), Fault>,
        term: Term,
    ) -> Option<Answered> {
        let (head, reply) = match entry {
            Ok((Message::Unanswered, _)) => return None,
            Ok((Message::Request(request), _)) => {
                let head = Head::of(&request);
                let reply = self.answer_request(client, &head, request, term).await;
                (Some(head), reply)
            }
            Err(fault) => (None, Reply::of_fault(fault)),
        };
        log(client, head.as_ref(), &reply, term.took());
        Some(Answered { head, reply })
    }

    async fn answer_request(&self, client: &ClientId, head: &Head, request: Request, term: Term) -> Reply {
        let now = clock::instant();
        if term.deadline <= now {
            return Reply::refusal(head, &too_late(), term.took()).without_copy();
        }
        if head.method == "initialize" {
            self.duplicates().forget(client);
        }
        if head.tool.is_none() {
            return match self.permits.try_acquire() {
                Ok(_permit) => self.execute(client, head, request, term).await,
                Err(_) => Reply::refusal(head, &too_many(), term.took()),
            };
        }
        let (key, known) = {
            let duplicates = self.duplicates();
            let key = duplicates.key(client, &request);
            let known = duplicates.look_up(&key, now);
            (key, known)
        };
        if let Known::Ended(reply) = known {
            return reply;
        }
        let Ok(_permit) = self.permits.try_acquire() else {
            return Reply::refusal(head, &too_many(), term.took()).without_copy();
        };
        if let Known::Running(answer) = known {
            return wait_for(answer, head, term).await.without_copy();
        }
        let waiting = self.duplicates().begin(key.clone(), term.deadline);
        let reply = self.execute(client, head, request, term).await;
        let stored = reply.clone().without_copy();
        self.duplicates().end(&key, stored.clone(), stored.payload.len(), clock::instant());
        waiting.send_replace(Some(stored));
        reply
    }

    /// Runs a request to its end, to its cut-off, or to its panic.
    async fn execute(&self, client: &ClientId, head: &Head, request: Request, term: Term) -> Reply {
        let call = Call { client: client.clone(), arrived: term.arrived, deadline: term.tool_deadline() };
        let work = AssertUnwindSafe(self.router.serve(request, call)).catch_unwind();
        match timeout_at(term.cut_off().into(), work).await {
            Ok(Ok(outcome)) => Reply::of(head, outcome, term.took()),
            Ok(Err(_panic)) => Reply::refusal(head, &fault_of_ours(), term.took()),
            Err(_) => Reply::refusal(head, &out_of_time(term.took()), term.took()),
        }
    }

    /// Publishes the answers; false when nothing was handed over because the gateway is stopping.
    async fn hand_over(
        &self,
        client: &ClientId,
        message: &Incoming,
        answers: &[Answered],
        is_batch: bool,
        term: Term,
    ) -> bool {
        let Some(payload) = join(answers.iter().map(|answered| answered.reply.payload.clone()), is_batch) else {
            return true;
        };
        let own = message.response_topic.as_ref().filter(|topic| self.topics.may_answer_on(client, topic));
        let answer = |payload: Bytes| Outgoing {
            topic: own.cloned().unwrap_or_else(|| self.topics.response(client)),
            payload,
            retain: false,
            qos: Qos::AtLeastOnce,
            properties: OutgoingProperties {
                correlation_data: message.correlation_data.clone(),
                // The protocol counts in seconds, and an answer to an expired call is still due.
                expiry: Some(term.deadline.saturating_duration_since(clock::instant()).max(Duration::from_secs(1))),
                content_type: Some("application/json"),
            },
        };
        let mut handed = self.bus.publish(answer(payload)).await;
        if let Err(BusError::TooLarge { limit, .. }) = handed {
            let refused = answers.iter().map(|answered| answered.too_large(limit, term).payload);
            handed = self.bus.publish(answer(join(refused, is_batch).unwrap_or_default())).await;
        }
        match handed {
            Ok(()) => true,
            Err(err) => {
                tracing::warn!(%client, error = %err, "an answer could not be handed over");
                !matches!(err, BusError::Stopped)
            }
        }
    }

    async fn publish_copy(&self, client: &ClientId, answered: Answered) {
        let (Some(head), Some(payload)) = (answered.head, answered.reply.copy) else { return };
        // A name that is no level of a topic is no tool's.
        let Some(tool) = head.tool.filter(|tool| tool.parse::<ClientId>().is_ok()) else { return };
        let properties = OutgoingProperties { content_type: Some("application/json"), ..Default::default() };
        let topic = self.topics.result(client, &tool);
        let copy = Outgoing { topic, payload, retain: false, qos: Qos::AtLeastOnce, properties };
        // Without a session it is left out: a copy that waited would be an old one.
        if let Err(err) = self.bus.publish_now(copy).await {
            tracing::debug!(%client, tool, error = %err, "the copy of a result was left out");
        }
    }

    fn duplicates(&self) -> MutexGuard<'_, Duplicates<Reply>> {
        self.duplicates.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// One answer, with the head of what it answers where that was a request.
struct Answered {
    head: Option<Head>,
    reply: Reply,
}

impl Answered {
    fn too_large(&self, limit: u32, term: Term) -> Reply {
        match &self.head {
            Some(head) => Reply::refusal(head, &too_large(limit), term.took()),
            None => self.reply.clone(),
        }
    }
}

/// How long a request may take: the shorter of the message's expiry and the request's own wish, within our bounds.
fn limit(request: &Request, expiry: Option<Duration>, calls: &CallsConfig) -> Result<Duration, String> {
    let wish = match request.meta("fieldgate/deadline_ms") {
        None | Some(Value::Null) => None,
        Some(wish) => {
            let wish = wish.as_f64().ok_or("`_meta.\"fieldgate/deadline_ms\"` must be a number of milliseconds")?;
            Some(Duration::from_secs_f64(wish.clamp(0.0, calls.max_deadline.as_secs_f64() * 1000.0) / 1000.0))
        }
    };
    let shorter = [wish, expiry].into_iter().flatten().min();
    Ok(shorter.unwrap_or(calls.default_deadline).min(calls.max_deadline))
}

/// Waits for the answer to the same call that runs already.
async fn wait_for(mut answer: watch::Receiver<Option<Reply>>, head: &Head, term: Term) -> Reply {
    let ended = async { answer.wait_for(Option::is_some).await.ok().and_then(|reply| reply.clone()) };
    match timeout_at(term.cut_off().into(), ended).await {
        Ok(Some(reply)) => reply,
        Ok(None) => Reply::refusal(head, &fault_of_ours(), term.took()),
        Err(_) => Reply::refusal(head, &out_of_time(term.took()), term.took()),
    }
}

/// The payload of several answers; none where there is nothing to say.
fn join(replies: impl Iterator<Item = Bytes>, is_batch: bool) -> Option<Bytes> {
    let replies: Vec<Bytes> = replies.collect();
    match &replies[..] {
        [] => None,
        [reply] if !is_batch => Some(reply.clone()),
        _ => Some([b"[".as_slice(), &replies.join(&b","[..]), b"]"].concat().into()),
    }
}

fn too_late() -> ToolError {
    let message = "The call had expired when it was taken up, and was not executed.";
    ToolError::new(ErrorCode::DeadlineExceeded, message, "Call again, with a deadline that is still to come.")
}

fn out_of_time(took: Duration) -> ToolError {
    let message = format!("The call did not end within {} ms. Nothing was changed.", took.as_millis());
    ToolError::new(ErrorCode::DeadlineExceeded, message, "Call again with a longer deadline, or ask for less at once.")
}

fn too_many() -> ToolError {
    let mut error = ToolError::new(
        ErrorCode::RateLimited,
        "The gateway has as many calls at work as it takes.",
        "Call again after retry_after_ms, with fewer calls at once.",
    );
    error.retry_after_ms = Some(RETRY_AFTER.as_millis() as u64);
    error
}

fn too_large(limit: u32) -> ToolError {
    let message = format!("The answer is larger than the {limit} bytes that the broker takes.");
    ToolError::new(ErrorCode::ResultTooLarge, message, "Ask for less, or page.")
}

fn fault_of_ours() -> ToolError {
    let message = "The gateway failed while it served the call. The fault was logged.";
    ToolError::new(ErrorCode::Internal, message, "Use no value from this call, and report it.")
}

fn log(client: &ClientId, head: Option<&Head>, reply: &Reply, took: Duration) {
    let method = head.map(|head| head.method.as_str());
    let tool = head.and_then(|head| head.tool.as_deref());
    let traceparent = head.and_then(|head| head.traceparent.as_deref());
    let latency_ms = (took.as_secs_f64() * 1e6).round() / 1e3;
    match reply.error.as_deref() {
        None => tracing::debug!(%client, method, tool, traceparent, latency_ms, "call answered"),
        Some(error @ ("INTERNAL" | "-32603")) => {
            tracing::error!(%client, method, tool, traceparent, error, latency_ms, "call failed by a fault of the gateway");
        }
        Some(error) => {
            let sensor_id = reply.sensor_id.as_deref();
            tracing::info!(%client, method, tool, sensor_id, traceparent, error, latency_ms, "call answered with an error")
        }
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(err) = ended {
        tracing::error!(error = %err, "a call ended without its answer");
    }
}

#[cfg(test)]
mod tests;
