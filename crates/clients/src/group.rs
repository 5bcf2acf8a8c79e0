//! Engines on all clients as one engine.
//!
//! Clients go through the same stages, each at its own pace. What they report is held back until all have
//! reported it, and then passed on as one: trees add up, results of a phase are merged ([`crate::merge`]). A
//! phase begins when all are ready, at one moment in the future, which each is told by its own clock.
//!
//! A client that is lost in a phase stays part of the result, with what is unknown about it, and the trial
//! fails: what the others did without it says nothing about all of them.

use crate::members::Members;
use crate::merge::{Part, merge};
use crate::progress::{ClientProgress, combined};
use crate::request::request_of;
use crate::united::{is_optional, rank, sum};
use fsdyno_core::protocol::MemoryGroup;
use fsdyno_core::result::ClockOffset;
use fsdyno_core::{EngineEvent, EngineRequest, Failure, Nanos, PhaseResult, Warning};
use fsdyno_host::remote::{News, Order};
use fsdyno_host::{EngineOutput, EngineProcess, HostError, Result};
use fsdyno_sys::timer::monotonic_ns;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// The time that clients may take to start their engines.
const START_LIMIT: Duration = Duration::from_secs(60);
/// The interval at which to look for lost clients.
const GLANCE: Duration = Duration::from_millis(100);
/// Of so many clients it is reported whenever one comes to another stage; of more, from time to time.
const ALL_REPORTED_OF: usize = 64;
/// The time until an ordered phase begins: longer than a busy agent takes to pass the order on.
const MARGIN: Duration = Duration::from_millis(100);
/// The time that it takes to send the order to one client.
const MARGIN_OF_EACH: Duration = Duration::from_micros(40);

/// A running load on all clients.
pub(crate) struct Group {
    clients: Arc<Members>,
    engines: Vec<Engine>,
    /// `true` if the parent lets phases begin.
    parent_waits: bool,
    /// The phase that all are ready for.
    ready: Option<String>,
    running: Option<BegunPhase>,
    warnings: Vec<(Warning, Vec<usize>)>,
    output: VecDeque<EngineOutput>,
    /// Nothing more is wanted but the end.
    stopping: bool,
    /// One whose engine cannot be killed.
    stuck: Option<usize>,
    /// When clients were last looked for that are gone.
    looked: Instant,
    /// When it was last reported where the clients are.
    reported: Instant,
    /// `true` if something has happened that may let all of them go on.
    is_changed: bool,
}

/// The engine of one client.
#[derive(Default)]
struct Engine {
    pid: u32,
    /// The events that this engine has reported and that others have not reported yet.
    reported: VecDeque<EngineEvent>,
    progress: Option<ClientProgress>,
    phases: u32,
    /// It has closed its output.
    over: bool,
    lost: Option<String>,
}

/// A phase that has begun.
struct BegunPhase {
    name: String,
    clocks: Vec<Option<ClockOffset>>,
}

impl Members {
    /// Starts an engine on each, which work as one. `groups` are their memory cgroups, if members do not make
    /// these themselves.
    ///
    /// # Errors
    /// Which member is lost, or does not start its engine.
    pub fn start_engines(
        self: &Arc<Self>,
        request: &EngineRequest,
        groups: &[MemoryGroup],
    ) -> Result<Box<dyn EngineProcess>> {
        Ok(Box::new(Group::start(Arc::clone(self), request, groups)?))
    }
}

impl Group {
    /// Starts an engine on each client.
    pub fn start(clients: Arc<Members>, request: &EngineRequest, groups: &[MemoryGroup]) -> Result<Self> {
        // What an earlier load has left.
        while clients.news.lock().unwrap_or_else(PoisonError::into_inner).try_recv().is_ok() {}
        let count = clients.members.len();
        for (number, member) in clients.members.iter().enumerate() {
            let mut request = request_of(request, number, count);
            request.memory = groups.get(number).cloned().or(request.memory);
            member.order(Order::Start(Box::new(request)));
        }
        let engines = clients.members.iter().map(|_| Engine::default()).collect();
        let mut group = Group {
            clients,
            engines,
            parent_waits: request.pauses,
            ready: None,
            running: None,
            warnings: Vec::new(),
            output: VecDeque::new(),
            stopping: false,
            stuck: None,
            looked: Instant::now(),
            reported: Instant::now(),
            is_changed: true,
        };
        match group.all_started() {
            Ok(()) => Ok(group),
            Err(error) => {
                group.stop(GLANCE);
                Err(error)
            }
        }
    }

