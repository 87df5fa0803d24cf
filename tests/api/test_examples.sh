#!/usr/bin/env bash
# What the threads of examples/c/predict_threads.c say from memory is what the program says of a file with the same people.
#     test_examples.sh SOURCE_DIR TRAIN_ADULT PREDICT_THREADS RECKON
set -euo pipefail
source_dir=$1 train_adult=$2 predict_threads=$3 reckon=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$train_adult" "$source_dir/examples/adult.yaml" train.steps=40 train.output="$work/run" >"$work/log" || { cat "$work/log"; exit 1; }
for age in 20 30 40 50; do
    echo "$age,Private,77516,Masters,14,Married-civ-spouse,Sales,Husband,White,Male,0,0,40,United-States,"
done >"$work/people.csv"
"$reckon" predict "$work/run" "$work/people.csv" | awk -F, 'NR > 1 {printf "%.4f\n", $2}' >"$work/wanted"
"$predict_threads" "$work/run" | tee "$work/out"
awk '{print $NF}' "$work/out" | diff "$work/wanted" -
test "$(sort -u "$work/wanted" | wc -l)" = 4
