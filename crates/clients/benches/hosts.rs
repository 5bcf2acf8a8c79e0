//! Simulates clients that no machine here could run: hosts with network latencies, clocks, stragglers and
//! losses from a seed, whose news pass through the coordinator's own code. Prints, for each number of
//! clients, what the coordinator costs, how far apart they begin, and what is lost to stragglers.
//! `cargo bench -p fsdyno-clients --bench hosts`
//!
//! Real: parsing of news, the group, the reading of clocks, the merging of results. Simulated: hosts,
//! network, engines. Processor time includes that of the simulation, so it is an upper bound.
#![allow(clippy::print_stdout)]

use fsdyno_clients::Members;
use fsdyno_core::result::{ClockOffset, TreeSummary};
use fsdyno_core::{EngineEvent, EngineRequest, Nanos, Progress, TrialStep, Workload};
use fsdyno_host::remote::clock::{ClockReader, ClockReading};
use fsdyno_host::remote::sign::SignOfLife;
use fsdyno_host::remote::{Member, News, Order};
use fsdyno_host::{EngineOutput, EngineProcess};
use fsdyno_sys::timer::monotonic_ns;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const SEED: u64 = 19;
const COUNTS: [usize; 6] = [8, 64, 256, 1_000, 3_000, 10_000];
/// The duration of a phase.
const WINDOW: Duration = Duration::from_secs(5);
/// The time that clients take to prepare: the median, and the spread of its logarithm.
const PREPARE_S: f64 = 3.0;
const PREPARE_SIGMA: f64 = 0.15;
/// One way through the network.
const ONE_WAY_US: (f64, f64) = (40.0, 200.0);
/// The mean additional delay of a message.
const JITTER_US: f64 = 20.0;
/// The mean delay until a thread wakes up.
const WAKE_UP_US: f64 = 60.0;
/// The most that the clock of a client is ahead, in seconds.
const OFFSET_S: f64 = 1e6;

fn main() {
    println!(
        "clients  started   clocks     skew  skew p99  stragglers  processor  memory  phase merged   lost seen"
    );
    let reports = Arc::new(Reports::new());
    for count in COUNTS {
        let whole = simulate(count, &reports, None);
        let lossy = simulate(count, &reports, Some(count / 2));
        println!(
            "{count:>7} {:>8} {:>8} {:>8} {:>9} {:>10.1}% {:>9.2}% {:>4} MiB {:>13} {:>11}",
            time(whole.started),
            time(whole.clocks),
            time(whole.skew),
            time(whole.skew_p99),
            whole.stragglers * 100.0,
            whole.processor * 100.0,
            whole.memory_mib,
            time(whole.merged),
            time(lossy.lost_seen),
        );
    }
}