    fn all_started(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while self.engines.iter().any(|engine| engine.pid == 0) {
            if let Some(lost) = self.clients.lost() {
                return Err(lost);
            }
            if Instant::now() >= deadline {
                let waiting = self.engines.iter().position(|engine| engine.pid == 0).unwrap_or(0);
                let action = format!("starting the engine on client '{}'", self.name(waiting));
                return Err(HostError::Hung { action, seconds: START_LIMIT.as_secs() });
            }
            match self.listen(GLANCE) {
                Some((number, News::Started { pid })) => self.engines[number].pid = pid,
                Some((number, News::NotStarted { error })) => {
                    let host = format!("client {}", self.name(number));
                    return Err(HostError::Lost { host, reason: error.to_string() });
                }
                Some((number, news)) => self.take(number, news),
                None => {}
            }
        }
        Ok(())
    }

    fn listen(&self, timeout: Duration) -> Option<(usize, News)> {
        let news = self.clients.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.recv_timeout(timeout).ok()
    }

    fn name(&self, number: usize) -> &str {
        self.clients.members[number].name()
    }

    /// The engines that run.
    fn alive(&self) -> impl Iterator<Item = usize> {
        self.engines.iter().enumerate().filter(|(_, one)| !one.over && one.lost.is_none()).map(|(n, _)| n)
    }

    /// The engines that run, or whose reports wait for those of others.
    fn reporting(&self) -> impl Iterator<Item = usize> {
        let reports = |one: &Engine| one.lost.is_none() && !(one.over && one.reported.is_empty());
        self.engines.iter().enumerate().filter(move |(_, one)| reports(one)).map(|(n, _)| n)
    }

    fn take(&mut self, number: usize, news: News) {
        match news {
            News::Event(event) => self.take_event(number, *event),
            News::Garbage(text) => {
                let text = format!("client {}: {text}", self.name(number));
                self.output.push_back(EngineOutput::Garbage(text));
            }
            News::Closed(text) => {
                self.is_changed = true;
                let engine = &mut self.engines[number];
                let is_done = engine.reported.back().is_some_and(|event| *event == EngineEvent::Done);
                engine.over = self.stopping || is_done;
                if !engine.over {
                    let said = if text.trim().is_empty() { "nothing" } else { text.trim() };
                    engine.lost.get_or_insert(format!("its engine exited without a result, and said {said}"));
                }
            }
            News::Started { .. } | News::NotStarted { .. } | News::Ended { .. } | News::Clock { .. } => {}
        }
    }

    fn take_event(&mut self, number: usize, event: EngineEvent) {
        match event {
            EngineEvent::Progress(within) => {
                let engine = &mut self.engines[number];
                let phases = engine.phases;
                let is_next = engine.progress.as_ref().is_none_or(|last| last.within.step != within.step);
                engine.progress = Some(ClientProgress { phases, within });
                // Of a thousand clients, one tells where it is every millisecond.
                let is_due = is_next && self.engines.len() <= ALL_REPORTED_OF;
                if is_due || self.reported.elapsed() >= GLANCE {
                    self.reported = Instant::now();
                    let names = self.clients.members.iter().map(|member| member.name());
                    let positions = self.engines.iter().map(|engine| engine.progress.as_ref());
                    let event = combined(&names.zip(positions).collect::<Vec<_>>());
                    self.output.extend(event.map(|event| EngineOutput::Event(Box::new(event))));
                }
            }
            EngineEvent::Warning(warning) => {
                match self.warnings.iter_mut().find(|(known, _)| *known == warning) {
                    Some((_, clients)) => clients.push(number),
                    None => self.warnings.push((warning, vec![number])),
                }
            }
            EngineEvent::Failed(failure) if self.stopping => drop(failure),
            EngineEvent::Failed(failure) => {
                let message = format!("client '{}': {}", self.name(number), failure.message);
                self.fail(Failure { message, ..failure });
            }
            other => {
                self.engines[number].reported.push_back(other);
                self.is_changed = true;
            }
        }
    }

    fn pass_on(&mut self, event: EngineEvent) {
        for (warning, clients) in std::mem::take(&mut self.warnings) {
            let names: Vec<&str> = clients.iter().map(|number| self.name(*number)).collect();
            let whose = match names.len() == self.engines.len() {
                true => "on all clients".to_string(),
                false => format!("client {}", names.join(", ")),
            };
            let warning = Warning { text: format!("{whose}: {}", warning.text), ..warning };
            self.output.push_back(EngineOutput::Event(Box::new(EngineEvent::Warning(warning))));
        }
        self.output.push_back(EngineOutput::Event(Box::new(event)));
    }

