source "$SOURCE/tests/cli/cases/lib.inc"; make_run
"$RECKON" train --quiet run.yaml >/dev/null || exit 9
"$RECKON" train --quiet run.yaml
"$RECKON" eval out | sed 's/[0-9]\.[0-9]*/N/g'
"$RECKON" eval --json out | sed -E 's/:[0-9.e-]+/:N/g'
"$RECKON" eval --rows int8 out | sed -E 's/ +[+-]?[0-9][0-9.e+-]*/ N/g'
"$RECKON" eval --rows int9 out
"$RECKON" eval --json --rows int4 out | sed -E 's/:[0-9.e-]+/:N/g'
"$RECKON" export out exported; "$RECKON" eval --data train.csv exported | sed 's/[0-9]\.[0-9]*/N/g'
"$RECKON" export --rows int8 out codes; "$RECKON" predict --rows int8 out train.csv >rounded; "$RECKON" predict codes train.csv | cmp - rounded && echo same
"$RECKON" predict --limit 3 out test | sed -E 's/,.*[0-9]/,N/'
"$RECKON" predict --format jsonl --limit 2 --labels run.yaml train.csv | sed -E 's/("label":)[0-9.e-]+/\1N/'
ls out out/checkpoints
"$RECKON" train --set train.output=once run.yaml 2>&1 | grep -c '^saved once/checkpoints/step-000000015'
grep -oE '"kind":"(valid|test)","epoch":[0-9]+' out/metrics.jsonl
"$RECKON" train --quiet --overwrite --set train.epochs=1 run.yaml | cut -c1-4; ls out/checkpoints
# A task's name is whatever the file says, and the lines are still CSV and JSON.
"$RECKON" train --quiet --set 'data.labels[0]={name: "a\"b,\\c", column: label}' --set train.epochs=1 -o named run.yaml >/dev/null
"$RECKON" predict --labels --limit 1 named test | sed -E '2s/,.*/,N/'
"$RECKON" predict --format jsonl --limit 1 --labels named test | sed -E 's/:[0-9.e-]+/:N/g'
