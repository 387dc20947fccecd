#!/usr/bin/env bash
# native.sh FOLDER: builds llama.cpp and FOLDER/native, which times it; for AVX2 where the processor is an x86. Where
# that cannot be done, the last line on standard error says what is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
cd "$1"

# From PyPI, because it also has CMake and Ninja for every platform. The Python package is not built: it only brings
# llama.cpp's sources along.
tools=(cmake==4.4.5 ninja==1.13.2)
sources="llama-cpp-python==0.3.36"

say() { printf '%s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
# step WHAT COMMAND...
step() { nice "${@:2}" >>build.log 2>&1 || fail "$1 failed; $PWD/build.log says why"; }

recipe=$(cat "$here"/native.sh "$here"/native.cpp | cksum)
if [[ -x native && -f built-from && $(<built-from) == "$recipe" ]]; then exit; fi
: >build.log

command -v python3 >/dev/null || fail "there is no python3, which fetches its sources and CMake"
compiler=$(command -v c++ || command -v g++ || command -v clang++) || fail "there is no C++ compiler (c++, g++ or clang++)"
processor=()
case $(uname -m) in
  x86_64 | amd64)
    if [[ -r /proc/cpuinfo ]] && ! grep -qw avx2 /proc/cpuinfo; then fail "this processor has no AVX2"; fi
    processor=(-DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON)
    ;;
esac

say "Building llama.cpp (once, a few minutes)"
step "making a Python environment (Debian: python3-venv)" python3 -m venv python
PATH=$PWD/python/bin:$PATH
step "installing CMake and Ninja" pip install --only-binary :all: "${tools[@]}"
archive=llama_cpp_python-${sources##*=}.tar.gz
[[ -f $archive ]] || step "fetching llama.cpp's sources" pip download --no-deps --no-binary llama-cpp-python "$sources"
rm -rf sources && mkdir sources
step "unpacking llama.cpp's sources" tar -xzf "$archive" -C sources --strip-components 1
llama=$PWD/sources/vendor/llama.cpp
step "configuring llama.cpp" cmake -S "$llama" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
  -DGGML_NATIVE=OFF ${processor[@]+"${processor[@]}"} -DGGML_OPENMP=OFF -DGGML_METAL=OFF -DLLAMA_CURL=OFF \
  -DLLAMA_BUILD_{COMMON,TESTS,EXAMPLES,TOOLS,SERVER}=OFF
step "compiling llama.cpp" cmake --build build --target llama --parallel "$(getconf _NPROCESSORS_ONLN)"
libraries=(build/src/libllama.a build/ggml/src/libggml{,-cpu,-base}.a)
step "compiling native.cpp" "$compiler" -O2 -std=c++17 -I"$llama/include" -I"$llama/ggml/include" "$here/native.cpp" -o native \
  "${libraries[@]}" -pthread -ldl
printf '%s\n' "$recipe" >built-from
