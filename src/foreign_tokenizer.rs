//! Tokenizers of other kinds than GPT-2's, recognised by their file names.

/// Files, and what they hold.
const FILES: [(&str, &str); 12] = [
    ("vocab.txt", "the vocabulary of a WordPiece tokenizer, as BERT has it"),
    ("tokenizer.model", "a SentencePiece tokenizer, as Llama has it"),
    ("spiece.model", "a SentencePiece tokenizer, as T5 has it"),
    ("spm.model", "a SentencePiece tokenizer"),
    ("sentencepiece.model", "a SentencePiece tokenizer"),
    ("sentencepiece.bpe.model", "a SentencePiece tokenizer"),
    ("source.spm", "a SentencePiece tokenizer, as Marian has it"),
    ("target.spm", "a SentencePiece tokenizer, as Marian has it"),
    ("bpe.codes", "the merges of a BPE on characters"),
    ("tekken.json", "Mistral's tokenizer"),
    ("dict.txt", "the dictionary of a fairseq model"),
    ("meta.pkl", "a Python pickle, in which nanoGPT keeps the characters of a model"),
];

/// What the file called `name`, without folders and in small letters, holds, if that is a tokenizer of another kind.
pub(crate) fn kind(name: &str) -> Option<&'static str> {
    let known = FILES.iter().find(|(known, _)| *known == name).map(|(_, what)| *what);
    known.or_else(|| name.ends_with(".tiktoken").then_some("a tokenizer of tiktoken"))
}
