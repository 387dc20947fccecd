//! What holds to the bit, however the ids are fed.

use gpt2_web::error::ErrorKind;
use gpt2_web::gpt2::{Gpt2, Precision};
use gpt2_web::model::LanguageModel;
use proptest::prelude::*;

use crate::fixture;

const CONTEXT: usize = 64;

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

fn fresh(precision: Precision) -> Gpt2 {
    fixture::checkpoint("plain-f32", Some(precision)).model
}

fn precisions() -> impl Strategy<Value = Precision> {
    prop::sample::select(&Precision::ALL)
}

fn ids(most: usize) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..300u32, 1..=most)
}

/// Feeds `ids` in pieces of the `sizes`, over and over.
fn feed_in_chunks(model: &mut Gpt2, ids: &[u32], sizes: &[usize]) -> Vec<u32> {
    let (mut rest, mut last) = (ids, Vec::new());
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, after) = rest.split_at((*size).min(rest.len()));
        if after.is_empty() {
            last = bits(model.feed(chunk).unwrap());
        } else {
            model.extend(chunk).unwrap();
        }
        rest = after;
    }
    last
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn chunks_do_not_matter(
        precision in precisions(), ids in ids(CONTEXT), sizes in prop::collection::vec(1..20usize, 1..6),
    ) {
        let at_once = bits(fresh(precision).feed(&ids).unwrap());
        prop_assert_eq!(feed_in_chunks(&mut fresh(precision), &ids, &sizes), at_once);
    }

    #[test]
    fn scores_are_what_feeding_gives(precision in precisions(), before in ids(20), ids in ids(CONTEXT - 20)) {
        let (mut scoring, mut feeding) = (fresh(precision), fresh(precision));
        scoring.feed(&before).unwrap();
        feeding.feed(&before).unwrap();
        let scores = scoring.score(&ids).unwrap();
        prop_assert_eq!(scores.len(), ids.len());
        for (id, score) in ids.iter().zip(&scores) {
            prop_assert_eq!(bits(feeding.feed(&[*id]).unwrap()), bits(score));
        }
        prop_assert_eq!(scoring.len(), feeding.len());

        scoring.truncate(before.len());
        let mut places = Vec::new();
        scoring.score_each(&ids, &mut |place, logits| {
            assert_eq!(bits(logits), bits(&scores[place]));
            places.push(place);
        }).unwrap();
        prop_assert_eq!(places, (0..ids.len()).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_left_of_what_was_truncated(
        precision in precisions(), first in ids(CONTEXT), keep in 0..CONTEXT, second in ids(CONTEXT),
    ) {
        let mut used = fresh(precision);
        used.feed(&first).unwrap();
        used.truncate(keep);
        let kept = keep.min(first.len());
        prop_assert_eq!(used.len(), kept);
        let second = &second[..second.len().min(CONTEXT - kept)];
        prop_assume!(!second.is_empty());
        let again = bits(used.feed(second).unwrap());
        let whole = [&first[..kept], second].concat();
        prop_assert_eq!(again, bits(fresh(precision).feed(&whole).unwrap()));
    }

    #[test]
    fn cached_is_uncached(precision in precisions(), ids in ids(24)) {
        let mut cached = fresh(precision);
        for end in 1..=ids.len() {
            let uncached = bits(fresh(precision).feed(&ids[..end]).unwrap());
            prop_assert_eq!(bits(cached.feed(&ids[end - 1..end]).unwrap()), uncached);
        }
    }
}

/// The products of real widths take other paths through the libraries than those of the tiny models.
#[test]
fn chunks_do_not_matter_to_the_embedded_model() {
    let file = fixture::bytes(fixture::EMBEDDED);
    let ids: Vec<u32> = (0..150).map(|i| i * 7919 % 50257).collect();
    for precision in Precision::ALL {
        let mut model = fixture::try_gguf(&file, Some(precision)).unwrap().model;
        let at_once = bits(model.feed(&ids).unwrap());
        model.truncate(0);
        assert_eq!(feed_in_chunks(&mut model, &ids, &[1, 2, 3, 5, 64, 7]), at_once, "{precision:?}");
        model.truncate(140);
        let scores = model.score(&ids[140..]).unwrap();
        assert_eq!(bits(&scores[9]), at_once, "{precision:?}");
        model.truncate(145);
        assert_eq!(bits(model.feed(&ids[145..147]).unwrap()), bits(&scores[6]), "{precision:?}");
    }
}

#[test]
fn what_cannot_be_processed_is_refused_and_changes_nothing() {
    let mut model = fresh(Precision::F32);
    assert_eq!((model.vocab_size(), model.context_length(), model.len()), (300, CONTEXT, 0));
    model.feed(&[1; 60]).unwrap();
    for (ids, kind, says) in [
        (&[][..], ErrorKind::InvalidRequest, "at least one"),
        (&[5, 300], ErrorKind::InvalidRequest, "token 300"),
        (&[u32::MAX], ErrorKind::InvalidRequest, "vocabulary of 300"),
        (&[1; 5], ErrorKind::PromptTooLong, "5 tokens do not fit after 60 in a context of 64"),
        (&[1; 5000], ErrorKind::PromptTooLong, "5000 tokens"),
    ] {
        for error in [model.feed(ids).map(|_| ()).unwrap_err(), model.score(ids).map(|_| ()).unwrap_err()] {
            assert_eq!(error.kind, kind);
            assert!(error.message.contains(says), "{}", error.message);
        }
        assert_eq!(model.len(), 60);
    }
    assert_eq!(model.feed(&[1; 4]).unwrap().len(), 300);
    assert_eq!(model.feed(&[1]).unwrap_err().kind, ErrorKind::PromptTooLong);
    model.truncate(63);
    assert!(model.feed(&[1]).is_ok());
}
