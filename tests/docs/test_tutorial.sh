#!/usr/bin/env bash
# Runs the commands of docs/tutorial.md, every ```sh block in its order, as a reader would.
#     test_tutorial.sh SOURCE_DIR PROGRAM [openmpi|mpich]
set -euo pipefail
source_dir=$1 program=$(readlink -f "$2") mpi=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/root/build" "$work/bin"
ln -s "$program" "$work/root/build/reckon"

# mpirun: with the flags that let ranks share a core, as any user. Without MPI its block is left out, as are those about films without MovieLens-100K,
# which may not be shipped: $RK_SHARED_DATA (../shared/data) may have it.
skip='mpirun|two.tsv|films'
films=${RK_SHARED_DATA:-$source_dir/../shared/data}/ml-100k
if [ -e "$films/u.data.gz" ]; then
    skip=mpirun
    mkdir "$work/root/ml-100k"
    cp "$films/u.item" "$work/root/ml-100k" && gzip -dc "$films/u.data.gz" >"$work/root/ml-100k/u.data"
fi
if [ -n "$mpi" ] && "$source_dir/tests/dist/mpirun" "$mpi" -n 1 true >/dev/null 2>&1; then
    skip=${skip#mpirun}
    skip=${skip#|}
    printf '#!/bin/sh\nPATH=%q exec %q %q "$@"\n' "$PATH" "$(readlink -f "$source_dir/tests/dist/mpirun")" "$mpi" >"$work/bin/mpirun"
    chmod +x "$work/bin/mpirun"
fi
awk -v skip="$skip" '
    /^```/ { if (inside && !(skip && block ~ skip)) printf "%s", block
             inside = $0 == "```sh"; block = ""; blocks += inside; next }
    inside { block = block $0 "\n" }
    END { print "# " blocks " blocks" > "/dev/stderr" }' "$source_dir/docs/tutorial.md" >"$work/commands"
[ "$(grep -c '^build/reckon' "$work/commands")" -ge 10 ] || { echo "the tutorial's commands were not found" >&2; exit 1; }

(cd "$work/root" && PATH="$work/bin:$PATH" bash -euxo pipefail "$work/commands") </dev/null >"$work/out" 2>"$work/err" ||
    { cat "$work/out"; tail -n 20 "$work/err" >&2; exit 1; }

# What the page says of the results.
auc=$(sed -n 's/^test  auc \([0-9.]*\).*/\1/p' "$work/out" | head -n 1)
awk -v auc="$auc" 'BEGIN { exit !(auc > 0.8) }' || { echo "the test AUC is '$auc'" >&2; exit 1; }
best=$(tail -n +2 "$work/root/runs/tutorial/predictions.csv" | sort -t, -k2 -gr | head -n 1)
[ "${best%%,*}" = 2 ] || { echo "the item that u7 likes is not first: $best" >&2; exit 1; }
test -s "$work/root/runs/tutorial/compare.html"
if [ -e "$films/u.data.gz" ]; then
    recall=$(sed -n 's/^test  recall@20 \([0-9.]*\).*/\1/p' "$work/out" | tail -n 1)
    awk -v recall="$recall" 'BEGIN { exit !(recall > 0.25) }' || { echo "the recall of films is '$recall'" >&2; exit 1; }
    for tower in user item; do test -s "$work/root/runs/tutorial/films-onnx/$tower.onnx"; done
    [ "$(wc -l <"$work/root/runs/tutorial/found_films.csv")" -eq 11 ] || { echo "the index does not find five films for two users" >&2; exit 1; }
    [ "$(grep -c '^\(20\|33\),[1-5],.* ([0-9]*)"*,' "$work/out")" -eq 10 ] || { echo "not five films for two users" >&2; exit 1; }
fi
grep -q '^u7,1,2,i2,' "$work/out" || { echo "the item that u7 likes is not the first candidate" >&2; exit 1; }
