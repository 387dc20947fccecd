# shellcheck shell=bash
# `./build.sh test`: every check, one stage after another. Sourced by build.sh, after tools.sh and wasm.sh.

PASSED=0 FAILED=0

# stage TITLE COMMAND...: shows output and time, counts the tests, and exits if the command fails.
stage() {
  local title=$1 began=$SECONDS log status=0
  [[ -z ${ONLY:-} || $title == "$ONLY" ]] || return 0
  shift
  log=$(mktemp)
  printf '\n== %s\n' "$title"
  # In a subshell with its own `set -e`: in a condition, a function would continue after a failed command.
  set +e
  (set -e; "$@") 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  set -e
  count_tests "$log"
  rm -f "$log"
  printf -- '-- %s: %s, %d s\n' "$title" "$( ((status)) && echo FAILED || echo ok)" $((SECONDS - began))
  if ((status)); then
    printf '\n%d passed, %d failed; the stage that failed: %s\n' "$PASSED" "$((FAILED > 0 ? FAILED : 1))" "$title"
    exit 1
  fi
}

# Adds up the summaries of nextest, cargo test, wasm-bindgen-test and node's test runner.
count_tests() {
  local passed failed
  read -r passed failed < <(sed 's/\x1b\[[0-9;]*m//g' "$1" | awk '
    /^ *Summary \[/ { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i - 1); if ($i ~ /^failed/) f += $(i - 1) } }
    /^test result: / { for (i = 2; i <= NF; i++) { if ($i ~ /^passed/) p += $(i - 1); if ($i ~ /^failed/) f += $(i - 1) } }
    /^(#|ℹ) pass [0-9]+$/ { p += $3 }
    /^(#|ℹ) (fail|cancelled) [0-9]+$/ { f += $3 }
    END { print p + 0, f + 0 }')
  PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed))
}

check_format() { cargo fmt --check; }

check_lints() {
  cargo clippy --locked --all-targets -- -D warnings
  # src/web exists for wasm only. The profile is that of the tests, which then find their macros compiled.
  local arguments=(--profile quick "${WASM_ARGUMENTS[@]}" --lib --test web)
  if [[ $TOOLCHAIN == rustup ]]; then
    "${WASM_ENV[@]}" cargo clippy "${arguments[@]}" -- -D warnings
    "${WASM_ENV[@]}" cargo clippy --profile quick "${WASM_ARGUMENTS[@]}" --package gpt2-web-probe -- -D warnings
  elif has_debian_clippy; then
    # By its path: cargo would first look for the subcommand among rustup's.
    "${WASM_ENV[@]}" CARGO="$WASM_CARGO" /usr/bin/cargo-clippy clippy "${arguments[@]}" -- -D warnings
  else
    say "Debian's clippy is not here (package rust-web-clippy): the code for wasm is compiled, with warnings as errors"
    "${WASM_ENV[@]}" "$WASM_CARGO" check -Zwarnings --config 'build.warnings="deny"' "${arguments[@]}"
  fi
}

check_shell() {
  if have shellcheck; then
    shellcheck -x build.sh .ci/run
  else
    say "shellcheck is not here: the scripts are only parsed"
    bash -n build.sh && bash -n scripts/tools.sh && bash -n scripts/wasm.sh && bash -n scripts/test.sh
  fi
}

test_native() {
  if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --locked --no-fail-fast
  else
    say "cargo-nextest is not here: cargo test does it"
    cargo test --locked --no-fail-fast --lib --tests
  fi
  cargo test --locked --doc
}

# The page must agree with the types that are generated from the Rust enums. A strict TypeScript program uses the types that
# `build` writes, with both ways to resolve modules.
check_types() {
  rm -rf target/types
  emit_types target/types
  npx --no-install tsc --noEmit
  npx --no-install tsc --project tests/types/tsconfig.json
  npx --no-install tsc --project tests/types/tsconfig.json --module esnext --moduleResolution bundler
}

# Licences, sources and, if the database can be reached, advisories of all dependencies.
check_dependencies() {
  if have cargo-deny; then
    cargo deny check licenses bans sources
    local advisories
    if advisories=$(cargo deny check advisories 2>&1); then
      printf '%s\n' "$advisories"
    elif [[ $advisories == *'failed to fetch advisory database'* || $advisories == *'unable to fetch'* ]]; then
      say "RustSec's advisory database could not be reached: the crates' advisories are not checked"
    else
      printf '%s\n' "$advisories"
      return 1
    fi
  else
    say "cargo-deny is not here (cargo install --locked cargo-deny): the crates' licences, sources and advisories are not checked"
  fi
  local report status=0
  report=$(npm audit --audit-level=high 2>&1) || status=$?
  if [[ $report == *'audit endpoint returned an error'* || $report == *ENOTFOUND* || $report == *ECONNREFUSED* ]]; then
    say "npm's audit endpoint could not be reached: the npm packages' advisories are not checked"
  else
    printf '%s\n' "$report"
    return "$status"
  fi
}

