//! The worker's side: receives requests, runs the loop, posts events.
//!
//! One request runs at a time; a `load`, `generate` or `unload` that comes meanwhile is answered with a `busy` error.
//! Between two steps, two prefill chunks or two reads the worker lets its message queue run, so a `cancel` takes
//! effect within one of them.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{Function, Promise, Reflect};
use serde::Serialize;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{DedicatedWorkerGlobalScope, MessageChannel, MessageEvent, Performance};

use super::identification::Identification;
use super::protocol::{Event, ModelInfo, Request, Stage};
use super::source::Source;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::generate::{CancelToken, Generation, Progress};
use crate::gpt2::Precision;
use crate::gpt2::checkpoint::{self, Flow, HEAD_BYTES, Head, Loader, Options, Stream};
use crate::model::LanguageModel;
use crate::settings::{OPTIONS, RawOptions, Settings};
use crate::text;

/// What a load asks of its model.
struct Wanted {
    precision: Option<String>,
    sha256: Option<String>,
}

/// The request that runs.
struct Running {
    id: u32,
    cancel: CancelToken,
}

/// Answers requests, one at a time. Clones share the state.
#[derive(Clone)]
pub struct Worker {
    post: Rc<dyn Fn(&JsValue)>,
    clock: Rc<Clock>,
    queue: Rc<MessageQueue>,
    engine: Rc<RefCell<Option<Engine>>>,
    /// Of the model in `engine`.
    identification: Rc<RefCell<Option<Rc<Identification>>>>,
    running: Rc<RefCell<Option<Running>>>,
}

impl Worker {
    /// A worker that hands its events to `post`.
    ///
    /// # Errors
    /// If the browser lacks a clock or message channels.
    pub fn new(post: impl Fn(&JsValue) + 'static) -> Result<Self> {
        Ok(Self {
            post: Rc::new(post),
            clock: Rc::new(Clock::new()?),
            queue: Rc::new(MessageQueue::new()?),
            engine: Rc::default(),
            identification: Rc::default(),
            running: Rc::default(),
        })
    }

    /// Takes one message of the page. Returns at once; the answers are posted.
    pub fn handle(&self, message: JsValue) {
        match serde_wasm_bindgen::from_value(message.clone()) {
            Ok(request) => self.dispatch(request, &message),
            Err(error) => {
                let sentence = format!("the worker does not understand this message: {error}");
                self.send(&Event::error(id_of(&message), Error::new(ErrorKind::InvalidRequest, sentence)));
            }
        }
    }

    fn dispatch(&self, request: Request, message: &JsValue) {
        match request {
            Request::Cancel { id } => {
                if let Some(running) = self.running.borrow().as_ref().filter(|running| running.id == id) {
                    running.cancel.cancel();
                }
            }
            Request::Load { id, name, files, precision, sha256 } => {
                let sources = Source::all(message, &files);
                self.run(id, async move |worker, cancel| {
                    let wanted = Wanted { precision, sha256 };
                    worker.load(id, &name, sources?, wanted, &cancel).await
                });
            }
            Request::Generate { id, prompt, options } => {
                self.run(id, async move |worker, cancel| worker.generate(id, &prompt, &options, cancel).await);
            }
            Request::Unload { id } => self.run(id, async move |worker, _| {
                worker.engine.take();
                worker.identification.take();
                Ok(Event::Unloaded { id })
            }),
        }
    }

    /// Runs `work` as request `id`, if nothing else runs, and posts the one event it ends with.
    fn run(&self, id: u32, work: impl AsyncFnOnce(&Self, CancelToken) -> Result<Event> + 'static) {
        if let Some(running) = self.running.borrow().as_ref() {
            // An error with the id of the request that runs would end that one.
            let of = (id != running.id).then_some(id);
            let sentence = format!("request {} is still running; wait for its end or cancel it first", running.id);
            return self.send(&Event::error(of, Error::new(ErrorKind::Busy, sentence)));
        }
        let cancel = CancelToken::default();
        self.running.replace(Some(Running { id, cancel: cancel.clone() }));
        let worker = self.clone();
        spawn_local(async move {
            let last = work(&worker, cancel).await.unwrap_or_else(|error| Event::error(Some(id), error));
            worker.running.take();
            worker.send(&last);
            worker.identify_while_idle().await;
        });
    }

