# shellcheck shell=bash
# Finds the tools that the build needs and installs missing ones. Sourced by build.sh.

TOOLS=${XDG_CACHE_HOME:-${HOME:-$PWD/target}/.cache}/gpt2-web/tools
PATH=$PATH:$TOOLS/bin

say() { printf '%s\n' "$*" >&2; }
fail() { say "build.sh: $*"; exit 1; }
usage_error() { say "build.sh: $*"; exit 2; }
have() { command -v "$1" >/dev/null 2>&1; }

# The first of the given commands or paths that exists.
first_of() {
  local candidate
  for candidate in "$@"; do
    if [[ -n $candidate ]] && have "$candidate"; then command -v "$candidate"; return; fi
  done
  return 1
}

# with_timeout SECONDS COMMAND...: macOS has no `timeout`.
with_timeout() {
  if have timeout; then timeout "$@"; else "${@:2}"; fi
}

# apt_install WHY PACKAGE...: fails without apt-get or the right to use it.
apt_install() {
  local why=$1 sudo=()
  shift
  have apt-get || return 1
  if ((EUID != 0)); then
    have sudo && sudo -n true 2>/dev/null || return 1
    sudo=(sudo -n)
  fi
  say "Installing $why (Debian packages: $*)"
  # A new machine has no package lists or outdated ones.
  { ${sudo[@]+"${sudo[@]}"} apt-get -qq update &&
    ${sudo[@]+"${sudo[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"; } >&2
}

# cargo_install CRATE [VERSION]: installs into TOOLS, with little optimisation.
cargo_install() {
  local crate=$1 version=${2:-} install
  say "Compiling $crate${version:+ $version} (once, a few minutes)"
  install=(env -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off
    CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
    cargo install "$crate" ${version:+--version "$version"} --root "$TOOLS" --force)
  "${install[@]}" --locked >&2 && return
  # A registry mirror may lack a version in the crate's lock file.
  say "Its lock file does not resolve here; again with the newest compatible dependencies"
  "${install[@]}" >&2
}

# The version of a crate in Cargo.lock.
locked_version() {
  awk -v name="\"$1\"" '$1 == "name" { found = $3 == name } found && $1 == "version" { gsub(/"/, "", $3); print $3; exit }' Cargo.lock
}

has_rustup_wasm() {
  have rustc && [[ -d $(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown/lib ]]
}

has_debian_wasm() {
  [[ -x /usr/bin/cargo && -x /usr/bin/rustc ]] || return 1
  local sysroot
  sysroot=$(/usr/bin/rustc --print sysroot)
  [[ -d $sysroot/lib/rustlib/src/rust/library/std ]] && compgen -G '/usr/bin/wasm-ld*' >/dev/null
}

# The linter of Debian's Rust is a separate package.
has_debian_clippy() {
  [[ -x /usr/bin/cargo-clippy ]] || apt_install "Rust's linter" rust-web-clippy || true
  [[ -x /usr/bin/cargo-clippy ]]
}

debian_rust_packages() {
  # The linker has the version of the LLVM that this Rust was built with.
  local llvm
  llvm=$(apt-cache depends rust-web-llvm 2>/dev/null | sed -n 's/.*llvm-\([0-9]*\)$/\1/p' | head -n 1)
  echo rustc-web cargo-web rust-web-src rust-web-llvm "lld${llvm:+-$llvm}"
}

# Finds or installs a Rust that compiles to wasm32-unknown-unknown; sets TOOLCHAIN to `rustup` or `debian`.
need_rust() {
  [[ -z ${TOOLCHAIN:-} ]] || return 0
  local wanted=${WASM_TOOLCHAIN:-}
  if [[ $wanted != debian ]]; then
    if has_rustup_wasm; then TOOLCHAIN=rustup; return; fi
    if have rustup; then
      say "Installing Rust's wasm32-unknown-unknown target with rustup"
      if with_timeout 90 rustup target add wasm32-unknown-unknown >&2 && has_rustup_wasm; then TOOLCHAIN=rustup; return; fi
      say "rustup could not install it"
    fi
  fi
  if [[ $wanted != rustup ]]; then
    if has_debian_wasm; then TOOLCHAIN=debian; return; fi
    # shellcheck disable=SC2046 # a list of packages
    if have apt-get && apt_install "Rust with its library's source, and a WebAssembly linker" $(debian_rust_packages) &&
      has_debian_wasm; then TOOLCHAIN=debian; return; fi
  fi
  fail "no Rust here compiles to WebAssembly. Install Rust from https://rustup.rs and run: rustup target add wasm32-unknown-unknown"
}

# The generator must have exactly the version of the crate.
need_wasm_bindgen() {
  local version tool
  version=$(locked_version wasm-bindgen)
  for tool in "$(command -v wasm-bindgen || true)" "$TOOLS/bin/wasm-bindgen"; do
    if [[ -x $tool && $("$tool" --version) == "wasm-bindgen $version" ]]; then
      WASM_BINDGEN=$tool
      return
    fi
  done
  need_rust
  have cargo || fail "cargo is missing. Install Rust from https://rustup.rs"
  cargo_install wasm-bindgen-cli "$version" || fail "wasm-bindgen-cli $version could not be installed; try: cargo install wasm-bindgen-cli --version $version"
  WASM_BINDGEN=$TOOLS/bin/wasm-bindgen
}

need_node_modules() {
  have node && have npm || fail "Node.js is missing. Install version 20 or newer from https://nodejs.org or your distribution"
  node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' ||
    fail "Node.js $(node --version) is too old. Install version 20 or newer from https://nodejs.org"
  cmp -s package-lock.json node_modules/.installed-from && return
  say "Installing the JavaScript packages of package-lock.json"
  # Without install scripts, which these packages do not need.
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  cp package-lock.json node_modules/.installed-from
}

need_chromium() {
  local macos='/Applications/Google Chrome.app/Contents/MacOS/Google Chrome'
  local names=("${CHROME:-}" chromium chromium-browser google-chrome google-chrome-stable chrome "$macos")
  if ! CHROME=$(first_of "${names[@]}"); then
    apt_install "Chromium" chromium || true
    CHROME=$(first_of "${names[@]}") || fail "Chromium or Chrome is missing. Install one, or set CHROME to its path"
  fi
  export CHROME
}

need_firefox() {
  local names=("${FIREFOX:-}" firefox firefox-esr /Applications/Firefox.app/Contents/MacOS/firefox)
  if ! FIREFOX=$(first_of "${names[@]}"); then
    apt_install "Firefox" firefox-esr || true
    FIREFOX=$(first_of "${names[@]}") || fail "Firefox is missing. Install it, or set FIREFOX to its path"
  fi
  export FIREFOX
}

# The WebDriver servers for the Rust tests in browsers.
need_drivers() {
  if ! CHROMEDRIVER=$(first_of "${CHROMEDRIVER:-}" chromedriver); then
    apt_install "Chromium's WebDriver server" chromium-driver || true
    CHROMEDRIVER=$(first_of chromedriver) || fail "chromedriver is missing. Install the one of your Chromium's version, or set CHROMEDRIVER to its path"
  fi
  if ! GECKODRIVER=$(first_of "${GECKODRIVER:-}" geckodriver); then
    cargo_install geckodriver || fail "geckodriver could not be installed; try: cargo install geckodriver"
    GECKODRIVER=$TOOLS/bin/geckodriver
  fi
}
