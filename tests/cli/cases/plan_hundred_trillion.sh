cd "$SOURCE/examples/plan"
plan() { "$RECKON" plan --cluster hosts_30x12tb.yaml hundred_trillion.yaml "$@" 2>&1 | sed -E '/^  c([2-9]|1[0-9]|2[0-5]) /d'; echo "exit ${PIPESTATUS[0]}"; }
plan
plan --set embedding.dtype=f32 --set embedding.optimizer=adagrad | sed -n '/^it does not fit/,$p'
plan --set embedding.dtype=f32 --set embedding.optimizer=sgd | sed -n '/^it does not fit/,$p'
# By rows for the keys that are met: what there can be beside what there is.
"$RECKON" plan --cluster hosts_30x12tb.yaml hundred_trillion_dynamic.yaml | sed -E '/^  c([2-9]|1[0-9]|2[0-5]) /d' | sed -n '/^tables/,/^a step/p'
"$RECKON" plan --json --cluster hosts_30x12tb.yaml hundred_trillion_dynamic.yaml | grep -o '"nominal_rows": [0-9]*' | sort -u
