//! Chooses among several files.

use super::given::{FilePrefix, WeightsFile};
use super::kinds;
use super::names::{base_name, folder, published};
use crate::error::{Error, ErrorKind, Result};

/// The weights of one model among those at `candidates`, which have one format.
///
/// # Errors
/// `UnsupportedModel` if the choice is ambiguous.
pub(super) fn weights(files: &[FilePrefix<'_>], candidates: &[usize], notices: &mut Vec<String>) -> Result<Vec<usize>> {
    let of = |place: &usize| files[*place].name;
    let mut chosen = candidates.to_vec();
    let mut keep = |chosen: &mut Vec<usize>, wanted: &dyn Fn(&usize) -> bool| {
        if chosen.iter().any(wanted) {
            let aside = chosen.iter().filter(|place| !wanted(place)).map(of).collect::<Vec<_>>();
            if let [first, others @ ..] = aside.as_slice() {
                let aside = match others.len() {
                    0 => format!("{first} was"),
                    more => format!("{first} and {more} more were"),
                };
                notices.push(format!("{aside} left aside: other weights among the files come first"));
            }
            chosen.retain(wanted);
        }
    };
    // A cache has the same file under its name and under its hash.
    let has_ending = |place: &usize| {
        let name = published(of(place));
        name.ends_with(".safetensors") || name.ends_with(".gguf")
    };
    if !chosen.iter().any(|&place| kinds::part(files[place].bytes).is_some()) {
        keep(&mut chosen, &has_ending);
    }
    let depth = |place: &usize| folder(of(place)).matches(['/', '\\']).count();
    let outermost = chosen.iter().map(depth).min().unwrap_or_default();
    keep(&mut chosen, &|place| depth(place) == outermost);
    if let [first, others @ ..] = chosen.as_slice()
        && let Some(other) = others.iter().find(|place| folder(of(place)) != folder(of(first)))
    {
        return Err(Error::new(
            ErrorKind::UnsupportedModel,
            format!("there are several models: {} and {}; open the folder of one of them", of(first), of(other)),
        ));
    }
    keep(&mut chosen, &|place| published(of(place)) == "model.safetensors");
    // The original is preferred to its copy.
    let mut single: Vec<usize> = Vec::new();
    for place in chosen {
        let same = |other: &&mut usize| published(of(other)) == published(of(&place));
        match single.iter_mut().find(same) {
            None => single.push(place),
            Some(other) => {
                let (kept, aside) = if is_exact(of(&place)) { (place, *other) } else { (*other, place) };
                notices.push(copy(of(&kept), of(&aside)));
                *other = kept;
            }
        }
    }
    Ok(single)
}

/// The GGUF files in the order of their parts, if the model is complete.
///
/// # Errors
/// `UnsupportedModel` for files that are not the parts of one model.
pub(super) fn gguf(files: &[FilePrefix<'_>], places: Vec<usize>) -> Result<Vec<usize>> {
    let name = |place: usize| base_name(files[place].name);
    let mut parts: Vec<_> = places.iter().map(|&place| (kinds::part(files[place].bytes), place)).collect();
    // In the first part the tokenizer comes before the part's number, so the number is not visible here.
    parts.sort_by_key(|(part, _)| part.map_or(0, |part| part.number));
    let mut whole = parts.iter().filter(|(part, _)| part.is_none()).map(|(_, place)| *place);
    if let (Some(first), Some(second)) = (whole.next(), whole.next()) {
        return Err(Error::new(
            ErrorKind::UnsupportedModel,
            format!(
                "there are two GGUF files, {} and {}; give one that holds the whole model",
                name(first),
                name(second)
            ),
        ));
    }
    if let Some((part, place)) = parts.iter().find_map(|(part, place)| part.map(|part| (part, *place))) {
        let numbers: Vec<_> = parts.iter().map(|(part, _)| part.map_or(0, |part| part.number)).collect();
        part.check(name(place), &numbers)?;
    }
    Ok(parts.into_iter().map(|(_, place)| place).collect())
}

/// The companions, each a place and a name, that belong to weights in the folder `home`: those in that folder, else those
/// around it, else any. The original is preferred to its copy.
pub(super) fn companions(
    files: &[FilePrefix<'_>],
    mut candidates: Vec<(usize, String)>,
    home: &str,
    notices: &mut Vec<String>,
) -> Vec<(usize, String)> {
    let rank = |place: usize| {
        let (name, at) = (files[place].name, folder(files[place].name));
        // Folders between the two, then: a telling name, no copy.
        let apart = if home.starts_with(at) { home.len() - at.len() } else { usize::from(u16::MAX) + at.len() };
        (apart, !published(name).contains('.'), !is_exact(name), place)
    };
    candidates.sort_by_key(|(place, _)| rank(*place));
    let mut chosen: Vec<(usize, String)> = Vec::new();
    for (place, known) in candidates {
        match chosen.iter().find(|(_, name)| *name == known) {
            None => chosen.push((place, known)),
            Some((other, _)) => notices.push(copy(files[*other].name, files[place].name)),
        }
    }
    // tokenizer.json is preferred to the two files of the other form, unless it is farther away.
    let apart = |name: &str| chosen.iter().find(|(_, known)| known == name).map(|(place, _)| rank(*place).0);
    if let (Some(whole), Some(vocab), Some(merges)) =
        (apart("tokenizer.json"), apart("vocab.json"), apart("merges.txt"))
        && whole > vocab.max(merges)
    {
        chosen.retain(|(place, known)| {
            let keep = known != "tokenizer.json";
            if !keep {
                notices.push(format!(
                    "{} was left aside: vocab.json and merges.txt are nearer to the weights",
                    files[*place].name
                ));
            }
            keep
        });
    }
    chosen.sort();
    for (place, known) in &chosen {
        if published(files[*place].name) != *known {
            notices.push(format!("{} is read as {known}", base_name(files[*place].name)));
        }
    }
    chosen
}

/// The files that go through the loader, under distinct names.
pub(super) fn streams(files: &[FilePrefix<'_>], weights: &[usize], lender: Option<usize>) -> Vec<(usize, WeightsFile)> {
    let stream = |place: usize, tokenizer_only| {
        let FilePrefix { name, size, .. } = files[place];
        let mut same = weights.iter().chain(&lender).filter(|&&other| base_name(files[other].name) == base_name(name));
        let name = if same.nth(1).is_some() { name } else { base_name(name) };
        (place, WeightsFile { name: name.to_owned(), size, tokenizer_only })
    };
    weights.iter().map(|&place| stream(place, false)).chain(lender.map(|place| stream(place, true))).collect()
}

/// Whether a file has exactly the name it was published with.
fn is_exact(name: &str) -> bool {
    published(name) == base_name(name)
}

fn copy(kept: &str, aside: &str) -> String {
    format!("{kept} is used and {aside}, which may be a copy of it, was left aside")
}
