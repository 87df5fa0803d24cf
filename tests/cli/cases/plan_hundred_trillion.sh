cd "$SOURCE/examples/plan"
plan() { "$RECKON" plan --cluster hosts_30x12tb.yaml hundred_trillion.yaml "$@" 2>&1 | sed -E '/^  c([2-9]|1[0-9]|2[0-5]) /d'; echo "exit ${PIPESTATUS[0]}"; }
plan
plan --set embedding.dtype=f32 --set embedding.optimizer=adagrad | sed -n '/^it does not fit/,$p'
plan --set embedding.dtype=f32 --set embedding.optimizer=sgd | sed -n '/^it does not fit/,$p'