    /// Goes on with the SHA-256 of the model until it is known or a request comes.
    async fn identify_while_idle(&self) {
        let Some(identification) = self.identification.borrow().clone() else { return };
        // That of the requests has room for one who waits, and the next request may come at any moment.
        let Ok(queue) = MessageQueue::new() else { return };
        while self.running.borrow().is_none() && identification.outcome().is_none() {
            identification.go_on().await;
            if queue.run().await.is_err() {
                return;
            }
        }
    }

    /// The SHA-256 of the model, for a record that is complete but for that.
    async fn identify(&self) -> Result<String> {
        let Some(identification) = self.identification.borrow().clone() else {
            return Err(Error::new(ErrorKind::Engine, "there is a model that nobody loaded"));
        };
        loop {
            if let Some(outcome) = identification.outcome() {
                return outcome;
            }
            identification.go_on().await;
            self.queue.run().await?;
        }
    }

    /// Loads a model while its files are read. What was there before stays until the new one is complete.
    async fn load(
        &self,
        id: u32,
        name: &str,
        mut sources: Vec<Source>,
        wanted: Wanted,
        cancel: &CancelToken,
    ) -> Result<Event> {
        let started = self.clock.now();
        let precision = wanted.precision.as_deref().map(str::parse::<Precision>).transpose()?;
        let sorted = {
            let mut beginnings = Vec::with_capacity(sources.len());
            for source in &mut sources {
                beginnings.push(source.head(HEAD_BYTES).await?.to_vec());
            }
            let head = |(source, bytes)| {
                let (source, bytes): (&Source, &Vec<u8>) = (source, bytes);
                Head { name: source.name(), size: source.size(), bytes }
            };
            checkpoint::sort(&sources.iter().zip(&beginnings).map(head).collect::<Vec<_>>())?
        };
        let mut companions = Vec::with_capacity(sorted.companions.len());
        for &place in &sorted.companions {
            let source = &mut sources[place];
            companions.push((source.name().to_owned(), source.whole().await?));
        }
        let companions: Vec<_> = companions.iter().map(|(name, bytes)| checkpoint::ModelFile { name, bytes }).collect();

        let streams = sorted.streams.iter().map(|(_, stream)| stream.clone()).collect();
        // Whoever names the SHA-256 wants no other file to be used.
        let again = match wanted.sha256 {
            Some(_) => None,
            None => weights_again(&sorted.streams, &sources),
        };
        let options = Options { precision, fingerprint: again.is_none(), ..Options::default() };
        let mut loader = Loader::new(&companions, streams, options)?;
        let stage =
            if precision.is_some_and(|precision| precision != Precision::F32) { Stage::Quantise } else { Stage::Read };
        for (place, stream) in &sorted.streams {
            loader.begin_file(&stream.name)?;
            while let Some(piece) = sources[*place].next().await? {
                self.queue.run().await?;
                if cancel.is_cancelled() {
                    return Err(Error::new(
                        ErrorKind::Cancelled,
                        "loading was cancelled; the model before is unchanged",
                    ));
                }
                if loader.push(&piece)? == Flow::Enough {
                    break;
                }
                let (done, total) = loader.progress();
                self.send(&Event::Progress { id, stage, done: done as f64, total: total.map(|total| total as f64) });
            }
            loader.end_file()?;
        }
        let loaded = loader.finish()?;
        let sha256 = loaded.sha256.clone();
        if let (Some(is), Some(should)) = (&sha256, wanted.sha256)
            && !is.eq_ignore_ascii_case(&should)
        {
            let sentence = format!("{name} is not the file it should be: its SHA-256 is {is} and not {should}");
            return Err(Error::new(ErrorKind::DamagedModel, sentence));
        }
        let Engine { mut model, tokenizer, identity, parameters, notices } = Engine::new(name, loaded, &companions)?;
        let config = model.config();
        let info = ModelInfo {
            name: name.to_owned(),
            sha256: sha256.clone(),
            precision: identity.precision.clone(),
            parameters: parameters as u64,
            n_layer: config.n_layer as u32,
            n_head: config.n_head as u32,
            n_embd: config.n_embd as u32,
            context_length: model.context_length() as u32,
            vocab_size: model.vocab_size() as u32,
        };
        let said = notices.clone();
        model.set_clock(now);
        let identification = sha256.map(Identification::known).or_else(|| again.map(Identification::of));
        self.identification.replace(identification.map(Rc::new));
        self.engine.replace(Some(Engine { model, tokenizer, identity, parameters, notices }));
        let load_ms = self.clock.now() - started;
        let memory_bytes = core::arch::wasm32::memory_size::<0>() as f64 * 65536.0;
        Ok(Event::Ready { id, model: info, options: OPTIONS.to_vec(), notices: said, load_ms, memory_bytes })
    }