    fn fail(&mut self, failure: Failure) {
        self.pass_on(EngineEvent::Failed(failure));
    }

    /// Notices clients that are gone.
    fn look(&mut self) {
        for number in self.alive().collect::<Vec<_>>() {
            let Some(reason) = self.clients.members[number].lost() else { continue };
            self.engines[number].lost = Some(reason);
            self.is_changed = true;
        }
        // In a phase, what the others report comes first.
        let is_waited_for = self.running.is_some() && self.reporting().next().is_some();
        if !self.stopping && !is_waited_for {
            self.tell_of_lost("clients");
        }
    }

    /// Fails if clients were lost.
    fn tell_of_lost(&mut self, step: &str) {
        let lost = self.engines.iter().enumerate().filter_map(|(number, engine)| {
            let (client, reason) = (self.name(number).to_string(), engine.lost.clone()?);
            Some(HostError::ClientLost { client, reason }.to_string())
        });
        let lost: Vec<String> = lost.collect();
        if !lost.is_empty() {
            let mut failure = Failure::new(step, lost.join("; "));
            failure.hint =
                Some("look at its kernel log (dmesg) and its network; the others were stopped".to_string());
            self.stopping = true;
            self.fail(failure);
        }
    }

    /// Passes on what all engines have reported.
    fn combine(&mut self) {
        while std::mem::take(&mut self.is_changed) && !self.stopping {
            let active: Vec<usize> = self.reporting().collect();
            let heads: Vec<u8> = active
                .iter()
                .filter_map(|number| Some(rank(self.engines[*number].reported.front()?)))
                .collect();
            if heads.len() < active.len() || heads.is_empty() {
                return;
            }
            let next = heads.iter().copied().min().unwrap_or(0);
            let same: Vec<usize> =
                active.iter().zip(&heads).filter(|(_, rank)| **rank == next).map(|(n, _)| *n).collect();
            if same.len() < active.len() && !is_optional(next) {
                let text = format!(
                    "client '{}' does something else than '{}'",
                    self.name(same[0]),
                    self.odd_one(&active, &same)
                );
                self.stopping = true;
                return self.fail(Failure::new("clients", text));
            }
            let events: Vec<(usize, EngineEvent)> = same
                .iter()
                .filter_map(|number| Some((*number, self.engines[*number].reported.pop_front()?)))
                .collect();
            self.unite(events);
            self.is_changed = true;
        }
    }

    fn odd_one(&self, active: &[usize], same: &[usize]) -> &str {
        let other = active.iter().find(|number| !same.contains(number)).copied().unwrap_or(same[0]);
        self.name(other)
    }

    /// Makes one event of those of several clients, which are of one kind.
    fn unite(&mut self, events: Vec<(usize, EngineEvent)>) {
        let mut phases: Vec<(usize, PhaseResult)> = Vec::new();
        let mut united: Option<EngineEvent> = None;
        for (number, event) in events {
            united = Some(match (united.take(), event) {
                (_, EngineEvent::Phase(phase)) => {
                    phases.push((number, *phase));
                    continue;
                }
                (Some(first), other) => sum(first, other),
                (None, first) => first,
            });
        }
        match united {
            None => self.phase_ended(phases),
            Some(EngineEvent::Ready { phase }) => {
                self.ready = Some(phase.clone());
                match self.parent_waits {
                    true => self.pass_on(EngineEvent::Ready { phase }),
                    false => self.begin(),
                }
            }
            // Each engine reads its own files again.
            Some(EngineEvent::Reached { .. }) => {}
            Some(event) => self.pass_on(event),
        }
    }

    /// Lets all begin the phase that they are ready for.
    fn begin(&mut self) {
        let Some(name) = self.ready.take() else { return };
        let clocks = self.clients.clocks(|_| true);
        let slowest = clocks.iter().flatten().map(|clock| clock.uncertainty_ns.0).max().unwrap_or(0);
        let margin = MARGIN + MARGIN_OF_EACH * self.engines.len() as u32;
        let begin_ns = monotonic_ns() + margin.as_nanos() as u64 + 8 * slowest;
        for (member, clock) in self.clients.members.iter().zip(&clocks) {
            let at_ns = clock.map(|clock| begin_ns.saturating_add_signed(clock.offset_ns));
            member.order(Order::Proceed { at_ns });
        }
        self.running = Some(BegunPhase { name, clocks });
    }

