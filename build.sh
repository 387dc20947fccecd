#!/usr/bin/env bash
# The entry for everything: `./build.sh help` lists the commands.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# shellcheck source=scripts/tools.sh
. scripts/tools.sh
# shellcheck source=scripts/wasm.sh
. scripts/wasm.sh
# shellcheck source=scripts/test.sh
. scripts/test.sh

usage() {
  cat <<'EOF'
gpt2-web: GPT-2 in the browser, on the CPU, with no server.

  ./build.sh serve [--port N] [--release]
      Serves the page on this machine and opens a browser if there is a display.

  ./build.sh generate "PROMPT" [OPTION]...
      Continues PROMPT in a headless Chromium, in the same worker as the page. The text streams to standard output
      as it comes; one line on standard error says why it ended and how fast it was.
        --max-tokens N            Maximum number of tokens to generate. (128)
        --temperature T           Divides the logits. Below 1: safer, more repetitive. Above 1: more varied. 0: always
                                  the most likely token. (0.8)
        --top-k K                 Samples from the k most likely tokens. 0 = off. (0)
        --top-p P                 Samples from the fewest top tokens whose probabilities add up to this. 1 = off. (0.95)
        --min-p P                 Drops tokens below this fraction of the top token's probability. 0 = off. (0)
        --repetition-penalty R    Makes tokens already in the prompt or output less likely. 1 = off. (1)
        --seed N                  Same seed and settings, same text. Leave empty for a random seed; it is recorded.
                                  (random)
        --stop TEXT               Generation stops at the first of these; the string itself is left out. (none; may be
                                  given several times)
        --timeout-ms MS           Stops after this many milliseconds. (none)
        --top-logprobs N          How many top tokens to record at each step. (6)
        --parse-special           Treats <|endoftext|> in the prompt as the single special token, not as text (seven
                                  tokens). (no)
        --json FILE               Writes the record of the run to FILE.

  ./build.sh lab [NAME [OPTION]...]
      Does an experiment of the lab in a headless Chromium, in the same worker as the page, and prints its table. Without
      a name it lists all experiments with their options. docs/lab.md explains them.
        --json FILE               Writes rows, summary and conditions to FILE.

  ./build.sh build
      Makes dist/: the page for any static host, the client with its TypeScript types, and dist/gpt2-web.html, the whole
      page in one file that also runs when it is opened from disk. Takes minutes: link-time optimisation, then wasm-opt.

  ./build.sh test [--only STAGE] [--dist | --random [N] | --large]
      Every check: format, lints, native tests, types, and the tests in headless Chromium and Firefox. With --only,
      only the stage of that title. With --dist, also the tests of what `build` makes. With --random, only runs, cancels,
      loads, panics and hostile messages in a random order, N (5000) in each browser. With --large, only the tests with
      models of full size, which take minutes and gigabytes of disk.

  ./build.sh bench [OPTION]...
      Measures in a headless Chromium: GPT-2's 124M shape with random weights in q8_0, q4_0 and f32, and the embedded
      model. Steps by position, prompts, sampling, load, memory, start and size, compared with the memory's speed.
        --json FILE               writes the results to FILE
        --only REGEX              measures only where "SYSTEM PRECISION" matches, as in 'gpt2-web q8_0'
        --rounds N                measures everything N times, or fewer if that would take over three minutes (3)
        --quick                   one round, and fewer positions
        --peers                   also measures wllama, transformers.js and, if it can be built, llama.cpp natively, all
                                  of which it downloads; takes up to a quarter of an hour

  ./build.sh setup
      Installs everything that the commands above need. Each command also installs what it needs.

  ./build.sh help

Options of serve, generate, lab and build:
  --no-simd                       builds without WebAssembly SIMD, for engines without it
Environment:
  WASM_TOOLCHAIN=rustup|debian    which Rust compiles the wasm, if both can
  CHROME, FIREFOX                 the browsers to use
EOF
}

# Separates the options of the build from the rest, which goes into the array REST.
build_options() {
  REST=()
  SIMD=${SIMD:-1}
  while (($#)); do
    case $1 in
      --no-simd) SIMD=0 ;;
      --) REST+=("$@"); break ;;
      *) REST+=("$1") ;;
    esac
    shift
  done
}

cmd_setup() {
  need_rust
  need_wasm_bindgen
  need_node_modules
  need_chromium
  need_firefox
  need_drivers
  say "Everything is there."
}

# emit_types DIR: writes the types of the client and of the worker's messages. The latter come from the Rust enums.
emit_types() {
  say "Emitting the types"
  cargo test --locked --lib --quiet export_bindings >/dev/null
  npx --no-install tsc --project tsconfig.dist.json --outDir "$1"
}

cmd_build() {
  build_options "$@"
  ((${#REST[@]} == 0)) || usage_error "build: unknown argument ${REST[0]}"
  need_node_modules
  compile_wasm release
  optimise_wasm
  say "Assembling dist/"
  node scripts/site.mjs --wasm "$WASM_DIR" --out dist
  node scripts/onefile.mjs --site dist --out dist/gpt2-web.html
  emit_types dist
  node scripts/sizes.mjs dist/gpt2_web_bg.wasm dist/gpt2-web.html
}

# linked_site PROFILE: assembles the page with that build of the module in SITE. It links to the sources, so that a reload
# shows an edit.
linked_site() {
  need_node_modules
  compile_wasm "$1"
  SITE=target/site-$WASM_FLAVOUR-$1
  node scripts/site.mjs --wasm "$WASM_DIR" --out "$SITE" --link
}

cmd_serve() {
  build_options "$@"
  local arguments=() profile=quick argument
  for argument in ${REST[@]+"${REST[@]}"}; do
    case $argument in
      --release) profile=release ;;
      --quick) profile=quick ;;
      *) arguments+=("$argument") ;;
    esac
  done
  linked_site $profile
  exec node scripts/serve.mjs --site "$SITE" ${arguments[@]+"${arguments[@]}"}
}

cmd_generate() {
  build_options "$@"
  ((${#REST[@]})) || usage_error 'generate: the prompt is missing; ./build.sh generate "Once upon a time"'
  need_chromium
  linked_site quick
  exec node scripts/generate.mjs --site "$SITE" "${REST[@]}"
}

cmd_lab() {
  build_options "$@"
  need_chromium
  linked_site quick
  exec node scripts/lab.mjs --site "$SITE" ${REST[@]+"${REST[@]}"}
}

cmd_bench() {
  build_options "$@"
  need_chromium
  linked_site release
  compile_probe
  exec node benches/browser/bench.mjs --site "$SITE" --probe "$PROBE_DIR" ${REST[@]+"${REST[@]}"}
}

command=${1:-help}
(($#)) && shift
# Before anything is compiled.
for argument; do
  case $argument in
    --help) command=help ;;
    --) break ;;
  esac
done
case $command in
  setup | build | serve | generate | lab | test | bench) "cmd_$command" "$@" ;;
  help | -h | --help) usage ;;
  *) usage_error "there is no command '$command'; ./build.sh help lists them" ;;
esac