    async fn generate(&self, id: u32, prompt: &str, options: &RawOptions, cancel: CancelToken) -> Result<Event> {
        // A seed of at most ten digits: random enough to differ, short enough to be read out.
        let settings = Settings::from_raw(options, (js_sys::Math::random() * 2f64.powi(32)) as u64)?;
        let Some(mut engine) = self.engine.take() else {
            return Err(Error::new(ErrorKind::NotLoaded, "there is no model yet; load one first"));
        };
        let result = self.continue_prompt(id, prompt, settings, cancel, &mut engine).await;
        self.engine.replace(Some(engine));
        result
    }

    async fn continue_prompt(
        &self,
        id: u32,
        prompt: &str,
        settings: Settings,
        cancel: CancelToken,
        engine: &mut Engine,
    ) -> Result<Event> {
        let Engine { model, tokenizer, identity, .. } = engine;
        let clock = || self.clock.now();
        let mut generation = Generation::new(model, tokenizer, prompt, settings, &clock, cancel)?;
        self.send(&Event::Start {
            id,
            settings: generation.settings().clone(),
            prompt_ids: generation.prompt_ids().to_vec(),
        });
        let stop = loop {
            self.queue.run().await?;
            match generation.advance()? {
                Some(Progress::Prefill { done, total, chunk_ms }) => {
                    self.send(&Event::Prefill { id, done: done as u32, total: total as u32, chunk_ms });
                }
                Some(Progress::Step(record)) => {
                    let before = clock();
                    self.delta(id, &record.text);
                    self.send(&Event::Step { id, record });
                    generation.handed_on(clock() - before);
                }
                Some(Progress::End { text, stop }) => {
                    self.delta(id, &text);
                    break stop;
                }
                None => return Err(Error::new(ErrorKind::Engine, "the run ended without saying why")),
            }
        };
        identity.model_sha256 = self.identify().await?;
        Ok(Event::Done { id, stop, record: Box::new(generation.into_record(identity.clone())) })
    }

    fn delta(&self, id: u32, text: &str) {
        if !text.is_empty() {
            self.send(&Event::Delta { id, text: text.to_owned(), posted_at: self.clock.since_epoch() });
        }
    }

    fn send(&self, event: &Event) {
        let serializer =
            serde_wasm_bindgen::Serializer::new().serialize_maps_as_objects(true).serialize_missing_as_null(true);
        match event.serialize(&serializer) {
            Ok(message) => (self.post)(&message),
            Err(error) => unreachable!("every event is made of plain values: {error}"),
        }
    }
}

/// The files of the weights, with their names, for a second reading, if all of them can be read again.
fn weights_again(streams: &[(usize, Stream)], sources: &[Source]) -> Option<Vec<(String, Source)>> {
    let weights = streams.iter().filter(|(_, stream)| !stream.tokenizer_only);
    weights.map(|(place, stream)| Some((stream.name.clone(), sources[*place].again()?))).collect()
}

/// The `id` of a message that could not be understood, so that the error finds its request.
fn id_of(message: &JsValue) -> Option<u32> {
    let id = Reflect::get(message, &"id".into()).ok()?.as_f64()?;
    (id.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&id)).then_some(id as u32)
}

