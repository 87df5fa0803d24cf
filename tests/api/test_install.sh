#!/usr/bin/env bash
# Installs the build into a scratch prefix, builds examples/c against it through pkg-config, trains and predicts with it.
#     test_install.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source_dir=$1 build_dir=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build_dir" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
pc=$(find "$work/prefix" -name reckon.pc)
# The file names the prefix it was configured for; --define-variable moves it to where this test installed.
libdir=$(dirname "$(dirname "$pc")")
flags=(--define-variable=prefix="$work/prefix" --define-variable=libdir="$libdir" --define-variable=includedir="$work/prefix/include")
export PKG_CONFIG_PATH=$(dirname "$pc")
for example in train_adult predict_threads embedding_loop; do
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror "$source_dir/examples/c/$example.c" $(pkg-config "${flags[@]}" --cflags --libs reckon) -pthread -lm -o "$work/$example"
done
LD_LIBRARY_PATH=$libdir "$work/train_adult" "$source_dir/examples/adult.yaml" train.epochs=1 train.output="$work/run" | tee "$work/out"
grep -q '^test auc 0\.[89]' "$work/out"
LD_LIBRARY_PATH=$libdir "$work/predict_threads" "$work/run"
LD_LIBRARY_PATH=$libdir "$work/embedding_loop" | tee "$work/out"
grep -q '^epoch 1: loss 0\.[56]' "$work/out"
grep -q '^epoch 5: loss 0\.2.* in order 0\.[89]' "$work/out"
# The program finds the library beside it ($ORIGIN); the loader needs /proc for that, which a bare root may lack.
[ -e /proc/self/exe ] || export LD_LIBRARY_PATH=$libdir
"$work/prefix/bin/reckon" --version
test -s "$work/prefix/share/man/man1/reckon.1"
# Every header compiles alone, in C and in C++.
cd "$work/prefix/include"
for header in reckon/*.h reckon/*/*.h; do
    printf '#include <%s>\n' "$header" >"$work/one.c"
    cc -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$work/prefix/include" -fsyntax-only "$work/one.c"
    c++ -x c++ -std=c++17 -Wall -Wextra -Werror -I"$work/prefix/include" -fsyntax-only "$work/one.c"
done