test_scripts() {
  local files=(tests/client/*.test.mjs tests/scripts/*.test.mjs)
  node --test --test-reporter=spec "${files[@]}"
}

# test_in_browser BROWSER MODE: tests/web.rs, in a page (BROWSER) or a worker (DEDICATED_WORKER).
test_in_browser() {
  local driver
  case $1 in
    chromium) driver="CHROMEDRIVER=$CHROMEDRIVER" ;;
    firefox) driver="GECKODRIVER=$GECKODRIVER" ;;
  esac
  # The paths of the browsers on this machine.
  node -e '
    const settings = JSON.parse(require("fs").readFileSync("webdriver.json"));
    settings["goog:chromeOptions"].binary = process.env.CHROME;
    settings["moz:firefoxOptions"].binary = process.env.FIREFOX;
    require("fs").writeFileSync("target/webdriver.json", JSON.stringify(settings));'
  # The runner takes the first driver that is set. Stages are subshells, so other stages still have both.
  unset CHROMEDRIVER GECKODRIVER
  "${WASM_ENV[@]}" "$driver" "WASM_BINDGEN_USE_$2=1" \
    WASM_BINDGEN_TEST_WEBDRIVER_JSON="$PWD/target/webdriver.json" WASM_BINDGEN_TEST_TIMEOUT=600 \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER="$(dirname "$WASM_BINDGEN")/wasm-bindgen-test-runner" \
    "$WASM_CARGO" test --profile quick "${WASM_ARGUMENTS[@]}" --test web
}

test_without_simd() {
  local SIMD=0
  wasm_environment
  test_in_browser chromium DEDICATED_WORKER
}

# The page of a build with --no-simd.
test_end_to_end_without_simd() {
  local SIMD=0
  linked_site quick
  node scripts/onefile.mjs --site "$SITE" --out target/gpt2-web-scalar.html
  GPT2_WEB_SIMD=0 GPT2_WEB_BROWSERS=chrome GPT2_WEB_SITE=$PWD/$SITE GPT2_WEB_ONE_FILE=$PWD/target/gpt2-web-scalar.html \
    node --test --test-reporter=spec tests/e2e/one-file.test.mjs
}

# States of the page that need a worker that fails.
test_page() { node --test --test-reporter=spec --test-concurrency=1 tests/page/*.test.mjs; }

test_end_to_end() {
  linked_site quick
  node scripts/onefile.mjs --site "$SITE" --out target/gpt2-web.html
  # One file at a time: on two cores, two browsers would only slow each other down.
  GPT2_WEB_SITE=$PWD/$SITE GPT2_WEB_ONE_FILE=$PWD/target/gpt2-web.html node --test --test-reporter=spec --test-concurrency=1 \
    tests/e2e/*.test.mjs
}

# The optimised module and the page in one file as they are shipped, compared with the served page.
test_dist() {
  ./build.sh build
  GPT2_WEB_SITE=$PWD/dist GPT2_WEB_ONE_FILE=$PWD/dist/gpt2-web.html node --test --test-reporter=spec --test-concurrency=1 \
    tests/e2e/one-file.test.mjs tests/e2e/html.test.mjs
}

# test_random [N]: N random actions in each browser.
test_random() {
  linked_site quick
  GPT2_WEB_RUNS=${1:-5000} GPT2_WEB_SITE=$PWD/$SITE node --test --test-reporter=spec tests/e2e/random-runs.test.mjs
}

# Models of full size: minutes, and gigabytes of disk.
test_large() {
  linked_site quick
  GPT2_WEB_SITE=$PWD/$SITE node --test --test-reporter=spec tests/large/*.test.mjs
}

cmd_test() {
  local began=$SECONDS dist=0
  if [[ ${1:-} == --large ]]; then
    shift
    (($# == 0)) || usage_error "test --large: unknown argument $1"
    need_chromium
    stage "models of full size, in Chromium" test_large
    printf '\n%d passed, %d failed\n' "$PASSED" "$FAILED"
    return
  fi
  if [[ ${1:-} == --random ]]; then
    shift
    if (($# > 1)) || [[ ! ${1:-1} =~ ^[1-9][0-9]*$ ]]; then usage_error "test --random takes a number of runs, not: $*"; fi
    need_chromium
    need_firefox
    stage "random runs, in Chromium and Firefox" test_random "$@"
    printf '\n%d passed, %d failed\n' "$PASSED" "$FAILED"
    return
  fi
  if [[ ${1:-} == --only ]]; then
    ONLY=${2:?test --only takes the title of a stage}
    shift 2
  fi
  if [[ ${1:-} == --dist ]]; then dist=1; shift; fi
  (($# == 0)) || usage_error "test: unknown argument $1"
  SIMD=1
  wasm_environment
  need_node_modules
  need_wasm_bindgen
  need_chromium
  need_firefox
  need_drivers
  stage "format" check_format
  stage "shell scripts" check_shell
  stage "lints" check_lints
  stage "dependencies" check_dependencies
  stage "native tests" test_native
  stage "types" check_types
  stage "client and scripts" test_scripts
  stage "page with a worker that fails, in Chromium and Firefox" test_page
  stage "Rust in Chromium, in a page" test_in_browser chromium BROWSER
  stage "Rust in Chromium, in a worker" test_in_browser chromium DEDICATED_WORKER
  stage "Rust in Firefox, in a page" test_in_browser firefox BROWSER
  stage "Rust in Firefox, in a worker" test_in_browser firefox DEDICATED_WORKER
  stage "end to end, in Chromium and Firefox" test_end_to_end
  stage "Rust without SIMD, in Chromium" test_without_simd
  stage "end to end without SIMD, in Chromium" test_end_to_end_without_simd
  if ((dist)); then stage "dist/, in Chromium and Firefox" test_dist; fi
  printf '\nall stages: %d min %02d s\n%d passed, %d failed\n' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)) "$PASSED" "$FAILED"
}
