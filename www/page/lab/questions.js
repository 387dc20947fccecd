/** The questions of the lab, in the order of its index. A test compares them with those of the worker. */

/** @typedef {{ title: string, questions: [name: string, question: string][] }} Group */

/** @type {readonly Group[]} */
export const GROUPS = [
  {
    title: 'The loop',
    questions: [
      ['trace', 'One token at a time'],
      ['naive', 'What does the cache save?'],
      ['check', 'Why is checking cheaper than producing?'],
      ['latency', 'Does a longer text slow it down?'],
      ['sweep', 'What does a prompt token cost?'],
    ],
  },
  {
    title: 'Choosing',
    questions: [
      ['sampling', 'Where do probabilities go?'],
      ['greedy', 'Why does greedy text repeat?'],
      ['one-word', 'What if one word were different?'],
      ['sampled-check', 'Does the check hold for sampling?'],
    ],
  },
  {
    title: 'Ending',
    questions: [
      ['eos', 'Does the model want to stop?'],
      ['lengths', 'How long do texts get?'],
      ['cancel', 'What does cancelling save?'],
      ['hold-back', 'What does a stop string hold back?'],
    ],
  },
  {
    title: 'Inside',
    questions: [
      ['tokens', 'What is a token?'],
      ['inside', 'Where does it look?'],
      ['precision', 'What do 8 bits cost?'],
    ],
  },
];

/** @param {string} name */
export const questionOf = (name) => GROUPS.flatMap(({ questions }) => questions).find(([known]) => known === name)?.[1] ?? name;
