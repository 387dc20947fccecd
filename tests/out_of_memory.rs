//! Memory that runs out in the middle of a run: an error, and never the end of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use gpt2_web::ErrorKind;
use gpt2_web::gpt2::checkpoint::{self, HeaderReader, Loader, ModelFile, Options, WeightsFile};
use gpt2_web::gpt2::{Gpt2, Precision};
use gpt2_web::model::LanguageModel;

/// Refuses what goes beyond this thread's allowance.
struct Limited;

thread_local! {
    static ALLOWANCE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// What is smaller is always given: sentences, lists of heads.
const SMALL: usize = 512;

fn granted(bytes: usize) -> bool {
    ALLOWANCE.with(|allowance| match allowance.get().checked_sub(bytes) {
        _ if bytes < SMALL || allowance.get() == usize::MAX => true,
        Some(left) => {
            allowance.set(left);
            true
        }
        None => false,
    })
}

fn returned(bytes: usize) {
    ALLOWANCE.with(|allowance| {
        if bytes >= SMALL && allowance.get() != usize::MAX {
            allowance.set(allowance.get() + bytes);
        }
    });
}

// SAFETY: every call is handed to the system's allocator as it came, or answered as one that has no memory left.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !granted(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        returned(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

/// The result of `work` with so many bytes left.
fn with_bytes<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    ALLOWANCE.set(bytes);
    let result = work();
    ALLOWANCE.set(usize::MAX);
    result
}

fn model(precision: Precision) -> Gpt2 {
    let bytes = std::fs::read("tests/fixtures/gguf/f32.gguf").unwrap();
    let file = ModelFile { name: "tiny.gguf", bytes: &bytes };
    checkpoint::load(&[file], Some(precision), &mut |_, _| {}).unwrap().model
}

/// The bits of logits.
fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

/// Every pass is tried with less and less refused, until it succeeds: each of its allocations is the first to fail once.
/// What was refused leaves the model as it was, and the pass gives the same bits in the end as with all the memory there
/// is.
#[test]
fn memory_that_runs_out_in_a_pass_is_an_error_and_changes_nothing() {
    let passes: [&[u32]; 4] = [&[1, 2, 3, 4, 5, 6, 7], &[250], &[9; 40], &[11; 4]];
    for precision in Precision::ALL {
        for score in [false, true] {
            let pass = |model: &mut Gpt2, ids: &[u32]| match score {
                true => model.score(ids).map(|rows| rows.into_iter().flat_map(|row| bits(&row)).collect()),
                false => model.feed(ids).map(bits),
            };
            let (mut model, mut reference) = (model(precision), model(precision));
            let mut refusals = 0;
            for ids in passes {
                let expected = pass(&mut reference, ids).unwrap();
                let before = model.len();
                let mut bytes = 0;
                let got = loop {
                    match with_bytes(bytes, || pass(&mut model, ids)) {
                        Ok(got) => break got,
                        Err(error) => {
                            assert_eq!(error.kind, ErrorKind::OutOfMemory);
                            assert!(error.message.contains(&format!("{before} positions")), "{error}");
                            assert!(error.message.contains("smaller model"), "{error}");
                        }
                    }
                    (bytes, refusals) = (bytes + SMALL.max(bytes / 8), refusals + 1);
                };
                assert_eq!(got, expected);
                assert_eq!(model.len(), before + ids.len());
            }
            assert!(refusals > 10, "{precision:?}: {refusals}");
        }
    }
}

/// The positions held before are of use after a refusal, and the model can begin anew.
#[test]
fn after_a_refusal_the_model_goes_on_and_begins_anew() {
    let (mut model, mut reference) = (model(Precision::Q8_0), model(Precision::Q8_0));
    model.feed(&[1; 40]).unwrap();
    let error = with_bytes(0, || model.feed(&[2]).map(bits)).unwrap_err();
    assert_eq!((error.kind, model.len()), (ErrorKind::OutOfMemory, 40));
    with_bytes(0, || model.extend(&[2])).unwrap_err();
    model.truncate(10);
    reference.feed(&[1; 10]).unwrap();
    assert_eq!(bits(model.feed(&[2]).unwrap()), bits(reference.feed(&[2]).unwrap()));
    model.truncate(0);
    assert_eq!(model.len(), 0);
    assert_eq!(model.feed(&[3]).unwrap().len(), model.vocab_size());
}

/// Room for positions doubles in all layers, and the refusal of one of them finds those before with more than the rest.
#[test]
fn room_for_positions_that_only_some_layers_got_is_no_harm() {
    let bytes = std::fs::read("www/models/fairy-12m-q8_0.gguf").unwrap();
    let file = [ModelFile { name: "fairy.gguf", bytes: &bytes }];
    let [mut model, mut reference] = [(); 2].map(|()| checkpoint::load(&file, None, &mut |_, _| {}).unwrap().model);
    for model in [&mut model, &mut reference] {
        model.feed(&[5; 64]).unwrap();
    }
    let (mut bytes, mut refusals) = (0, 0);
    while with_bytes(bytes, || model.feed(&[6]).map(bits)).is_err() {
        assert_eq!(model.len(), 64);
        (bytes, refusals) = (bytes + (16 << 10), refusals + 1);
    }
    assert!(refusals > 20, "{refusals}");
    assert_eq!(bits(model.feed(&[7]).unwrap()), {
        reference.feed(&[6]).unwrap();
        bits(reference.feed(&[7]).unwrap())
    });
}

/// Memory that is refused in the middle of a load, although the numbers say that there is enough.
#[test]
fn a_load_that_finds_no_memory_says_whether_a_model_in_use_is_in_its_way() {
    let file = std::fs::read("tests/fixtures/gguf/f32.gguf").unwrap();
    let header = HeaderReader::new("tiny.gguf", None).push(&mut file.as_slice()).unwrap().unwrap();
    for (held, fits_alone) in [(0, false), (1 << 20, true)] {
        let mut bytes = 0;
        loop {
            let stream = WeightsFile { name: "tiny.gguf".into(), size: Some(file.len() as u64), tokenizer_only: false };
            let mut loader = Loader::new(&[], vec![stream], Options { held, ..Options::default() }).unwrap();
            loader.begin_file("tiny.gguf").unwrap();
            let (before, last) = file.split_at((header.data + header.tensors.last().unwrap().begin) as usize);
            loader.push(before).unwrap();
            let Err(error) = with_bytes(bytes, || loader.push(last)) else { break };
            assert_eq!((error.kind, error.fits_alone), (ErrorKind::OutOfMemory, fits_alone), "{error}");
            assert_eq!(error.message.contains("model in use"), fits_alone, "{error}");
            bytes += SMALL.max(bytes / 4);
        }
        assert!(bytes > SMALL);
    }
}