fn time(ns: u64) -> String {
    match ns {
        0 => "-".to_string(),
        ns if ns < 1_000_000 => format!("{:.0} us", ns as f64 / 1e3),
        ns if ns < 1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        ns => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// The results of a simulation.
#[derive(Default)]
struct Found {
    /// Until all engines had started.
    started: u64,
    /// From the last one that was ready until all were told when to begin.
    clocks: u64,
    /// Between the first and the last that began, and between the first and all but 1 %.
    skew: u64,
    skew_p99: u64,
    /// The share of preparing that clients waited for others.
    stragglers: f64,
    /// Processors' time over time, while the phase was measured.
    processor: f64,
    memory_mib: u64,
    /// From the last result until that of all.
    merged: u64,
    /// From the loss of a client until the load had failed.
    lost_seen: u64,
}

fn simulate(count: usize, reports: &Arc<Reports>, loses: Option<usize>) -> Found {
    reset_memory_peak();
    let (news, heard) = Members::line();
    let network = Arc::new(Network::default());
    let mut dice = SmallRng::seed_from_u64(SEED);
    let preparing = LogNormal::new(PREPARE_S.ln(), PREPARE_SIGMA).expect("a spread");
    let hosts: Vec<Arc<SimulatedHost>> = (0..count)
        .map(|number| {
            let (clock, times) = ClockReader::new();
            Arc::new(SimulatedHost {
                name: format!("n{number}"),
                number,
                one_way: Duration::from_nanos((dice.random_range(ONE_WAY_US.0..ONE_WAY_US.1) * 1e3) as u64),
                offset_ns: (dice.random_range(0.0..OFFSET_S) * 1e9) as i64,
                prepares: Duration::from_secs_f64(preparing.sample(&mut dice)),
                dice: Mutex::new(SmallRng::seed_from_u64(dice.random())),
                network: Arc::clone(&network),
                reports: Arc::clone(reports),
                clock,
                times,
                sign: SignOfLife::default(),
                began_ns: AtomicU64::new(0),
                is_to_be_lost: loses == Some(number),
            })
        })
        .collect();
    *lock(&network.hosts) = hosts.clone();
    let delivering = Arc::clone(&network);
    let postman = std::thread::spawn(move || delivering.deliver(&news));
    let members = hosts.iter().map(|host| Arc::clone(host) as Arc<dyn Member>).collect();
    let members = Members::new(members, heard);

    let request = EngineRequest::new("/share", Workload::Null(Default::default()), SEED);
    let begun = Instant::now();
    let mut engine = members.start_engines(&request, &[]).expect("they start");
    let mut found = Found { started: begun.elapsed().as_nanos() as u64, ..Found::default() };
    follow(engine.as_mut(), &hosts, &mut found);
    drop(engine);
    found.memory_mib = memory_peak_mib();
    network.close();
    postman.join().expect("the postman");
    found
}

/// Until the load has ended.
fn follow(engine: &mut dyn EngineProcess, hosts: &[Arc<SimulatedHost>], found: &mut Found) {
    let mut cpu = None;
    let mut before_results = None;
    loop {
        let said = engine.next(Duration::from_millis(100));
        if cpu.is_none() && hosts.iter().all(|host| host.began_ns.load(Ordering::Relaxed) > 0) {
            cpu = Some((processor_ns(), monotonic_ns()));
            let last_ready = hosts.iter().map(|host| host.ready_ns()).max().unwrap_or_default();
            found.clocks = hosts[0].network.told_ns.load(Ordering::Relaxed).saturating_sub(last_ready);
            let mut began: Vec<u64> =
                hosts.iter().map(|host| host.began_ns.load(Ordering::Relaxed)).collect();
            began.sort_unstable();
            found.skew = began[began.len() - 1] - began[0];
            found.skew_p99 = began[(began.len() - 1) * 99 / 100] - began[0];
            let prepared: Vec<f64> = hosts.iter().map(|host| host.prepares.as_secs_f64()).collect();
            let longest = prepared.iter().copied().fold(0.0, f64::max);
            found.stragglers = 1.0 - prepared.iter().sum::<f64>() / prepared.len() as f64 / longest;
        }
        if hosts[0].network.last_result_ns.load(Ordering::Relaxed) == 0 {
            before_results = Some((processor_ns(), monotonic_ns()));
        }
        match said {
            EngineOutput::Event(event) => match *event {
                EngineEvent::Phase(phase) => {
                    let now = monotonic_ns();
                    assert_eq!(phase.clients.len(), hosts.len());
                    found.merged =
                        now.saturating_sub(hosts[0].network.last_result_ns.load(Ordering::Relaxed));
                    if let (Some((cpu, at)), Some((later, until))) = (cpu, before_results) {
                        found.processor = (later - cpu) as f64 / (until - at) as f64;
                    }
                }
                EngineEvent::Failed(failure) => {
                    assert!(failure.message.contains("was lost"), "{}", failure.message);
                    let lost = hosts[0].network.lost_ns.load(Ordering::Relaxed);
                    found.lost_seen = monotonic_ns().saturating_sub(lost);
                    return;
                }
                EngineEvent::Done => return,
                _ => {}
            },
            EngineOutput::Silence => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A host that exists as figures.
struct SimulatedHost {
    name: String,
    number: usize,
    one_way: Duration,
    /// Its clock minus that of the coordinator.
    offset_ns: i64,
    prepares: Duration,
    dice: Mutex<SmallRng>,
    network: Arc<Network>,
    reports: Arc<Reports>,
    clock: ClockReader,
    times: Sender<ClockReading>,
    sign: SignOfLife,
    /// When it began, on the coordinator's clock.
    began_ns: AtomicU64,
    is_to_be_lost: bool,
}

impl SimulatedHost {
    fn travel(&self) -> Duration {
        let jitter = exponential(&mut lock(&self.dice), JITTER_US);
        self.one_way + Duration::from_nanos((jitter * 1e3) as u64)
    }

    /// When its engine is ready, at the earliest.
    fn ready_ns(&self) -> u64 {
        self.network.started_ns.load(Ordering::Relaxed) + self.prepares.as_nanos() as u64
    }

    fn send(&self, after: Duration, news: &News) {
        let line = serde_json::to_vec(news).expect("news");
        self.network.post(after + self.travel(), self.number, Letter::Line(line));
    }

    fn start(&self) {
        self.network.started_ns.fetch_max(monotonic_ns(), Ordering::Relaxed);
        let there = self.travel();
        self.send(there, &News::Started { pid: 7 });
        let event = |event: EngineEvent| News::Event(Box::new(event));
        self.send(there, &self.reports.hello);
        for second in 1..=self.prepares.as_secs() {
            let done = second as f64 / self.prepares.as_secs_f64();
            self.send(there + Duration::from_secs(second), &event(progress(TrialStep::Prepare, done)));
        }
        let prepared =
            EngineEvent::Prepared { duration_ns: self.prepares.into(), trees: TreeSummary::default() };
        self.send(there + self.prepares, &event(prepared));
        let ready = EngineEvent::Ready { phase: self.reports.phase.clone() };
        self.send(there + self.prepares, &event(ready));
    }

    fn proceed(&self, at_ns: Option<u64>) {
        self.network.told_ns.fetch_max(monotonic_ns(), Ordering::Relaxed);
        let arrives = monotonic_ns() + self.travel().as_nanos() as u64;
        let at = at_ns.map_or(arrives, |at| at.saturating_add_signed(-self.offset_ns));
        let late = exponential(&mut lock(&self.dice), WAKE_UP_US) * 1e3;
        let begins = at.max(arrives) + late as u64;
        self.began_ns.store(begins, Ordering::Relaxed);
        let after = Duration::from_nanos(begins.saturating_sub(monotonic_ns()));
        let event = |event: EngineEvent| News::Event(Box::new(event));
        let window = WINDOW.as_secs();
        for second in 1..window {
            if self.is_to_be_lost && second > window / 2 {
                return self.network.post(after + Duration::from_secs(second), self.number, Letter::End);
            }
            let said = progress(TrialStep::Measure, second as f64 / window as f64);
            self.send(after + Duration::from_secs(second), &event(said));
        }
        let result = Letter::Line(self.reports.result.clone());
        self.network.post(after + WINDOW + self.travel(), self.number, result);
        self.send(after + WINDOW, &event(EngineEvent::Done));
    }

    /// Handles a message that arrives at the coordinator.
    fn receive(&self, letter: Letter, news: &SyncSender<(usize, News)>) {
        self.sign.note();
        match letter {
            Letter::Line(line) => {
                let understood = News::understand(&line);
                if matches!(&understood, News::Event(event) if matches!(**event, EngineEvent::Phase(_))) {
                    self.network.last_result_ns.fetch_max(monotonic_ns(), Ordering::Relaxed);
                }
                let _ = news.send((self.number, understood));
            }
            Letter::Time { number, at_ns } => {
                let _ = self.times.send(ClockReading { number, at_ns, arrived_ns: monotonic_ns() });
            }
            Letter::End => {
                self.network.lost_ns.store(monotonic_ns(), Ordering::Relaxed);
                self.sign.end("the connection broke");
            }
        }
    }
}

impl Member for SimulatedHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn order(&self, order: Order) {
        match order {
            Order::Start(_) => self.start(),
            Order::Proceed { at_ns } => self.proceed(at_ns),
            Order::Clock { number } => {
                let there = self.travel();
                let at = monotonic_ns() + there.as_nanos() as u64;
                let letter = Letter::Time { number, at_ns: at.saturating_add_signed(self.offset_ns) };
                self.network.post(there + self.travel(), self.number, letter);
            }
            Order::Stop => self.send(Duration::ZERO, &News::Closed(String::new())),
            Order::Kill => self.send(Duration::ZERO, &News::Ended { gone: true }),
        }
    }

    fn clock(&self) -> Option<ClockOffset> {
        self.clock.read(|number| self.order(Order::Clock { number }))
    }

    fn lost(&self) -> Option<String> {
        self.sign.over()
    }

    fn heard(&self) -> Instant {
        self.sign.heard()
    }
}

/// A message on its way to the coordinator.
enum Letter {
    /// News.
    Line(Vec<u8>),
    /// The answer to a question for the time.
    Time { number: u32, at_ns: u64 },
    /// The connection ends.
    End,
}

/// Everything that is on its way, by when it arrives.
#[derive(Default)]
struct Network {
    hosts: Mutex<Vec<Arc<SimulatedHost>>>,
    letters: Mutex<Letters>,
    changed: Condvar,
    started_ns: AtomicU64,
    told_ns: AtomicU64,
    last_result_ns: AtomicU64,
    lost_ns: AtomicU64,
}

#[derive(Default)]
struct Letters {
    due: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    /// Each due one, in the order of posting.
    contents: HashMap<u64, Letter>,
    posted: u64,
    /// When the last letter of each host is due.
    last: HashMap<usize, Instant>,
    is_closed: bool,
}

impl Network {
    fn post(&self, after: Duration, to: usize, letter: Letter) {
        let mut letters = lock(&self.letters);
        letters.posted += 1;
        let number = letters.posted;
        // A connection delivers in order.
        let last = letters.last.get(&to).copied();
        let due = last.map_or(Instant::now() + after, |last| last.max(Instant::now() + after));
        letters.last.insert(to, due);
        letters.due.push(Reverse((due, number, to)));
        letters.contents.insert(number, letter);
        drop(letters);
        self.changed.notify_one();
    }

    fn close(&self) {
        lock(&self.letters).is_closed = true;
        self.changed.notify_one();
        lock(&self.hosts).clear();
    }

    /// Delivers each letter when it is due.
    fn deliver(&self, news: &SyncSender<(usize, News)>) {
        let hosts = lock(&self.hosts).clone();
        let mut letters = lock(&self.letters);
        while !letters.is_closed {
            let now = Instant::now();
            let wait = match letters.due.peek() {
                Some(Reverse((due, number, to))) if *due <= now => {
                    let (number, to) = (*number, *to);
                    letters.due.pop();
                    let letter = letters.contents.remove(&number);
                    drop(letters);
                    if let Some(letter) = letter {
                        hosts[to].receive(letter, news);
                    }
                    letters = lock(&self.letters);
                    continue;
                }
                Some(Reverse((due, _, _))) => *due - now,
                None => Duration::from_secs(1),
            };
            letters = match self.changed.wait_timeout(letters, wait) {
                Ok((letters, _)) => letters,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn progress(step: TrialStep, done: f64) -> EngineEvent {
    EngineEvent::Progress(Progress { done: Some(done), left_ns: Some(Nanos(0)), ..Progress::at(step) })
}

/// The reports of clients, which take long to make.
struct Reports {
    hello: News,
    phase: String,
    /// Readers and writers, with the histograms of all of their operations.
    result: Vec<u8>,
}

impl Reports {
    fn new() -> Self {
        let configuration = fsdyno_testkit::configuration("ext4", "none");
        let trial = fsdyno_testkit::trial(0, 0, 0, configuration, 100.0);
        let timer = trial.timer.expect("a timer");
        let phase = trial.phases.into_iter().next_back().expect("a phase");
        let name = phase.name.clone();
        let result = News::Event(Box::new(EngineEvent::Phase(Box::new(phase))));
        Reports {
            hello: News::Event(Box::new(EngineEvent::Hello { pid: 7, timer })),
            phase: name,
            result: serde_json::to_vec(&result).expect("a result"),
        }
    }
}

fn exponential(dice: &mut SmallRng, mean: f64) -> f64 {
    Exp::new(1.0 / mean).expect("a mean").sample(dice)
}

/// User and system time of this process.
fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The highest resident size from now on (proc_pid_clear_refs(5)).
fn reset_memory_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("reset the peak");
}

fn memory_peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find(|line| line.starts_with("VmHWM")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") / 1024
}
