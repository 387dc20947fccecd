//! Stop strings, found in text that arrives in pieces.

/// Finds the stop string that ends a run, and lets out only text that can be part of none.
///
/// The rule is one about the whole text, so that the result cannot depend on where the text was cut: of all places
/// where a stop string stands the earliest counts, and of several that begin there the longest. A place is decided as
/// soon as no text to come can change it, so
/// - text is held only from the first place where a stop string may have begun, and is shorter than the longest one;
/// - a stop string that is complete still waits while a longer one at its place, or one at an earlier place, may yet
///   be completed; at the end of the text ([`finish`](Self::finish)) it counts.
///
/// Each piece and each character costs at most one comparison with every stop string.
///
/// ```
/// use gpt2_web::text::StopStrings;
///
/// let mut stops = StopStrings::new(vec!["\n\n".into(), "END".into()]);
/// let mut text = String::new();
/// assert_eq!(stops.push("one\ntwo E", &mut text), None);
/// assert_eq!(text, "one\ntwo ");
/// assert_eq!(stops.push("N", &mut text), None);
/// assert_eq!(stops.push("D of", &mut text), Some(1));
/// assert_eq!(text, "one\ntwo ");
/// ```
#[derive(Debug, Clone)]
pub struct StopStrings {
    stops: Vec<String>,
    /// Text from the first place on that is not decided.
    held: String,
}

/// What is known of one place in the text.
enum Place {
    /// No stop string begins here.
    Free,
    /// One may begin here: that depends on text to come.
    Open,
    /// This one begins here.
    Stop(usize),
}

impl StopStrings {
    /// A matcher for `stops`, none of which may be empty.
    pub fn new(stops: Vec<String>) -> Self {
        Self { stops, held: String::new() }
    }

    /// Takes the next text, appends to `out` what can no longer be part of a stop string, and returns the index of the
    /// stop string once it is decided. `out` then ends right before it; further text is ignored.
    pub fn push(&mut self, delta: &str, out: &mut String) -> Option<usize> {
        self.advance(delta, false, out)
    }

    /// Ends the text. A stop string that was complete and only waited for a longer or an earlier one is returned as by
    /// [`push`](Self::push); otherwise all held text is appended to `out`.
    pub fn finish(&mut self, out: &mut String) -> Option<usize> {
        self.advance("", true, out)
    }

    fn advance(&mut self, delta: &str, at_end: bool, out: &mut String) -> Option<usize> {
        self.held.push_str(delta);
        let (mut decided, mut reached) = (self.held.len(), None);
        for (at, _) in self.held.char_indices() {
            match self.place(&self.held[at..], at_end) {
                Place::Free => {}
                Place::Open => {
                    decided = at;
                    break;
                }
                Place::Stop(index) => {
                    // It stays in `held`, and nothing that follows can change this place.
                    (decided, reached) = (at, Some(index));
                    break;
                }
            }
        }
        out.push_str(&self.held[..decided]);
        self.held.drain(..decided);
        reached
    }