    fn phase_ended(&mut self, phases: Vec<(usize, PhaseResult)>) {
        let Some(BegunPhase { name, clocks }) = self.running.take() else {
            return self.fail(Failure::new("clients", "a phase ended that had not begun"));
        };
        let mut parts: Vec<Part> = Vec::new();
        let mut results: Vec<Option<PhaseResult>> = self.engines.iter().map(|_| None).collect();
        for (number, phase) in phases {
            self.engines[number].phases += 1;
            results[number] = Some(phase);
        }
        let missing = self.engines.iter().zip(&results);
        let missing = missing.clone().position(|(engine, result)| engine.lost.is_none() && result.is_none());
        if let Some(number) = missing {
            let text = format!("client '{}' ended without this phase", self.name(number));
            self.stopping = true;
            return self.fail(Failure::new(name, text));
        }
        let afterwards = self.clients.clocks(|number| self.engines[number].lost.is_none());
        for ((number, result), (before, after)) in
            results.into_iter().enumerate().zip(clocks.into_iter().zip(afterwards))
        {
            let member = &self.clients.members[number];
            let lost = self.engines[number].lost.clone();
            let silent_ns = lost.is_some().then(|| Nanos::from(member.heard().elapsed()));
            parts.push(Part { client: member.name().to_string(), before, after, result, lost, silent_ns });
        }
        match merge(parts) {
            Ok((phase, warnings)) => {
                for warning in warnings {
                    self.output.push_back(EngineOutput::Event(Box::new(EngineEvent::Warning(warning))));
                }
                self.pass_on(EngineEvent::Phase(Box::new(phase)));
            }
            Err(error) => {
                self.stopping = true;
                return self
                    .fail(Failure::new(name, format!("the results of the clients do not fit: {error}")));
            }
        }
        self.tell_of_lost(&name);
    }
}

impl EngineProcess for Group {
    fn next(&mut self, timeout: Duration) -> EngineOutput {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(output) = self.output.pop_front() {
                return output;
            }
            if self.stopping && self.alive().next().is_none() {
                return EngineOutput::End(String::new());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some((number, news)) = self.listen(left.min(GLANCE)) {
                self.take(number, news);
            }
            // Those who talk must not hide those who are silent.
            if self.looked.elapsed() >= GLANCE {
                self.looked = Instant::now();
                self.look();
            }
            self.combine();
            if left.is_zero() && self.output.is_empty() {
                return EngineOutput::Silence;
            }
        }
    }

    fn proceed(&mut self, _at_ns: Option<u64>) {
        self.begin();
    }

    fn ask_to_stop(&mut self) {
        self.stopping = true;
        self.output.clear();
        for number in self.alive().collect::<Vec<_>>() {
            self.clients.members[number].order(Order::Stop);
        }
    }

    fn stop(&mut self, limit: Duration) -> bool {
        self.stopping = true;
        let mut waiting: Vec<usize> =
            (0..self.engines.len()).filter(|number| self.clients.members[*number].lost().is_none()).collect();
        for number in &waiting {
            self.clients.members[*number].order(Order::Kill);
        }
        let deadline = Instant::now() + limit;
        while !waiting.is_empty() && Instant::now() < deadline {
            if let Some((number, News::Ended { gone: this_one })) = self.listen(GLANCE) {
                waiting.retain(|one| *one != number);
                if !this_one {
                    self.stuck = Some(number);
                }
            }
            waiting.retain(|number| self.clients.members[*number].lost().is_none());
        }
        self.stuck = self.stuck.or(waiting.first().copied());
        self.stuck.is_none()
    }

    fn pid(&self) -> u32 {
        self.engines[self.last_one()].pid
    }

    fn process(&self) -> String {
        let number = self.stuck.unwrap_or_else(|| self.last_one());
        format!("process {} on client '{}'", self.engines[number].pid, self.name(number))
    }
}

impl Group {
    /// The client that the others wait for.
    fn last_one(&self) -> usize {
        let order = |number: &usize| {
            let engine = &self.engines[*number];
            (engine.phases, engine.reported.len(), engine.progress.as_ref().map(ClientProgress::order))
        };
        self.alive()
            .min_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(std::cmp::Ordering::Equal))
            .unwrap_or(0)
    }
}
