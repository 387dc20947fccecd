//! The page's side of a worker that lives in the same thread.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Poll, Waker};

use gpt2_web::web::worker::Worker;
use js_sys::{Array, Function, JSON, Object, Reflect, Uint8Array};
use serde_json::{Value, json};
use wasm_bindgen::{JsCast, JsValue};
use web_sys::Blob;

/// The events that end a request.
pub const ENDS: [&str; 6] = ["ready", "done", "experiment_done", "error", "unloaded", "pong"];

/// What is called for each event as it comes, before the worker goes on.
type Listener = Box<dyn FnMut(&Page, &Value)>;

/// Clones are the same page.
#[derive(Clone, Default)]
pub struct Page(Rc<Inner>);

#[derive(Default)]
struct Inner {
    worker: OnceCell<Worker>,
    events: RefCell<Vec<Value>>,
    /// How many events came in each post.
    posts: RefCell<Vec<usize>>,
    listener: RefCell<Option<Listener>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Page {
    pub fn new() -> Self {
        Self::with(|worker| worker)
    }

    /// With a worker that is `changed` first.
    pub fn with(changed: impl FnOnce(Worker) -> Worker) -> Self {
        let page = Self::default();
        let receiver = page.clone();
        let worker = Worker::new(move |event: &JsValue| {
            let text = String::from(JSON::stringify(event).unwrap());
            let events = match serde_json::from_str(&text).unwrap() {
                Value::Array(events) => events,
                event => vec![event],
            };
            receiver.0.posts.borrow_mut().push(events.len());
            events.into_iter().for_each(|event| receiver.receive(event));
        });
        assert!(page.0.worker.set(changed(worker.unwrap())).is_ok());
        page
    }

    fn receive(&self, event: Value) {
        self.0.events.borrow_mut().push(event.clone());
        let listener = self.0.listener.take();
        if let Some(mut listener) = listener {
            listener(self, &event);
            self.0.listener.replace(Some(listener));
        }
        self.0.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// The events of each post so far.
    pub fn posts(&self) -> Vec<Vec<Value>> {
        let mut events = self.events().into_iter();
        self.0.posts.borrow().iter().map(|&len| events.by_ref().take(len).collect()).collect()
    }

    /// Calls `listener` for each event as it comes, before the worker goes on: whatever it sends comes in that step,
    /// however fast the machine is. Every event of a run takes a frame's time, so that the worker posts each by itself.
    pub fn listen(&self, mut listener: impl FnMut(&Page, &Value) + 'static) {
        self.0.listener.replace(Some(Box::new(move |page, event| {
            listener(page, event);
            if event["type"] == "step" {
                script("(() => { const end = performance.now() + 17; while (performance.now() < end); })()");
            }
        })));
    }

    /// Waits until `test` of all events so far gives something.
    pub async fn until<T>(&self, mut test: impl FnMut(&[Value]) -> Option<T>) -> T {
        std::future::poll_fn(|context| {
            self.0.waiting.borrow_mut().push(context.waker().clone());
            test(&self.0.events.borrow()).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// All events so far.
    pub fn events(&self) -> Vec<Value> {
        self.0.events.borrow().clone()
    }

    pub fn forget_events(&self) {
        self.0.events.borrow_mut().clear();
    }

    /// How many events of `kind` there were for request `id`.
    pub fn count(&self, id: u32, kind: &str) -> usize {
        self.0.events.borrow().iter().filter(|event| event["id"] == json!(id) && event["type"] == kind).count()
    }

    pub fn send(&self, message: Value) {
        self.post(JSON::parse(&message.to_string()).unwrap());
    }

    /// Any value, as a page could post it.
    pub fn post(&self, message: JsValue) {
        self.0.worker.get().unwrap().handle(message);
    }

    pub fn cancel(&self, id: u32) {
        self.send(json!({"type": "cancel", "id": id}));
    }

    /// A load with `more` fields than every one has.
    pub fn send_load(&self, id: u32, files: &[JsValue], more: Value) {
        let mut message = json!({"type": "load", "id": id, "name": "tiny"});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let message = JSON::parse(&message.to_string()).unwrap();
        set(&message, "files", &files.iter().collect::<Array>());
        self.post(message);
    }

    /// Waits for the event that ends request `id` and returns all of its events up to there.
    pub async fn end_of(&self, id: u32) -> Vec<Value> {
        self.until(|events| {
            let mine: Vec<Value> = events.iter().filter(|event| event["id"] == json!(id)).cloned().collect();
            let end = mine.iter().position(|event| ENDS.contains(&event["type"].as_str().unwrap()))?;
            Some(mine[..=end].to_vec())
        })
        .await
    }

    pub async fn last_of(&self, id: u32) -> Value {
        self.end_of(id).await.pop().unwrap()
    }

    pub async fn load(&self, id: u32, files: &[(&str, &[u8])], precision: Option<&str>) -> Value {
        self.load_with(id, files, json!({"precision": precision})).await
    }

    pub async fn load_with(&self, id: u32, files: &[(&str, &[u8])], more: Value) -> Value {
        let files: Vec<_> = files.iter().map(|(name, bytes)| file(name, "blob", &blob(bytes))).collect();
        self.send_load(id, &files, more);
        self.last_of(id).await
    }

    pub async fn generate(&self, id: u32, prompt: &str, options: Value) -> Vec<Value> {
        self.send(json!({"type": "generate", "id": id, "prompt": prompt, "options": options}));
        self.end_of(id).await
    }

    /// Waits for the `hashed` of the load `id`.
    pub async fn hashed(&self, id: u32) -> Value {
        let of = |event: &&Value| event["type"] == "hashed" && event["id"] == json!(id);
        self.until(|events| events.iter().find(of).cloned()).await
    }
}

pub fn blob(bytes: &[u8]) -> Blob {
    Blob::new_with_u8_array_sequence(&Array::of1(&Uint8Array::from(bytes))).unwrap()
}

/// A file of a load, with its contents as `key`: a `blob` or a `stream`.
pub fn file(name: &str, key: &str, contents: &JsValue) -> JsValue {
    let file = Object::new();
    set(&file, "name", &name.into());
    set(&file, key, contents);
    file.into()
}

pub fn set(object: &JsValue, key: &str, value: &JsValue) {
    assert!(Reflect::set(object, &key.into(), value).unwrap());
}

/// What the JavaScript `expression` is.
pub fn script(expression: &str) -> JsValue {
    Function::new_no_args(&format!("return {expression}")).call0(&JsValue::NULL).unwrap()
}

/// A Blob that counts the pieces read of it, and whose reads can be made to wait or to fail.
pub struct Watched(pub Blob);

impl Watched {
    pub fn new(bytes: &[u8]) -> Self {
        let watch = Function::new_with_args(
            "blob",
            "const slice = blob.slice.bind(blob), waiting = [];
            Object.assign(blob, { reads: 0, bytes: 0, held: false, gone: false });
            blob.release = () => { blob.held = false; waiting.splice(0).forEach((go) => go()); };
            blob.slice = (from, to) => ({
              arrayBuffer: async () => {
                blob.reads += 1;
                blob.bytes += Math.min(to, blob.size) - from;
                if (blob.held) await new Promise((go) => waiting.push(go));
                if (blob.gone) throw new DOMException('the file is gone', 'NotReadableError');
                return slice(from, to).arrayBuffer();
              },
            });",
        );
        let blob = blob(bytes);
        watch.call1(&JsValue::NULL, &blob).unwrap();
        Self(blob)
    }

    pub fn file(&self) -> JsValue {
        file("tiny.gguf", "blob", &self.0)
    }

    /// From now on every piece that is asked for waits for [`release`](Self::release).
    pub fn hold(&self) {
        set(&self.0, "held", &JsValue::TRUE);
    }

    pub fn release(&self) {
        let release: Function = Reflect::get(&self.0, &"release".into()).unwrap().unchecked_into();
        release.call0(&self.0).unwrap();
    }

    /// From now on no piece can be read.
    pub fn remove(&self) {
        set(&self.0, "gone", &JsValue::TRUE);
    }

    /// Pieces that were asked for.
    pub fn reads(&self) -> u32 {
        self.number("reads")
    }

    /// Bytes of these together.
    pub fn bytes_read(&self) -> u32 {
        self.number("bytes")
    }

    fn number(&self, name: &str) -> u32 {
        Reflect::get(&self.0, &name.into()).unwrap().as_f64().unwrap() as u32
    }
}