    /// Decides the place where `rest`, all the text from there on that is known, begins.
    fn place(&self, rest: &str, at_end: bool) -> Place {
        let mut longest: Option<usize> = None;
        for (index, stop) in self.stops.iter().enumerate() {
            if rest.starts_with(stop.as_str()) {
                if longest.is_none_or(|other| stop.len() > self.stops[other].len()) {
                    longest = Some(index);
                }
            } else if !at_end && stop.starts_with(rest) {
                // `stop` is longer than `rest`, so also than any that is complete here.
                return Place::Open;
            }
        }
        longest.map_or(Place::Free, Place::Stop)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stops(stops: &[&str]) -> StopStrings {
        StopStrings::new(stops.iter().map(|&stop| stop.to_owned()).collect())
    }

    /// What each piece and then the end let out, and the stop string with the number of the piece that decided it.
    fn run(strings: &[&str], pieces: &[&str]) -> (Vec<String>, Option<(usize, usize)>) {
        let mut matcher = stops(strings);
        let mut deltas = Vec::new();
        for (step, piece) in pieces.iter().enumerate() {
            let mut delta = String::new();
            let reached = matcher.push(piece, &mut delta);
            deltas.push(delta);
            if let Some(index) = reached {
                return (deltas, Some((index, step)));
            }
        }
        let mut delta = String::new();
        let reached = matcher.finish(&mut delta);
        deltas.push(delta);
        (deltas, reached.map(|index| (index, pieces.len())))
    }

    #[track_caller]
    fn check(strings: &[&str], pieces: &[&str], deltas: &[&str], reached: Option<(usize, usize)>) {
        assert_eq!(run(strings, pieces), (deltas.iter().map(|&delta| delta.to_owned()).collect(), reached));
    }

    #[test]
    fn no_letter_of_a_stop_string_is_let_out() {
        check(&["DEFGHIJ"], &["abc", "DEF", "G", "HI", "J", "k"], &["abc", "", "", "", ""], Some((0, 4)));
    }

    #[test]
    fn text_before_a_stop_in_the_same_piece_is_let_out() {
        check(&["\n"], &["?\n"], &["?"], Some((0, 0)));
        check(&["class"], &["a", " classes"], &["a", " "], Some((0, 1)));
    }

    #[test]
    fn a_beginning_that_comes_to_nothing_is_let_out_at_once() {
        check(&["DEF"], &["DE", "x", "D"], &["", "DEx", "", "D"], None);
        check(&["aab"], &["a", "a", "a", "b"], &["", "", "a", ""], Some((0, 3)));
    }

    #[test]
    fn one_letter_stops() {
        check(&["b"], &["a", "b"], &["a", ""], Some((0, 1)));
        check(&["x", "b"], &["abx"], &["a"], Some((1, 0)));
    }

    #[test]
    fn the_earliest_place_wins_and_there_the_longest() {
        check(&["ab", "abc"], &["xab", "c"], &["x", ""], Some((1, 1)));
        check(&["ab", "abc"], &["xabd"], &["x"], Some((0, 0)));
        check(&["ab", "abc"], &["xab", "d"], &["x", ""], Some((0, 1)));
        check(&["ab", "abc"], &["xab"], &["x", ""], Some((0, 1)));
        check(&["c", "abcd"], &["abc", "d"], &["", ""], Some((1, 1)));
        check(&["c", "abcd"], &["abc", "x"], &["", "ab"], Some((0, 1)));
        check(&["c", "abcd"], &["abc"], &["", "ab"], Some((0, 1)));
        check(&["two", "one"], &["a one two"], &["a "], Some((1, 0)));
        check(&["same", "same"], &["same"], &[""], Some((0, 0)));
    }

    #[test]
    fn whole_characters_are_held_and_let_out() {
        check(&["👋🏽"], &["a👋", "🏽"], &["a", ""], Some((0, 1)));
        check(&["👋🏽"], &["a👋", "é"], &["a", "👋é", ""], None);
    }

    #[test]
    fn nothing_follows_a_stop() {
        let (mut matcher, mut text) = (stops(&["b"]), String::new());
        assert_eq!(matcher.push("ab", &mut text), Some(0));
        assert_eq!(matcher.push("more", &mut text), Some(0));
        assert_eq!(matcher.finish(&mut text), Some(0));
        assert_eq!(text, "a");
    }

    #[test]
    fn without_stop_strings_nothing_is_held() {
        check(&[], &["a", "👋"], &["a", "👋", ""], None);
    }

    /// The rule itself, over the whole text: where the run is cut, and by which stop string.
    fn oracle(strings: &[String], text: &str) -> (String, Option<usize>) {
        let found = strings
            .iter()
            .enumerate()
            .filter_map(|(index, stop)| text.find(stop).map(|at| (at, usize::MAX - stop.len(), index)))
            .min();
        match found {
            Some((at, _, index)) => (text[..at].to_owned(), Some(index)),
            None => (text.to_owned(), None),
        }
    }

    /// The same for text that may go on: how much may be let out, and the stop string if nothing that follows can change
    /// it. Tries the rest of every stop string as what follows.
    fn decided(strings: &[String], text: &str) -> (usize, Option<usize>) {
        let endings = strings.iter().flat_map(|stop| stop.char_indices().map(|(at, _)| &stop[at..]));
        let futures: Vec<_> = endings.chain([""]).map(|ending| oracle(strings, &format!("{text}{ending}"))).collect();
        let safe = futures.iter().map(|(kept, _)| kept.len()).min().unwrap().min(text.len());
        let (now, stop) = oracle(strings, text);
        (safe, stop.filter(|_| futures.iter().all(|future| *future == (now.clone(), stop))))
    }

    fn text(most: usize) -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(&["a", "b", "c", "é", "👋"][..]), 1..=most)
            .prop_map(|letters| letters.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn equals_the_rule_over_the_whole_text_for_every_cutting(
            strings in prop::collection::vec(text(4), 0..5),
            text in text(9),
        ) {
            let (kept, stop) = oracle(&strings, &text);
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).skip(1).collect();
            for cuts in 0..1u32 << ends.len() {
                let mut matcher = StopStrings::new(strings.clone());
                let (mut out, mut reached, mut from) = (String::new(), None, 0);
                let here = ends.iter().enumerate().filter(|(n, _)| cuts >> n & 1 == 1).map(|(_, &end)| end);
                for end in here.chain([text.len()]) {
                    reached = matcher.push(&text[from..end], &mut out);
                    from = end;
                    prop_assert_eq!((out.len(), reached), decided(&strings, &text[..end]), "after {:?}", &text[..end]);
                    let longest = strings.iter().map(String::len).max().unwrap_or(0);
                    prop_assert!(reached.is_some() || matcher.held.len() < longest.max(1));
                    if reached.is_some() {
                        break;
                    }
                }
                reached = reached.or_else(|| matcher.finish(&mut out));
                prop_assert_eq!((&out, reached), (&kept, stop));
            }
        }
    }
}
