# shellcheck shell=bash
# Compiles the crate to WebAssembly. Sourced by build.sh, after tools.sh.

# Sets the flags, the cargo command and the target directory of a wasm build. Each combination has a separate directory, so
# that none discards the work of another.
wasm_environment() {
  need_rust
  WASM_RUSTFLAGS='' WASM_FLAVOUR=scalar
  if [[ ${SIMD:-1} != 0 ]]; then
    WASM_RUSTFLAGS='-C target-feature=+simd128' WASM_FLAVOUR=simd128
  fi
  WASM_TARGET=target/wasm-$TOOLCHAIN-$WASM_FLAVOUR
  WASM_ARGUMENTS=(--locked --target wasm32-unknown-unknown --target-dir "$WASM_TARGET")
  WASM_ENV=(env RUSTFLAGS="$WASM_RUSTFLAGS")
  WASM_CARGO=cargo WASM_RUSTC=rustc
  if [[ $TOOLCHAIN == debian ]]; then
    # Debian has no compiled standard library for wasm, so it is built from source; RUSTC_BOOTSTRAP allows that with a stable
    # compiler. /usr/bin comes first in PATH, otherwise rustup would take over the calls.
    WASM_CARGO=/usr/bin/cargo WASM_RUSTC=/usr/bin/rustc
    WASM_ENV+=(PATH="/usr/bin:$PATH" RUSTC_BOOTSTRAP=1)
    WASM_ARGUMENTS+=(-Zbuild-std=std,panic_abort)
  fi
  if [[ $WASM_FLAVOUR == simd128 ]]; then
    compile_relaxed
    WASM_ENV+=(GPT2_WEB_RELAXED="$WASM_RELAXED")
    WASM_ARGUMENTS+=(--features relaxed)
  fi
}

# Compiles the kernels that need relaxed SIMD into the module WASM_RELAXED, which the main module contains. Takes seconds.
compile_relaxed() {
  local target=$WASM_TARGET/relaxed arguments=(--release --locked --manifest-path relaxed/Cargo.toml --target wasm32-unknown-unknown)
  [[ $TOOLCHAIN == debian ]] && arguments+=(-Zbuild-std=core,panic_abort)
  WASM_RELAXED=$PWD/$target/wasm32-unknown-unknown/release/gpt2_web_relaxed.wasm
  [[ -f $WASM_RELAXED ]] || say "Compiling the kernels for relaxed SIMD"
  # It works in the main module's memory, so its own data would overwrite that module's. The same goes for its stack:
  # check-relaxed.mjs refuses code that uses the stack pointer, and the stack has no size.
  "${WASM_ENV[@]}" RUSTFLAGS="$WASM_RUSTFLAGS,+relaxed-simd -C link-arg=--import-memory -C link-arg=-zstack-size=0" \
    "$WASM_CARGO" build --quiet "${arguments[@]}" --target-dir "$target" >&2
  node scripts/check-relaxed.mjs "$WASM_RELAXED" >&2
}

# compile_wasm PROFILE: leaves gpt2_web.js and gpt2_web_bg.wasm in WASM_DIR.
compile_wasm() {
  local profile=$1 module stamp built_with hooks=()
  wasm_environment
  need_wasm_bindgen
  WASM_DIR=$WASM_TARGET/bindgen-$profile
  module=$WASM_TARGET/wasm32-unknown-unknown/$profile/gpt2_web.wasm
  stamp=$WASM_DIR/.built-with
  built_with="$("$WASM_RUSTC" -vV) $WASM_RUSTFLAGS $("$WASM_BINDGEN" --version)"
  if [[ -f $stamp && $(<"$stamp") == "$built_with" && ! ${WASM_RELAXED:-} -nt $stamp &&
    -z $(find src Cargo.toml Cargo.lock -newer "$stamp" -print -quit) ]]; then
    return
  fi
  say "Compiling to WebAssembly ($TOOLCHAIN Rust, $WASM_FLAVOUR, $profile; the first time takes minutes)"
  # The stamp has the time at which the build started, so an edit during the build is noticed.
  mkdir -p "$WASM_DIR"
  rm -f "$stamp"
  printf '%s\n' "$built_with" >"$stamp.new"
  # Releases have no hooks for tests.
  [[ $profile == quick ]] && hooks=(--features test-hooks)
  "${WASM_ENV[@]}" "$WASM_CARGO" build --lib --profile "$profile" "${WASM_ARGUMENTS[@]}" ${hooks[@]+"${hooks[@]}"} >&2
  # `no-modules`: a module worker does not start from a Blob on file://.
  "$WASM_BINDGEN" --target no-modules --no-typescript --out-name gpt2_web --out-dir "$WASM_DIR" "$module" >&2
  mv "$stamp.new" "$stamp"
}

# Compiles the benchmark's probe: gpt2_web_probe.js and its module in PROBE_DIR. Call compile_wasm first.
compile_probe() {
  local features=()
  [[ $WASM_FLAVOUR == simd128 ]] && features=(--features gpt2-web-probe/relaxed)
  PROBE_DIR=$WASM_TARGET/bindgen-probe
  [[ $TOOLCHAIN == debian ]] && features+=(-Zbuild-std=std,panic_abort)
  say "Compiling the benchmark's probe"
  "${WASM_ENV[@]}" "$WASM_CARGO" build --package gpt2-web-probe --release --locked --target wasm32-unknown-unknown \
    --target-dir "$WASM_TARGET" ${features[@]+"${features[@]}"} >&2
  "$WASM_BINDGEN" --target no-modules --no-typescript --out-name gpt2_web_probe --out-dir "$PROBE_DIR" \
    "$WASM_TARGET/wasm32-unknown-unknown/release/gpt2_web_probe.wasm" >&2
}

# Runs wasm-opt over WASM_DIR if it is installed and new enough; WASM_DIR becomes the folder of the result.
optimise_wasm() {
  local features=(--enable-bulk-memory --enable-mutable-globals --enable-nontrapping-float-to-int --enable-sign-ext
    --enable-reference-types --enable-multivalue --enable-simd) optimised=$WASM_DIR-opt
  if ! have wasm-opt; then
    say "wasm-opt is not here (package binaryen): the module stays about 5 % larger to download"
    return
  fi
  if [[ ! -f $optimised/gpt2_web_bg.wasm || $WASM_DIR/.built-with -nt $optimised/gpt2_web_bg.wasm ]]; then
    say "Optimising the module with $(wasm-opt --version) (minutes)"
    mkdir -p "$optimised"
    rm -f "$optimised"/*
    cp "$WASM_DIR/gpt2_web.js" "$optimised/"
    wasm-opt -O3 "${features[@]}" "$WASM_DIR/gpt2_web_bg.wasm" -o "$optimised/gpt2_web_bg.wasm" >&2 || true
  fi
  # Binaryen 108 of Debian 12 writes a module that validates and does not start; 132 works.
  if ! node scripts/check-module.mjs "$optimised" 2>/dev/null; then
    say "This wasm-opt is too old for what the compiler emits: the module stays about 5 % larger to download"
    rm -rf "$optimised"
    return
  fi
  WASM_DIR=$optimised
}