/// The worker's high-resolution clock.
pub(super) struct Clock(Performance);

impl Clock {
    pub(super) fn new() -> Result<Self> {
        let performance = Reflect::get(&js_sys::global(), &"performance".into()).ok();
        performance.and_then(|value| value.dyn_into().ok()).map(Self).ok_or_else(|| missing("performance"))
    }

    /// Milliseconds since the worker began.
    pub(super) fn now(&self) -> f64 {
        self.0.now()
    }

    /// Milliseconds since 1970, comparable between the worker and its page.
    fn since_epoch(&self) -> f64 {
        self.0.time_origin() + self.0.now()
    }
}

#[wasm_bindgen]
extern "C" {
    /// As [`Clock::now`], as a plain function: the model asks for the time dozens of times a step.
    #[wasm_bindgen(js_namespace = performance)]
    fn now() -> f64;
}

/// Lets the messages that wait be handled. Not a timer: timers are clamped, and slowed in hidden tabs.
struct MessageQueue(MessageChannel);

impl MessageQueue {
    fn new() -> Result<Self> {
        MessageChannel::new().map(Self).map_err(|_| missing("MessageChannel"))
    }

    /// Resolves after the messages that are waiting now.
    async fn run(&self) -> Result<()> {
        let turn = Promise::new(&mut |resolve: Function, reject: Function| {
            self.0.port1().set_onmessage(Some(&resolve));
            if let Err(error) = self.0.port2().post_message(&JsValue::NULL) {
                // The promise is all there is to report to; a failing rejection would have nobody to hear it.
                drop(reject.call1(&JsValue::NULL, &error));
            }
        });
        JsFuture::from(turn).await.map(drop).map_err(|_| missing("a working MessageChannel"))
    }
}

fn missing(what: &str) -> Error {
    Error::new(ErrorKind::Engine, format!("this browser's workers have no {what}; use a current browser"))
}

/// Makes this worker scope answer requests.
///
/// # Errors
/// If this is no dedicated worker, or the browser lacks what a worker needs.
#[wasm_bindgen]
pub fn start_worker() -> std::result::Result<(), JsError> {
    let scope: DedicatedWorkerGlobalScope =
        js_sys::global().dyn_into().map_err(|_| JsError::new("start_worker must run in a dedicated worker"))?;
    let poster = scope.clone();
    let post = move |message: &JsValue| {
        if let Err(error) = poster.post_message(message) {
            web_sys::console::error_2(&"an event could not be posted:".into(), &error);
        }
    };
    let worker = Worker::new(post)?;
    report_panics(worker.clone());
    #[cfg(feature = "relaxed")]
    if let Err(error) = super::relaxed::install() {
        web_sys::console::warn_2(&"plain SIMD is used:".into(), &error);
    }
    let on_message = Closure::<dyn Fn(MessageEvent)>::new(move |event: MessageEvent| worker.handle(event.data()));
    scope.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    on_message.forget();
    // While the first model's file is on its way there is time for it.
    spawn_local(async { text::prepare() });
    Ok(())
}

/// A panic leaves the module in an unknown state. Its text goes to the console and, as the last event, to the page,
/// which starts a new worker.
fn report_panics(worker: Worker) {
    thread_local!(static REPORTER: RefCell<Option<Worker>> = const { RefCell::new(None) });
    REPORTER.set(Some(worker));
    std::panic::set_hook(Box::new(|info| {
        console_error_panic_hook::hook(info);
        REPORTER.with_borrow(|worker| {
            let Some(worker) = worker else { return };
            let id = worker.running.try_borrow().ok().and_then(|running| running.as_ref().map(|running| running.id));
            worker.send(&Event::error(id, Error::new(ErrorKind::Panic, format!("the engine panicked: {info}"))));
        });
    }));
}

/// Panics with `message`: shows what a page does when its worker dies, to its author and to the tests.
#[wasm_bindgen]
pub fn provoke_panic(message: &str) {
    panic!("{message}");
}
